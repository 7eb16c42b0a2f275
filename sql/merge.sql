-- MERGE: all actions and conditions, row counts, triggers, double matches,
-- partitioned targets, and MERGE inside transactions that changed the rows.
CREATE SCHEMA t_merge;
SET search_path = t_merge;
SET jit = off;

CREATE TABLE tgt (id int PRIMARY KEY, bal int, note text);
CREATE TABLE src (id int, delta int);
CREATE INDEX tgt_bal ON tgt (bal);
INSERT INTO tgt SELECT g, g * 10, 'n' || g FROM generate_series(1, 6) g;
INSERT INTO src VALUES (2, 5), (4, -40), (5, 1), (8, 80), (9, NULL);

BEGIN;
MERGE INTO tgt t USING src s ON t.id = s.id
	WHEN MATCHED AND t.bal + s.delta = 0 THEN DELETE
	WHEN MATCHED THEN UPDATE SET bal = t.bal + s.delta, note = note || '+'
	WHEN NOT MATCHED AND s.delta IS NULL THEN DO NOTHING
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.delta, 'new');
SELECT * FROM tgt ORDER BY id;
-- a second MERGE in the same transaction sees the first one's rows
MERGE INTO tgt t USING src s ON t.id = s.id
	WHEN MATCHED THEN UPDATE SET bal = -t.bal
	WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.id, 'second');
SELECT * FROM tgt ORDER BY id;
SELECT id FROM tgt WHERE bal = -80;
ROLLBACK;
SELECT * FROM tgt ORDER BY id;

-- only one kind of action
MERGE INTO tgt t USING src s ON t.id = s.id WHEN MATCHED THEN DO NOTHING;
MERGE INTO tgt t USING src s ON t.id = s.id WHEN NOT MATCHED THEN DO NOTHING;
MERGE INTO tgt t USING src s ON false WHEN MATCHED THEN DELETE;
MERGE INTO tgt t USING (VALUES (7), (8)) s (id) ON t.id = s.id WHEN NOT MATCHED THEN INSERT DEFAULT VALUES;
MERGE INTO tgt t USING (VALUES (7), (8)) s (id) ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (id);
MERGE INTO tgt t USING (VALUES (7), (8)) s (id) ON t.id = s.id WHEN MATCHED THEN DELETE;
SELECT count(*) FROM tgt;

-- conditions on target, source, both, and subqueries; first that holds wins
BEGIN;
MERGE INTO tgt t USING src s ON t.id = s.id
	WHEN MATCHED AND t.id > (SELECT avg(id) FROM tgt) THEN UPDATE SET note = 'upper'
	WHEN MATCHED AND s.delta > 0 THEN UPDATE SET note = 'lower'
	WHEN MATCHED THEN DELETE
	WHEN NOT MATCHED AND s.id = 8 THEN INSERT (id, note) VALUES (8, (SELECT string_agg(x.note, ',' ORDER BY x.id) FROM tgt x));
SELECT * FROM tgt ORDER BY id;
ROLLBACK;

-- UPDATE of the key, of an indexed column, whole row by sub-select
BEGIN;
MERGE INTO tgt t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = t.id + 100, bal = 0;
SELECT * FROM tgt ORDER BY id;
MERGE INTO tgt t USING tgt s ON t.id = s.id WHEN MATCHED THEN UPDATE SET (bal, note) = (s.bal + 1, 'self');
SELECT id, bal, note FROM tgt ORDER BY id;
SELECT count(*) FROM tgt WHERE bal = 1;
ROLLBACK;

-- several source rows for one target row
MERGE INTO tgt t USING (VALUES (2), (2)) s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET bal = 0;
MERGE INTO tgt t USING (VALUES (2), (2)) s (id) ON t.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO tgt t USING (VALUES (2, 1), (2, 2)) s (id, o) ON t.id = s.id
	WHEN MATCHED AND o = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET bal = 1;
MERGE INTO tgt t USING (VALUES (11), (11)) s (id) ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0);
MERGE INTO tgt t USING (VALUES (2), (2)) s (id) ON t.id = s.id WHEN MATCHED THEN DO NOTHING;
SELECT * FROM tgt ORDER BY id;
-- errors of the actions
MERGE INTO tgt t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1, 1);
MERGE INTO tgt t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 1;
MERGE INTO tgt t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (NULL, 1);
MERGE INTO tgt t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET bal = 1 / (t.id - 4);
SELECT count(*), sum(bal) FROM tgt;

