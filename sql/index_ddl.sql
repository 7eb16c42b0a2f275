-- Commands that make, change and move ordered indexes: builds over duplicates, ADD CONSTRAINT USING
-- INDEX, CONCURRENTLY, REINDEX, CLUSTER, changes of types and columns, SET ACCESS METHOD both
-- ways, LIKE, partitions attached and detached, TRUNCATE, each also rolled back. After each
-- the indexes are compared with the table.
SET client_min_messages = warning;
CREATE SCHEMA t_index_ddl;
SET search_path = t_index_ddl;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SELECT current_setting('default_table_access_method') AS am \gset

-- Names and states of a table's indexes, and for each whether it gives the rows of a sequential scan.
CREATE FUNCTION show(tab regclass) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE idx record; q text; want text; got text; line text; plan text; state text;
BEGIN
	FOR idx IN SELECT indexrelid, coalesce(pg_get_expr(indpred, indrelid), 'true') AS pred, indisunique, indisprimary, indimmediate, indisvalid, indisclustered, indisreplident, conname,
			(SELECT string_agg(pg_get_indexdef(indexrelid, k, true), ', ' ORDER BY k) FROM generate_series(1, indnkeyatts) k) AS cols, indnatts - indnkeyatts AS more
			FROM pg_index LEFT JOIN pg_constraint ON conindid = indexrelid AND contype IN ('p', 'u') WHERE indrelid = tab ORDER BY indexrelid::regclass::text COLLATE "C" LOOP
		q := format('SELECT count(*) || '' '' || coalesce(sum(hashtext(s::text)), 0) FROM (SELECT * FROM %s WHERE %s ORDER BY %s) s', tab, idx.pred, idx.cols);
		SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
		EXECUTE q INTO want;
		SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off;
		EXECUTE q INTO got;
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP plan := plan || line || E'\n'; END LOOP;
		SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on;
		state := concat_ws(', ', CASE WHEN idx.indisunique THEN 'unique' END, CASE WHEN idx.indisprimary THEN 'primary' END, CASE WHEN NOT idx.indimmediate THEN 'deferrable' END,
			CASE WHEN NOT idx.indisvalid THEN 'invalid' END, CASE WHEN idx.indisclustered THEN 'clustered' END, CASE WHEN idx.indisreplident THEN 'identity' END,
			CASE WHEN idx.conname <> '' THEN 'constraint' END);
		RETURN NEXT format('%s (%s): %s %s', idx.indexrelid::regclass, concat_ws(' + ', idx.cols, nullif(idx.more, 0)), state,
			CASE WHEN NOT idx.indisvalid THEN '' WHEN plan !~ 'Index Scan' THEN 'not used' WHEN got = want THEN 'right' ELSE format('WRONG: %s instead of %s', got, want) END);
	END LOOP;
	RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;
END $$;

-- builds over duplicates
CREATE TABLE t (id int, a text COLLATE "C", b numeric);
INSERT INTO t SELECT g, 'a' || g % 1000, g / 10.0 FROM generate_series(1, 2000) g;
\set VERBOSITY terse
CREATE UNIQUE INDEX t_a ON t (a);
CREATE UNIQUE INDEX t_a1 ON t (lower(a), (b > 100)) WHERE id > 0;
CREATE UNIQUE INDEX t_a2 ON t (a) WHERE id <= 1000;
ALTER TABLE t ADD PRIMARY KEY (a);
ALTER TABLE t ADD CONSTRAINT t_ab UNIQUE (a, b) DEFERRABLE;
CREATE UNIQUE INDEX CONCURRENTLY t_ac ON t (a);
\set VERBOSITY default
SELECT show('t');
INSERT INTO t VALUES (2001, 'a1', 200.1);
INSERT INTO t VALUES (2002, 'a1', 0.1);
DELETE FROM t WHERE id > 1000;
REINDEX INDEX t_ac;
INSERT INTO t VALUES (2003, 'a1', 5000);
SELECT show('t');
-- rows that only older snapshots could see are no duplicates
BEGIN;
DELETE FROM t WHERE id <= 10;
INSERT INTO t SELECT g, 'a' || g, g / 10.0 FROM generate_series(1, 10) g;
CREATE UNIQUE INDEX t_own ON t (id);
INSERT INTO t VALUES (5, 'own', -1);
ROLLBACK;

