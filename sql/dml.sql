-- INSERT, UPDATE, DELETE and RETURNING: plain statements, several changes of
-- one row in one transaction, joins with several matches, generated and
-- identity columns, the Halloween problem, and all of it rolled back.
CREATE SCHEMA t_dml;
SET search_path = t_dml;
SET jit = off;

-- INSERT forms
CREATE TABLE a (id int PRIMARY KEY, k int, v text DEFAULT 'dflt', n numeric DEFAULT 1.5);
CREATE INDEX a_k ON a (k);
INSERT INTO a VALUES (1, 10, 'one', 1);
INSERT INTO a (id, k) VALUES (2, 20), (3, 30) RETURNING *;
INSERT INTO a VALUES (4, DEFAULT, DEFAULT, DEFAULT), (5, 50, NULL, NULL) RETURNING id, k, v IS NULL AS v_null, n;
INSERT INTO a (id) SELECT g FROM generate_series(6, 8) g RETURNING id * 10 AS ten, v;
INSERT INTO a (id, v) VALUES (9, upper('nine')) RETURNING (SELECT count(*) FROM a) AS before_me, a;
INSERT INTO a VALUES (1, 0);
INSERT INTO a VALUES (NULL, 0);
INSERT INTO a VALUES (10, 1), (11, 1), (10, 2);
INSERT INTO a (id, nosuch) VALUES (1, 2);
INSERT INTO a VALUES (20, 1 / 0);
SELECT * FROM a ORDER BY id;

-- UPDATE of unindexed, indexed and key columns
UPDATE a SET v = 'uno' WHERE id = 1 RETURNING *;
UPDATE a SET k = 11 WHERE id = 1 RETURNING *;
UPDATE a SET id = 101 WHERE id = 1 RETURNING *;
UPDATE a SET v = DEFAULT, n = DEFAULT WHERE id = 5 RETURNING *;
WITH r AS (UPDATE a SET (k, v) = (id * 2, 'row ' || id) WHERE k IS NULL RETURNING id, k, v)
	SELECT * FROM r ORDER BY 1;
UPDATE a SET (k, v) = (SELECT max(b.id), min(b.v) FROM a b WHERE b.id < a.id) WHERE id = 4 RETURNING id, k, v;
UPDATE a SET id = 2 WHERE id = 3;
UPDATE a SET id = NULL WHERE id = 3;
UPDATE a SET id = id;
UPDATE a SET v = v WHERE false;
SELECT * FROM a WHERE k = 11;
SELECT * FROM a WHERE id = 1;
SELECT * FROM a ORDER BY id;

-- a key swap fails row by row
\set VERBOSITY terse
UPDATE a SET id = CASE id WHEN 2 THEN 3 ELSE 2 END WHERE id IN (2, 3);
\set VERBOSITY default
SELECT id, v FROM a WHERE id IN (2, 3) ORDER BY id;

-- the same row several times in one transaction
BEGIN;
UPDATE a SET v = 'x1' WHERE id = 2;
UPDATE a SET n = 77 WHERE id = 2;
UPDATE a SET k = 22 WHERE id = 2 RETURNING *;
UPDATE a SET k = 23, v = v || '+' WHERE k = 22 RETURNING *;
SELECT count(*) FROM a WHERE k = 22;
SELECT * FROM a WHERE k = 23;
DELETE FROM a WHERE id = 2 RETURNING *;
INSERT INTO a VALUES (2, 24, 'again') RETURNING *;
UPDATE a SET v = 'again2' WHERE id = 2;
SELECT * FROM a WHERE id = 2;
ROLLBACK;
SELECT * FROM a WHERE id = 2;
BEGIN;
UPDATE a SET v = 'x1' WHERE id = 2;
UPDATE a SET n = 77 WHERE id = 2;
DELETE FROM a WHERE id = 2 RETURNING *;
INSERT INTO a VALUES (2, 24, 'again');
UPDATE a SET n = -1 WHERE id = 2;
COMMIT;
SELECT * FROM a WHERE id = 2;
-- different columns of one row, both kept
BEGIN;
UPDATE a SET v = 'left' WHERE id = 3;
UPDATE a SET n = 3.3 WHERE id = 3;
COMMIT;
SELECT * FROM a WHERE id = 3;
-- inserted and deleted at once, inserted twice
BEGIN;
INSERT INTO a VALUES (30, 1);
DELETE FROM a WHERE id = 30 RETURNING id;
INSERT INTO a VALUES (30, 2);
DELETE FROM a WHERE id = 30 RETURNING k;
COMMIT;
SELECT count(*) FROM a WHERE id = 30;

-- Halloween: an update that moves rows along the index it scans must see each once
CREATE TABLE h (id int PRIMARY KEY, x int);
CREATE INDEX h_x ON h (x);
INSERT INTO h SELECT g, g FROM generate_series(1, 500) g;
SET enable_seqscan = off; SET enable_bitmapscan = off;
UPDATE h SET x = x + 100 WHERE x > 0;
SELECT count(*), min(x), max(x), sum(x) FROM h;
UPDATE h SET id = id + 10000 WHERE id > 0;
SELECT count(*), min(id), max(id), sum(id) FROM h;
RESET enable_seqscan; RESET enable_bitmapscan;
UPDATE h SET x = x + 1;
INSERT INTO h SELECT id + 1000, x FROM h;
INSERT INTO h SELECT id + 2000, x FROM h;
SELECT count(*), sum(x), count(DISTINCT id) FROM h;
DELETE FROM h WHERE x = (SELECT max(x) FROM h);
SELECT count(*) FROM h;

