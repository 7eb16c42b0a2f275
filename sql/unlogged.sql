-- Unlogged tables: changes, rollback, indexes, sequences, switching to logged
-- and back, foreign keys, partitions, large values.
CREATE SCHEMA t_unlogged;
SET search_path = t_unlogged;
SET jit = off;

CREATE UNLOGGED TABLE u (id int PRIMARY KEY, v text, x int);
CREATE INDEX u_x ON u (x);
INSERT INTO u SELECT g, 'v' || g, g % 7 FROM generate_series(1, 100) g;
UPDATE u SET v = 'upd' WHERE x = 3;
DELETE FROM u WHERE x = 4;
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'upd') FROM u;
INSERT INTO u VALUES (1);
BEGIN;
INSERT INTO u VALUES (101, 'new', 1);
UPDATE u SET x = 50 WHERE id = 1;
SAVEPOINT s;
DELETE FROM u;
ROLLBACK TO s;
SELECT count(*) FROM u;
ROLLBACK;
SELECT count(*), sum(id) FROM u;
BEGIN;
TRUNCATE u;
INSERT INTO u VALUES (1, 'after truncate', 1);
ROLLBACK;
SELECT count(*), sum(id) FROM u;
SET enable_seqscan = off;
SELECT count(*) FROM u WHERE x = 3;
RESET enable_seqscan;
CREATE INDEX CONCURRENTLY u_v ON u (v);
REINDEX TABLE u;
VACUUM u;
VACUUM FULL u;
ANALYZE u;
SELECT count(*), sum(id) FROM u;
CHECKPOINT;
SELECT relpersistence FROM pg_class WHERE oid IN ('u'::regclass, 'u_x'::regclass) ORDER BY oid;

-- to logged and back, also rolled back, with large values
ALTER TABLE u ADD big text;
UPDATE u SET big = repeat(md5(id::text), 4000) WHERE id < 4;
SELECT count(*), sum(length(big)), sum(hashtext(big)) FROM u;
ALTER TABLE u SET LOGGED;
SELECT relpersistence FROM pg_class WHERE oid = 'u'::regclass;
SELECT count(*), sum(length(big)), sum(hashtext(big)) FROM u;
UPDATE u SET v = 'logged' WHERE id = 1;
BEGIN;
ALTER TABLE u SET UNLOGGED;
DELETE FROM u WHERE id < 3;
SELECT count(*) FROM u;
SAVEPOINT s;
ALTER TABLE u SET LOGGED;
INSERT INTO u VALUES (500, 'x', 3);
ROLLBACK TO s;
SELECT count(*) FROM u;
ROLLBACK;
SELECT relpersistence FROM pg_class WHERE oid = 'u'::regclass;
SELECT count(*), sum(length(big)) FROM u;
ALTER TABLE u SET UNLOGGED;
SET enable_seqscan = off;
SELECT id, v FROM u WHERE v = 'logged';
SELECT count(*) FROM u WHERE x = 3;
RESET enable_seqscan;

-- references, inherited, partitioned
CREATE UNLOGGED TABLE c (id int REFERENCES u ON DELETE CASCADE);
CREATE TABLE logged_c (id int REFERENCES u);
INSERT INTO c VALUES (1), (2);
INSERT INTO c VALUES (999);
DELETE FROM u WHERE id = 1;
SELECT * FROM c;
ALTER TABLE c SET LOGGED;
ALTER TABLE u SET LOGGED;
ALTER TABLE u SET UNLOGGED;
ALTER TABLE c SET LOGGED;
CREATE TABLE p (id int, v text) PARTITION BY LIST (id);
CREATE UNLOGGED TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
INSERT INTO p VALUES (1, 'unlogged'), (2, 'logged');
UPDATE p SET id = 3 - id;
SELECT tableoid::regclass, * FROM p ORDER BY id;

-- created from a query, with identity and in one transaction with logged tables
CREATE UNLOGGED TABLE s AS SELECT g AS id FROM generate_series(1, 50) g;
CREATE TABLE l (id int PRIMARY KEY);
BEGIN;
INSERT INTO l SELECT id FROM s WHERE id <= 10;
DELETE FROM s WHERE id <= 10;
COMMIT;
SELECT (SELECT count(*) FROM l) AS l, (SELECT count(*) FROM s) AS s;
BEGIN;
WITH d AS (DELETE FROM s WHERE id <= 20 RETURNING id) INSERT INTO l SELECT id FROM d;
SELECT (SELECT count(*) FROM l) AS l, (SELECT count(*) FROM s) AS s;
ROLLBACK;
SELECT (SELECT count(*) FROM l) AS l, (SELECT count(*) FROM s) AS s;
CREATE UNLOGGED TABLE idt (id int GENERATED ALWAYS AS IDENTITY, v text);
INSERT INTO idt (v) VALUES ('a'), ('b') RETURNING *;
CREATE UNLOGGED MATERIALIZED VIEW nope AS SELECT 1;

SET client_min_messages = warning;
DROP SCHEMA t_unlogged CASCADE;
