-- INSERT ... ON CONFLICT: DO NOTHING and DO UPDATE, arbiters (unique, partial,
-- expression, INCLUDE, named, exclusion), rows that collide with each other at
-- every isolation level, partitioned targets, and use after TRUNCATE.
CREATE SCHEMA t_onconflict;
SET search_path = t_onconflict;
SET jit = off;

CREATE TABLE u (id int PRIMARY KEY, v text, n int DEFAULT 0);
INSERT INTO u VALUES (1, 'one') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO u VALUES (1, 'uno') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO u VALUES (1, 'uno'), (2, 'two'), (2, 'due') ON CONFLICT (id) DO NOTHING RETURNING *;
INSERT INTO u VALUES (1, 'uno'), (3, 'three') ON CONFLICT (id) DO UPDATE SET v = excluded.v, n = u.n + 1 RETURNING *;
INSERT INTO u VALUES (1, 'no') ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE u.n > 5 RETURNING *;
INSERT INTO u VALUES (1, 'key') ON CONFLICT ON CONSTRAINT u_pkey DO UPDATE SET id = 11, v = u.v || excluded.v RETURNING *;
INSERT INTO u VALUES (1, 'free again') ON CONFLICT (id) DO UPDATE SET v = 'wrong' RETURNING *;
INSERT INTO u VALUES (2, 'x') ON CONFLICT (id) DO UPDATE SET id = 3;
INSERT INTO u VALUES (4, 'a'), (4, 'b') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO u VALUES (2, 'a'), (2, 'b') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO u VALUES (2, 'x') ON CONFLICT (v) DO NOTHING;
INSERT INTO u VALUES (2, 'x') ON CONFLICT DO UPDATE SET v = 'x';
INSERT INTO u VALUES (2, 'x') ON CONFLICT (id) DO UPDATE SET (v, n) = (SELECT 'sub' || u.id, excluded.id * 100) RETURNING *;
SELECT * FROM u ORDER BY id;

-- every row of the statement is the same at all isolation levels
SET client_min_messages = error;
TRUNCATE u;
INSERT INTO u VALUES (1), (1) ON CONFLICT DO NOTHING;
BEGIN ISOLATION LEVEL READ COMMITTED;
INSERT INTO u VALUES (2), (2) ON CONFLICT DO NOTHING;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO u VALUES (3), (3) ON CONFLICT DO NOTHING;
INSERT INTO u VALUES (1), (3), (3) ON CONFLICT (id) DO NOTHING;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO u VALUES (4), (4) ON CONFLICT DO NOTHING;
INSERT INTO u VALUES (4), (5), (5) ON CONFLICT (id) DO NOTHING RETURNING id;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO u VALUES (6), (6) ON CONFLICT (id) DO UPDATE SET n = 1;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO u VALUES (6), (6) ON CONFLICT (id) DO UPDATE SET n = 1;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO u VALUES (6, 'r') ON CONFLICT (id) DO UPDATE SET n = u.n + 1;
INSERT INTO u VALUES (6, 'r') ON CONFLICT (id) DO UPDATE SET n = u.n + 1;
INSERT INTO u VALUES (6, 'r') ON CONFLICT (id) DO UPDATE SET n = u.n + 1 RETURNING *;
COMMIT;
RESET client_min_messages;
SELECT id, n FROM u ORDER BY id;

-- own changes earlier in the transaction, savepoints, a deleted key
BEGIN;
DELETE FROM u WHERE id = 1;
INSERT INTO u VALUES (1, 'after delete') ON CONFLICT (id) DO UPDATE SET v = 'wrong' RETURNING *;
INSERT INTO u VALUES (1, 'second') ON CONFLICT (id) DO UPDATE SET v = u.v || ', ' || excluded.v RETURNING *;
SAVEPOINT s;
INSERT INTO u VALUES (1, 'third') ON CONFLICT (id) DO UPDATE SET v = u.v || ', ' || excluded.v RETURNING *;
INSERT INTO u VALUES (20, 'in savepoint') ON CONFLICT (id) DO NOTHING RETURNING *;
ROLLBACK TO s;
INSERT INTO u VALUES (20, 'after rollback') ON CONFLICT (id) DO NOTHING RETURNING *;
INSERT INTO u VALUES (1, 'fourth') ON CONFLICT (id) DO UPDATE SET v = u.v || ', ' || excluded.v RETURNING *;
ROLLBACK;
SELECT count(*), min(id), max(id) FROM u;
INSERT INTO u VALUES (20, 'free') ON CONFLICT (id) DO NOTHING RETURNING *;

