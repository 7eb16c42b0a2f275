-- System columns: tableoid, ctid, xmin, xmax, cmin, cmax; clients that use
-- xmin or ctid as an optimistic lock, and "xmax = 0" after an upsert.
CREATE SCHEMA t_sysattr;
SET search_path = t_sysattr;

CREATE TABLE t (id int PRIMARY KEY, v text, x int);
CREATE INDEX t_x ON t (x);
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2);
INSERT INTO t VALUES (3, 'c', 3);

-- presence and kind
SELECT tableoid = 't'::regclass, tableoid::regclass, xmin IS NOT NULL, xmax, ctid IS NOT NULL FROM t ORDER BY id;
SELECT pg_typeof(ctid), pg_typeof(xmin), pg_typeof(xmax), pg_typeof(cmin), pg_typeof(cmax), pg_typeof(tableoid) FROM t LIMIT 1;
SELECT count(DISTINCT ctid), count(DISTINCT xmin::text) FROM t;
SELECT count(DISTINCT xmin::text) FROM t WHERE id <= 2;
SELECT id FROM t ORDER BY ctid;
SELECT id FROM t WHERE ctid = (SELECT min(ctid) FROM t);
SELECT id FROM t WHERE xmin = (SELECT xmin FROM t WHERE id = 3);
SELECT t FROM t WHERE id = 1;
SELECT count(*) FROM t a JOIN t b ON a.ctid = b.ctid AND a.xmin::text = b.xmin::text AND a.tableoid = b.tableoid;

-- xmin as an optimistic lock: it changes with every committed update
SELECT xmin AS x0 FROM t WHERE id = 1 \gset
UPDATE t SET v = 'a1' WHERE id = 1 AND xmin = :'x0' RETURNING id, v;
UPDATE t SET v = 'lost' WHERE id = 1 AND xmin = :'x0' RETURNING id, v;
SELECT xmin AS x1 FROM t WHERE id = 1 \gset
SELECT :'x1' = :'x0' AS same;
UPDATE t SET v = v WHERE id = 1;
SELECT xmin AS x2 FROM t WHERE id = 1 \gset
UPDATE t SET x = 11 WHERE id = 1;
SELECT xmin AS x3 FROM t WHERE id = 1 \gset
SELECT :'x2' IN (:'x0', :'x1') OR :'x3' IN (:'x0', :'x1', :'x2') AS seen_before;
SELECT xmin::text = :'x3' AS stable FROM t WHERE id = 1;
UPDATE t SET v = 'other row' WHERE id = 2;
SELECT xmin::text = :'x3' AS stable FROM t WHERE id = 1;
BEGIN;
UPDATE t SET v = 'undone' WHERE id = 1;
SELECT xmin::text = :'x3' AS same FROM t WHERE id = 1;
ROLLBACK;
SELECT xmin::text = :'x3' AS stable FROM t WHERE id = 1;
VACUUM t;
SELECT xmin::text = :'x3' AS stable FROM t WHERE id = 1;
DELETE FROM t WHERE id = 1 AND xmin = :'x2' RETURNING id;
BEGIN;
DELETE FROM t WHERE id = 1 AND xmin = :'x3' RETURNING id;
ROLLBACK;
-- a thousand updates, no xmin twice
CREATE TABLE seen (x text PRIMARY KEY);
DO $$ BEGIN FOR i IN 1..1000 LOOP
	UPDATE t SET v = i::text WHERE id = 3;
	COMMIT;
	INSERT INTO seen SELECT xmin::text FROM t WHERE id = 3;
	COMMIT;
