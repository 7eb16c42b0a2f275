-- What a command sees of its own transaction: volatile and stable functions,
-- data-modifying CTEs, INSERT ... SELECT from the same table, changes made by
-- functions during a scan, EXECUTE inside functions, snapshots of SQL functions.
CREATE SCHEMA t_command_ids;
SET search_path = t_command_ids;

CREATE TABLE t (id int, x int DEFAULT 0);
INSERT INTO t SELECT g FROM generate_series(1, 3) g;

-- a statement does not see its own rows
INSERT INTO t SELECT id + 10 FROM t;
INSERT INTO t SELECT id + 100 FROM t RETURNING id, (SELECT count(*) FROM t) AS n;
SELECT count(*) FROM t;
BEGIN;
INSERT INTO t SELECT id FROM t;
INSERT INTO t SELECT id FROM t;
UPDATE t SET x = (SELECT count(*) FROM t WHERE x = 0);
SELECT x, count(*) FROM t GROUP BY x;
DELETE FROM t WHERE (SELECT count(*) FROM t) = 48;
SELECT count(*) FROM t;
ROLLBACK;
SELECT count(*), sum(x) FROM t;

-- volatile functions see the changes made so far, stable ones the start of the statement
CREATE FUNCTION n_vol() RETURNS bigint LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN (SELECT count(*) FROM t); END';
CREATE FUNCTION n_sta() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM t); END';
CREATE FUNCTION s_vol() RETURNS bigint LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN (SELECT sum(x) FROM t); END';
CREATE FUNCTION s_sta() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT sum(x) FROM t); END';
CREATE FUNCTION add_row(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (i, 1); RETURN i; END';
CREATE FUNCTION bump(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r int; BEGIN UPDATE t SET x = x + 1 WHERE id = i RETURNING x INTO r; RETURN r; END $$;
TRUNCATE t;
INSERT INTO t SELECT g FROM generate_series(1, 3) g;
BEGIN;
SELECT g, add_row(g), n_vol(), n_sta() FROM generate_series(10, 12) g;
SELECT n_vol(), n_sta();
SELECT g, bump(1), s_vol(), s_sta() FROM generate_series(1, 3) g;
-- the scan itself keeps its snapshot while a function changes the table under it
SELECT id, x, add_row(id + 50) FROM t ORDER BY id;
SELECT id, x, bump(id) FROM t WHERE id < 10 ORDER BY id;
SELECT id, x FROM t WHERE id < 10 ORDER BY id;
INSERT INTO t SELECT n_vol()::int * 1000 FROM generate_series(1, 3);
INSERT INTO t SELECT n_sta()::int * 1000 FROM generate_series(1, 3);
SELECT id FROM t WHERE id >= 1000 ORDER BY id;
UPDATE t SET x = s_vol() WHERE id IN (1, 2);
SELECT count(DISTINCT x) FROM t WHERE id IN (1, 2);
UPDATE t SET x = s_sta() WHERE id IN (1, 2);
SELECT count(DISTINCT x) FROM t WHERE id IN (1, 2);
ROLLBACK;

-- SQL functions: each statement of a volatile one has a new command id
CREATE FUNCTION three() RETURNS bigint LANGUAGE sql VOLATILE AS $$
	INSERT INTO t VALUES (500);
	UPDATE t SET x = x + 5 WHERE id = 500;
	INSERT INTO t SELECT id + 1, x + 1 FROM t WHERE id = 500;
	SELECT sum(x) FROM t WHERE id IN (500, 501);
$$;
SELECT three();
SELECT * FROM t ORDER BY id;
CREATE FUNCTION wrong() RETURNS int LANGUAGE sql STABLE AS 'INSERT INTO t VALUES (1) RETURNING id';
SELECT wrong();
CREATE FUNCTION del_all() RETURNS SETOF t LANGUAGE sql AS 'DELETE FROM t RETURNING *';
BEGIN;
SELECT * FROM del_all() ORDER BY id;
SELECT count(*) FROM t;
ROLLBACK;

-- a row changed by a function while the UPDATE that called it runs
TRUNCATE t;
INSERT INTO t VALUES (1, 0), (2, 0);
UPDATE t SET x = bump(1) + 10 WHERE id = 2;
SELECT * FROM t ORDER BY id;
UPDATE t SET x = bump(2) + 10 WHERE id = 2;
SELECT * FROM t ORDER BY id;
CREATE FUNCTION del(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM t WHERE id = i; RETURN i; END';
UPDATE t SET x = del(2) WHERE id = 2;
DELETE FROM t WHERE id = del(2);
SELECT * FROM t ORDER BY id;
TRUNCATE t;
INSERT INTO t VALUES (1, 0), (2, 0);

-- data-modifying CTEs: one snapshot for all
WITH ins AS (INSERT INTO t VALUES (7, 7) RETURNING *) SELECT (SELECT count(*) FROM t) AS t, (SELECT count(*) FROM ins) AS ins;
WITH upd AS (UPDATE t SET x = x + 1 RETURNING *) SELECT u.id, t.x AS old, u.x AS new FROM upd u JOIN t USING (id) ORDER BY 1;
WITH del AS (DELETE FROM t WHERE id = 7 RETURNING *), ins AS (INSERT INTO t SELECT id + 1, x FROM del RETURNING *)
	SELECT * FROM ins UNION ALL SELECT * FROM t ORDER BY 1, 2;
SELECT * FROM t ORDER BY id;
WITH a AS (INSERT INTO t VALUES (20) RETURNING id), b AS (INSERT INTO t SELECT id + 1 FROM a RETURNING id),
	c AS (INSERT INTO t SELECT id + 1 FROM b RETURNING id) SELECT * FROM a, b, c;
WITH d AS (DELETE FROM t WHERE id >= 20 RETURNING *) INSERT INTO t SELECT * FROM d;
SELECT count(*) FROM t WHERE id >= 20;
-- never referenced, but runs; a row moved through DELETE and INSERT
WITH x AS (UPDATE t SET x = 99 WHERE id = 20) SELECT x FROM t WHERE id = 20;
SELECT x FROM t WHERE id = 20;
CREATE TABLE arch (LIKE t);
WITH moved AS (DELETE FROM t WHERE id >= 20 RETURNING *) INSERT INTO arch SELECT * FROM moved;
SELECT (SELECT count(*) FROM t) AS t, (SELECT count(*) FROM arch) AS arch;
-- two parts of one statement that change the same row: only one takes effect
BEGIN;
WITH a AS (UPDATE t SET x = -1 WHERE id = 1 RETURNING 1) UPDATE t SET x = -2 WHERE id = 2;
SELECT * FROM t WHERE id IN (1, 2) ORDER BY id;
ROLLBACK;
BEGIN;
WITH a AS (DELETE FROM t WHERE id = 1 RETURNING id) UPDATE t SET x = -2 FROM a WHERE t.id = a.id;
SELECT count(*) FROM t WHERE id = 1;
ROLLBACK;
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) INSERT INTO arch SELECT n + 200, n FROM r;
SELECT count(*), sum(x) FROM arch WHERE id > 200;

-- inside one transaction: many commands on one row, each sees the one before
BEGIN;
DO $$ BEGIN FOR i IN 1..300 LOOP
	UPDATE t SET x = x + 1 WHERE id = 1;
	IF (SELECT x FROM t WHERE id = 1) IS DISTINCT FROM 1 + i THEN RAISE EXCEPTION 'step %: %', i, (SELECT x FROM t WHERE id = 1); END IF;
END LOOP; END $$;
SELECT x FROM t WHERE id = 1;
ROLLBACK;
SELECT x FROM t WHERE id = 1;
-- dynamic SQL, and a temporary change that is undone in the same function
CREATE FUNCTION dyn() RETURNS text LANGUAGE plpgsql AS $$
DECLARE a int; b int; c int;
BEGIN
	EXECUTE 'INSERT INTO t SELECT generate_series(1000, 1009)';
	EXECUTE 'SELECT count(*) FROM t WHERE id >= 1000' INTO a;
	BEGIN
		EXECUTE 'DELETE FROM t WHERE id > $1' USING 1004;
		SELECT count(*) FROM t WHERE id >= 1000 INTO b;
		RAISE EXCEPTION 'undo';
	EXCEPTION WHEN raise_exception THEN
		SELECT count(*) FROM t WHERE id >= 1000 INTO c;
	END;
	RETURN concat_ws(' ', a, b, c);
END $$;
SELECT dyn();
-- CHECK constraint and index expression that read the table through functions
CREATE TABLE lim (id int, CONSTRAINT at_most_three CHECK ((SELECT true)));
CREATE TABLE lim (id int);
CREATE FUNCTION few() RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) < 3 FROM lim); END';
ALTER TABLE lim ADD CHECK (few());
INSERT INTO lim VALUES (1), (2);
INSERT INTO lim VALUES (3), (4);
INSERT INTO lim VALUES (3);
INSERT INTO lim VALUES (4);
SELECT count(*) FROM lim;

SET client_min_messages = warning;
DROP SCHEMA t_command_ids CASCADE;
