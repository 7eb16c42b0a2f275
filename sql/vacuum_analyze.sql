-- VACUUM, VACUUM FULL and ANALYZE on empty tables, one row and many; the
-- statistics they leave; space and index entries reused after deletes.
CREATE SCHEMA t_vacuum;
SET search_path = t_vacuum;
SET jit = off;

CREATE FUNCTION est(q text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE j json; BEGIN EXECUTE 'EXPLAIN (FORMAT json) ' || q INTO j; RETURN (j -> 0 -> 'Plan' ->> 'Plan Rows')::numeric; END $$;

-- empty
CREATE TABLE e (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
ANALYZE e;
SELECT reltuples FROM pg_class WHERE oid = 'e'::regclass;
VACUUM e;
VACUUM FULL e;
VACUUM (ANALYZE, FREEZE) e;
SELECT count(*) FROM e;
SELECT count(*) FROM pg_stats WHERE tablename = 'e' AND schemaname = 't_vacuum';
-- one row
INSERT INTO e VALUES (1, 'x');
ANALYZE e;
SELECT reltuples FROM pg_class WHERE oid = 'e'::regclass;
SELECT attname, null_frac, n_distinct FROM pg_stats WHERE tablename = 'e' AND schemaname = 't_vacuum' ORDER BY 1;
UPDATE e SET v = 'y';
VACUUM e;
SELECT * FROM e;
DELETE FROM e;
VACUUM ANALYZE e;
SELECT reltuples FROM pg_class WHERE oid = 'e'::regclass;
SELECT * FROM e;
INSERT INTO e VALUES (1, 'again');
SELECT * FROM e WHERE id = 1;

-- many rows: statistics are those of the rows
CREATE TABLE m (id int PRIMARY KEY, k int, v text, n int, arr int[]) WITH (autovacuum_enabled = off);
INSERT INTO m SELECT g, g % 10, CASE WHEN g % 4 > 0 THEN 'v' || g % 3 END, g, ARRAY[g % 5] FROM generate_series(1, 10000) g;
CREATE INDEX m_k ON m (k);
CREATE INDEX m_e ON m ((n % 7));
ANALYZE m;
SELECT reltuples FROM pg_class WHERE oid = 'm'::regclass;
SELECT relpages > 0 AS pages FROM pg_class WHERE oid = 'm'::regclass;
SELECT attname, null_frac, n_distinct, most_common_vals::text, round(correlation::numeric, 2) AS corr
	FROM pg_stats WHERE tablename = 'm' AND schemaname = 't_vacuum' AND attname <> 'arr' ORDER BY 1;
SELECT attname, n_distinct FROM pg_stats WHERE tablename = 'm_e' AND schemaname = 't_vacuum';
SELECT est('SELECT * FROM m') BETWEEN 9900 AND 10100, est('SELECT * FROM m WHERE k = 3') BETWEEN 900 AND 1100,
	est('SELECT * FROM m WHERE id < 100') BETWEEN 50 AND 200, est('SELECT * FROM m WHERE n % 7 = 1') BETWEEN 1000 AND 2000;
ALTER TABLE m ALTER v SET STATISTICS 0;
CREATE STATISTICS st (ndistinct, dependencies, mcv) ON k, arr FROM m;
ANALYZE m (id, k, arr);
SELECT stxdndistinct::text AS nd FROM pg_statistic_ext_data d JOIN pg_statistic_ext s ON s.oid = d.stxoid WHERE stxname = 'st';
SELECT est('SELECT * FROM m WHERE k = 3 AND arr = ARRAY[3]') BETWEEN 800 AND 1200;
-- statistics of a transaction's own rows, and undone ones
BEGIN;
INSERT INTO m SELECT g, 50, 'x' FROM generate_series(20001, 30000) g;
ANALYZE m;
SELECT est('SELECT * FROM m') BETWEEN 19000 AND 21000;
SELECT est('SELECT * FROM m WHERE k = 50') BETWEEN 9000 AND 11000;
ROLLBACK;
ANALYZE m;
SELECT est('SELECT * FROM m') BETWEEN 9900 AND 10100;
SELECT est('SELECT * FROM m WHERE k = 50') < 100;

-- deletes of everything and of most, then the same keys again
DELETE FROM m WHERE id > 100;
ANALYZE m;
SELECT est('SELECT * FROM m') BETWEEN 90 AND 110;
VACUUM ANALYZE m;
SELECT est('SELECT * FROM m') BETWEEN 90 AND 110;
SELECT reltuples FROM pg_class WHERE oid = 'm'::regclass;
INSERT INTO m SELECT g, g % 10, 'again', g FROM generate_series(101, 5000) g;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM m WHERE k = 3;
SELECT v FROM m WHERE id = 4999;
SELECT count(*) FROM m WHERE id = 9000;
SELECT count(*), sum(id) FROM m WHERE n % 7 = 1;
RESET enable_seqscan; RESET enable_bitmapscan;
DELETE FROM m;
VACUUM m;
SELECT count(*) FROM m;
SELECT est('SELECT * FROM m') < 3000 AS small_again;
INSERT INTO m SELECT g, g % 10, 'third', g FROM generate_series(1, 3000) g;
SELECT count(*), sum(id), count(DISTINCT v) FROM m;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM m WHERE k = 3;
SELECT id FROM m WHERE id IN (1, 3000, 3001) ORDER BY id;
RESET enable_seqscan; RESET enable_bitmapscan;

-- rounds of update and vacuum with every index option; forms and errors of the command
CREATE INDEX m_g ON m USING gin (arr); CREATE INDEX m_h ON m USING hash (k); CREATE INDEX m_b ON m USING brin (id);
DO $$ BEGIN FOR i IN 1..5 LOOP UPDATE m SET k = k + 1, arr = ARRAY[i] WHERE id % 5 = i - 1; DELETE FROM m WHERE id % 100 = i; END LOOP; END $$;
VACUUM (INDEX_CLEANUP ON) m;
VACUUM (INDEX_CLEANUP OFF) m;
VACUUM (PARALLEL 2, DISABLE_PAGE_SKIPPING) m;
VACUUM (TRUNCATE OFF, PROCESS_TOAST OFF, SKIP_LOCKED) m;
VACUUM (FREEZE, ANALYZE) m (id, k);
VACUUM (FULL, PARALLEL 1) m;
VACUUM (FULL, FREEZE) m;
ANALYZE m (nosuch);
ANALYZE m (id, id);
BEGIN;
VACUUM m;
ROLLBACK;
SELECT count(*), sum(id), sum(k) FROM m;
SET enable_seqscan = off;
SELECT count(*) FROM m WHERE arr @> ARRAY[3];
SELECT count(*), sum(id) FROM m WHERE k = 4;
SELECT count(*) FROM m WHERE id BETWEEN 100 AND 300;
RESET enable_seqscan;
-- many cycles do not grow without bound
CREATE TABLE cyc (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
INSERT INTO cyc SELECT g, repeat('x', 100) FROM generate_series(1, 2000) g;
SELECT pg_relation_size('cyc') AS before \gset
DO $$ BEGIN FOR i IN 1..2 LOOP UPDATE cyc SET id = id + 10000; UPDATE cyc SET id = id - 10000; END LOOP; END $$;
VACUUM cyc;
UPDATE cyc SET id = id + 10000;
VACUUM cyc;
UPDATE cyc SET id = id - 10000;
VACUUM cyc;
DELETE FROM cyc;
VACUUM cyc;
INSERT INTO cyc SELECT g, repeat('x', 100) FROM generate_series(1, 2000) g;
SELECT pg_relation_size('cyc') <= 12 * :before AS bounded;
SELECT count(*), sum(id) FROM cyc;
-- whole database forms on partitioned and temporary tables, sizes
CREATE TABLE pt (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (100);
CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (100) TO (200) USING heap;
INSERT INTO pt SELECT g, g % 5 FROM generate_series(0, 199) g;
VACUUM ANALYZE pt;
SELECT relname, reltuples FROM pg_class WHERE relname LIKE 'pt%' AND relnamespace = 't_vacuum'::regnamespace ORDER BY 1;
SELECT attname, inherited, n_distinct FROM pg_stats WHERE tablename = 'pt' AND schemaname = 't_vacuum' ORDER BY 1;
SELECT pg_relation_size('pt1') > 0, pg_table_size('pt1') > 0, pg_total_relation_size('m') > pg_table_size('m');
TRUNCATE m;
ANALYZE m;
SELECT reltuples FROM pg_class WHERE oid = 'm'::regclass;

SET client_min_messages = warning;
DROP SCHEMA t_vacuum CASCADE;
