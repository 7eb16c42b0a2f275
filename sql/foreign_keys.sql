-- Foreign keys: all actions, deferred checks, references to itself, FK columns
-- without an index changed twice in one transaction, partitioned tables, and
-- one side in heap, the other in the default access method.
CREATE SCHEMA t_foreign_keys;
SET search_path = t_foreign_keys;

CREATE TABLE p (id int PRIMARY KEY, v text, u int UNIQUE);
CREATE TABLE c (id int PRIMARY KEY, pid int REFERENCES p, v text);
INSERT INTO p SELECT g, 'p' || g, g * 10 FROM generate_series(1, 5) g;
INSERT INTO c VALUES (1, 1, 'c1'), (2, 2, 'c2'), (3, NULL, 'c3');

-- child side
INSERT INTO c VALUES (4, 99);
UPDATE c SET pid = 99 WHERE id = 1;
UPDATE c SET pid = 3 WHERE id = 1;
BEGIN;
UPDATE c SET pid = 4 WHERE id = 1;
UPDATE c SET pid = 99 WHERE id = 1;
ROLLBACK;
BEGIN;
UPDATE c SET v = 'x' WHERE id = 1;
SAVEPOINT s;
UPDATE c SET pid = 99 WHERE id = 1;
ROLLBACK TO s;
UPDATE c SET pid = 5 WHERE id = 1;
SAVEPOINT s2;
UPDATE c SET pid = 98 WHERE id = 1;
ROLLBACK TO s2;
COMMIT;
SELECT * FROM c ORDER BY id;
-- parent side
DELETE FROM p WHERE id = 5;
UPDATE p SET id = 50 WHERE id = 5;
UPDATE p SET v = 'fine', u = 55 WHERE id = 5;
DELETE FROM p WHERE id = 4;
BEGIN;
DELETE FROM c WHERE pid = 5;
DELETE FROM p WHERE id = 5;
ROLLBACK;
BEGIN;
UPDATE p SET v = 'touched' WHERE id = 5;
UPDATE p SET v = 'twice' WHERE id = 5;
DELETE FROM p WHERE id = 5;
ROLLBACK;
TRUNCATE p;
TRUNCATE p, c;
-- parent and child in one transaction and one statement
BEGIN;
INSERT INTO p VALUES (1, 'new');
INSERT INTO c VALUES (1, 1, 'new');
SAVEPOINT s;
DELETE FROM p WHERE id = 1;
ROLLBACK TO s;
INSERT INTO p VALUES (2, 'undone later');
INSERT INTO c VALUES (2, 2, 'with it');
ROLLBACK TO s;
INSERT INTO c VALUES (2, 2, 'no parent');
ROLLBACK;
WITH np AS (INSERT INTO p VALUES (7, 'cte') RETURNING id) INSERT INTO c SELECT id, id FROM np;
SELECT c.id, p.v FROM c JOIN p ON p.id = c.pid;

