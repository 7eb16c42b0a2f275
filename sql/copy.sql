-- COPY: into and out of tables, FREEZE, WHERE, formats, partitioned targets,
-- rows buffered together with triggers and defaults, errors in the middle.
CREATE SCHEMA t_copy;
SET search_path = t_copy;

CREATE TABLE t (id int PRIMARY KEY, v text DEFAULT 'dflt', n numeric, g int GENERATED ALWAYS AS (id * 2) STORED);
CREATE INDEX t_v ON t (v);
COPY t (id, v, n) FROM stdin;
1	one	1.5
2	\N	\N
3	tab\there	-7
4	new\nline	0
\.
COPY t (id) FROM stdin WITH (FORMAT csv);
5
6
\.
COPY t (v, id) FROM stdin WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'nil', QUOTE '''');
v;id
'quo;ted';7
nil;8
'it''s';9
\.
SELECT * FROM t ORDER BY id;
COPY t TO stdout;
COPY t (id, g) TO stdout WITH (FORMAT csv, HEADER);
COPY (SELECT id, v FROM t WHERE id < 4 ORDER BY id DESC) TO stdout WITH (FORMAT csv, FORCE_QUOTE (v), NULL 'nil');
UPDATE t SET n = 9 WHERE id = 1;
COPY (UPDATE t SET n = 10 WHERE id <= 2 RETURNING id, n) TO stdout;
COPY (DELETE FROM t WHERE id = 9 RETURNING id) TO stdout;
COPY (INSERT INTO t (id) VALUES (20) RETURNING *) TO stdout;

-- WHERE
COPY t (id, v) FROM stdin WHERE id % 2 = 1 AND v <> 'x';
101	a
102	b
103	x
105	c
\.
SELECT id, v FROM t WHERE id > 100 ORDER BY id;

-- errors: nothing of the command stays
COPY t (id, v) FROM stdin;
200	fine
201	fine
1	duplicate
202	never read
\.
COPY t (id, v) FROM stdin;
200	fine
abc	not a number
\.
COPY t (id, v) FROM stdin;
200	fine
201
\.
COPY t (id, v) FROM stdin;
200	fine
200	same twice
\.
COPY t (id, v, g) FROM stdin;
\.
COPY nosuch FROM stdin;
\.
SELECT count(*) FROM t WHERE id >= 200;
SELECT count(*) FROM t WHERE v = 'fine';
ALTER TABLE t ADD CHECK (n < 1000);
COPY t (id, n) FROM stdin;
200	1
201	1000
\.

-- in a transaction and savepoints; the rows are seen by the next command
BEGIN;
COPY t (id, v) FROM stdin;
300	in transaction
301	in transaction
\.
UPDATE t SET v = v || '!' WHERE id = 300;
SAVEPOINT s;
COPY t (id, v) FROM stdin;
302	in savepoint
\.
SELECT id, v FROM t WHERE id >= 300 ORDER BY id;
ROLLBACK TO s;
COPY t (id, v) FROM stdin;
302	again
\.
DELETE FROM t WHERE id = 301;
COPY t (id, v) FROM stdin;
301	after delete
\.
SELECT id, v FROM t WHERE id >= 300 ORDER BY id;
COMMIT;
SELECT id, v FROM t WHERE id >= 300 ORDER BY id;

-- FREEZE: the table must be new or truncated in this transaction
COPY t (id) FROM stdin WITH (FREEZE);
\.
BEGIN;
CREATE TABLE fr (id int PRIMARY KEY, v text);
COPY fr FROM stdin WITH (FREEZE);
1	frozen
2	frozen
\.
SELECT * FROM fr;
UPDATE fr SET v = 'thawed' WHERE id = 2;
COMMIT;
SELECT * FROM fr ORDER BY id;
BEGIN;
TRUNCATE fr;
SAVEPOINT s;
COPY fr FROM stdin WITH (FREEZE);
3	x
\.
ROLLBACK;
BEGIN;
TRUNCATE fr;
COPY fr FROM stdin WITH (FREEZE);
3	frozen again
\.
ROLLBACK;
SELECT * FROM fr ORDER BY id;
BEGIN;
TRUNCATE fr;
COPY fr FROM stdin WITH (FREEZE);
4	frozen at last
\.
COMMIT;
SELECT * FROM fr;
DELETE FROM fr;
SELECT count(*) FROM fr;

-- partitioned target with row triggers on one partition only
CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 (extra text DEFAULT 'e', v text, id int);
ALTER TABLE p2 DROP COLUMN extra;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (200) TO (300) PARTITION BY LIST (v);
CREATE TABLE p3x PARTITION OF p3 FOR VALUES IN ('x');
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % % %', TG_TABLE_NAME, TG_WHEN, TG_OP, NEW;
	IF TG_WHEN = 'BEFORE' AND NEW.v = 'skip' THEN RETURN NULL; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE INSERT ON p2 FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER a AFTER INSERT ON p2 FOR EACH ROW EXECUTE FUNCTION tell();
COPY p FROM stdin;
1	a
101	b
2	c
201	x
102	skip
3	d
\.
SELECT tableoid::regclass, * FROM p ORDER BY id;
COPY p FROM stdin;
4	fine
999	no partition
\.
COPY p FROM stdin;
4	fine
201	y
\.
SELECT count(*) FROM p;
COPY p TO stdout;
COPY (SELECT * FROM p ORDER BY id) TO stdout;
COPY p1 FROM stdin;
150	wrong partition
\.
CREATE FUNCTION key_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := 50; RETURN NEW; END';
CREATE TRIGGER k BEFORE INSERT ON p1 FOR EACH ROW WHEN (NEW.v = 'move') EXECUTE FUNCTION key_change();
COPY p FROM stdin;
5	move
6	stay
\.
SELECT * FROM p1 ORDER BY id;

-- a trigger or default that reads the table that is copied into: no batching
CREATE TABLE self (id int, seen bigint);
CREATE FUNCTION rows_now() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM self); END';
ALTER TABLE self ALTER seen SET DEFAULT rows_now();
COPY self (id) FROM stdin;
1
2
3
\.
SELECT * FROM self ORDER BY id;
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.seen := rows_now() * 10; RETURN NEW; END';
CREATE TRIGGER see BEFORE INSERT ON self FOR EACH ROW EXECUTE FUNCTION see();
COPY self (id) FROM stdin;
4
5
\.
SELECT * FROM self ORDER BY id;
-- a nextval default
CREATE TABLE sq (id serial, v text);
COPY sq (v) FROM stdin;
a
b
c
\.
SELECT * FROM sq ORDER BY id;

-- many rows and through the binary format, by way of a file in the data directory
CREATE TABLE many (id int PRIMARY KEY, v text, f float8, b bytea);
INSERT INTO many SELECT g, CASE WHEN g % 7 > 0 THEN repeat('v' || g, g % 20) END, g / 3.0, decode(md5(g::text), 'hex') FROM generate_series(1, 5000) g;
SELECT '/tmp/ts_copy_' || pg_backend_pid() || '.bin' AS f \gset
\set rm 'rm ' :f '; cat >/dev/null'
COPY many TO :'f' WITH (FORMAT binary);
CREATE TABLE many2 (LIKE many INCLUDING ALL);
COPY many2 FROM :'f' WITH (FORMAT binary);
COPY (SELECT 1) TO PROGRAM :'rm';
SELECT count(*), sum(hashtext(v)), sum(id) FROM many2;
SELECT count(*) FROM (SELECT * FROM many EXCEPT SELECT * FROM many2) d;
\copy many2 from program 'seq -f "%g,copied,1.5," 5001 9000' with (format csv)
SELECT count(*), max(id), count(*) FILTER (WHERE v = 'copied') FROM many2;
SELECT id, v FROM many2 WHERE id IN (5001, 7777, 9000) ORDER BY id;
\copy many2 from program 'seq -f "%g,copied,1.5," 8999 9100' with (format csv)
SELECT count(*) FROM many2;

SET client_min_messages = warning;
DROP SCHEMA t_copy CASCADE;
