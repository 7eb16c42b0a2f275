-- Triggers: BEFORE and AFTER, ROW and STATEMENT, OLD and NEW of the second and
-- third change of one row in one transaction (with savepoints), transition
-- tables, WHEN, UPDATE OF, INSTEAD OF, deferred constraint triggers, triggers
-- that change the row being changed or other rows.
CREATE SCHEMA t_triggers;
SET search_path = t_triggers;

CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % % old=% new=%', TG_NAME, TG_WHEN, TG_OP,
		CASE WHEN TG_OP <> 'INSERT' THEN OLD::text END, CASE WHEN TG_OP <> 'DELETE' THEN NEW::text END;
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TABLE t (id int PRIMARY KEY, x int, v text);
CREATE INDEX t_x ON t (x);
CREATE TRIGGER bef BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER aft AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');

-- the same row changed several times: OLD and NEW are always the neighbours
BEGIN;
UPDATE t SET v = 'a2' WHERE id = 1;
UPDATE t SET v = 'a3' WHERE id = 1;
UPDATE t SET x = 10 WHERE id = 1;
SAVEPOINT s;
UPDATE t SET v = 'a4' WHERE id = 1;
DELETE FROM t WHERE id = 1;
ROLLBACK TO s;
UPDATE t SET v = 'a5' WHERE id = 1;
DELETE FROM t WHERE id = 1;
INSERT INTO t VALUES (1, 11, 'a6');
UPDATE t SET v = 'a7' WHERE id = 1;
COMMIT;
SELECT * FROM t ORDER BY id;
-- all AFTER triggers together at the end of one statement that changes many
-- rows, and of one function that changes one row many times
CREATE FUNCTION thrice() RETURNS void LANGUAGE sql AS $$
	UPDATE t SET v = 's1' WHERE id = 2;
	UPDATE t SET v = 's2' WHERE id = 2;
	UPDATE t SET x = 20 WHERE id = 2;
$$;
SELECT thrice();
WITH a AS (UPDATE t SET v = 'cte' WHERE id = 1), b AS (UPDATE t SET x = 21, v = 'cte' WHERE id = 2) SELECT 1 AS one;

-- deferred constraint triggers see each change with its own OLD and NEW
CREATE TABLE d (id int PRIMARY KEY, x int, v text);
CREATE CONSTRAINT TRIGGER def AFTER INSERT OR UPDATE OR DELETE ON d DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION tell();
CREATE INDEX d_x ON d (x);
BEGIN;
INSERT INTO d VALUES (1, 1, 'ins');
UPDATE d SET v = 'u1' WHERE id = 1;
UPDATE d SET v = 'u2' WHERE id = 1;
SAVEPOINT s;
UPDATE d SET v = 'undone' WHERE id = 1;
ROLLBACK TO s;
UPDATE d SET x = 2 WHERE id = 1;
UPDATE d SET v = 'u3' WHERE id = 1;
COMMIT;
BEGIN;
UPDATE d SET v = 'imm' WHERE id = 1;
SET CONSTRAINTS def IMMEDIATE;
UPDATE d SET v = 'imm2' WHERE id = 1;
SET CONSTRAINTS ALL DEFERRED;
DELETE FROM d WHERE id = 1;
INSERT INTO d VALUES (1, 5, 'new life');
COMMIT;
BEGIN;
INSERT INTO d VALUES (2, 2, 'gone');
DELETE FROM d WHERE id = 2;
COMMIT;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF NEW.x < 0 THEN RAISE EXCEPTION 'negative x in row %', NEW; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER zref AFTER INSERT OR UPDATE ON d DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
BEGIN;
UPDATE d SET x = -1 WHERE id = 1;
UPDATE d SET v = 'other column' WHERE id = 1;
COMMIT;
SELECT * FROM d;
DROP TABLE d;

-- BEFORE triggers change, suppress and refuse rows; UPDATE OF and WHEN
CREATE TABLE b (id int PRIMARY KEY, x int, v text, seen text DEFAULT '');
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.seen := NEW.seen || TG_NAME || ' ';
	IF NEW.v = 'skip' THEN RETURN NULL; END IF;
	IF NEW.v = 'key' THEN NEW.id := NEW.id + 100; END IF;
	IF NEW.v = 'bad' THEN RAISE EXCEPTION 'bad row' USING DETAIL = NEW::text; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER any_col BEFORE INSERT OR UPDATE ON b FOR EACH ROW EXECUTE FUNCTION change();