-- constraints from indexes, renamed, changed, dropped; several changes in one command
CREATE UNIQUE INDEX t_id ON t (id) INCLUDE (b);
CREATE UNIQUE INDEX t_b ON t (b);
CREATE INDEX t_plain ON t (b, a);
CREATE UNIQUE INDEX t_ex ON t ((id + 0));
ALTER TABLE t ADD PRIMARY KEY USING INDEX t_id;
ALTER TABLE t ADD CONSTRAINT t_b UNIQUE USING INDEX t_b DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE t ADD UNIQUE USING INDEX t_plain;
ALTER TABLE t ADD UNIQUE USING INDEX t_ex;
ALTER TABLE t ADD UNIQUE USING INDEX t_a2;
INSERT INTO t VALUES (1, 'x', 1), (3000, 'y', 0.5);
INSERT INTO t VALUES (3000, 'y', 0.5);
BEGIN;
INSERT INTO t VALUES (3000, 'y', 0.5);
DELETE FROM t WHERE id = 5;
COMMIT;
SELECT show('t');
ALTER TABLE t DROP CONSTRAINT t_id, ADD COLUMN c int DEFAULT 7, ADD CONSTRAINT t_new PRIMARY KEY (id), ALTER b TYPE float8, ADD UNIQUE (c, id) DEFERRABLE;
CREATE UNIQUE INDEX t_2 ON t (id, a);
ALTER TABLE t ADD CONSTRAINT t_2k UNIQUE USING INDEX t_2, ADD d int, ALTER a SET NOT NULL;
ALTER INDEX t_plain RENAME TO t_renamed;
ALTER INDEX t_renamed SET (fillfactor = 70);
ALTER TABLE t RENAME COLUMN a TO aa;
ALTER TABLE t RENAME CONSTRAINT t_2k TO t_key;
INSERT INTO t VALUES (4000, 'more', 4000.5), (4000, 'more', 1);
INSERT INTO t VALUES (4000, 'more', 4000.5);
SELECT show('t');

-- types: without and with a rewrite, in both directions, to one under which keys are equal; dropped columns
ALTER TABLE t ALTER aa TYPE varchar(50);
\set VERBOSITY terse
ALTER TABLE t ALTER id TYPE bigint, ALTER b TYPE numeric USING round(b);
\set VERBOSITY default
ALTER TABLE t ALTER b TYPE numeric(20, 3) USING id, ALTER c TYPE text;
ALTER TABLE t ALTER aa TYPE text COLLATE "en-x-icu";
BEGIN;
ALTER TABLE t ALTER id TYPE numeric, ALTER aa TYPE text USING 'b' || aa;
INSERT INTO t VALUES (4001, 'rewritten', 4001);
SELECT show('t');
ROLLBACK;
\set VERBOSITY terse
ALTER TABLE t ALTER id TYPE int USING id / 2;
\set VERBOSITY default
INSERT INTO t VALUES (4000, 'x', 1);
ALTER TABLE t DROP COLUMN c, DROP COLUMN d;
SELECT show('t');

-- REINDEX, CLUSTER, VACUUM FULL, in a transaction where that may be, and rolled back
UPDATE t SET b = b + 1 WHERE id % 3 = 0;
DELETE FROM t WHERE id % 7 = 0;
REINDEX TABLE t;
SELECT show('t');
REINDEX TABLE CONCURRENTLY t;
REINDEX INDEX CONCURRENTLY t_renamed;
SELECT show('t');
BEGIN;
UPDATE t SET b = -b;
REINDEX INDEX t_b;
INSERT INTO t VALUES (5000, 'reindexed', 5000);
REINDEX TABLE t;
SELECT show('t');
ROLLBACK;
INSERT INTO t VALUES (5000, 'after', 5000);
CLUSTER t USING t_renamed;
SELECT id, aa FROM t LIMIT 3;
BEGIN;
CLUSTER t USING t_ac;
INSERT INTO t VALUES (5001, 'clustered', 5001);
INSERT INTO t VALUES (5000, 'double', 1);
ROLLBACK;
BEGIN;
DELETE FROM t WHERE id > 500;
CLUSTER t USING t_ac;
SELECT show('t');
ROLLBACK;
CLUSTER t;
VACUUM FULL t;
SELECT show('t');
ALTER TABLE t SET WITHOUT CLUSTER, REPLICA IDENTITY USING INDEX t_new;

