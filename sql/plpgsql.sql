-- Procedures and DO blocks: COMMIT and ROLLBACK inside loops, cursor loops over
-- commits, exceptions, records, dynamic statements, functions that return sets.
CREATE SCHEMA t_plpgsql;
SET search_path = t_plpgsql;

CREATE TABLE t (id int PRIMARY KEY, v text, n int DEFAULT 0);
CREATE INDEX t_n ON t (n);
-- commit and rollback in a loop
CREATE PROCEDURE fill(c int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..c LOOP
		INSERT INTO t VALUES (i, 'v' || i);
		UPDATE t SET n = n + 1 WHERE id <= i;
		IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
CALL fill(10);
SELECT * FROM t ORDER BY id;
-- a cursor loop goes on over commits; changes do not disturb it
DO $$
DECLARE r record; seen text := '';
BEGIN
	FOR r IN SELECT * FROM t ORDER BY id LOOP
		seen := seen || ' ' || r.id || ':' || r.n;
		UPDATE t SET n = 100 WHERE id >= r.id;
		COMMIT;
		DELETE FROM t WHERE id = r.id + 1;
		INSERT INTO t VALUES (r.id + 1000, 'added');
		IF r.id % 2 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
	RAISE NOTICE 'seen%', seen;
END $$;
SELECT * FROM t ORDER BY id;
DO $$
DECLARE c CURSOR FOR SELECT id, v FROM t WHERE id < 1000 ORDER BY id; a int; b text;
BEGIN
	OPEN c;
	FETCH c INTO a, b; RAISE NOTICE '% %', a, b;
	UPDATE t SET v = 'changed';
	FETCH c INTO a, b; RAISE NOTICE '% %', a, b;
	CLOSE c;
	COMMIT;
	OPEN c;
	FETCH c INTO a, b; RAISE NOTICE '% %', a, b;
	MOVE FORWARD 1 FROM c;
	FETCH c INTO a, b; RAISE NOTICE '% % found %', a, b, FOUND;
	CLOSE c;
END $$;
-- ROLLBACK within a cursor loop over a query that locks is refused, over a plain one works
DO $$ DECLARE r record; n int := 0; BEGIN
	FOR r IN SELECT id FROM t ORDER BY id LOOP
		DELETE FROM t WHERE id = r.id; n := n + 1; ROLLBACK;
	END LOOP;
	RAISE NOTICE '% rows, % left', n, (SELECT count(*) FROM t);
END $$;
DO $$ DECLARE r record; BEGIN
	FOR r IN UPDATE t SET n = n + 1 RETURNING id LOOP COMMIT; END LOOP;
END $$;
SELECT count(*) FILTER (WHERE n > 0) > 0 AS some FROM t;

-- nested procedures, INOUT arguments, transaction control in exception blocks is refused
CREATE PROCEDURE inner_p(INOUT i int) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO t VALUES (i, 'inner'); i := i + 1; COMMIT; INSERT INTO t VALUES (i, 'lost'); ROLLBACK; END $$;
CREATE PROCEDURE outer_p() LANGUAGE plpgsql AS $$
DECLARE k int := 5000;
BEGIN
	CALL inner_p(k); CALL inner_p(k);
	RAISE NOTICE 'k = %', k;
	INSERT INTO t VALUES (6000, 'outer');
END $$;
CALL outer_p();
SELECT id, v FROM t WHERE id >= 5000 ORDER BY id;
DO $$ BEGIN
	BEGIN INSERT INTO t VALUES (7000, 'x'); COMMIT;
	EXCEPTION WHEN OTHERS THEN RAISE NOTICE '% %', SQLSTATE, SQLERRM; END;
END $$;
CREATE FUNCTION no_commit() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (7001, ''x''); COMMIT; RETURN 1; END';
SELECT no_commit();
BEGIN;
CALL fill(1);
ROLLBACK;
SELECT count(*) FROM t WHERE id >= 7000;
CREATE PROCEDURE fails() LANGUAGE plpgsql AS $$
BEGIN INSERT INTO t VALUES (8000, 'kept'); COMMIT; INSERT INTO t VALUES (8001, 'lost'), (8000, 'dup'); END $$;
CALL fails();
SELECT id, v FROM t WHERE id >= 8000;

-- exceptions: kinds, nesting, what stays
CREATE FUNCTION try(stmt text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n int; det text;
BEGIN
	EXECUTE stmt;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n || ' rows';
EXCEPTION
	WHEN unique_violation OR not_null_violation OR check_violation OR foreign_key_violation THEN
		GET STACKED DIAGNOSTICS det = CONSTRAINT_NAME; RETURN SQLSTATE || ' ' || det;
	WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
ALTER TABLE t ADD CHECK (n < 1000);
SELECT s, try(s) FROM (VALUES (1, 'INSERT INTO t VALUES (8000, ''dup'')'), (2, 'INSERT INTO t VALUES (NULL)'),
	(3, 'UPDATE t SET n = 1000 WHERE id = 8000'), (4, 'UPDATE t SET v = ''ok'' WHERE id = 8000'), (5, 'SELECT 1 / 0'),
	(6, 'DELETE FROM nosuch'), (7, 'INSERT INTO t SELECT 9000 + g FROM generate_series(1, 5) g'), (8, 'UPDATE t SET id = 9001 WHERE id > 9000')) x (o, s) ORDER BY o;
SELECT count(*), min(v) FROM t WHERE id >= 8000;
DO $$ BEGIN
	INSERT INTO t VALUES (10000, 'outer');
	BEGIN
		INSERT INTO t VALUES (10001, 'middle');
		BEGIN
			INSERT INTO t VALUES (10002, 'inner');
			PERFORM 1 / 0;
		EXCEPTION WHEN division_by_zero THEN
			INSERT INTO t VALUES (10003, 'handler');
			UPDATE t SET v = v || '+' WHERE id >= 10000;
		END;
		RAISE EXCEPTION USING ERRCODE = 'TS001';
	EXCEPTION WHEN SQLSTATE 'TS001' THEN
		UPDATE t SET v = v || '*' WHERE id >= 10000;
	END;
END $$;
SELECT id, v FROM t WHERE id >= 10000 ORDER BY id;

-- SELECT INTO STRICT, RETURNING INTO, FOUND, records and arrays
DO $$
DECLARE r t%ROWTYPE; x record; ids int[]; k int;
BEGIN
	DELETE FROM t WHERE id < 10000 OR id > 10000;
	INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2) ;
	UPDATE t SET n = 9 WHERE id = 1 RETURNING * INTO STRICT r; RAISE NOTICE '%', r;
	BEGIN UPDATE t SET n = 8 RETURNING * INTO STRICT r;
	EXCEPTION WHEN too_many_rows THEN RAISE NOTICE 'too many'; END;
	BEGIN DELETE FROM t WHERE id = 77 RETURNING * INTO STRICT r;
	EXCEPTION WHEN no_data_found THEN RAISE NOTICE 'none'; END;
	UPDATE t SET v = 'x' WHERE id = 77; RAISE NOTICE 'found %', FOUND;
	SELECT array_agg(id ORDER BY id) INTO ids FROM t; RAISE NOTICE '%', ids;
	FOREACH k IN ARRAY ids LOOP UPDATE t SET n = n + k % 7 WHERE id = k; END LOOP;
	FOR x IN SELECT id, n FROM t ORDER BY id LOOP RAISE NOTICE '%', x; END LOOP;
	r.id := 3; r.v := 'rec'; INSERT INTO t VALUES (r.*);
	UPDATE t SET (v, n) = (SELECT r.v || '!', r.n + 1) WHERE id = r.id RETURNING * INTO r; RAISE NOTICE '%', r;
END $$;
CREATE FUNCTION rows_of(lo int) RETURNS SETOF t LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY SELECT * FROM t WHERE id >= lo ORDER BY id;
	UPDATE t SET v = 'after first';
	RETURN QUERY UPDATE t SET n = 0 WHERE id = lo RETURNING *;
	RETURN QUERY EXECUTE 'DELETE FROM t WHERE id = $1 RETURNING *' USING lo;
	RETURN NEXT (99, 'next', 99)::t;
END $$;
SELECT * FROM rows_of(2);
SELECT * FROM t ORDER BY id;

-- recursion and a plan that is cached over DDL
CREATE FUNCTION fact(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t VALUES (20000 + i, 'rec');
	IF i > 1 THEN PERFORM fact(i - 1); END IF;
	RETURN (SELECT count(*) FROM t WHERE id > 20000);
END $$;
SELECT fact(10);
CREATE FUNCTION cached() RETURNS text LANGUAGE plpgsql AS
	'DECLARE r record; BEGIN SELECT * INTO r FROM t WHERE id = 1; UPDATE t SET v = v || ''c'' WHERE id = 1; RETURN r; END';
SELECT cached();
ALTER TABLE t ADD extra int DEFAULT 5;
SELECT cached();
DROP INDEX t_n;
TRUNCATE t;
SELECT cached();
INSERT INTO t VALUES (1, 'new', 1);
SELECT cached();
SELECT cached();
ALTER TABLE t ALTER n TYPE text;
SELECT cached();

SET client_min_messages = warning;
DROP SCHEMA t_plpgsql CASCADE;
