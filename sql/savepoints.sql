-- Savepoints: nested ones with inserts, updates and deletes, ROLLBACK TO,
-- RELEASE, the same key over and over, exception blocks in loops, cursors
-- across savepoints, and many subtransactions.
CREATE SCHEMA t_savepoints;
SET search_path = t_savepoints;
SET jit = off;

CREATE TABLE t (id int PRIMARY KEY, x int, v text);
CREATE INDEX t_x ON t (x);
INSERT INTO t SELECT g, g, 'v' || g FROM generate_series(1, 5) g;

-- one level, each kind of change
BEGIN;
UPDATE t SET v = 'outer' WHERE id = 1;
SAVEPOINT a;
UPDATE t SET v = 'inner' WHERE id = 1;
UPDATE t SET x = 100 WHERE id = 2;
DELETE FROM t WHERE id = 3;
INSERT INTO t VALUES (6, 6, 'ins');
SELECT * FROM t ORDER BY id;
ROLLBACK TO a;
SELECT * FROM t ORDER BY id;
SELECT id FROM t WHERE x = 100;
SELECT id FROM t WHERE x = 2;
INSERT INTO t VALUES (6, 60, 'ins again');
DELETE FROM t WHERE id = 3;
RELEASE a;
SELECT * FROM t ORDER BY id;
COMMIT;
SELECT * FROM t ORDER BY id;

-- nested: released inside rolled back, rolled back inside released
BEGIN;
SAVEPOINT a;
UPDATE t SET v = 'a' WHERE id = 1;
SAVEPOINT b;
UPDATE t SET v = v || 'b' WHERE id = 1;
SAVEPOINT c;
UPDATE t SET v = v || 'c' WHERE id = 1;
SELECT v FROM t WHERE id = 1;
ROLLBACK TO c;
SELECT v FROM t WHERE id = 1;
UPDATE t SET v = v || 'd' WHERE id = 1;
RELEASE c;
SELECT v FROM t WHERE id = 1;
SAVEPOINT e;
DELETE FROM t WHERE id = 1;
RELEASE e;
SELECT count(*) FROM t WHERE id = 1;
ROLLBACK TO b;
SELECT v FROM t WHERE id = 1;
UPDATE t SET v = v || 'f' WHERE id = 1;
RELEASE a;
SELECT v FROM t WHERE id = 1;
ROLLBACK;
SELECT v FROM t WHERE id = 1;

-- the same name twice, rolled back to several times
BEGIN;
SAVEPOINT s;
UPDATE t SET x = x + 1 WHERE id = 1;
SAVEPOINT s;
UPDATE t SET x = x + 10 WHERE id = 1;
ROLLBACK TO s;
UPDATE t SET x = x + 100 WHERE id = 1;
ROLLBACK TO s;
UPDATE t SET x = x + 1000 WHERE id = 1;
RELEASE s;
SELECT x FROM t WHERE id = 1;
ROLLBACK TO s;
SELECT x FROM t WHERE id = 1;
COMMIT;
SELECT x FROM t WHERE id = 1;

-- deleted, restored, updated and deleted again
BEGIN;
DELETE FROM t WHERE id = 2;
SAVEPOINT s;
INSERT INTO t VALUES (2, 22, 'reborn');
UPDATE t SET v = 'reborn twice' WHERE id = 2;
DELETE FROM t WHERE id = 2;
INSERT INTO t VALUES (2, 23, 'third life');
SELECT * FROM t WHERE id = 2;
ROLLBACK TO s;
SELECT * FROM t WHERE id = 2;
INSERT INTO t VALUES (2, 24, 'after rollback');
SELECT * FROM t WHERE id = 2;
ROLLBACK;
SELECT * FROM t WHERE id = 2;
BEGIN;
INSERT INTO t VALUES (50, 0, 'mine');
SAVEPOINT s;
DELETE FROM t WHERE id = 50;
ROLLBACK TO s;
UPDATE t SET v = 'still mine' WHERE id = 50;
SAVEPOINT s2;
UPDATE t SET id = 51 WHERE id = 50;
ROLLBACK TO s2;
SELECT * FROM t WHERE id >= 50;
COMMIT;
SELECT * FROM t WHERE id >= 50;

-- errors in a savepoint
BEGIN;
INSERT INTO t VALUES (7, 7, 'seven');
SAVEPOINT s;
INSERT INTO t VALUES (8, 8, 'eight'), (7, 7, 'seven');
SELECT 1;
ROLLBACK TO s;
SELECT id FROM t WHERE id IN (7, 8);
SAVEPOINT s2;
UPDATE t SET x = x / (id - 5);
ROLLBACK TO s2;
SELECT count(*), sum(x) FROM t;
INSERT INTO t VALUES (8, 8, 'eight');
COMMIT;
SELECT id FROM t WHERE id IN (7, 8) ORDER BY id;
BEGIN;
SAVEPOINT a;
ROLLBACK TO nosuch;
ROLLBACK TO a;
RELEASE nosuch;
ROLLBACK;
SAVEPOINT outside;

-- the same key inserted and rolled back again and again, with and without release
BEGIN;
INSERT INTO t VALUES (100, 0, 'first');
ROLLBACK;
DO $$ BEGIN FOR i IN 1..200 LOOP
	BEGIN
		INSERT INTO t VALUES (100, i, 'loop');
		IF i % 3 = 0 THEN UPDATE t SET x = -i WHERE id = 100; END IF;
		RAISE EXCEPTION 'undo';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