-- the other access method and back; LIKE; a table in no transaction of its own
ALTER TABLE t SET ACCESS METHOD heap;
INSERT INTO t VALUES (6000, 'in heap', 6000);
INSERT INTO t VALUES (6000, 'in heap', 1);
SELECT show('t');
ALTER TABLE t SET ACCESS METHOD :am;
INSERT INTO t VALUES (6001, 'back', 6001);
INSERT INTO t VALUES (6000, 'back', 1);
INSERT INTO t VALUES (6000, 'upsert', 6000) ON CONFLICT (id) DO UPDATE SET aa = excluded.aa RETURNING *;
BEGIN;
ALTER TABLE t SET ACCESS METHOD heap;
UPDATE t SET b = b WHERE id < 50;
CREATE INDEX t_in_heap ON t (b DESC);
ALTER TABLE t SET ACCESS METHOD :am;
SELECT show('t');
ROLLBACK;
SELECT show('t');
CREATE TABLE l (LIKE t INCLUDING ALL);
CREATE TABLE h (LIKE t INCLUDING ALL) USING heap;
INSERT INTO l SELECT * FROM t;
INSERT INTO h SELECT * FROM l;
INSERT INTO l SELECT * FROM t LIMIT 1;
SELECT t, count(s), count(*) FILTER (WHERE s LIKE '% right') AS "right" FROM unnest('{l,h}'::regclass[]) t, show(t) s GROUP BY t ORDER BY t;
CREATE TABLE c AS SELECT * FROM t;
ALTER TABLE c ADD PRIMARY KEY (id), ADD UNIQUE (b), ADD UNIQUE NULLS NOT DISTINCT (aa, id);
INSERT INTO c SELECT * FROM t LIMIT 1;
SELECT show('c');

-- TRUNCATE, with new rows, twice, undone
TRUNCATE l;
SELECT count(*) FROM l;
INSERT INTO l SELECT * FROM t WHERE id < 100;
BEGIN;
TRUNCATE l;
INSERT INTO l SELECT * FROM t WHERE id < 50;
SAVEPOINT s;
TRUNCATE l;
INSERT INTO l VALUES (1, 'truncated', 1);
INSERT INTO l SELECT * FROM t WHERE id BETWEEN 2 AND 5;
ROLLBACK TO s;
INSERT INTO l VALUES (60, 'sixty', 60);
SELECT show('l') LIMIT 3;
ROLLBACK;
SELECT show('l') LIMIT 3;
INSERT INTO l SELECT * FROM t WHERE id = 1;
BEGIN;
TRUNCATE l;
INSERT INTO l VALUES (1, 'truncated', 1);
COMMIT;
INSERT INTO l VALUES (1, 'again', 2);
SELECT show('l') LIMIT 3;

-- made and dropped in one transaction, by a savepoint, concurrently, with the table
BEGIN;
CREATE INDEX l_1 ON l (b);
DROP INDEX l_1;
SAVEPOINT s;
CREATE UNIQUE INDEX l_2 ON l (b);
INSERT INTO l VALUES (10, 'ten', 10);
ROLLBACK TO s;
INSERT INTO l VALUES (10, 'ten', 10);
CREATE INDEX l_2 ON l (b DESC);
COMMIT;
CREATE INDEX CONCURRENTLY l_3 ON l (b, id) WHERE id > 1;
DROP INDEX CONCURRENTLY l_2;
INSERT INTO l SELECT g, g, g FROM generate_series(100, 400) g;
SELECT show('l');
BEGIN;
DROP TABLE l;
ROLLBACK;
INSERT INTO l VALUES (100, 'double', 1);
DROP TABLE l, h;

