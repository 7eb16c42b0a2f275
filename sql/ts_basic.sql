-- tsengine itself: the extension, its access method, tables that use it by
-- name, by default and by ALTER, its views, and DROP EXTENSION with tables left.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS tsengine;
RESET client_min_messages;
CREATE SCHEMA t_basic;
SET search_path = t_basic;

SELECT amname, amtype FROM pg_am WHERE amname = 'tsengine';

CREATE TABLE a (id int PRIMARY KEY, v text) USING tsengine;
CREATE FUNCTION am_of(regclass) RETURNS name LANGUAGE sql AS 'SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = $1';
SELECT am_of('a');
INSERT INTO a SELECT g, 'v' || g FROM generate_series(1, 1000) g;
UPDATE a SET v = 'x' WHERE id <= 10;
DELETE FROM a WHERE id > 900;
SELECT count(*), sum(id), count(*) FILTER (WHERE v = 'x') FROM a;

SET default_table_access_method = tsengine;
CREATE TABLE b (id int);
SELECT am_of('b');
CREATE TABLE c AS SELECT * FROM a;
SELECT am_of('c');
CREATE TEMP TABLE d (id int);
SELECT am_of('d');
CREATE UNLOGGED TABLE e (id int);
SELECT am_of('e');
CREATE MATERIALIZED VIEW f AS SELECT count(*) FROM a;
SELECT am_of('f');
CREATE TABLE g (id int) USING heap;
SELECT am_of('g');
SET default_table_access_method = heap;
ALTER TABLE g SET ACCESS METHOD tsengine;
SELECT am_of('g');
INSERT INTO g SELECT generate_series(1, 10);
ALTER TABLE g SET ACCESS METHOD heap;
SELECT am_of('g'), count(*) FROM g;
-- no TOAST table is needed, an empty main fork is there
SELECT reltoastrelid FROM pg_class WHERE oid = 'a'::regclass;
SELECT pg_relation_filepath('a') IS NOT NULL AS path;

-- views
SELECT arena_bytes > 0 AS arena, used_bytes > 0 AS used, free_bytes >= 0 AS free, used_bytes <= arena_bytes AS fits,
	reserve_bytes > 0 AS reserve, retired_bytes >= 0 AS retired FROM tsengine.stat_memory;
SELECT relid, blocks > 0 AS blocks, live_rows > 0 AS live, versions >= live_rows AS versions, bytes > 0 AS bytes, dead_rows >= 0 AS dead
	FROM tsengine.stat_tables WHERE relid IN ('a'::regclass, 'c'::regclass, 'g'::regclass) ORDER BY relid::text;
SELECT commits_pure >= 0 AS pure, commits_mixed >= 0 AS mixed, aborts >= 0 AS aborts, late_xid, snapshot_missing FROM tsengine.stat_transactions;
-- each kind of end is counted: without an index, most commits need no xid
SELECT commits_pure AS p, commits_mixed AS m, aborts AS a FROM tsengine.stat_transactions \gset
DO $$ BEGIN FOR i IN 1..20 LOOP INSERT INTO b VALUES (i); COMMIT; END LOOP; END $$;
DELETE FROM b WHERE id > 2;
BEGIN; INSERT INTO b VALUES (3); ROLLBACK;
BEGIN; INSERT INTO b VALUES (4); SELECT txid_current() > 0 AS has_xid; COMMIT;
SELECT commits_pure >= :p + 15 AS pure, commits_mixed > :m AS mixed, aborts > :a AS aborts FROM tsengine.stat_transactions;
BEGIN;
INSERT INTO b VALUES (5);
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid;
COMMIT;
SELECT * FROM b ORDER BY id;

-- DROP EXTENSION with tables left
\set VERBOSITY terse
DROP EXTENSION tsengine;
DROP ACCESS METHOD tsengine;
DROP SCHEMA tsengine;
\set VERBOSITY default
SELECT count(*) FROM a;
SET client_min_messages = warning;
DROP TABLE d;
DROP SCHEMA t_basic CASCADE;
BEGIN;
DROP EXTENSION tsengine;
CREATE TABLE public.gone (a int) USING tsengine;
ROLLBACK;
SELECT count(*) FROM pg_extension WHERE extname = 'tsengine';
