-- Temporary tables: every ON COMMIT form inside and outside of savepoints,
-- with indexes, REINDEX of the temporary schema, names that hide permanent
-- tables, and what may not refer to them.
CREATE SCHEMA t_temp_tables;
SET search_path = t_temp_tables;
SET jit = off;

-- PRESERVE ROWS
CREATE TEMP TABLE pres (id int PRIMARY KEY, v text);
INSERT INTO pres SELECT g, 'v' || g FROM generate_series(1, 5) g;
BEGIN;
UPDATE pres SET v = 'upd' WHERE id = 1;
INSERT INTO pres VALUES (6, 'new');
SAVEPOINT s;
DELETE FROM pres;
ROLLBACK TO s;
COMMIT;
SELECT * FROM pres ORDER BY id;
BEGIN;
DELETE FROM pres WHERE id > 1;
ROLLBACK;
SELECT count(*) FROM pres;
CREATE TEMP TABLE pres2 (a int) ON COMMIT PRESERVE ROWS;
INSERT INTO pres2 VALUES (1);
SELECT * FROM pres2;

-- DELETE ROWS
CREATE TEMP TABLE del (id int PRIMARY KEY, v text) ON COMMIT DELETE ROWS;
CREATE INDEX del_v ON del (v);
INSERT INTO del VALUES (1, 'gone at once');
SELECT * FROM del;
BEGIN;
INSERT INTO del VALUES (1, 'a'), (2, 'b');
UPDATE del SET v = 'c' WHERE id = 1;
SAVEPOINT s;
INSERT INTO del VALUES (3, 'd');
RELEASE s;
SAVEPOINT s2;
DELETE FROM del;
ROLLBACK TO s2;
SELECT * FROM del ORDER BY id;
SET LOCAL enable_seqscan = off;
SELECT id FROM del WHERE v = 'c';
COMMIT;
SELECT * FROM del;
SET enable_seqscan = off;
SELECT * FROM del WHERE id = 1;
RESET enable_seqscan;
BEGIN;
INSERT INTO del VALUES (1, 'again');
SELECT * FROM del;
ROLLBACK;
SELECT count(*) FROM del;
DO $$ BEGIN FOR i IN 1..3 LOOP
	INSERT INTO del SELECT g, 'loop' FROM generate_series(1, i) g;
	RAISE NOTICE '% rows', (SELECT count(*) FROM del);
	COMMIT;
	RAISE NOTICE '% after commit', (SELECT count(*) FROM del);
	INSERT INTO del VALUES (1, 'x');
	ROLLBACK;
END LOOP; END $$;
-- a cursor that is held over the commit keeps its rows
BEGIN;
INSERT INTO del VALUES (1, 'held');
DECLARE h CURSOR WITH HOLD FOR SELECT * FROM del;
COMMIT;
FETCH ALL FROM h;
CLOSE h;
BEGIN;
CREATE TEMP TABLE del2 (a int) ON COMMIT DELETE ROWS;
INSERT INTO del2 VALUES (1);
SELECT * FROM del2;
COMMIT;
SELECT * FROM del2;

-- DROP
BEGIN;
CREATE TEMP TABLE dro (id int PRIMARY KEY) ON COMMIT DROP;
INSERT INTO dro VALUES (1);
SELECT * FROM dro;
COMMIT;
SELECT * FROM dro;
BEGIN;
SAVEPOINT s;
CREATE TEMP TABLE dro (a int) ON COMMIT DROP;
INSERT INTO dro VALUES (1);
ROLLBACK TO s;
CREATE TEMP TABLE dro (b text) ON COMMIT DROP;
INSERT INTO dro VALUES ('x');
SELECT * FROM dro;
RELEASE s;
COMMIT;
SELECT * FROM dro;
BEGIN;
SAVEPOINT s;
CREATE TEMP TABLE dro ON COMMIT DROP AS SELECT g FROM generate_series(1, 3) g;
RELEASE s;
SELECT count(*) FROM dro;
DROP TABLE dro;
COMMIT;
CREATE TEMP TABLE dro (a int) ON COMMIT DROP;
SELECT * FROM dro;
CREATE TABLE perm (a int) ON COMMIT DROP;

-- created, dropped and created again within savepoints
BEGIN;
CREATE TEMP TABLE sp (a int);
INSERT INTO sp VALUES (1);
SAVEPOINT s1;
DROP TABLE sp;
CREATE TEMP TABLE sp (a text) ON COMMIT DELETE ROWS;
INSERT INTO sp VALUES ('x');
SAVEPOINT s2;
TRUNCATE sp;
ROLLBACK TO s2;
SELECT * FROM sp;
ROLLBACK TO s1;
SELECT * FROM sp;
COMMIT;
SELECT * FROM sp;
BEGIN;
CREATE TEMP TABLE undone (a int);
INSERT INTO undone VALUES (1);
ROLLBACK;
SELECT * FROM undone;
DO $$ BEGIN FOR i IN 1..20 LOOP
	BEGIN
		CREATE TEMP TABLE lp (a int PRIMARY KEY) ON COMMIT DROP;
		INSERT INTO lp VALUES (i), (i + 1);
		IF i % 2 = 0 THEN RAISE EXCEPTION 'undo'; END IF;
		DROP TABLE lp;
	EXCEPTION WHEN raise_exception THEN NULL; END;
