-- Deferrable unique and primary keys: key swaps and shifts, checks at the end
-- of the statement or transaction, savepoints, NULLS NOT DISTINCT.
CREATE SCHEMA t_unique_deferrable;
SET search_path = t_unique_deferrable;

CREATE TABLE d (id int PRIMARY KEY DEFERRABLE INITIALLY IMMEDIATE, v text);
INSERT INTO d SELECT g, 'v' || g FROM generate_series(1, 10) g;
-- fine at the end of the statement
UPDATE d SET id = id + 1;
UPDATE d SET id = id - 1;
UPDATE d SET id = CASE id WHEN 1 THEN 2 ELSE 1 END WHERE id IN (1, 2);
SELECT * FROM d WHERE id <= 2 ORDER BY id;
UPDATE d SET id = 11 - id;
SELECT id, v FROM d ORDER BY id;
-- not fine at the end of the statement
UPDATE d SET id = 3 WHERE id = 4;
INSERT INTO d VALUES (1, 'dup');
INSERT INTO d VALUES (20, 'a'), (20, 'b');
BEGIN;
UPDATE d SET id = 3 WHERE id = 4;
ROLLBACK;

-- deferred to the end of the transaction
BEGIN;
SET CONSTRAINTS d_pkey DEFERRED;
INSERT INTO d VALUES (1, 'dup');
SELECT count(*) FROM d WHERE id = 1;
UPDATE d SET id = 100 WHERE v = 'dup';
COMMIT;
SELECT * FROM d WHERE id >= 100;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO d VALUES (1, 'dup');
UPDATE d SET v = 'dup, other column' WHERE v = 'dup';
COMMIT;
SELECT count(*) FROM d WHERE id = 1;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO d VALUES (1, 'dup'), (1, 'dup2');
SAVEPOINT s;
DELETE FROM d WHERE v LIKE 'dup%';
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
SAVEPOINT s;
INSERT INTO d VALUES (1, 'dup');
ROLLBACK TO s;
INSERT INTO d VALUES (200, 'ok');
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
DELETE FROM d WHERE id = 200;
INSERT INTO d VALUES (200, 'again');
UPDATE d SET v = 'again2' WHERE id = 200;
INSERT INTO d VALUES (200, 'two of them');
DELETE FROM d WHERE v = 'again2';
COMMIT;
SELECT * FROM d WHERE id = 200;

-- initially deferred, two constraints, multi-column, swaps by several statements
CREATE TABLE e (a int, b int, c int,
	UNIQUE (a, b) DEFERRABLE INITIALLY DEFERRED,
	CONSTRAINT e_c UNIQUE (c) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO e VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3);
BEGIN;
UPDATE e SET c = 2 WHERE a = 1;
UPDATE e SET c = 1 WHERE a = 2;
UPDATE e SET (a, b) = (2, 2) WHERE a = 3;
UPDATE e SET (a, b) = (3, 3) WHERE c = 1;
COMMIT;
SELECT * FROM e ORDER BY c;
BEGIN;
UPDATE e SET c = 9;
COMMIT;
BEGIN;
UPDATE e SET c = 2 WHERE c = 1;
SET CONSTRAINTS e_c IMMEDIATE;
ROLLBACK;
INSERT INTO e VALUES (1, 1, 5);
INSERT INTO e VALUES (1, NULL, 5), (1, NULL, 6), (NULL, NULL, NULL), (NULL, NULL, NULL);
SELECT count(*) FROM e;

-- a deferrable key cannot be a foreign key's target or an arbiter, a plain index is checked at once
CREATE TABLE f (id int REFERENCES d);
CREATE UNIQUE INDEX e_plain ON e (c);
UPDATE e SET c = CASE c WHEN 1 THEN 2 WHEN 2 THEN 1 END WHERE c IN (1, 2) AND false;
ALTER TABLE e ADD PRIMARY KEY USING INDEX e_plain;
DELETE FROM e WHERE c IS NULL;
ALTER TABLE e ADD PRIMARY KEY USING INDEX e_plain;
INSERT INTO e VALUES (50, 50, 1);
ALTER TABLE d ALTER CONSTRAINT d_pkey NOT DEFERRABLE;

-- NULLS NOT DISTINCT, at once and deferred
CREATE TABLE n (a int, b text, UNIQUE NULLS NOT DISTINCT (a) DEFERRABLE);
INSERT INTO n VALUES (NULL, 'x');
INSERT INTO n VALUES (NULL, 'y');
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO n VALUES (NULL, 'y');
DELETE FROM n WHERE b = 'x';
COMMIT;
SELECT * FROM n;

-- a thousand keys shifted, forward and back, by deferred checks
CREATE TABLE big (id int PRIMARY KEY DEFERRABLE, n int);
INSERT INTO big SELECT g, 0 FROM generate_series(1, 1000) g;
UPDATE big SET id = id + 1;
UPDATE big SET id = id - 1, n = n + 1;
UPDATE big SET id = 1001 - id;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE big SET id = 1 WHERE id <= 500;
UPDATE big SET n = n + 1;
\set VERBOSITY terse
COMMIT;
\set VERBOSITY default
SELECT count(*), count(DISTINCT id), min(id), max(id), sum(n) FROM big;

-- COPY into a deferrable key
COPY big FROM stdin;
1001	1
1001	2
\.
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
COPY big FROM stdin;
1001	1
1001	2
\.
DELETE FROM big WHERE id = 1001 AND n = 2;
COMMIT;
SELECT * FROM big WHERE id > 1000;

SET client_min_messages = warning;
DROP SCHEMA t_unique_deferrable CASCADE;