-- UPDATE ... FROM: several matches change a row once
CREATE TABLE s (id int, d int);
INSERT INTO s VALUES (2, 5), (2, 5), (2, 5), (3, 6), (99, 1);
WITH r AS (UPDATE a SET n = n + s.d FROM s WHERE s.id = a.id RETURNING a.id, a.n)
	SELECT * FROM r ORDER BY 1;
SELECT id, n FROM a WHERE id IN (2, 3) ORDER BY id;
UPDATE a SET n = a.n + b.n FROM a b WHERE a.id = b.id AND a.id = 3 RETURNING a.id, a.n, b.n AS old_n;
UPDATE h SET x = h.x + o.x FROM h o WHERE o.id = h.id + 1 AND h.id = 12001 RETURNING h.id, h.x - o.x AS was;
WITH r AS (UPDATE a SET v = 'w' WHERE (id, k) IN (SELECT id, k FROM a WHERE id < 4) RETURNING id)
	SELECT * FROM r ORDER BY 1;
WITH m AS (SELECT max(id) AS m FROM a) UPDATE a SET v = 'max' FROM m WHERE a.id = m.m RETURNING a.id, v;

-- DELETE ... USING, RETURNING of the deleted and of the joined row
DELETE FROM a USING s WHERE s.id = a.id AND a.id = 3 RETURNING a.*, s.d;
DELETE FROM a USING s WHERE s.id = a.id RETURNING a.id, s.*;
DELETE FROM a WHERE id = 4 RETURNING id, (SELECT count(*) FROM a x WHERE x.id = a.id) AS still_seen;
DELETE FROM a WHERE id = 12345;
BEGIN;
WITH r AS (DELETE FROM a RETURNING id)
	SELECT * FROM r ORDER BY 1;
SELECT count(*) FROM a;
INSERT INTO a (id) VALUES (5) RETURNING id;
ROLLBACK;
SELECT id FROM a ORDER BY id;
-- the row's own change inside the transaction comes back from RETURNING
BEGIN;
INSERT INTO a VALUES (40, 1, 'new', 0);
UPDATE a SET v = 'newer' WHERE id = 40;
DELETE FROM a WHERE id = 40 RETURNING *;
DELETE FROM a WHERE id = 40 RETURNING *;
COMMIT;

-- an error halfway undoes the whole statement
CREATE TABLE c (id int PRIMARY KEY, q int CHECK (q < 100));
INSERT INTO c SELECT g, g FROM generate_series(1, 50) g;
UPDATE c SET q = q + 60;
INSERT INTO c SELECT g, g FROM generate_series(90, 110) g;
SELECT count(*), sum(q), max(id) FROM c;
UPDATE c SET q = q * 1 / (50 - id);
SELECT count(*), sum(q) FROM c;

-- generated and identity columns
CREATE TABLE g (
	id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	b int GENERATED BY DEFAULT AS IDENTITY (START 100 INCREMENT 5),
	x int, y int,
	z int GENERATED ALWAYS AS (x * y) STORED,
	t text GENERATED ALWAYS AS ('<' || y || '>') STORED);
CREATE INDEX g_z ON g (z);
INSERT INTO g (x, y) VALUES (2, 3), (4, 5) RETURNING *;
INSERT INTO g (b, x, y) VALUES (7, 1, 1) RETURNING *;
INSERT INTO g (id, x, y) VALUES (50, 1, 1);
INSERT INTO g (id, x, y) OVERRIDING SYSTEM VALUE VALUES (50, 1, 1) RETURNING id, z;
INSERT INTO g (x, y, z) VALUES (1, 1, 1);
UPDATE g SET x = x + 1 WHERE z = 6 RETURNING id, z, t;
UPDATE g SET z = 1;
UPDATE g SET y = NULL WHERE id = 2 RETURNING *;
UPDATE g SET z = DEFAULT WHERE id = 3 RETURNING z;
SELECT id, z FROM g WHERE z = 9;
SELECT * FROM g ORDER BY id;

-- tables without columns, row types, many columns of NULL
CREATE TABLE nocol ();
INSERT INTO nocol DEFAULT VALUES;
INSERT INTO nocol DEFAULT VALUES RETURNING 'x' AS x;
SELECT count(*) FROM nocol;
DELETE FROM nocol;
SELECT count(*) FROM nocol;

-- whole-row update to itself and count of affected rows through plpgsql
DO $$
DECLARE n int; r a%ROWTYPE;
BEGIN
	UPDATE a SET v = 'pl'; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'updated %', n;
	UPDATE a SET v = 'pl2' WHERE id = 5 RETURNING * INTO r; RAISE NOTICE 'row %', r;
	DELETE FROM a WHERE id > 100; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'deleted %', n;
	INSERT INTO a SELECT x.id + 1000, x.k, x.v, x.n FROM a x; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'inserted %', n;
END $$;
SELECT count(*), sum(id) FROM a;

SET client_min_messages = warning;
DROP SCHEMA t_dml CASCADE;