END LOOP; END $$;
SELECT count(*) FROM t WHERE id = 100;
BEGIN;
SAVEPOINT s;
INSERT INTO t VALUES (100, 1, 'x'); ROLLBACK TO s;
INSERT INTO t VALUES (100, 2, 'x'); ROLLBACK TO s;
INSERT INTO t VALUES (100, 3, 'x'); ROLLBACK TO s; RELEASE s;
SAVEPOINT s;
INSERT INTO t VALUES (100, 4, 'x'); RELEASE s;
SELECT * FROM t WHERE id = 100;
COMMIT;
VACUUM t;
SELECT * FROM t WHERE id = 100;
SET enable_seqscan = off;
SELECT id, x FROM t WHERE x BETWEEN 1 AND 4 ORDER BY x, id;
RESET enable_seqscan;
INSERT INTO t VALUES (100, 5, 'x');

-- exception blocks: half of the work is kept, half undone
CREATE TABLE log (i int, what text);
DO $$
#variable_conflict use_variable
DECLARE n int;
BEGIN
	FOR n IN 1..100 LOOP
		BEGIN
			INSERT INTO log VALUES (n, 'try');
			UPDATE t SET x = x + 1 WHERE id = 4;
			IF n % 2 = 0 THEN PERFORM 1 / 0; END IF;
			BEGIN
				UPDATE t SET x = x + 1000 WHERE id = 4;
				DELETE FROM t WHERE id = 5;
				INSERT INTO t VALUES (1, 0, 'dup');
			EXCEPTION WHEN unique_violation THEN
				UPDATE log SET what = 'dup' WHERE i = n;
			END;
		EXCEPTION WHEN division_by_zero THEN
			INSERT INTO log VALUES (n, 'zero');
		END;
	END LOOP;
END $$;
SELECT what, count(*), sum(i) FROM log GROUP BY what ORDER BY what;
SELECT * FROM t WHERE id IN (4, 5) ORDER BY id;

-- cursors across savepoints
BEGIN;
DECLARE c1 CURSOR FOR SELECT id, x FROM t WHERE id <= 5 ORDER BY id;
FETCH 1 FROM c1;
SAVEPOINT s;
UPDATE t SET x = -1;
DELETE FROM t WHERE id = 3;
FETCH 1 FROM c1;
DECLARE c2 CURSOR FOR SELECT id, x FROM t WHERE id <= 5 ORDER BY id;
FETCH 1 FROM c2;
ROLLBACK TO s;
FETCH 1 FROM c1;
FETCH 1 FROM c2;
ROLLBACK TO s;
FETCH ALL FROM c1;
SAVEPOINT s2;
DECLARE c3 CURSOR FOR SELECT id FROM t WHERE id <= 3 ORDER BY id;
UPDATE t SET x = 0 WHERE id = 1;
FETCH 2 FROM c3;
RELEASE s2;
FETCH 2 FROM c3;
COMMIT;
-- a cursor that was opened over rows of a savepoint that is undone meanwhile
CREATE TABLE few (id int, v text);
INSERT INTO few VALUES (1, 'a'), (2, 'b'), (3, 'c');
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM few;
FETCH 1 FROM c;
SAVEPOINT s;
INSERT INTO few VALUES (4, 'd');
UPDATE few SET v = v || '!';
FETCH 1 FROM c;
ROLLBACK TO s;
DELETE FROM few;
FETCH ALL FROM c;
ROLLBACK;
SELECT * FROM few ORDER BY id;

-- many subtransactions: more than the 64 that a snapshot remembers, nested deep
CREATE TABLE many (i int PRIMARY KEY, n int);
CREATE FUNCTION deep(d int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF d = 0 THEN RETURN; END IF;
	BEGIN
		INSERT INTO many VALUES (d, 0);
		UPDATE many SET n = n + 1 WHERE i >= d;
		PERFORM deep(d - 1);
		IF d % 10 = 0 THEN RAISE EXCEPTION 'x'; END IF;
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
END $$;
BEGIN;
SELECT deep(99);
SELECT count(*), sum(n), min(i), max(i) FROM many;
SAVEPOINT s;
SELECT deep(29);
ROLLBACK TO s;
SELECT count(*), sum(n) FROM many;
COMMIT;
SELECT count(*), sum(n) FROM many;
DO $$ BEGIN FOR k IN 1..300 LOOP
	BEGIN INSERT INTO many VALUES (1000 + k, k); UPDATE many SET n = n + 1 WHERE i = 1001;
		IF k % 5 = 0 THEN RAISE EXCEPTION 'x'; END IF;
	EXCEPTION WHEN raise_exception THEN NULL; END;
END LOOP; END $$;
SELECT count(*), sum(n), (SELECT n FROM many WHERE i = 1001) AS n1001 FROM many WHERE i > 1000;

-- ROLLBACK of everything after releases; ROLLBACK AND CHAIN
BEGIN;
SAVEPOINT a; DELETE FROM many; RELEASE a;
SAVEPOINT b; INSERT INTO many VALUES (1, 1); RELEASE b;
ROLLBACK AND CHAIN;
SELECT count(*) FROM many WHERE i > 1000;
SAVEPOINT a; DELETE FROM many WHERE i > 1000; RELEASE a;
COMMIT AND CHAIN;
SELECT count(*) FROM many WHERE i > 1000;
INSERT INTO many VALUES (2000, 1);
ROLLBACK;
SELECT count(*) FROM many WHERE i > 1000;

SET client_min_messages = warning;
DROP SCHEMA t_savepoints CASCADE;