END LOOP; END $$;
SELECT count(*) FROM seen;
-- as strings and numbers, as ORMs do
SELECT xmin::text::bigint AS n FROM t WHERE id = 2 \gset
UPDATE t SET v = 'orm' WHERE id = 2 AND xmin::text::bigint = :n RETURNING id;
UPDATE t SET v = 'orm' WHERE id = 2 AND xmin::text::bigint = :n RETURNING id;
WITH u AS (UPDATE t SET v = 'ret' WHERE id = 2 RETURNING xmin::text AS x) SELECT count(*) AS returned FROM u WHERE x <> :'n';
UPDATE t SET v = 'ret' WHERE id = 2 RETURNING xmin::text AS r \gset
SELECT xmin::text = :'r' AS returning_told FROM t WHERE id = 2;
INSERT INTO t VALUES (4, 'd', 4) RETURNING xmin::text AS r \gset
SELECT xmin::text = :'r' AS returning_told FROM t WHERE id = 4;
-- what was told stays true after other commits and VACUUM
DO $$ BEGIN FOR i IN 1..100 LOOP UPDATE t SET v = 'busy ' || i WHERE id = 3; COMMIT; END LOOP; END $$;
VACUUM t;
VACUUM FREEZE seen;
SELECT xmin::text = :'r' AS still_told FROM t WHERE id = 4;
UPDATE t SET v = 'told' WHERE id = 4 AND xmin = :'r' RETURNING id;

-- own uncommitted rows have this transaction's id
BEGIN;
INSERT INTO t VALUES (5, 'e', 5);
UPDATE t SET v = 'mine' WHERE id = 4;
SELECT id, xmin = pg_current_xact_id()::xid AS mine FROM t ORDER BY id;
SELECT id, xmin = pg_current_xact_id()::xid AS mine FROM t WHERE id >= 4 ORDER BY id;
ROLLBACK;
BEGIN;
SELECT pg_current_xact_id_if_assigned() IS NULL AS none;
SELECT count(*) FROM t WHERE xmin = pg_current_xact_id()::xid;
INSERT INTO t VALUES (5, 'e', 5);
SELECT count(*) FROM t WHERE xmin = pg_current_xact_id()::xid;
COMMIT;
SELECT id FROM t WHERE xmin = pg_current_xact_id()::xid;

-- cmin grows with the commands of a transaction
BEGIN;
INSERT INTO t VALUES (6, 'f', 6);
INSERT INTO t VALUES (7, 'g', 7), (8, 'h', 8);
SELECT a.cmin::text::int < b.cmin::text::int AS grows, b.cmin = c.cmin AS same FROM t a, t b, t c WHERE a.id = 6 AND b.id = 7 AND c.id = 8;
ROLLBACK;