END LOOP; END $$;

-- indexes, unique keys, REINDEX of the temporary schema, VACUUM, ANALYZE, CLUSTER
INSERT INTO pres VALUES (1, 'dup');
CREATE INDEX pres_v ON pres (v);
CREATE INDEX pres_h ON pres USING hash (v);
CREATE INDEX CONCURRENTLY pres_c ON pres (v, id);
UPDATE pres SET v = 'v' || id;
SELECT nspname AS tmp FROM pg_namespace WHERE oid = pg_my_temp_schema() \gset
SET client_min_messages = error;
REINDEX SCHEMA :tmp;
REINDEX SCHEMA CONCURRENTLY :tmp;
RESET client_min_messages;
SET enable_seqscan = off;
SELECT * FROM pres WHERE v = 'v3';
SELECT id FROM pres WHERE id = 6;
RESET enable_seqscan;
VACUUM pres;
VACUUM FULL pres;
ANALYZE pres;
CLUSTER pres USING pres_v;
REINDEX TABLE CONCURRENTLY pres;
SELECT count(*), min(v), max(v) FROM pres;
TRUNCATE pres;
INSERT INTO pres VALUES (1, 'one');
SELECT * FROM pres;
ALTER TABLE pres ADD n int DEFAULT 5;
ALTER TABLE pres ALTER id TYPE bigint;
SELECT * FROM pres;
INSERT INTO pres VALUES (1, 'one') ON CONFLICT (id) DO UPDATE SET n = pres.n + 1 RETURNING *;

-- a temporary table hides a permanent one
CREATE TABLE hide (a text);
INSERT INTO hide VALUES ('permanent');
CREATE TEMP TABLE hide (a text);
INSERT INTO hide VALUES ('temporary');
SELECT * FROM hide;
SELECT * FROM t_temp_tables.hide;
SELECT h.a, p.a FROM hide h, t_temp_tables.hide p;
DELETE FROM hide;
DROP TABLE hide;
SELECT * FROM hide;

-- references between temporary and permanent tables
CREATE TABLE perm (id int PRIMARY KEY REFERENCES pres);
CREATE TEMP TABLE child (id int REFERENCES pres, v text);
INSERT INTO child VALUES (1);
INSERT INTO child VALUES (2);
DELETE FROM pres;
CREATE TEMP TABLE del3 (id int PRIMARY KEY) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE child3 (id int REFERENCES del3);
BEGIN;
INSERT INTO del3 VALUES (1);
COMMIT;
CREATE TEMP TABLE child4 (id int REFERENCES del3) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO del3 VALUES (1);
INSERT INTO child4 VALUES (1);
COMMIT;
SELECT (SELECT count(*) FROM del3) + (SELECT count(*) FROM child4) AS rows;
CREATE VIEW tv AS SELECT * FROM pres;
CREATE TABLE pt (a int) PARTITION BY LIST (a);
CREATE TEMP TABLE ptt PARTITION OF pt DEFAULT;
CREATE TEMP TABLE tpt (a int) PARTITION BY LIST (a) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE tpt1 PARTITION OF tpt FOR VALUES IN (1) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE tpt2 PARTITION OF tpt FOR VALUES IN (2) ON COMMIT PRESERVE ROWS;
BEGIN;
INSERT INTO tpt VALUES (1), (2);
SELECT count(*) FROM tpt;
COMMIT;
SELECT count(*) FROM tpt;

-- triggers, sequences, large values, a prepared statement over commits, two-phase
CREATE TEMP TABLE ser (id serial PRIMARY KEY, big text) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO ser (big) SELECT repeat(md5(g::text), 5000) FROM generate_series(1, 3) g;
SELECT sum(length(big)), max(id) FROM ser;
COMMIT;
PREPARE ps AS SELECT count(*) FROM ser;
EXECUTE ps;
BEGIN; INSERT INTO ser VALUES (100, 'x'); EXECUTE ps; COMMIT;
EXECUTE ps;
BEGIN;
INSERT INTO ser VALUES (1, 'x');
PREPARE TRANSACTION 'ts_temp';
DISCARD TEMP;
SELECT * FROM pres;

SET client_min_messages = warning;
DROP SCHEMA t_temp_tables CASCADE;