CREATE TRIGGER of_x BEFORE UPDATE OF x ON b FOR EACH ROW EXECUTE FUNCTION change();
CREATE TRIGGER when_new BEFORE UPDATE ON b FOR EACH ROW WHEN (NEW.x > 10 AND OLD.x IS DISTINCT FROM NEW.x) EXECUTE FUNCTION change();
INSERT INTO b VALUES (1, 1, 'a'), (2, 2, 'skip'), (3, 3, 'key'), (4, 4, 'd') RETURNING *;
INSERT INTO b VALUES (5, 5, 'e'), (6, 6, 'bad');
UPDATE b SET v = 'a2' WHERE id = 1 RETURNING *;
UPDATE b SET x = 11 WHERE id = 1 RETURNING *;
UPDATE b SET v = 'skip' WHERE id = 1 RETURNING *;
UPDATE b SET v = 'key' WHERE id = 4 RETURNING *;
SELECT * FROM b ORDER BY id;
DROP TABLE b;

-- a trigger that changes the row being changed
CREATE TABLE self (id int PRIMARY KEY, x int, v text);
INSERT INTO self VALUES (1, 0, 'a'), (2, 0, 'b');
CREATE FUNCTION touch_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() = 1 THEN
		UPDATE self SET x = x + 1 WHERE id = OLD.id;
	END IF;
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER bef BEFORE UPDATE OR DELETE ON self FOR EACH ROW EXECUTE FUNCTION touch_self();
UPDATE self SET v = 'x' WHERE id = 1;
DELETE FROM self WHERE id = 1;
UPDATE self SET id = 10 WHERE id = 1;
DROP TRIGGER bef ON self;
CREATE TRIGGER aft AFTER UPDATE ON self FOR EACH ROW EXECUTE FUNCTION touch_self();
UPDATE self SET v = 'after' RETURNING *;
SELECT * FROM self ORDER BY id;
DROP TRIGGER aft ON self;
CREATE FUNCTION drop_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN DELETE FROM self WHERE id = OLD.id; RETURN NEW; END $$;
CREATE TRIGGER bef BEFORE UPDATE ON self FOR EACH ROW EXECUTE FUNCTION drop_self();
UPDATE self SET v = 'y';
DROP TRIGGER bef ON self;
CREATE TRIGGER aft AFTER UPDATE ON self FOR EACH ROW EXECUTE FUNCTION drop_self();
UPDATE self SET v = 'y' WHERE id = 1;
SELECT * FROM self ORDER BY id;
DROP TABLE self;

-- a trigger that changes other rows of its table, and another table
CREATE TABLE tree (id int PRIMARY KEY, parent int, n int DEFAULT 0);
CREATE TABLE audit (n bigserial, what text);
CREATE FUNCTION count_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE tree SET n = n + CASE TG_OP WHEN 'INSERT' THEN 1 ELSE NEW.n - OLD.n END WHERE id = NEW.parent;
	INSERT INTO audit (what) VALUES (format('%s %s n=%s', TG_OP, NEW.id, NEW.n));
	RETURN NULL;
END $$;
CREATE TRIGGER cu AFTER INSERT OR UPDATE OF n ON tree FOR EACH ROW EXECUTE FUNCTION count_up();
INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, 3);
SELECT * FROM tree ORDER BY id;
BEGIN;
INSERT INTO tree VALUES (6, 5);
ROLLBACK;
INSERT INTO tree VALUES (7, 2);
SELECT * FROM tree ORDER BY id;
SELECT row_number() OVER (ORDER BY n), what FROM audit ORDER BY n;
DROP TABLE tree, audit;

-- transition tables
CREATE TABLE tt (id int PRIMARY KEY, x int, v text);
CREATE INDEX tt_x ON tt (x);
CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE was text; now text;
BEGIN
	IF TG_OP <> 'INSERT' THEN was := (SELECT string_agg(o::text, ' ' ORDER BY o.id) FROM o); END IF;
	IF TG_OP <> 'DELETE' THEN now := (SELECT string_agg(n::text, ' ' ORDER BY n.id) FROM n); END IF;
	RAISE NOTICE '% %: old % new %', TG_LEVEL, TG_OP, was, now;
	RETURN NULL;
