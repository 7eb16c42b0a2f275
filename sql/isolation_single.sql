-- Isolation levels in one session: what a transaction sees of itself under
-- READ COMMITTED, REPEATABLE READ and SERIALIZABLE, read-only and deferrable
-- transactions, settings and their errors, savepoints, functions, cursors.
CREATE SCHEMA t_isolation;
SET search_path = t_isolation;
SET jit = off;

CREATE TABLE t (id int PRIMARY KEY, x int);
CREATE INDEX t_x ON t (x);
CREATE TABLE h (id int PRIMARY KEY, x int) USING heap;
INSERT INTO t SELECT g, g FROM generate_series(1, 5) g;
INSERT INTO h SELECT g, g FROM generate_series(1, 5) g;
CREATE FUNCTION work() RETURNS text LANGUAGE plpgsql AS $$
DECLARE a text; b text; c text;
BEGIN
	INSERT INTO t VALUES (6, 6);
	UPDATE t SET x = x + 100 WHERE id <= 2;
	UPDATE t SET x = x + 100 WHERE id = 1;
	DELETE FROM t WHERE id = 3;
	INSERT INTO h SELECT id + 10, x FROM t WHERE x > 100;
	-- the same by a sequential scan, an index scan and a bitmap scan
	SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = on;
	SELECT string_agg(t::text, ' ' ORDER BY id) INTO a FROM t WHERE x > 0;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on;
	SELECT string_agg(t::text, ' ' ORDER BY id) INTO b FROM t WHERE x > 0;
	SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on;
	SELECT string_agg(t::text, ' ' ORDER BY id) INTO c FROM t WHERE x > 0;
	RETURN a || CASE WHEN a = b AND a = c THEN '' ELSE ' index: ' || b || ' bitmap: ' || c END;
END $$;

BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT work();
SELECT * FROM t ORDER BY id;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
SELECT work();
SELECT * FROM t ORDER BY id;
SELECT * FROM h WHERE id > 5 ORDER BY id;
ROLLBACK;
SET client_min_messages = error;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM t;
SELECT work();
SELECT * FROM t ORDER BY id;
SELECT * FROM h WHERE id > 5 ORDER BY id;
ROLLBACK;
RESET client_min_messages;
SELECT (SELECT sum(x) FROM t) AS t, (SELECT sum(x) FROM h) AS h;

-- kept; savepoints and errors within
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sum(x) FROM t;
UPDATE t SET x = 10 WHERE id = 1;
SAVEPOINT s;
UPDATE t SET x = 20 WHERE id = 1;
INSERT INTO t VALUES (1, 0);
ROLLBACK TO s;
SELECT x FROM t WHERE id = 1;
DELETE FROM t WHERE id = 2;
INSERT INTO t VALUES (2, 22);
SELECT * FROM t WHERE id <= 2 ORDER BY id FOR UPDATE;
UPDATE t SET x = x + 1 WHERE id <= 2;
COMMIT;
SELECT * FROM t ORDER BY id;
SET client_min_messages = error;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(x) FROM t;
UPDATE t SET x = (SELECT sum(x) FROM t) WHERE id = 5;
SAVEPOINT s;
DELETE FROM t;
ROLLBACK TO s;
INSERT INTO t VALUES (7, 7) ON CONFLICT (id) DO UPDATE SET x = -1;
INSERT INTO t VALUES (7, 7) ON CONFLICT (id) DO UPDATE SET x = -1;
SELECT sum(x) FROM t;
COMMIT;
SELECT * FROM t ORDER BY id;
-- many serializable transactions one after the other
DO $$ BEGIN FOR i IN 1..200 LOOP
	COMMIT;
	SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
	UPDATE t SET x = x + 1 WHERE id = (SELECT min(id) FROM t);
	INSERT INTO t SELECT max(id) + 1, 0 FROM t;
END LOOP; END $$;
SELECT count(*), sum(x), max(id) FROM t;
RESET client_min_messages;