-- xmax: zero for an inserted row, not zero where an upsert updated
INSERT INTO t VALUES (1, 'ups', 1), (9, 'ups', 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING id, xmax = 0 AS inserted;
INSERT INTO t VALUES (9, 'ups2', 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v, x = 99 RETURNING id, xmax = 0 AS inserted;
INSERT INTO t VALUES (10, 'ups', 9) ON CONFLICT (id) DO NOTHING RETURNING id, xmax = 0 AS inserted;
SELECT id, xmax = 0 AS unlocked FROM t WHERE id IN (2, 10) ORDER BY id;
-- that of a deleted row is who deleted it, also where nothing else calls for an xid
CREATE TABLE plain (id int, v text);
INSERT INTO plain VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
DELETE FROM plain WHERE id = 1 RETURNING id, xmax = 0 AS zero, xmax = pg_current_xact_id()::xid AS mine;
BEGIN;
DELETE FROM t WHERE id = 9 RETURNING id, xmax = pg_current_xact_id()::xid AS mine;
UPDATE plain SET v = 'bb' WHERE id = 2;
WITH d AS (DELETE FROM plain WHERE id < 4 RETURNING id, v, xmax = pg_current_xact_id()::xid AS mine) SELECT * FROM d ORDER BY id;
ROLLBACK;
SELECT id, v, xmax = 0 AS unlocked FROM plain WHERE id = 4;

-- ctid: select then change by it in one transaction
BEGIN;
SELECT ctid AS c FROM t WHERE id = 2 \gset
UPDATE t SET v = 'by ctid' WHERE ctid = :'c' RETURNING id, v;
SELECT ctid AS c FROM t WHERE id = 2 \gset
SELECT id, v FROM t WHERE ctid = :'c';
UPDATE t SET x = 22 WHERE ctid = :'c' RETURNING id, x;
SELECT ctid AS c FROM t WHERE id = 2 \gset
SAVEPOINT s;
DELETE FROM t WHERE ctid = :'c' RETURNING id;
SELECT count(*) FROM t WHERE ctid = :'c';
ROLLBACK TO s;
SELECT id, v, x FROM t WHERE ctid = :'c';
COMMIT;
BEGIN;
INSERT INTO t VALUES (20, 'ret', 20) RETURNING ctid AS c \gset
SELECT id FROM t WHERE ctid = :'c';
UPDATE t SET v = 'ret2' WHERE ctid = :'c' RETURNING ctid AS c \gset
SELECT id, v FROM t WHERE ctid = :'c';
UPDATE t SET x = 21 WHERE ctid = :'c' RETURNING ctid AS c \gset
SELECT id, v, x FROM t WHERE ctid = :'c';
COMMIT;
SELECT id, v, x FROM t WHERE ctid = :'c';
SELECT ctid AS c FROM t WHERE id = 20 \gset
DELETE FROM t WHERE id = 20 RETURNING ctid = :'c' AS same_ctid;
SELECT count(*) FROM t WHERE ctid = :'c';
DO $$ DECLARE c tid; r record; BEGIN
	FOR r IN SELECT ctid, * FROM t ORDER BY id LOOP
		UPDATE t SET v = 'loop ' || r.id WHERE ctid = r.ctid;
		IF NOT FOUND THEN RAISE NOTICE 'row % not found', r.id; END IF;
	END LOOP;
END $$;
SELECT id, v FROM t ORDER BY id;
WITH c AS (SELECT ctid FROM t WHERE id < 4 ORDER BY id FOR UPDATE) UPDATE t SET v = 'queue' FROM c WHERE t.ctid = c.ctid;
SELECT count(*) FROM t WHERE v = 'queue';
DELETE FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t ORDER BY id DESC LIMIT 2 FOR UPDATE SKIP LOCKED));
SELECT id FROM t ORDER BY id;

-- partitions, joins and errors
CREATE TABLE p (a int) PARTITION BY LIST (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) USING heap;
INSERT INTO p VALUES (1), (2) RETURNING tableoid::regclass, a;
UPDATE p SET a = 3 - a RETURNING tableoid::regclass, a;
SELECT tableoid::regclass, a FROM p WHERE tableoid = 'p1'::regclass;
DELETE FROM p RETURNING tableoid::regclass, a;
UPDATE t SET ctid = '(0,1)';
UPDATE t SET xmin = 1;
INSERT INTO t (id, xmin) VALUES (1, 1);
CREATE INDEX ON t (xmin);
CREATE INDEX ON t (tableoid);
CREATE TABLE bad (xmin int);
ALTER TABLE t ADD ctid tid;
SELECT xmin FROM (SELECT * FROM t) s;
SELECT s.c FROM (SELECT ctid IS NOT NULL AS c FROM t WHERE id = 2) s;
SELECT count(*) FROM t GROUP BY tableoid HAVING count(*) > 1;
CREATE VIEW tv AS SELECT tableoid::regclass AS rel, xmin IS NULL AS no_xmin, * FROM t;
SELECT rel, no_xmin, id FROM tv ORDER BY id LIMIT 1;
ALTER TABLE t ADD CHECK (tableoid IS NOT NULL);
CREATE FUNCTION oid_of(t) RETURNS regclass LANGUAGE sql AS 'SELECT $1.tableoid::regclass';
CREATE FUNCTION own_oid() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE '% %', TG_RELID::regclass, NEW.tableoid = TG_RELID; RETURN NULL; END $$;
CREATE TRIGGER o AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION own_oid();
UPDATE t SET x = 0 WHERE id = 2;

SET client_min_messages = warning;
DROP SCHEMA t_sysattr CASCADE;