-- partitions: an index on the parent takes what a partition has, makes what it lacks
CREATE TABLE p (id int, v int, w text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 (w text, v int, id int NOT NULL, CONSTRAINT p2_own UNIQUE (id));
CREATE TABLE p3 (LIKE p) USING heap;
INSERT INTO p2 SELECT g, g % 10, g FROM generate_series(100, 199) g;
INSERT INTO p3 SELECT g, g % 10, g FROM generate_series(200, 299) g;
CREATE INDEX p3_v ON p3 (v);
ALTER TABLE p ADD CONSTRAINT p_id UNIQUE (id);
CREATE INDEX p_v ON p (v);
CREATE INDEX p_only ON ONLY p (w);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200);
INSERT INTO p3 VALUES (250, 0, 'double');
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (200) TO (300);
DELETE FROM p3 WHERE w = 'double';
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (200) TO (300);
INSERT INTO p SELECT g, g % 10, g FROM generate_series(1, 99) g;
INSERT INTO p VALUES (50, 1, 'x');
INSERT INTO p VALUES (150, 1, 'x');
INSERT INTO p VALUES (250, 1, 'x');
CREATE INDEX p1_w ON p1 (w);
ALTER INDEX p_only ATTACH PARTITION p1_w;
ALTER INDEX p_only ATTACH PARTITION p3_v;
SELECT inhparent::regclass, inhrelid::regclass FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE relkind = 'i' ORDER BY inhparent::regclass::text COLLATE "C", inhrelid::regclass::text COLLATE "C";
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM p WHERE v = 3;
SELECT id FROM p WHERE id > 95 ORDER BY id LIMIT 8;
RESET enable_seqscan;
ALTER TABLE p DETACH PARTITION p2;
ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY;
INSERT INTO p1 VALUES (50, 1, 'double');
INSERT INTO p1 VALUES (5000, 1, 'elsewhere');
SELECT show(t) FROM unnest('{p1,p2,p3}'::regclass[]) t;
DROP INDEX p_v;
ALTER TABLE p DROP CONSTRAINT p_id;
DELETE FROM p1 WHERE id > 100;
ALTER TABLE p ADD PRIMARY KEY (id), ADD UNIQUE (v, id);
ALTER TABLE p1 ALTER id SET NOT NULL;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (100);
INSERT INTO p VALUES (50, 2, 'x') ON CONFLICT (v, id) DO NOTHING;
INSERT INTO p VALUES (50, 2, 'x') ON CONFLICT (id) DO UPDATE SET w = excluded.w RETURNING *;
SELECT show(t) FROM unnest('{p1,p3}'::regclass[]) t;

-- materialized views, refreshed concurrently over their unique index
CREATE MATERIALIZED VIEW mv AS SELECT id, v, w FROM p WHERE v < 5;
CREATE UNIQUE INDEX mv_id ON mv (id);
CREATE INDEX mv_v ON mv (v DESC);
UPDATE p SET w = 'refreshed', v = 9 - v WHERE id % 5 = 0;
DELETE FROM p WHERE id % 9 = 0;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT count(*) FROM ((TABLE mv EXCEPT SELECT id, v, w FROM p WHERE v < 5) UNION ALL (SELECT id, v, w FROM p WHERE v < 5 EXCEPT TABLE mv)) x;
SELECT show('mv');
REFRESH MATERIALIZED VIEW mv;
SELECT show('mv');

-- temporary and unlogged tables
CREATE TEMP TABLE tt (id int PRIMARY KEY, v text UNIQUE) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO tt SELECT g, g FROM generate_series(1, 300) g;
SELECT show('tt');
INSERT INTO tt VALUES (5, 'five') ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING *;
COMMIT;
INSERT INTO tt VALUES (5, '5'), (5, '6');
INSERT INTO tt VALUES (5, '5'), (6, '6');
REINDEX TABLE tt;
CREATE UNLOGGED TABLE ul (id int PRIMARY KEY, v int);
INSERT INTO ul SELECT g, g % 7 FROM generate_series(1, 300) g;
CREATE INDEX ul_v ON ul (v);
ALTER TABLE ul SET LOGGED;
INSERT INTO ul VALUES (5, 5);
SELECT show('ul');
ALTER TABLE ul SET UNLOGGED;
INSERT INTO ul VALUES (5, 5) ON CONFLICT DO NOTHING;
SELECT show('ul');

-- show() can find something
BEGIN;
UPDATE pg_index SET indisready = false WHERE indexrelid = 'ul_v'::regclass;
INSERT INTO ul VALUES (1000, 1);
UPDATE pg_index SET indisready = true WHERE indexrelid = 'ul_v'::regclass;
SELECT left(show, 25) FROM show('ul');
ROLLBACK;

SET client_min_messages = error;
DROP SCHEMA t_index_ddl CASCADE;