END $$;
CREATE TRIGGER i AFTER INSERT ON tt REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION changed();
CREATE TRIGGER u AFTER UPDATE ON tt REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION changed();
CREATE TRIGGER d AFTER DELETE ON tt REFERENCING OLD TABLE AS o FOR EACH STATEMENT EXECUTE FUNCTION changed();
INSERT INTO tt SELECT g, g, 'v' || g FROM generate_series(1, 3) g;
BEGIN;
UPDATE tt SET v = v || '+' WHERE id <= 2;
UPDATE tt SET v = v || '*' WHERE id <= 2;
UPDATE tt SET x = x * 10;
SAVEPOINT s;
UPDATE tt SET x = x + 1, v = 'undone';
DELETE FROM tt WHERE id = 1;
ROLLBACK TO s;
UPDATE tt SET x = x + 2;
DELETE FROM tt WHERE id = 2;
INSERT INTO tt VALUES (2, 0, 'back'), (3, 0, 'upsert') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
UPDATE tt SET v = 'none' WHERE false;
COMMIT;
MERGE INTO tt USING generate_series(2, 4) s (id) ON tt.id = s.id
	WHEN MATCHED AND s.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET x = -1
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, 4, 'merged');
CREATE TRIGGER ur AFTER UPDATE ON tt REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH ROW EXECUTE FUNCTION changed();
UPDATE tt SET v = 'row level' WHERE id = 4;
DELETE FROM tt;
COPY tt FROM stdin;
10	1	copied
11	2	copied
\.
DROP TABLE tt;
-- on partitions and inherited tables
CREATE TABLE pp (id int, v text) PARTITION BY LIST (id);
CREATE TABLE pp1 PARTITION OF pp FOR VALUES IN (1);
CREATE TABLE pp2 (v text, id int);
ALTER TABLE pp ATTACH PARTITION pp2 FOR VALUES IN (2);
CREATE TRIGGER u AFTER UPDATE ON pp REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION changed();
CREATE TRIGGER i AFTER INSERT ON pp REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION changed();
-- the partitions have no triggers of their own
INSERT INTO pp VALUES (1, 'one'), (2, 'two');
UPDATE pp SET v = v || '?';
BEGIN;
UPDATE pp SET v = 'first' WHERE id = 1;
UPDATE pp SET v = v || ', then again';
COMMIT;
WITH u AS (UPDATE pp SET v = 'in a query' RETURNING id) SELECT count(*) FROM u;
DELETE FROM pp;
CREATE TRIGGER aft AFTER INSERT OR UPDATE OR DELETE ON pp FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO pp VALUES (1, 'one'), (2, 'two');
UPDATE pp SET v = v || '!';
UPDATE pp SET id = 2, v = 'moved' WHERE id = 1;
DROP TABLE pp;

-- INSTEAD OF on a view; a sequence in a trigger; statement triggers without rows
CREATE VIEW tv AS SELECT id, v FROM t;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN DELETE FROM t WHERE id = OLD.id; RETURN OLD; END IF;
	IF TG_OP = 'UPDATE' THEN UPDATE t SET v = NEW.v || ' via view' WHERE id = OLD.id; RETURN NEW; END IF;
	INSERT INTO t VALUES (NEW.id, 0, NEW.v); RETURN NEW;
END $$;
CREATE TRIGGER io INSTEAD OF INSERT OR UPDATE OR DELETE ON tv FOR EACH ROW EXECUTE FUNCTION instead();
DROP TRIGGER bef ON t; DROP TRIGGER aft ON t;
INSERT INTO tv VALUES (30, 'view') RETURNING *;
UPDATE tv SET v = 'upd' WHERE id IN (1, 30);
DELETE FROM tv WHERE id = 2 RETURNING *;
SELECT * FROM t ORDER BY id;
CREATE SEQUENCE sq CACHE 1;
CREATE FUNCTION number() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.x := nextval(''sq''); RETURN NEW; END';
CREATE TRIGGER num BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION number();
INSERT INTO t (id, v) SELECT g, currval('sq')::text FROM generate_series(40, 42) g WHERE nextval('sq') > 0;
SELECT id, x FROM t WHERE id >= 40 ORDER BY id;
SELECT id, v FROM t WHERE x = (SELECT x FROM t WHERE id = 41);
ALTER TABLE t DISABLE TRIGGER num;
UPDATE t SET v = 'quiet' WHERE id = 40 RETURNING x = 2 AS unchanged;

SET client_min_messages = warning;
DROP SCHEMA t_triggers CASCADE;
