-- Row locks in one session: the four modes, upgrades, locks before changes and
-- in savepoints, NOWAIT and SKIP LOCKED without a rival, where locking clauses
-- are refused, joins, views, partitions, cursors, functions.
CREATE SCHEMA t_locking;
SET search_path = t_locking;

CREATE TABLE t (id int PRIMARY KEY, v text, x int);
CREATE TABLE o (id int PRIMARY KEY, tid int REFERENCES t, w text);
INSERT INTO t SELECT g, 'v' || g, g * 10 FROM generate_series(1, 6) g;
INSERT INTO o VALUES (1, 1, 'a'), (2, 2, 'b'), (3, NULL, 'c');

-- each mode, each way through
BEGIN;
SELECT * FROM t WHERE id = 1 FOR KEY SHARE;
SELECT * FROM t WHERE id = 1 FOR SHARE;
SELECT * FROM t WHERE id = 1 FOR NO KEY UPDATE;
SELECT * FROM t WHERE id = 1 FOR UPDATE;
SELECT * FROM t WHERE id = 1 FOR KEY SHARE;
SELECT * FROM t WHERE id <= 3 ORDER BY id FOR UPDATE NOWAIT;
SELECT * FROM t WHERE id <= 3 ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT * FROM t ORDER BY id LIMIT 2 FOR SHARE SKIP LOCKED;
SELECT * FROM t ORDER BY id OFFSET 4 FOR NO KEY UPDATE;
COMMIT;
-- upgrades, then the change: all pairs of modes
DO $$
DECLARE a text; b text; n int := 0;
BEGIN
	FOREACH a IN ARRAY ARRAY['KEY SHARE', 'SHARE', 'NO KEY UPDATE', 'UPDATE'] LOOP
		FOREACH b IN ARRAY ARRAY['KEY SHARE', 'SHARE', 'NO KEY UPDATE', 'UPDATE'] LOOP
			EXECUTE 'SELECT FROM t WHERE id = 2 FOR ' || a;
			EXECUTE 'SELECT FROM t WHERE id = 2 FOR ' || b || ' NOWAIT';
			BEGIN
				EXECUTE 'SELECT FROM t WHERE id = 3 FOR ' || b;
				UPDATE t SET x = -1 WHERE id IN (2, 3);
				EXECUTE 'SELECT FROM t WHERE id = 2 FOR ' || a;
				RAISE EXCEPTION 'undo';
			EXCEPTION WHEN raise_exception THEN NULL; END;
			UPDATE t SET x = x + 1 WHERE id = 2;
			EXECUTE 'SELECT FROM t WHERE id = 2 FOR ' || b;
			n := n + 1;
			COMMIT;
		END LOOP;
	END LOOP;
	RAISE NOTICE '% pairs', n;
END $$;
SELECT * FROM t ORDER BY id;

-- lock, then update, key update, delete; lock own new and changed rows
BEGIN;
SELECT id FROM t WHERE id = 1 FOR SHARE;
UPDATE t SET v = 'locked first' WHERE id = 1;
SELECT * FROM t WHERE id = 1 FOR UPDATE;
UPDATE t SET id = 100 WHERE id = 4;
SELECT * FROM t WHERE id = 100 FOR KEY SHARE;
SELECT * FROM t WHERE id = 4 FOR UPDATE;
INSERT INTO t VALUES (7, 'new', 70);
SELECT * FROM t WHERE id = 7 FOR UPDATE SKIP LOCKED;
DELETE FROM t WHERE id = 7;
SELECT * FROM t WHERE id = 7 FOR UPDATE;
SELECT id FROM t WHERE id = 5 FOR UPDATE;
DELETE FROM t WHERE id = 5 RETURNING *;
ROLLBACK;
SELECT * FROM t ORDER BY id;

-- savepoints: a lock taken after one is given up with it, what came before stays usable
BEGIN;
SELECT id FROM t WHERE id = 1 FOR KEY SHARE;
SAVEPOINT a;
SELECT id FROM t WHERE id = 1 FOR UPDATE;
UPDATE t SET v = 'in a' WHERE id = 1;
SAVEPOINT b;
DELETE FROM t WHERE id = 1;
ROLLBACK TO b;
SELECT v FROM t WHERE id = 1 FOR UPDATE;
ROLLBACK TO a;
SELECT v FROM t WHERE id = 1 FOR SHARE;
UPDATE t SET v = 'after' WHERE id = 1;
RELEASE a;
SELECT v FROM t WHERE id = 1 FOR UPDATE;
COMMIT;
SELECT v FROM t WHERE id = 1;
DO $$ BEGIN FOR i IN 1..100 LOOP
	BEGIN
		PERFORM FROM t WHERE id = 1 + i % 3 FOR UPDATE;
		IF i % 2 = 0 THEN UPDATE t SET x = i WHERE id = 1 + i % 3; END IF;
		IF i % 4 = 0 THEN RAISE EXCEPTION 'undo'; END IF;
	EXCEPTION WHEN raise_exception THEN NULL; END;
END LOOP; END $$;
SELECT id, x FROM t WHERE id <= 3 ORDER BY id;

