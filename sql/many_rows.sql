-- A hundred thousand rows: whole-table updates and deletes, rollback of them,
-- checksums against what is computed from the rows' formula, big joins, sorts.
CREATE SCHEMA t_many_rows;
SET search_path = t_many_rows;
SET jit = off;

CREATE TABLE t (id int PRIMARY KEY, k int, v text);
INSERT INTO t SELECT g, g % 1000, 'row ' || g FROM generate_series(1, 100000) g;
CREATE INDEX t_k ON t (k);
CREATE FUNCTION sums(OUT rows bigint, OUT ids bigint, OUT ks bigint, OUT vs bigint) LANGUAGE sql AS
	'SELECT count(*), sum(id), sum(k), sum(hashtext(v)) FROM t';
SELECT * FROM sums();
SELECT sum(hashtext('row ' || g)) AS vs FROM generate_series(1, 100000) g;
-- update of all rows, an unindexed and an indexed column, undone
BEGIN;
UPDATE t SET v = v || '!';
SELECT * FROM sums();
ROLLBACK;
SELECT * FROM sums();
BEGIN;
UPDATE t SET k = k + 1 WHERE id > 50000;
SELECT * FROM sums();
SET LOCAL enable_seqscan = off;
SELECT count(*), sum(id) FROM t WHERE k = 1000;
SELECT count(*), sum(id) FROM t WHERE k = 0;
ROLLBACK;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM t WHERE k = 0;
SELECT count(*), sum(id) FROM t WHERE k BETWEEN 998 AND 1001;
RESET enable_seqscan;
-- kept, twice in one transaction
BEGIN;
UPDATE t SET v = 'even' WHERE id % 2 = 0;
UPDATE t SET v = v || ' ' || k WHERE id % 4 = 0;
COMMIT;
SELECT * FROM sums();
SELECT count(*) FILTER (WHERE v = 'even') AS even, count(*) FILTER (WHERE v LIKE 'even %') AS four, count(*) FILTER (WHERE v = 'row ' || id) AS same FROM t;
-- savepoints over large changes
BEGIN;
DELETE FROM t WHERE id % 10 = 0;
SAVEPOINT a;
INSERT INTO t SELECT g, 5, 'new' FROM generate_series(100001, 120000) g;
SAVEPOINT b;
UPDATE t SET k = 7, v = NULL WHERE id BETWEEN 40000 AND 60000;
SELECT * FROM sums();
ROLLBACK TO b;
SELECT * FROM sums();
RELEASE a;
COMMIT;
SELECT * FROM sums();
-- delete most, insert again, find by both indexes
DELETE FROM t WHERE id > 1000;
VACUUM t;
SELECT * FROM sums();
INSERT INTO t SELECT g, g % 777, 'again ' || g FROM generate_series(1001, 90000) g;
SELECT * FROM sums();
SELECT count(*) FROM t a WHERE EXISTS (SELECT FROM t b WHERE b.id = a.id + 1);
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM t WHERE k = 500;
SELECT count(*), sum(k) FROM t WHERE id BETWEEN 500 AND 1500;
SELECT id FROM t ORDER BY id DESC LIMIT 2;
RESET enable_seqscan; RESET enable_bitmapscan;
-- joins and sorts that spill, windows, groups
SET work_mem = '1MB';
SELECT count(*), sum(a.id - b.id) FROM t a JOIN t b ON a.v = b.v;
SELECT k, count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1 LIMIT 3;
SELECT sum(r) FROM (SELECT row_number() OVER (ORDER BY v COLLATE "C", id) - id AS r FROM t) s;
SELECT id FROM t ORDER BY v COLLATE "C" DESC, id LIMIT 3;
WITH d AS (DELETE FROM t WHERE id % 3 = 0 RETURNING id, k) SELECT count(*), sum(id), sum(k) FROM d;
WITH u AS (UPDATE t SET v = 'u' RETURNING id) SELECT count(*), sum(id) FROM u;
RESET work_mem;
SELECT * FROM sums();
-- one row changed very often, in one and in many transactions
CREATE TABLE one (id int PRIMARY KEY, n int);
INSERT INTO one VALUES (1, 0);
DO $$ BEGIN FOR i IN 1..1500 LOOP UPDATE one SET n = n + 1 WHERE id = 1; END LOOP; END $$;
SELECT * FROM one;
DO $$ BEGIN FOR i IN 1..1000 LOOP UPDATE one SET n = n + 1 WHERE id = 1; COMMIT; END LOOP; END $$;
SELECT * FROM one;
BEGIN;
DO $$ BEGIN FOR i IN 1..1000 LOOP UPDATE one SET n = n + 1 WHERE id = 1; END LOOP; END $$;
ROLLBACK;
SELECT * FROM one;
-- one key inserted and deleted very often
DO $$ BEGIN FOR i IN 1..1000 LOOP INSERT INTO one VALUES (2, i); DELETE FROM one WHERE id = 2; END LOOP; END $$;
SELECT * FROM one;
DO $$ BEGIN FOR i IN 1..1000 LOOP INSERT INTO one VALUES (2, i); COMMIT; DELETE FROM one WHERE id = 2; COMMIT; END LOOP; END $$;
SELECT * FROM one;

SET client_min_messages = warning;
DROP SCHEMA t_many_rows CASCADE;