-- read-only
BEGIN READ ONLY;
SELECT count(*) FROM t;
INSERT INTO t VALUES (9999, 1);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
UPDATE t SET x = 0;
ROLLBACK;
BEGIN READ ONLY;
SAVEPOINT s;
DELETE FROM t;
ROLLBACK TO s;
MERGE INTO t USING h ON t.id = h.id WHEN MATCHED THEN DELETE;
ROLLBACK TO s;
TRUNCATE t;
ROLLBACK TO s;
SELECT nextval('nosuch');
ROLLBACK TO s;
CREATE TABLE no (a int);
ROLLBACK TO s;
SELECT count(*) FROM t;
COMMIT;
CREATE TEMP TABLE tmp (a int);
BEGIN READ ONLY;
INSERT INTO tmp VALUES (1);
UPDATE tmp SET a = 2;
SELECT * FROM tmp;
DELETE FROM tmp;
COMMIT;
SELECT count(*) FROM tmp;
SET client_min_messages = error;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*), sum(x) FROM t;
COMMIT;
SET default_transaction_isolation = 'serializable';
SELECT count(*), sum(x) FROM t;
UPDATE t SET x = 1 WHERE id = 1 RETURNING x;
INSERT INTO t VALUES (1000, 1), (1001, 1);
WITH d AS (DELETE FROM t WHERE id >= 1000 RETURNING id) SELECT * FROM d ORDER BY id;
RESET default_transaction_isolation;
RESET client_min_messages;
SET default_transaction_read_only = on;
DELETE FROM t;
BEGIN READ WRITE;
UPDATE t SET x = 2 WHERE id = 1 RETURNING x;
COMMIT;
SET default_transaction_read_only = off;

-- settings and their errors
BEGIN;
SELECT count(*) > 0 AS some FROM t;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 AS some FROM t;
SAVEPOINT s;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
ROLLBACK TO s;
SET TRANSACTION READ ONLY;
UPDATE t SET x = 3 WHERE id = 1;
ROLLBACK;
BEGIN READ ONLY;
SELECT count(*) > 0 AS some FROM t;
SET TRANSACTION READ WRITE;
ROLLBACK;
BEGIN;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
SHOW transaction_isolation;
UPDATE t SET x = 4 WHERE id = 1;
COMMIT AND CHAIN;
SHOW transaction_isolation;
SELECT x FROM t WHERE id = 1;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET TRANSACTION SNAPSHOT 'nosuch';
ROLLBACK;
BEGIN;
SET TRANSACTION SNAPSHOT '00000003-0000001B-1';
ROLLBACK;
-- a snapshot exported by a transaction that has written, and the transaction goes on
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE t SET x = 5 WHERE id = 1;
SELECT length(pg_export_snapshot()) > 0 AS exported;
UPDATE t SET x = 6 WHERE id = 1;
SELECT x FROM t WHERE id = 1;
SAVEPOINT s;
SELECT pg_export_snapshot();
ROLLBACK TO s;
COMMIT;
SELECT x FROM t WHERE id = 1;

-- cursors and DDL under REPEATABLE READ
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE t SET x = x + 50 WHERE id = 1;
CREATE INDEX t_late ON t (x, id);
DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t WHERE id <= 2 ORDER BY id;
UPDATE t SET x = -1 WHERE id <= 2;
FETCH 1 FROM c;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
SELECT * FROM t WHERE x = -1 ORDER BY id;
CREATE TABLE n AS SELECT * FROM t WHERE x = -1;
TRUNCATE h;
INSERT INTO h SELECT * FROM n;
SELECT * FROM h ORDER BY id;
COMMIT;
FETCH ALL FROM c;
CLOSE c;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM n;
TRUNCATE n;
SELECT count(*) FROM n;
INSERT INTO n VALUES (1, 1);
SELECT count(*) FROM n;
ROLLBACK;
SELECT count(*) FROM n;

SET client_min_messages = warning;
DROP SCHEMA t_isolation CASCADE;