-- joins, OF, sub-selects, CTEs, views, functions
BEGIN;
SELECT t.id, o.w FROM t JOIN o ON o.tid = t.id ORDER BY 1 FOR UPDATE;
SELECT t.id, o.w FROM t JOIN o ON o.tid = t.id ORDER BY 1 FOR UPDATE OF t FOR KEY SHARE OF o NOWAIT;
SELECT o.id, t.v FROM o LEFT JOIN t ON o.tid = t.id ORDER BY 1 FOR UPDATE OF o;
SELECT o.id, t.v FROM o LEFT JOIN t ON o.tid = t.id ORDER BY 1 FOR UPDATE OF t;
ROLLBACK;
BEGIN;
SELECT * FROM (SELECT id, v FROM t WHERE id < 3 FOR UPDATE) s ORDER BY id;
WITH c AS (SELECT * FROM t WHERE id = 3 FOR UPDATE) SELECT id FROM c;
WITH c AS (SELECT id FROM t ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) UPDATE t SET v = 'taken' FROM c WHERE c.id = t.id;
SELECT count(*) FROM t WHERE v = 'taken';
CREATE VIEW tv AS SELECT id, v FROM t WHERE id > 2;
SELECT * FROM tv ORDER BY id LIMIT 2 FOR UPDATE;
SELECT * FROM t WHERE id = (SELECT max(id) FROM t) FOR UPDATE;
SELECT * FROM t WHERE id IN (SELECT tid FROM o FOR SHARE) ORDER BY id FOR UPDATE;
CREATE FUNCTION lock_it(i int) RETURNS text LANGUAGE sql AS 'SELECT v FROM t WHERE id = i FOR UPDATE';
SELECT lock_it(6), lock_it(60);
SELECT * FROM t, generate_series(1, 2) g WHERE id = 6 ORDER BY g FOR UPDATE;
SELECT * FROM t a, t b WHERE a.id = 6 AND b.id = 6 FOR UPDATE;
SELECT 1 AS one WHERE EXISTS (SELECT FROM t WHERE id = 6 FOR UPDATE);
COMMIT;

-- refused
SELECT count(*) FROM t FOR UPDATE;
SELECT DISTINCT v FROM t FOR UPDATE;
SELECT v FROM t GROUP BY v FOR UPDATE;
SELECT v FROM t UNION SELECT w FROM o FOR UPDATE;
SELECT row_number() OVER () FROM t FOR UPDATE;
SELECT * FROM t FOR UPDATE OF nosuch;
SELECT * FROM generate_series(1, 2) g FOR UPDATE OF g;
SELECT generate_series(1, 2) FROM t FOR UPDATE;
BEGIN READ ONLY;
SELECT * FROM t WHERE id = 1 FOR UPDATE;
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM t WHERE id = 1 FOR KEY SHARE;
ROLLBACK;
CREATE ROLE regress_ts_locker;
GRANT USAGE ON SCHEMA t_locking TO regress_ts_locker;
GRANT SELECT ON t TO regress_ts_locker;
SET ROLE regress_ts_locker;
SELECT * FROM t WHERE id = 6 FOR UPDATE;
SELECT * FROM t WHERE id = 6;
RESET ROLE;
REVOKE ALL ON t FROM regress_ts_locker;
REVOKE ALL ON SCHEMA t_locking FROM regress_ts_locker;
DROP ROLE regress_ts_locker;

-- foreign keys take KEY SHARE, which does not stop a change of other columns
BEGIN;
INSERT INTO o VALUES (10, 6, 'fk');
UPDATE t SET v = 'changed under fk' WHERE id = 6;
INSERT INTO o VALUES (11, 6, 'fk');
SELECT v FROM t WHERE id = 6 FOR UPDATE;
INSERT INTO o VALUES (12, 6, 'fk');
DELETE FROM t WHERE id = 6;
ROLLBACK;

-- cursors, partitions, the queue pattern until it is empty
BEGIN;
DECLARE c CURSOR FOR SELECT id, v FROM t ORDER BY id FOR NO KEY UPDATE;
FETCH 2 FROM c;
UPDATE t SET v = 'cur' WHERE CURRENT OF c RETURNING id;
FETCH 1 FROM c;
SAVEPOINT s;
DELETE FROM t WHERE CURRENT OF c RETURNING id;
ROLLBACK TO s;
FETCH 1 FROM c;
COMMIT;
CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) USING heap;
INSERT INTO p SELECT g, 'p' FROM generate_series(8, 12) g;
BEGIN;
SELECT tableoid::regclass, id FROM p ORDER BY id FOR UPDATE;
UPDATE p SET id = id + 5 RETURNING id > 12 AS moved;
SELECT tableoid::regclass, id FROM p ORDER BY id FOR UPDATE SKIP LOCKED;
ROLLBACK;
CREATE TABLE q (id int PRIMARY KEY, done bool DEFAULT false);
INSERT INTO q SELECT generate_series(1, 200);
CREATE FUNCTION work() RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int := 0; r q%ROWTYPE;
BEGIN
	LOOP
		SELECT * INTO r FROM q WHERE NOT done ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
		EXIT WHEN NOT FOUND;
		IF r.id % 2 = 0 THEN DELETE FROM q WHERE id = r.id; ELSE UPDATE q SET done = true WHERE id = r.id; END IF;
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
SELECT work();
SELECT count(*), bool_and(done) FROM q;
-- table locks do not disturb; a plain EXPLAIN of a locking query
BEGIN;
LOCK TABLE t IN ACCESS EXCLUSIVE MODE;
SELECT id FROM t WHERE id = 6 FOR UPDATE;
LOCK TABLE t IN SHARE MODE NOWAIT;
UPDATE t SET x = 0 WHERE id = 6;
ROLLBACK;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 1 FOR UPDATE;

SET client_min_messages = warning;
DROP SCHEMA t_locking CASCADE;