-- actions
CREATE TABLE m (id int PRIMARY KEY);
CREATE TABLE casc (id int PRIMARY KEY, mid int REFERENCES m ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE sn (id int PRIMARY KEY, mid int REFERENCES m ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE sd (id int PRIMARY KEY, mid int DEFAULT 1 REFERENCES m ON DELETE SET DEFAULT ON UPDATE SET DEFAULT);
CREATE TABLE re (id int PRIMARY KEY, mid int REFERENCES m ON DELETE RESTRICT ON UPDATE RESTRICT);
CREATE TABLE casc2 (id int PRIMARY KEY, cid int REFERENCES casc ON DELETE CASCADE);
CREATE INDEX ON casc (mid);
INSERT INTO m SELECT g FROM generate_series(1, 6) g;
INSERT INTO casc SELECT g, g FROM generate_series(2, 6) g;
INSERT INTO sn SELECT g, g FROM generate_series(2, 6) g;
INSERT INTO sd SELECT g, g FROM generate_series(2, 6) g;
INSERT INTO casc2 SELECT g * 10, g FROM generate_series(2, 6) g;
INSERT INTO re VALUES (6, 6);
DELETE FROM m WHERE id = 2;
UPDATE m SET id = 33 WHERE id = 3;
BEGIN;
UPDATE m SET id = 44 WHERE id = 4;
UPDATE m SET id = 444 WHERE id = 44;
DELETE FROM m WHERE id = 444;
SELECT (SELECT count(*) FROM casc) AS casc, (SELECT count(mid) FROM sn) AS sn, (SELECT sum(mid) FROM sd) AS sd;
ROLLBACK;
DELETE FROM m WHERE id = 6;
UPDATE m SET id = 66 WHERE id = 6;
SELECT 'casc' AS t, * FROM casc UNION ALL SELECT 'sn', * FROM sn UNION ALL SELECT 'sd', * FROM sd
	UNION ALL SELECT 'casc2', * FROM casc2 ORDER BY 1, 2;
DELETE FROM m WHERE id = 1;
BEGIN;
DELETE FROM re;
SAVEPOINT s;
DELETE FROM m WHERE id > 1;
SELECT (SELECT count(*) FROM casc) AS casc, (SELECT count(*) FROM casc2) AS casc2, (SELECT count(mid) FROM sn) AS sn;
ROLLBACK TO s;
SELECT (SELECT count(*) FROM casc) AS casc, (SELECT count(*) FROM casc2) AS casc2, (SELECT count(mid) FROM sn) AS sn;
ROLLBACK;
-- SET NULL of one column of two
CREATE TABLE m2 (a int, b int, PRIMARY KEY (a, b));
CREATE TABLE s2 (id int, a int, b int, FOREIGN KEY (a, b) REFERENCES m2 ON DELETE SET NULL (b));
CREATE TABLE s3 (id int, a int, b int, FOREIGN KEY (a, b) REFERENCES m2 MATCH FULL);
INSERT INTO m2 VALUES (1, 1), (1, 2);
INSERT INTO s2 VALUES (1, 1, 1), (2, 1, 2), (3, 9, NULL);
INSERT INTO s3 VALUES (1, 1, NULL);
INSERT INTO s3 VALUES (1, NULL, NULL), (2, 1, 2);
DELETE FROM m2 WHERE b = 1;
SELECT * FROM s2 ORDER BY id;

-- deferred
CREATE TABLE dp (id int PRIMARY KEY, v text);
CREATE TABLE dc (id int PRIMARY KEY, pid int REFERENCES dp DEFERRABLE INITIALLY DEFERRED, v text);
BEGIN;
INSERT INTO dc VALUES (1, 1, 'child first');
INSERT INTO dp VALUES (1, 'parent second');
COMMIT;
BEGIN;
INSERT INTO dc VALUES (2, 2, 'no parent');
UPDATE dc SET v = 'other column' WHERE id = 2;
COMMIT;
BEGIN;
INSERT INTO dc VALUES (2, 2, 'no parent');
UPDATE dc SET v = 'other column' WHERE id = 2;
UPDATE dc SET v = 'other column again' WHERE id = 2;
SAVEPOINT s;
DELETE FROM dc WHERE id = 2;
ROLLBACK TO s;
COMMIT;
BEGIN;
INSERT INTO dc VALUES (2, 2, 'deleted again');
UPDATE dc SET v = 'x' WHERE id = 2;
DELETE FROM dc WHERE id = 2;
COMMIT;
BEGIN;
UPDATE dc SET pid = 77 WHERE id = 1;
UPDATE dc SET v = 'x' WHERE id = 1;
UPDATE dc SET pid = 1 WHERE id = 1;
COMMIT;
BEGIN;
DELETE FROM dp WHERE id = 1;
INSERT INTO dp VALUES (1, 'parent back');
COMMIT;
BEGIN;
DELETE FROM dp WHERE id = 1;
UPDATE dc SET v = 'still there' WHERE id = 1;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
UPDATE dp SET id = 2 WHERE id = 1;
UPDATE dp SET id = 3 WHERE id = 2;
UPDATE dc SET pid = 3;
COMMIT;
SELECT dc.*, dp.v AS pv FROM dc JOIN dp ON dp.id = pid;

-- deferred, where no unique index gives the transaction an xid by itself
CREATE TABLE dx (pid int REFERENCES dp DEFERRABLE INITIALLY DEFERRED, v text);
BEGIN;
INSERT INTO dx VALUES (77, 'no parent');
UPDATE dx SET v = 'other column';
COMMIT;
BEGIN;
INSERT INTO dx VALUES (3, 'parent');
UPDATE dx SET v = 'other column';
COMMIT;
SELECT * FROM dx;

-- references to itself
CREATE TABLE emp (id int PRIMARY KEY, boss int REFERENCES emp ON DELETE CASCADE, n int DEFAULT 0);
INSERT INTO emp VALUES (1, 1), (2, 1), (3, 2), (4, 3);
INSERT INTO emp VALUES (6, 5), (5, 6);
INSERT INTO emp VALUES (7, 99);
UPDATE emp SET boss = 4 WHERE id = 1;
UPDATE emp SET n = n + 1;
UPDATE emp SET boss = 42 WHERE id = 1;
BEGIN;
DELETE FROM emp WHERE id = 2;
SELECT count(*) FROM emp;
ROLLBACK;
SELECT * FROM emp ORDER BY id;
DELETE FROM emp WHERE id = 3;
SELECT * FROM emp ORDER BY id;

-- mixed access methods, in both directions and in one circle
CREATE TABLE hp (id int PRIMARY KEY, v text) USING heap;
CREATE TABLE xc (id int PRIMARY KEY, pid int REFERENCES hp ON DELETE CASCADE ON UPDATE CASCADE, v text);
CREATE TABLE hc (id int PRIMARY KEY, xid int REFERENCES xc ON DELETE SET NULL, v text) USING heap;
ALTER TABLE hp ADD fav int REFERENCES hc DEFERRABLE INITIALLY DEFERRED;
INSERT INTO hp VALUES (1, 'h1'), (2, 'h2');
INSERT INTO xc VALUES (10, 1), (20, 2), (30, 3);
INSERT INTO xc VALUES (10, 1), (20, 2);
INSERT INTO hc VALUES (100, 10), (200, 20);
INSERT INTO hc VALUES (300, 30);
UPDATE hp SET fav = id * 100;
UPDATE hp SET fav = 1 WHERE id = 1;
BEGIN;
UPDATE xc SET v = 'a' WHERE id = 10;
UPDATE xc SET pid = 99 WHERE id = 10;
ROLLBACK;
BEGIN;
UPDATE hp SET id = 11 WHERE id = 1;
UPDATE hp SET id = 12 WHERE id = 11;
SELECT * FROM xc ORDER BY id;
DELETE FROM hp WHERE id = 12;
SELECT * FROM xc ORDER BY id;
SELECT * FROM hc ORDER BY id;
SAVEPOINT s;
DELETE FROM hc WHERE id = 200;
ROLLBACK TO s;
COMMIT;
UPDATE xc SET id = 21;
DELETE FROM xc;
SELECT (SELECT count(*) FROM hp) AS hp, (SELECT count(*) FROM xc) AS xc, (SELECT count(xid) FROM hc) AS hc;
DELETE FROM hc;
DROP TABLE xc;
DROP TABLE xc CASCADE;

-- partitioned on both sides, partitions of both access methods
CREATE TABLE pp (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE pp1 PARTITION OF pp FOR VALUES FROM (0) TO (10) USING heap;
CREATE TABLE pp2 PARTITION OF pp FOR VALUES FROM (10) TO (20);
CREATE TABLE pc (id int, pid int REFERENCES pp ON UPDATE CASCADE ON DELETE CASCADE) PARTITION BY RANGE (pid);
CREATE TABLE pc1 PARTITION OF pc FOR VALUES FROM (0) TO (10);
CREATE TABLE pc2 PARTITION OF pc FOR VALUES FROM (10) TO (20) USING heap;
INSERT INTO pp SELECT generate_series(5, 14);
INSERT INTO pc SELECT g, g FROM generate_series(5, 14) g;
INSERT INTO pc VALUES (1, 1);
INSERT INTO pc VALUES (1, 15);
UPDATE pp SET id = 15 WHERE id = 5;
UPDATE pp SET id = 3 WHERE id = 12;
DELETE FROM pp WHERE id IN (6, 14);
UPDATE pc SET pid = 19 WHERE pid = 7;
SELECT tableoid::regclass, * FROM pc ORDER BY pid;
ALTER TABLE pc DETACH PARTITION pc1;
INSERT INTO pc1 VALUES (9, 4);
UPDATE pc1 SET pid = 3 WHERE pid = 7;
DELETE FROM pp WHERE id = 3;
SELECT * FROM pc1 ORDER BY pid;

-- constraint added to tables that hold rows
CREATE TABLE na (id int); INSERT INTO na VALUES (3), (99);
ALTER TABLE na ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES dp;
ALTER TABLE na ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES dp NOT VALID;
INSERT INTO na VALUES (98);
ALTER TABLE na VALIDATE CONSTRAINT f;
UPDATE na SET id = 3;
ALTER TABLE na VALIDATE CONSTRAINT f;

SET client_min_messages = warning;
DROP SCHEMA t_foreign_keys CASCADE;