-- in a transaction that changed the rows before, with savepoints
BEGIN;
UPDATE tgt SET note = 'before' WHERE id IN (2, 4);
DELETE FROM tgt WHERE id = 5;
INSERT INTO tgt VALUES (8, 0, 'before');
SAVEPOINT s;
MERGE INTO tgt t USING src s ON t.id = s.id
	WHEN MATCHED THEN UPDATE SET bal = coalesce(s.delta, 0)
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.delta, 'merged');
SELECT * FROM tgt ORDER BY id;
ROLLBACK TO s;
SELECT * FROM tgt ORDER BY id;
MERGE INTO tgt t USING src s ON t.id = s.id WHEN MATCHED THEN DELETE;
SELECT * FROM tgt ORDER BY id;
COMMIT;
SELECT count(*), sum(bal) FROM tgt;

-- triggers fire per action
SET enable_hashjoin = off; -- rows come in the order of id
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_LEVEL = 'STATEMENT' THEN
		RAISE NOTICE '% % statement', TG_WHEN, TG_OP;
		RETURN NULL;
	END IF;
	RAISE NOTICE '% % row old=% new=%', TG_WHEN, TG_OP,
		CASE WHEN TG_OP <> 'INSERT' THEN OLD::text END, CASE WHEN TG_OP <> 'DELETE' THEN NEW::text END;
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
TRUNCATE tgt;
INSERT INTO tgt SELECT g, g * 10, 'n' || g FROM generate_series(1, 5) g;
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON tgt FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON tgt FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER bs BEFORE INSERT OR UPDATE OR DELETE ON tgt EXECUTE FUNCTION tell();
CREATE TRIGGER az AFTER INSERT OR UPDATE OR DELETE ON tgt EXECUTE FUNCTION tell();
BEGIN;
MERGE INTO tgt t USING (SELECT * FROM src ORDER BY id) s ON t.id = s.id
	WHEN MATCHED AND s.delta < 0 THEN DELETE
	WHEN MATCHED AND s.id = 2 THEN UPDATE SET bal = t.bal + s.delta
	WHEN NOT MATCHED AND s.id = 8 THEN INSERT VALUES (s.id, s.delta, 'new');
MERGE INTO tgt t USING (VALUES (2)) s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = 'again';
ROLLBACK;
DROP TRIGGER b ON tgt; DROP TRIGGER a ON tgt; DROP TRIGGER bs ON tgt; DROP TRIGGER az ON tgt;

-- a trigger that suppresses the action
CREATE FUNCTION nope() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER n BEFORE UPDATE OR DELETE ON tgt FOR EACH ROW EXECUTE FUNCTION nope();
MERGE INTO tgt t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET bal = 0;
MERGE INTO tgt t USING src s ON t.id = s.id WHEN MATCHED THEN DELETE;
DROP TRIGGER n ON tgt;
SELECT * FROM tgt ORDER BY id;

-- generated and identity columns
CREATE TABLE gi (id int GENERATED ALWAYS AS IDENTITY, a int UNIQUE, b int GENERATED ALWAYS AS (a * 2) STORED);
MERGE INTO gi USING generate_series(1, 3) s (a) ON gi.a = s.a WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a);
MERGE INTO gi USING generate_series(2, 4) s (a) ON gi.a = s.a
	WHEN MATCHED THEN UPDATE SET a = gi.a * 100 WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a);
SELECT * FROM gi ORDER BY id;

-- partitioned target, rows that move
CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (v text, id int);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
INSERT INTO p SELECT g, 'p' || g FROM generate_series(5, 14) g;
MERGE INTO p USING generate_series(3, 12) s (id) ON p.id = s.id
	WHEN MATCHED AND p.id = 6 THEN DELETE
	WHEN MATCHED AND p.id < 10 THEN UPDATE SET id = p.id + 10, v = v || ' up'
	WHEN MATCHED THEN UPDATE SET id = p.id - 10, v = v || ' down'
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'ins');
SELECT tableoid::regclass, id, v FROM p ORDER BY id, v;
MERGE INTO p USING (VALUES (3), (25)) s (id) ON p.id = s.id
	WHEN MATCHED THEN UPDATE SET id = 99 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'none');

-- counts through plpgsql
DO $$
DECLARE n int;
BEGIN
	MERGE INTO tgt t USING src s ON t.id = s.id
		WHEN MATCHED AND s.id = 2 THEN DO NOTHING
		WHEN MATCHED THEN UPDATE SET bal = 0
		WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1);
	GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'merged %', n;
END $$;
SELECT * FROM tgt ORDER BY id;

SET client_min_messages = warning;
DROP SCHEMA t_merge CASCADE;
