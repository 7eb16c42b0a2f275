-- Scans: TID and TID range scans, TABLESAMPLE, backward scans, and parallel
-- sequential, bitmap and index scans, also in a transaction that has changed
-- rows that its workers must see.
CREATE SCHEMA t_scans;
SET search_path = t_scans;
SET jit = off;

CREATE TABLE t (id int PRIMARY KEY, x int, v text);
INSERT INTO t SELECT g, g % 10, 'v' || g FROM generate_series(1, 1000) g;
ANALYZE t;

-- TID scans: every row by its own ctid, lists, NULL, out of range, in joins
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE ctid = '(1,1)';
SELECT count(*) FROM t a WHERE EXISTS (SELECT FROM t b WHERE b.ctid = a.ctid AND b.id = a.id);
SELECT count(*) FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id <= 10));
SELECT id FROM t WHERE ctid IN (SELECT ctid FROM t WHERE id IN (5, 500, 1000)) ORDER BY id;
SELECT id FROM t WHERE ctid = NULL;
SELECT id FROM t WHERE ctid = '(4000000000,1)';
SELECT id FROM t WHERE ctid = '(0,0)';
SELECT id FROM t WHERE ctid = ANY ('{"(4000000000,1)","(4294967295,65535)"}');
SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT count(*), sum(a.id) FROM t a JOIN t b ON a.ctid = b.ctid WHERE b.x = 3;
RESET enable_hashjoin; RESET enable_mergejoin;
-- write through a ctid, in the same transaction
DO $$
DECLARE c tid; r record; n int;
BEGIN
	SELECT ctid INTO c FROM t WHERE id = 7;
	UPDATE t SET v = 'by ctid' WHERE ctid = c;
	GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'updated %', n;
	SELECT ctid INTO c FROM t WHERE id = 7;
	UPDATE t SET v = v || ' again' WHERE ctid = c RETURNING * INTO r;
	RAISE NOTICE '%', r;
	SELECT ctid INTO c FROM t WHERE id = 7;
	DELETE FROM t WHERE ctid = c RETURNING * INTO r;
	RAISE NOTICE '%', r;
	DELETE FROM t WHERE ctid = c;
	GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'deleted %', n;
END $$;
SELECT * FROM t WHERE id = 7;
INSERT INTO t VALUES (7, 7, 'back');
-- duplicates removed the usual way: keep the lowest ctid of each
CREATE TABLE dups (k int);
INSERT INTO dups SELECT g % 5 FROM generate_series(1, 20) g;
DELETE FROM dups a USING dups b WHERE a.k = b.k AND a.ctid > b.ctid;
SELECT * FROM dups ORDER BY k;
INSERT INTO dups SELECT g FROM generate_series(0, 4) g;
DELETE FROM dups WHERE ctid NOT IN (SELECT min(ctid) FROM dups GROUP BY k);
SELECT * FROM dups ORDER BY k;

-- TID range scans
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE ctid >= '(0,0)' AND ctid < '(100000,1)';
SELECT count(*) FROM t WHERE ctid >= '(0,0)';
SELECT count(*) FROM t WHERE ctid < '(0,0)';
SELECT count(*) FROM t WHERE ctid > '(100000,1)';
SELECT count(*) FROM t WHERE ctid <= (SELECT ctid FROM t WHERE id = 500) AND id > 500 AND id <> 7;
SELECT (SELECT count(*) FROM t WHERE ctid < (SELECT ctid FROM t WHERE id = 500)) +
	(SELECT count(*) FROM t WHERE ctid >= (SELECT ctid FROM t WHERE id = 500)) AS both_halves;
SELECT count(*) FROM t WHERE ctid > '(1,5)' AND ctid < '(1,5)';
SELECT count(*) = 1000 FROM t WHERE ctid BETWEEN (SELECT min(ctid) FROM t) AND (SELECT max(ctid) FROM t);
BEGIN;
DELETE FROM t WHERE ctid < (SELECT ctid FROM t WHERE id = 100) AND id < 100;
SELECT count(*) FROM t WHERE ctid >= '(0,0)' AND id < 150;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE ctid >= (SELECT ctid FROM t WHERE id = 10) AND ctid <= (SELECT ctid FROM t WHERE id = 14);
FETCH ALL FROM c;
FETCH BACKWARD 3 FROM c;
DECLARE d SCROLL CURSOR FOR SELECT id FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id BETWEEN 20 AND 23));
FETCH ALL FROM d;
FETCH BACKWARD ALL FROM d;
COMMIT;

