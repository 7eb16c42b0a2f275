-- Row-level security, column privileges, updatable views with check options,
-- security barrier views, and rules.
CREATE SCHEMA t_rls;
SET search_path = t_rls;
CREATE ROLE regress_ts_a;
CREATE ROLE regress_ts_b;
GRANT USAGE ON SCHEMA t_rls TO regress_ts_a, regress_ts_b;

CREATE TABLE doc (id int PRIMARY KEY, owner name, body text, secret text DEFAULT 's', lvl int DEFAULT 1);
INSERT INTO doc VALUES (1, 'regress_ts_a', 'a1'), (2, 'regress_ts_b', 'b1'), (3, 'regress_ts_a', 'a2'), (4, 'regress_ts_b', 'b2');
ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON doc TO regress_ts_a, regress_ts_b;
SET ROLE regress_ts_a;
SELECT * FROM doc;
INSERT INTO doc VALUES (5, 'regress_ts_a', 'none allowed');
RESET ROLE;
CREATE POLICY own ON doc USING (owner = current_user) WITH CHECK (owner = current_user AND lvl < 10);
CREATE POLICY see_low ON doc FOR SELECT USING (id = 4);
CREATE POLICY cap ON doc AS RESTRICTIVE FOR DELETE USING (id <> 1);
SET ROLE regress_ts_a;
SELECT id, owner, body FROM doc ORDER BY id;
UPDATE doc SET body = body || '!' RETURNING id, body;
UPDATE doc SET owner = 'regress_ts_b' WHERE id = 1;
UPDATE doc SET lvl = 10 WHERE id = 1;
INSERT INTO doc VALUES (6, 'regress_ts_b', 'not mine');
INSERT INTO doc VALUES (6, 'regress_ts_a', 'mine') RETURNING id, body;
INSERT INTO doc VALUES (6, 'regress_ts_a', 'again') ON CONFLICT (id) DO UPDATE SET body = excluded.body RETURNING id, body;
INSERT INTO doc VALUES (2, 'regress_ts_a', 'again') ON CONFLICT (id) DO UPDATE SET body = excluded.body;
INSERT INTO doc VALUES (2, 'regress_ts_a', 'again') ON CONFLICT (id) DO NOTHING;
WITH d AS (DELETE FROM doc RETURNING id) SELECT * FROM d ORDER BY id;
SELECT id FROM doc WHERE id = 1 FOR UPDATE;
SELECT id FROM doc WHERE id = 4 FOR UPDATE;
MERGE INTO doc USING (VALUES (1), (2), (7)) s (id) ON doc.id = s.id
	WHEN MATCHED THEN UPDATE SET body = 'merged' WHEN NOT MATCHED AND s.id = 7 THEN INSERT VALUES (7, 'regress_ts_a', 'merged');

COPY (SELECT id, body FROM doc ORDER BY id) TO stdout;
COPY doc (id, owner, body) FROM stdin;
8	regress_ts_a	copied
\.
TRUNCATE doc;
RESET ROLE;
SELECT id, owner, body, lvl FROM doc ORDER BY id;
SET row_security = off;
SELECT count(*) FROM doc;
SET ROLE regress_ts_a;
SELECT count(*) FROM doc;
RESET ROLE;
RESET row_security;
ALTER TABLE doc FORCE ROW LEVEL SECURITY;
DROP POLICY own ON doc;
SET ROLE regress_ts_b;
SELECT id FROM doc;
RESET ROLE;
ALTER TABLE doc DISABLE ROW LEVEL SECURITY;
-- a policy with a sub-select on another table
CREATE TABLE grp (who name, lvl int);
INSERT INTO grp VALUES ('regress_ts_a', 1), ('regress_ts_b', 5);
UPDATE doc SET lvl = id;
GRANT SELECT ON grp TO regress_ts_a, regress_ts_b;
ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_lvl ON doc USING (lvl <= (SELECT g.lvl FROM grp g WHERE who = current_user));
SET ROLE regress_ts_b;
SELECT id FROM doc ORDER BY id;
WITH u AS (UPDATE doc SET body = 'by b' WHERE id > 1 RETURNING id) SELECT * FROM u ORDER BY id;
SET ROLE regress_ts_a;
SELECT id FROM doc ORDER BY id;
RESET ROLE;

-- column privileges
CREATE TABLE col (id int PRIMARY KEY, pub text, priv text);
INSERT INTO col VALUES (1, 'p', 'q'), (2, 'r', 's');
GRANT SELECT (id, pub), UPDATE (pub), INSERT (id, pub) ON col TO regress_ts_a;
SET ROLE regress_ts_a;
SELECT id, pub FROM col ORDER BY id;
SELECT * FROM col;
SELECT count(*) FROM col;
SELECT id FROM col WHERE priv = 'q';
UPDATE col SET pub = 'new' WHERE id = 1 RETURNING id, pub;
UPDATE col SET pub = priv WHERE id = 1;
UPDATE col SET priv = 'x';
UPDATE col SET pub = 'y' RETURNING priv;
INSERT INTO col (id, pub) VALUES (3, 'ins') RETURNING pub;
INSERT INTO col (id, priv) VALUES (4, 'ins');
INSERT INTO col (id, pub) VALUES (1, 'leak');
INSERT INTO col (id, pub) VALUES (3, 'ups') ON CONFLICT (id) DO UPDATE SET pub = excluded.pub RETURNING id, pub;
INSERT INTO col (id, pub) VALUES (3, 'ups') ON CONFLICT (id) DO UPDATE SET pub = col.priv;
DELETE FROM col WHERE id = 1;
SELECT ctid IS NULL FROM col;
RESET ROLE;
SELECT * FROM col ORDER BY id;