-- two unique keys, the other one is violated
CREATE TABLE two (a int UNIQUE, b int UNIQUE, c text);
INSERT INTO two VALUES (1, 1, 'x'), (2, 2, 'y');
INSERT INTO two VALUES (1, 2, 'z') ON CONFLICT DO NOTHING;
INSERT INTO two VALUES (3, 2, 'z') ON CONFLICT (a) DO NOTHING;
INSERT INTO two VALUES (3, 2, 'z') ON CONFLICT (b) DO UPDATE SET a = excluded.a, c = excluded.c RETURNING *;
INSERT INTO two VALUES (1, 9, 'q') ON CONFLICT (a) DO UPDATE SET b = 2;
INSERT INTO two VALUES (NULL, NULL, 'n'), (NULL, NULL, 'm') ON CONFLICT DO NOTHING RETURNING *;
SELECT * FROM two ORDER BY a, c;

-- INCLUDE columns, partial, expression, multi-column arbiters
CREATE TABLE inc (a int, b int, c int);
CREATE UNIQUE INDEX inc_a ON inc (a) INCLUDE (b);
INSERT INTO inc VALUES (1, 1, 1), (1, 2, 2), (2, 1, 1) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO inc VALUES (1, 5, 5) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *;
INSERT INTO inc VALUES (1, 6, 6) ON CONFLICT (a) DO UPDATE SET c = excluded.c RETURNING *;
INSERT INTO inc VALUES (1, 6, 6) ON CONFLICT (a, b) DO NOTHING;
SET enable_seqscan = off;
SELECT a, b FROM inc WHERE a = 1;
RESET enable_seqscan;
CREATE TABLE part (k text, live bool, n int DEFAULT 1);
CREATE UNIQUE INDEX part_u ON part (lower(k)) WHERE live;
INSERT INTO part VALUES ('Ab', true), ('aB', false), ('AB', false);
INSERT INTO part VALUES ('ab', true) ON CONFLICT (lower(k)) WHERE live DO UPDATE SET n = part.n + 1 RETURNING *;
INSERT INTO part VALUES ('ab', false) ON CONFLICT (lower(k)) WHERE live DO UPDATE SET n = part.n + 1 RETURNING *;
INSERT INTO part VALUES ('ab', true) ON CONFLICT (lower(k)) DO NOTHING;
INSERT INTO part VALUES ('ab', true) ON CONFLICT DO NOTHING;
UPDATE part SET live = true WHERE k = 'aB';
INSERT INTO part VALUES ('AB', true) ON CONFLICT (lower(k)) WHERE live DO UPDATE SET live = false RETURNING *;
INSERT INTO part VALUES ('AB', true, 50) ON CONFLICT (lower(k)) WHERE live DO NOTHING RETURNING *;
SELECT * FROM part ORDER BY k COLLATE "C", live, n;
CREATE TABLE mc (a int, b text, c int, PRIMARY KEY (b, a));
INSERT INTO mc SELECT g % 3, 'k' || g % 2, g FROM generate_series(1, 12) g ON CONFLICT (a, b) DO NOTHING;
INSERT INTO mc SELECT g, 'k' || g % 2, 100 FROM generate_series(0, 3) g ON CONFLICT (b, a) DO UPDATE SET c = mc.c + excluded.c;
SELECT * FROM mc ORDER BY a, b;