-- TABLESAMPLE
SELECT count(*) FROM t TABLESAMPLE SYSTEM (100) REPEATABLE (1);
SELECT count(*), sum(id) FROM t TABLESAMPLE BERNOULLI (100) REPEATABLE (1);
SELECT count(*) FROM t TABLESAMPLE SYSTEM (0);
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (0);
SELECT count(*) BETWEEN 300 AND 700 AS about_half FROM t TABLESAMPLE BERNOULLI (50) REPEATABLE (5);
SELECT (SELECT sum(id) FROM t TABLESAMPLE BERNOULLI (30) REPEATABLE (9)) = (SELECT sum(id) FROM t TABLESAMPLE BERNOULLI (30) REPEATABLE (9)) AS repeats;
SELECT count(*) FROM t TABLESAMPLE SYSTEM (101);
BEGIN;
DELETE FROM t WHERE id % 2 = 0;
INSERT INTO t SELECT g FROM generate_series(2001, 2010) g;
SELECT count(*) FROM t TABLESAMPLE SYSTEM (100);
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (100);
ROLLBACK;
CREATE TABLE empty (LIKE t);
SELECT count(*) FROM empty TABLESAMPLE SYSTEM (100);
SELECT * FROM empty WHERE ctid > '(0,0)';

-- synchronized and backward sequential scans, rescans
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE id % 100 = 1;
MOVE ALL IN c;
FETCH BACKWARD 3 FROM c;
FETCH FORWARD ALL FROM c;
COMMIT;
SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
SELECT count(*) FROM t a JOIN t b ON a.id = b.id WHERE a.id < 20;
SELECT g, (SELECT count(*) FROM t WHERE id <= g) FROM generate_series(1, 3) g;
RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material;

-- parallel scans, with changes of this transaction that workers must see
CREATE TABLE big (id int PRIMARY KEY, x int, v text);
INSERT INTO big SELECT g, g % 100, 'v' || g FROM generate_series(1, 20000) g;
CREATE INDEX big_x ON big (x);
ANALYZE big;
SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2;
SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(x) FROM big;
SELECT count(*), sum(x), sum(hashtext(v)) FROM big;
BEGIN;
INSERT INTO big SELECT g, 100, 'new' FROM generate_series(20001, 21000) g;
SELECT count(*), sum(x) FROM big;
UPDATE big SET x = x + 1000 WHERE id <= 500;
DELETE FROM big WHERE id BETWEEN 501 AND 700;
SELECT count(*), sum(x) FROM big;
SAVEPOINT s;
DELETE FROM big WHERE id > 10000;
UPDATE big SET v = 'undone';
SELECT count(*), sum(x), count(DISTINCT v) FROM big;
ROLLBACK TO s;
SELECT count(*), sum(x), count(DISTINCT v) FROM big;
SAVEPOINT s2;
INSERT INTO big SELECT g, 100, 'sub' FROM generate_series(30001, 30100) g;
RELEASE s2;
SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM big WHERE x BETWEEN 20 AND 40;
SELECT count(*), sum(id) FROM big WHERE x BETWEEN 90 AND 1010;
SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(length(v)) FROM big WHERE x BETWEEN 20 AND 40;
SELECT count(*), sum(length(v)) FROM big WHERE x BETWEEN 90 AND 1010;
SET LOCAL enable_seqscan = on;
SELECT count(*), sum(a.x) FROM big a JOIN big b USING (id) WHERE b.x < 50;
SELECT id FROM big ORDER BY v, id LIMIT 3;
COMMIT;
SELECT count(*), sum(x), sum(hashtext(v)) FROM big;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM big;
INSERT INTO big SELECT g, 100, 'rr' FROM generate_series(40001, 40100) g;
SELECT count(*), sum(x) FROM big WHERE v = 'rr';
ROLLBACK;
-- forced everywhere
SET force_parallel_mode = on;
SELECT id, v FROM big WHERE id = 400;
SELECT x, count(*) FROM big WHERE id < 60 OR id > 30050 GROUP BY x HAVING count(*) > 5 ORDER BY x;
BEGIN;
UPDATE big SET v = 'forced' WHERE id = 400;
SELECT id, v FROM big WHERE id = 400;
DELETE FROM big WHERE id = 401;
SELECT count(*) FROM big WHERE id BETWEEN 400 AND 402;
ROLLBACK;
SET force_parallel_mode = off;
-- parallel CTAS, materialized view, index build
BEGIN;
INSERT INTO big SELECT g, 100, 'ctas' FROM generate_series(50001, 50100) g;
EXPLAIN (COSTS OFF) CREATE TABLE ct AS SELECT * FROM big WHERE x > 50;
CREATE TABLE ct AS SELECT * FROM big WHERE x > 50;
SELECT count(*), sum(x) FROM ct;
CREATE MATERIALIZED VIEW mv AS SELECT x, count(*) AS n FROM big GROUP BY x;
SELECT count(*), sum(n) FROM mv;
CREATE INDEX ct_i ON ct (x, id);
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM ct WHERE x = 100;
COMMIT;
SELECT count(*), sum(x) FROM ct;
SET maintenance_work_mem = '64MB'; SET max_parallel_maintenance_workers = 2;
ALTER TABLE ct SET (parallel_workers = 2);
CREATE UNIQUE INDEX ct_u ON ct (id);
REINDEX TABLE ct;
SET enable_seqscan = off;
SELECT count(*) FROM ct WHERE id BETWEEN 50001 AND 50100;
INSERT INTO ct VALUES (50001, 1, 'dup');

SET client_min_messages = warning;
DROP SCHEMA t_scans CASCADE;