-- updatable views
CREATE TABLE base (id int PRIMARY KEY, v text, n int DEFAULT 5);
CREATE VIEW v1 AS SELECT id, v AS txt, n FROM base WHERE n > 0;
CREATE VIEW v2 AS SELECT id, txt, n * 2 AS dbl FROM v1 WHERE id < 100 WITH CASCADED CHECK OPTION;
CREATE VIEW v3 AS SELECT * FROM base WHERE n > 0 WITH LOCAL CHECK OPTION;
INSERT INTO v1 VALUES (1, 'one', 1), (2, 'two', -1);
INSERT INTO v1 (id, txt) VALUES (3, 'three') RETURNING *;
INSERT INTO v2 (id, txt) VALUES (4, 'four') RETURNING *;
INSERT INTO v2 (id, txt) VALUES (400, 'four');
INSERT INTO v2 VALUES (5, 'five', 1);
INSERT INTO v3 VALUES (6, 'six', 0);
UPDATE v1 SET n = n + 10, txt = upper(txt);
UPDATE v2 SET id = 100 WHERE id = 4;
WITH u AS (UPDATE v2 SET txt = txt || '2' WHERE id > 1 RETURNING id, txt) SELECT * FROM u ORDER BY id;
UPDATE v3 SET n = -1 WHERE id = 1;
UPDATE v1 SET n = -1 WHERE id = 1 RETURNING *;
SELECT * FROM base ORDER BY id;
DELETE FROM v1 WHERE id <= 3 RETURNING *;
INSERT INTO v1 VALUES (4, 'ups', 1) ON CONFLICT (id) DO UPDATE SET txt = excluded.txt RETURNING *;
UPDATE v1 SET txt = s.x FROM (VALUES (4, 'joined')) s (i, x) WHERE i = id RETURNING *;
SELECT * FROM v1 FOR UPDATE;
CREATE VIEW agg AS SELECT n, count(*) AS c FROM base GROUP BY n;
UPDATE agg SET c = 1;
DELETE FROM agg;
SELECT * FROM base ORDER BY id;
-- security barrier: the leaking function does not see hidden rows
CREATE FUNCTION leak(text) RETURNS bool COST 0.0001 LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''saw %'', $1; RETURN true; END';
CREATE VIEW sb WITH (security_barrier) AS SELECT * FROM base WHERE n > 0;
SELECT id FROM sb WHERE leak(v) ORDER BY id;
UPDATE sb SET n = n + 1 WHERE leak(v);
CREATE VIEW inv WITH (security_invoker) AS SELECT * FROM base;
GRANT SELECT ON inv, v1 TO regress_ts_a;
SET ROLE regress_ts_a;
SELECT * FROM inv;
SELECT * FROM v1;
RESET ROLE;

-- rules
CREATE TABLE r (id int PRIMARY KEY, v text);
CREATE TABLE r_log (op text, id int, v text);
CREATE RULE ins AS ON INSERT TO r DO ALSO INSERT INTO r_log VALUES ('ins', NEW.id, NEW.v);
CREATE RULE upd AS ON UPDATE TO r WHERE NEW.v <> OLD.v DO ALSO INSERT INTO r_log VALUES ('upd', OLD.id, OLD.v || '>' || NEW.v);
CREATE RULE del AS ON DELETE TO r WHERE OLD.id = 1 DO INSTEAD UPDATE r SET v = 'kept' WHERE id = OLD.id;
CREATE RULE noop AS ON DELETE TO r WHERE OLD.id = 2 DO INSTEAD NOTHING;
INSERT INTO r VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO r SELECT g, 'g' FROM generate_series(4, 5) g;
UPDATE r SET v = v || '2' WHERE id <> 3;
UPDATE r SET v = v;
DELETE FROM r;
SELECT * FROM r ORDER BY id;
SELECT op, id, v FROM r_log ORDER BY op, id, v COLLATE "C";
CREATE VIEW rv AS SELECT id, v FROM r;
CREATE RULE rvi AS ON INSERT TO rv DO INSTEAD INSERT INTO r VALUES (NEW.id, 'rv ' || NEW.v) RETURNING *;
CREATE RULE rvu AS ON UPDATE TO rv DO INSTEAD (DELETE FROM r_log WHERE id = OLD.id; UPDATE r SET v = NEW.v WHERE id = OLD.id RETURNING *);
CREATE RULE rvd AS ON DELETE TO rv DO INSTEAD NOTHING;
INSERT INTO rv VALUES (10, 'x') RETURNING *;
BEGIN;
UPDATE rv SET v = 'u' WHERE id = 1 RETURNING *;
SELECT count(*) FROM r_log WHERE id = 1;
ROLLBACK;
UPDATE rv SET v = 'u' WHERE id = 10 RETURNING *;
DELETE FROM rv;
SELECT * FROM r ORDER BY id;
CREATE RULE also_self AS ON UPDATE TO r_log DO ALSO UPDATE r SET v = 'from log' WHERE id = NEW.id;
UPDATE r_log SET v = 'x' WHERE id = 2;
SELECT * FROM r ORDER BY id;
CREATE RULE loop AS ON INSERT TO r_log DO ALSO INSERT INTO r_log VALUES (NEW.op, NEW.id, NEW.v);
INSERT INTO r_log VALUES ('endless', 1, 'x');

SET client_min_messages = warning;
DROP SCHEMA t_rls CASCADE;
DROP ROLE regress_ts_a;
DROP ROLE regress_ts_b;