-- exclusion constraint as arbiter; deferrable ones cannot be
CREATE TABLE ex (r int4range, EXCLUDE USING gist (r WITH &&));
INSERT INTO ex VALUES ('[1,5)'), ('[4,6)'), ('[5,6)') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO ex VALUES ('[4,6)') ON CONFLICT ON CONSTRAINT ex_r_excl DO NOTHING RETURNING *;
INSERT INTO ex VALUES ('[4,6)') ON CONFLICT ON CONSTRAINT ex_r_excl DO UPDATE SET r = excluded.r;
CREATE TABLE df (id int PRIMARY KEY DEFERRABLE);
INSERT INTO df VALUES (1) ON CONFLICT DO NOTHING;
INSERT INTO df VALUES (1) ON CONFLICT (id) DO NOTHING;

-- partitioned target: rows collide, move nowhere; TRUNCATE of the parent; count
CREATE TABLE pt (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10);
CREATE TABLE pt2 (v int, id int NOT NULL);
ALTER TABLE pt ATTACH PARTITION pt2 FOR VALUES FROM (10) TO (20);
INSERT INTO pt SELECT g, g FROM generate_series(5, 14) g ON CONFLICT DO NOTHING;
INSERT INTO pt SELECT g, 100 FROM generate_series(8, 17) g ON CONFLICT (id) DO UPDATE SET v = pt.v + excluded.v;
SELECT tableoid::regclass, * FROM pt ORDER BY id;
INSERT INTO pt VALUES (5, 0) ON CONFLICT (id) DO UPDATE SET id = 15;
INSERT INTO pt VALUES (5, 0) ON CONFLICT (id) DO UPDATE SET id = 18;
INSERT INTO pt VALUES (5, 0) ON CONFLICT (id) DO UPDATE SET id = 4 RETURNING *;
TRUNCATE pt;
SELECT count(*) FROM pt;
INSERT INTO pt SELECT g, 1 FROM generate_series(8, 11) g ON CONFLICT (id) DO UPDATE SET v = pt.v + 1;
INSERT INTO pt SELECT g, 1 FROM generate_series(8, 11) g ON CONFLICT (id) DO UPDATE SET v = pt.v + 1;
SELECT count(*), sum(v) FROM pt;
BEGIN;
TRUNCATE pt;
INSERT INTO pt VALUES (8, 1), (8, 2), (12, 1) ON CONFLICT DO NOTHING;
SELECT count(*), sum(v) FROM pt;
ROLLBACK;
SELECT count(*), sum(v) FROM pt;

-- triggers: which fire, and what the statement changes in the proposed row
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % old=% new=%', TG_WHEN, TG_OP, CASE WHEN TG_OP = 'UPDATE' THEN OLD::text END, NEW;
	IF TG_WHEN = 'BEFORE' AND TG_OP = 'INSERT' THEN NEW.v := NEW.v || '!'; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON u FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER a AFTER INSERT OR UPDATE ON u FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO u VALUES (1, 'trig'), (70, 'trig') ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING *;
INSERT INTO u VALUES (70, 'trig') ON CONFLICT (id) DO NOTHING RETURNING *;
INSERT INTO u VALUES (70, 'trig') ON CONFLICT (id) DO UPDATE SET v = 'no' WHERE false RETURNING *;
DROP TRIGGER a ON u; DROP TRIGGER b ON u;

-- the same key a thousand times; plpgsql's retry loop; a sequence in the statement
INSERT INTO u (id) SELECT 80 FROM generate_series(1, 1000) ON CONFLICT DO NOTHING;
DO $$ BEGIN FOR i IN 1..500 LOOP
	INSERT INTO u VALUES (81, 'loop', 1) ON CONFLICT (id) DO UPDATE SET n = u.n + 1;
END LOOP; END $$;
SELECT id, v, n FROM u WHERE id >= 80 ORDER BY id;
CREATE SEQUENCE sq CACHE 1;
INSERT INTO u SELECT nextval('sq'), 'sq' FROM generate_series(1, 5) ON CONFLICT (id) DO UPDATE SET v = 'hit ' || excluded.id;
SELECT id, v FROM u WHERE id <= 5 ORDER BY id;
WITH up AS (INSERT INTO u VALUES (81, 'w'), (82, 'w') ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING id, n)
SELECT up.id, up.n, u.v AS old_v FROM up LEFT JOIN u USING (id) ORDER BY id;

SET client_min_messages = warning;
DROP SCHEMA t_onconflict CASCADE;
