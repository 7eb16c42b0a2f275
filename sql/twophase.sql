-- PREPARE TRANSACTION with inserts, updates, deletes, row locks and savepoints;
-- what others see and wait for meanwhile; COMMIT PREPARED and ROLLBACK PREPARED.
CREATE SCHEMA t_twophase;
SET search_path = t_twophase;
\set VERBOSITY terse

CREATE TABLE t (id int PRIMARY KEY, v text, x int);
CREATE INDEX t_x ON t (x);
CREATE TABLE h (id int PRIMARY KEY, v text) USING heap;
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 5) g;
INSERT INTO h VALUES (1, 'h1');

-- committed
BEGIN;
INSERT INTO t VALUES (6, 'ins', 6);
UPDATE t SET v = 'upd' WHERE id = 1;
UPDATE t SET x = 20 WHERE id = 2;
DELETE FROM t WHERE id = 3;
SAVEPOINT s;
UPDATE t SET v = 'undone' WHERE id = 4;
INSERT INTO t VALUES (7, 'undone', 7);
ROLLBACK TO s;
SAVEPOINT s2;
UPDATE t SET v = 'released' WHERE id = 5;
RELEASE s2;
UPDATE h SET v = 'h2';
PREPARE TRANSACTION 'ts_1';
SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'ts\_%';
-- not seen, and its rows are held
SELECT * FROM t ORDER BY id;
SELECT * FROM h;
SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT id FROM t WHERE id = 1 FOR UPDATE NOWAIT;
SELECT id FROM t WHERE id = 1 FOR KEY SHARE NOWAIT;
SELECT id FROM t WHERE id = 3 FOR KEY SHARE NOWAIT;
UPDATE t SET v = 'free' WHERE id = 4;
INSERT INTO t VALUES (7, 'free', 7);
SET lock_timeout = '20ms';
UPDATE t SET v = 'waits' WHERE id = 1;
DELETE FROM t WHERE id = 2;
INSERT INTO t VALUES (6, 'waits', 6);
INSERT INTO t VALUES (6, 'waits', 6) ON CONFLICT DO NOTHING;
TRUNCATE t;
RESET lock_timeout;
-- other sessions, new connections
\c -
SET search_path = t_twophase;
\set VERBOSITY terse
SELECT count(*), sum(x) FROM t;
SET enable_seqscan = off;
SELECT id FROM t WHERE x IN (2, 20, 6) ORDER BY id;
RESET enable_seqscan;
COMMIT PREPARED 'ts_1';
SELECT * FROM t ORDER BY id;
SELECT * FROM h;
SET enable_seqscan = off;
SELECT id FROM t WHERE x IN (2, 20, 6, 3) ORDER BY id;
RESET enable_seqscan;
UPDATE t SET v = v || '!' WHERE id IN (1, 2, 5, 6);
INSERT INTO t VALUES (3, 'new life', 3);
SELECT * FROM t ORDER BY id;

-- rolled back
BEGIN;
INSERT INTO t VALUES (8, 'ins', 8);
UPDATE t SET v = 'gone', x = 99 WHERE id <= 3;
DELETE FROM t WHERE id = 4;
PREPARE TRANSACTION 'ts_2';
\c -
SET search_path = t_twophase;
\set VERBOSITY terse
SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED;
ROLLBACK PREPARED 'ts_2';
SELECT * FROM t ORDER BY id;
SELECT count(*) FROM t WHERE x = 99;
INSERT INTO t VALUES (8, 'free again', 8);
UPDATE t SET v = 'free' WHERE id = 1;
DELETE FROM t WHERE id = 4;

-- only row locks; only reads; two at once; a mix of both access methods with foreign keys
BEGIN;
SELECT id FROM t WHERE id = 1 FOR UPDATE;
SELECT id FROM t WHERE id = 2 FOR KEY SHARE;
SELECT id FROM t WHERE id = 3 FOR SHARE;
PREPARE TRANSACTION 'ts_3';
SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT id FROM t ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;
SELECT id FROM t ORDER BY id FOR SHARE SKIP LOCKED;
SELECT id FROM t ORDER BY id FOR KEY SHARE SKIP LOCKED;
UPDATE t SET v = 'no key' WHERE id = 2;
SET lock_timeout = '20ms';
UPDATE t SET id = 200 WHERE id = 2;
UPDATE t SET v = 'no key' WHERE id = 3;
RESET lock_timeout;
COMMIT PREPARED 'ts_3';
UPDATE t SET id = 200 WHERE id = 2 RETURNING id;
BEGIN;
SELECT count(*) FROM t;
PREPARE TRANSACTION 'ts_4';
COMMIT PREPARED 'ts_4';
CREATE TABLE c (id int PRIMARY KEY, tid int REFERENCES t, hid int REFERENCES h);
BEGIN; INSERT INTO c VALUES (1, 1, 1); PREPARE TRANSACTION 'ts_5';
BEGIN; INSERT INTO c VALUES (2, 5, 1); PREPARE TRANSACTION 'ts_6';
SET lock_timeout = '20ms';
DELETE FROM t WHERE id = 1;
DELETE FROM h WHERE id = 1;
RESET lock_timeout;
UPDATE t SET v = 'fine' WHERE id = 1;
COMMIT PREPARED 'ts_5';
ROLLBACK PREPARED 'ts_6';
DELETE FROM t WHERE id = 1;
DELETE FROM t WHERE id = 5;
SELECT * FROM c;

-- created, truncated and dropped tables; deferred constraints; sequences; upserts; large values
BEGIN;
CREATE TABLE n (id int PRIMARY KEY, big text);
INSERT INTO n SELECT g, repeat(md5(g::text), 10000) FROM generate_series(1, 3) g;
PREPARE TRANSACTION 'ts_7';
COMMIT PREPARED 'ts_7';
SELECT count(*), sum(length(big)) FROM n;
BEGIN; TRUNCATE n; INSERT INTO n VALUES (9, 'after'); PREPARE TRANSACTION 'ts_8';
ROLLBACK PREPARED 'ts_8';
SELECT count(*) FROM n;
BEGIN; TRUNCATE n; INSERT INTO n VALUES (9, 'after'); PREPARE TRANSACTION 'ts_9';
COMMIT PREPARED 'ts_9';
SELECT * FROM n;
BEGIN; INSERT INTO n VALUES (9, 'ups') ON CONFLICT (id) DO UPDATE SET big = excluded.big; DROP TABLE c; PREPARE TRANSACTION 'ts_10';
ROLLBACK PREPARED 'ts_10';
SELECT * FROM n;
SELECT count(*) FROM c;
CREATE TABLE d (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED);
BEGIN; INSERT INTO d VALUES (1), (1); PREPARE TRANSACTION 'ts_11';
BEGIN; INSERT INTO d VALUES (1), (2); UPDATE d SET id = id + 1; PREPARE TRANSACTION 'ts_12';
COMMIT PREPARED 'ts_12';
SELECT * FROM d ORDER BY id;

-- errors
BEGIN; INSERT INTO d VALUES (10); PREPARE TRANSACTION 'ts_13';
BEGIN; INSERT INTO d VALUES (11); PREPARE TRANSACTION 'ts_13';
SELECT count(*) FROM d WHERE id = 11;
BEGIN; COMMIT PREPARED 'ts_13'; ROLLBACK;
COMMIT PREPARED 'ts_13';
COMMIT PREPARED 'ts_13';
ROLLBACK PREPARED 'ts_nosuch';
PREPARE TRANSACTION 'ts_14';
BEGIN; INSERT INTO d VALUES (12); DECLARE cu CURSOR WITH HOLD FOR SELECT 1; PREPARE TRANSACTION 'ts_15';
BEGIN; INSERT INTO d VALUES (12); SELECT 1 / 0; PREPARE TRANSACTION 'ts_16';
SELECT * FROM d ORDER BY id;
SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'ts\_%';
-- a hundred rows in a prepared transaction that stays while others work and vacuum
INSERT INTO n SELECT g, 'many' FROM generate_series(100, 199) g;
BEGIN; UPDATE n SET big = 'prepared' WHERE id >= 150; DELETE FROM n WHERE id < 110; PREPARE TRANSACTION 'ts_17';
DO $$ BEGIN FOR i IN 1..20 LOOP UPDATE n SET big = 'round ' || i WHERE id BETWEEN 120 AND 130; COMMIT; END LOOP; END $$;
VACUUM n;
SELECT count(*), count(*) FILTER (WHERE big = 'many'), count(*) FILTER (WHERE big = 'round 20') FROM n;
COMMIT PREPARED 'ts_17';
VACUUM n;
SELECT big, count(*) FROM n GROUP BY big ORDER BY big;

SET client_min_messages = warning;
DROP SCHEMA t_twophase CASCADE;
