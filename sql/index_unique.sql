-- Unique keys of all sorts: equal but different looking values, NULLs, several indexes at once,
-- savepoints, deferred checks, ON CONFLICT with every form of arbiter, foreign keys that
-- use them. After each part the indexes are compared with the table.
SET client_min_messages = warning;
CREATE SCHEMA t_index_unique;
SET search_path = t_index_unique;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

-- What is wrong with the indexes of a table: each must give the rows that a sequential scan gives.
CREATE FUNCTION intact(tab regclass) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE idx record; q text; want text; got text; line text; plan text;
BEGIN
	FOR idx IN SELECT indexrelid, coalesce(pg_get_expr(indpred, indrelid), 'true') AS pred,
			(SELECT string_agg(pg_get_indexdef(indexrelid, k, true) || coalesce(' COLLATE ' || (SELECT collname FROM pg_collation WHERE oid = indcollation[k - 1] AND collname IN ('C', 'nocase')), ''), ', ' ORDER BY k) FROM generate_series(1, indnkeyatts) k) AS cols
			FROM pg_index JOIN pg_opclass o ON o.oid = indclass[0] WHERE indrelid = tab AND indisvalid AND opcdefault ORDER BY indexrelid LOOP
		q := format('SELECT count(*) || '' '' || coalesce(sum(hashtext(s::text)), 0) FROM (SELECT * FROM %s WHERE %s ORDER BY %s) s', tab, idx.pred, idx.cols);
		SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
		EXECUTE q INTO want;
		SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off;
		EXECUTE q INTO got;
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP plan := plan || line || E'\n'; END LOOP;
		SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on;
		IF got <> want OR plan !~ 'Index Scan' THEN RETURN NEXT format('%s: %s instead of %s: %s', idx.indexrelid::regclass, got, want, plan); END IF;
	END LOOP;
	RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;
END $$;

-- values that are equal without looking so
CREATE TABLE eq (n numeric UNIQUE, f float8 UNIQUE, t text COLLATE nocase UNIQUE, b char(9) UNIQUE, i interval UNIQUE, r int4range UNIQUE, j jsonb UNIQUE);
INSERT INTO eq VALUES (1.0, 0, 'Ab', 'x', '1 mon', '[1,3)', '{"a": 1}');
INSERT INTO eq (n) VALUES (1.000);
INSERT INTO eq (f) VALUES ('-0');
INSERT INTO eq (t) VALUES ('aB');
INSERT INTO eq (b) VALUES ('x   ');
INSERT INTO eq (i) VALUES ('30 days');
INSERT INTO eq (r) VALUES ('[1,2]');
INSERT INTO eq (j) VALUES ('{"a": 1.00}');
INSERT INTO eq (n, f) VALUES ('NaN', 'NaN');
INSERT INTO eq (n) VALUES ('NaN');
INSERT INTO eq (f) VALUES ('NaN');
UPDATE eq SET n = 1.00, t = 'AB', i = '720:00' WHERE t = 'ab' RETURNING n, t, i;
INSERT INTO eq (t) VALUES ('Äb'), ('äB');
INSERT INTO eq (t) VALUES ('ab') ON CONFLICT (t) DO UPDATE SET t = 'Ab ' || excluded.t RETURNING t;
SELECT intact('eq');

-- several columns, NULLs, expressions, conditions, INCLUDE; which index complains first
CREATE TABLE u (a int, b text, c int, d text, PRIMARY KEY (a, b), CONSTRAINT u_c UNIQUE (c) INCLUDE (a, d));
CREATE UNIQUE INDEX u_e ON u (lower(d), (a % 10)) WHERE c > 0;
CREATE UNIQUE INDEX u_n ON u (c, d) NULLS NOT DISTINCT WHERE a < 0;
INSERT INTO u SELECT g, 'k' || g, g, 'd' || g FROM generate_series(1, 300) g;
INSERT INTO u VALUES (5, 'k5', 5, 'd5');
INSERT INTO u VALUES (5, 'other', 5, 'd5');
INSERT INTO u VALUES (5, 'other', 1005, 'D5');
INSERT INTO u VALUES (5, 'other', -5, 'D5'), (6, NULL, 7, 'x');
INSERT INTO u VALUES (5, 'other', -5, 'D5'), (15, 'other', NULL, 'D5'), (25, 'other', NULL, 'D5');
UPDATE u SET c = 2005 WHERE a = 25 AND b = 'other';
UPDATE u SET c = 3005 WHERE a = 15 AND b = 'other';
INSERT INTO u VALUES (-1, 'n', NULL, NULL);
INSERT INTO u VALUES (-2, 'n', NULL, NULL);
INSERT INTO u VALUES (-2, 'n', NULL, 'x'), (2, 'n', NULL, NULL);
UPDATE u SET a = -3, d = NULL WHERE a = -2;
-- in the middle of a statement, in ascending and descending order
UPDATE u SET c = c + 1 WHERE c BETWEEN 100 AND 110;
INSERT INTO u SELECT 1000 + g % 3, 'same', NULL, NULL FROM generate_series(1, 4) g;
UPDATE u SET a = 7 WHERE a = 8;
DELETE FROM u WHERE a = 7;
UPDATE u SET a = 7, b = 'k7' WHERE a = 9 RETURNING *;
SELECT intact('u');
\set VERBOSITY terse
INSERT INTO u VALUES (1, 'long', 1000, repeat('long', 300)), (1, 'long2', 1001, repeat('LONG', 300));
\set VERBOSITY default

-- own rows: deleted, inserted again, moved to and fro, undone
BEGIN;
DELETE FROM u WHERE c = 20;
INSERT INTO u VALUES (20, 'k20', 20, 'again');
UPDATE u SET c = 5000 WHERE c = 20;
INSERT INTO u VALUES (20, 'second', 20, 'third');
SAVEPOINT a;
UPDATE u SET c = 20 WHERE c = 5000;
ROLLBACK TO a;
DELETE FROM u WHERE c = 20;
SAVEPOINT b;
UPDATE u SET c = 20 WHERE c = 5000;
INSERT INTO u VALUES (20, 'second', 5000, 'fourth');
ROLLBACK TO b;
INSERT INTO u VALUES (20, 'fifth', 20, 'fifth');
COMMIT;
SELECT * FROM u WHERE a = 20 ORDER BY c;
DO $$ BEGIN FOR i IN 1..300 LOOP
	BEGIN
		INSERT INTO u VALUES (4000, 'try', 4000, 'try' || i);
		IF i % 3 = 0 THEN UPDATE u SET a = a + 1, b = 'moved' WHERE c = 4000; END IF;
		IF i % 5 = 0 THEN DELETE FROM u WHERE c = 4000; END IF;
		IF i < 300 THEN RAISE EXCEPTION USING ERRCODE = 'P0999'; END IF;
	EXCEPTION WHEN SQLSTATE 'P0999' THEN NULL; END;
END LOOP; END $$;
INSERT INTO u VALUES (4000, 'try', 4000, 'kept');
INSERT INTO u VALUES (4000, 'try', 4001, 'not kept');
SELECT intact('u');
-- a key that thousands of dead rows have had
DO $$ BEGIN FOR i IN 1..3000 LOOP DELETE FROM u WHERE c = 4000; INSERT INTO u VALUES (4000, 'try', 4000, 'round ' || i); END LOOP; END $$;
SELECT * FROM u WHERE c = 4000;
INSERT INTO u VALUES (4000, 'try', 4002, 'no');
SELECT intact('u');

-- deferrable: keys are swapped in one statement, in the transaction, over savepoints
CREATE TABLE d (a int UNIQUE DEFERRABLE, b int UNIQUE DEFERRABLE INITIALLY DEFERRED, c text COLLATE nocase UNIQUE NULLS NOT DISTINCT DEFERRABLE INITIALLY DEFERRED);
INSERT INTO d SELECT g, g, 'k' || g FROM generate_series(1, 500) g;
UPDATE d SET a = a + 1, b = 501 - b;
UPDATE d SET a = 502 - a;
SELECT intact('d');
UPDATE d SET a = 1 WHERE a = 2;
BEGIN;
UPDATE d SET b = 1, c = 'K1' WHERE b = 2;
SAVEPOINT s;
UPDATE d SET b = 2 WHERE b = 1 AND c = 'k1';
SET CONSTRAINTS d_b_key IMMEDIATE;
ROLLBACK TO s;
DELETE FROM d WHERE a <> b AND b = 1 AND a < 250;
SELECT count(*) FROM d WHERE b = 1;
COMMIT;
BEGIN;
UPDATE d SET c = NULL WHERE a IN (10, 11, 12);
UPDATE d SET c = 'k' || a WHERE a IN (10, 11);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
INSERT INTO d SELECT 1000 + g, 1000 + g / 2, 'x' || g FROM generate_series(1, 20) g;
SET CONSTRAINTS d_a_key, d_c_key IMMEDIATE;
UPDATE d SET b = a WHERE a > 1000;
COMMIT;
INSERT INTO d VALUES (2000, 5, 'two rows'), (2001, 5, 'of which one goes');
BEGIN;
INSERT INTO d VALUES (2000, 2000, 'X1');
UPDATE d SET b = 2001, a = 2001 WHERE c = 'x1' AND b = 2000;
DELETE FROM d WHERE b = 1001;
COMMIT;
SELECT * FROM d WHERE c = 'x1';
SELECT intact('d');

-- ON CONFLICT: each form of arbiter
CREATE TABLE oc (a int, b text, c text, n int DEFAULT 0);
CREATE UNIQUE INDEX oc_a ON oc (a);
CREATE UNIQUE INDEX oc_ab ON oc (b, a) INCLUDE (n);
CREATE UNIQUE INDEX oc_e ON oc ((a % 100), upper(b)) WHERE a < 1000 AND n >= 0;
CREATE UNIQUE INDEX oc_p ON oc (c text_pattern_ops);
CREATE UNIQUE INDEX oc_l ON oc (b COLLATE nocase);
INSERT INTO oc VALUES (1, 'one', 'One'), (2, 'two', 'Two');
INSERT INTO oc VALUES (1, 'x', 'x') ON CONFLICT (a) DO UPDATE SET n = oc.n + 1 RETURNING *;
INSERT INTO oc VALUES (1, 'one', 'x') ON CONFLICT (a, b) DO UPDATE SET n = oc.n + 1 RETURNING *;
INSERT INTO oc VALUES (1, 'one', 'x') ON CONFLICT (a, b) DO NOTHING RETURNING *;
INSERT INTO oc VALUES (101, 'ONE', 'x') ON CONFLICT ((a % 100), upper(b)) WHERE a < 1000 AND n >= 0 DO UPDATE SET n = oc.n + 10 RETURNING *;
INSERT INTO oc VALUES (101, 'ONE', 'x') ON CONFLICT (upper(b), (a % 100)) WHERE a < 50 AND n >= 0 DO UPDATE SET n = oc.n + 10 RETURNING *;
INSERT INTO oc VALUES (101, 'ONE', 'x') ON CONFLICT (upper(b), (a % 100)) WHERE a < 2000 DO NOTHING;
INSERT INTO oc VALUES (3, 'three', 'One') ON CONFLICT (c text_pattern_ops) DO UPDATE SET c = excluded.b RETURNING *;
INSERT INTO oc VALUES (3, 'three', 'three') ON CONFLICT (c) DO UPDATE SET n = oc.n + 100 RETURNING *;
INSERT INTO oc VALUES (3, 'three', 'three') ON CONFLICT (c text_ops) DO NOTHING;
INSERT INTO oc VALUES (3, 'Two', 'y') ON CONFLICT (b COLLATE nocase) DO UPDATE SET n = oc.n + 1000 RETURNING *;
INSERT INTO oc VALUES (3, 'TWO', 'y') ON CONFLICT (b COLLATE "C") DO NOTHING;
INSERT INTO oc VALUES (3, 'TWO', 'y') ON CONFLICT (b) DO NOTHING RETURNING *;
INSERT INTO oc VALUES (3, 'TWO', 'y') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO oc VALUES (3, 'TWO', 'y') ON CONFLICT (a) DO UPDATE SET n = 1;
INSERT INTO oc VALUES (5, 'five', 'f') ON CONFLICT ON CONSTRAINT oc_a DO NOTHING;
ALTER TABLE oc ADD CONSTRAINT oc_key UNIQUE USING INDEX oc_a;
INSERT INTO oc VALUES (2, 'five', 'f') ON CONFLICT ON CONSTRAINT oc_key DO UPDATE SET b = excluded.b RETURNING *;
INSERT INTO oc VALUES (2, 'five', 'f') ON CONFLICT (a) WHERE a > 1 DO UPDATE SET b = excluded.b || '!' RETURNING *;
INSERT INTO oc SELECT g % 5, 'g' || g % 5, 'h' || g % 5 FROM generate_series(1, 20) g ON CONFLICT DO NOTHING;
INSERT INTO oc SELECT g, 'g' || g, 'h' || g FROM generate_series(3, 8) g ON CONFLICT (a) DO UPDATE SET a = oc.a + 100, n = oc.n - 1 RETURNING a, b, n;
PREPARE ups(int, text) AS INSERT INTO oc VALUES ($1, $2, $2) ON CONFLICT (a) DO UPDATE SET n = oc.n + 1 RETURNING n;
EXECUTE ups(50, 'p'); EXECUTE ups(50, 'p'); EXECUTE ups(50, 'p'); EXECUTE ups(50, 'p'); EXECUTE ups(50, 'p'); EXECUTE ups(50, 'p'); EXECUTE ups(50, 'p');
CREATE FUNCTION ups(int) RETURNS int LANGUAGE sql AS 'INSERT INTO oc VALUES ($1, $1, $1) ON CONFLICT (a) DO UPDATE SET n = oc.n + 1 RETURNING n';
SELECT ups(g % 3 + 60) FROM generate_series(1, 6) g;
WITH x AS (INSERT INTO oc VALUES (70, 'w', 'w') ON CONFLICT (a) DO UPDATE SET n = 5 RETURNING a),
	y AS (INSERT INTO oc SELECT a, 'w', 'w' FROM x ON CONFLICT (a) DO NOTHING RETURNING a)
SELECT (SELECT count(*) FROM x), (SELECT count(*) FROM y);
EXPLAIN (COSTS OFF) INSERT INTO oc VALUES (1, 'x', 'x') ON CONFLICT (a) DO UPDATE SET n = oc.n + 1;
SELECT a, b, c, n FROM oc ORDER BY a;
SELECT intact('oc');

-- partitions: arbiters of the parent, a leaf's own order of columns, a leaf in heap, a second level
CREATE TABLE pt (a int, b text, n int DEFAULT 0, PRIMARY KEY (a), UNIQUE (b, a)) PARTITION BY RANGE (a);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (100);
CREATE TABLE pt2 (n int DEFAULT 0, gone int, b text, a int NOT NULL);
ALTER TABLE pt2 DROP gone;
ALTER TABLE pt ATTACH PARTITION pt2 FOR VALUES FROM (100) TO (200);
CREATE TABLE pt3 PARTITION OF pt FOR VALUES FROM (200) TO (300) USING heap;
CREATE TABLE pt4 PARTITION OF pt FOR VALUES FROM (300) TO (400) PARTITION BY LIST (a);
CREATE TABLE pt4d PARTITION OF pt4 DEFAULT;
INSERT INTO pt SELECT g * 10, 'p' || g FROM generate_series(1, 39) g;
INSERT INTO pt SELECT g * 5, 'p' || g / 2 FROM generate_series(1, 79) g ON CONFLICT (a) DO UPDATE SET n = pt.n + 1;
INSERT INTO pt SELECT g * 5, 'p' || g / 2 FROM generate_series(1, 79) g ON CONFLICT (a, b) DO UPDATE SET n = pt.n + 10, b = excluded.b || 'x';
INSERT INTO pt SELECT g * 5, 'q' FROM generate_series(1, 79) g ON CONFLICT DO NOTHING;
INSERT INTO pt4 VALUES (310, 'z') ON CONFLICT (a) DO UPDATE SET n = -1;
INSERT INTO pt1 VALUES (10, 'z') ON CONFLICT (a) DO UPDATE SET n = -1;
INSERT INTO pt VALUES (10, 'z'), (210, 'z') ON CONFLICT ON CONSTRAINT pt_pkey DO UPDATE SET n = pt.n - 1 RETURNING tableoid::regclass, *;
INSERT INTO pt VALUES (310, 'z') ON CONFLICT (a) DO UPDATE SET a = 320;
SELECT tableoid::regclass, count(*), sum(n), count(*) FILTER (WHERE b LIKE '%x') AS x FROM pt GROUP BY 1 ORDER BY 1;
UPDATE pt SET a = a + 100 WHERE a = 105;
UPDATE pt SET a = 205 WHERE a = 101 OR a = 110;
UPDATE pt SET a = 101 WHERE a = 5 RETURNING tableoid::regclass, a;
SELECT intact(t) FROM unnest('{pt1,pt2,pt3,pt4d}'::regclass[]) t;

-- foreign keys: on several columns and types, cross types, on a nondeterministic collation, every action
CREATE TABLE fp (a bigint, b text, PRIMARY KEY (b, a), c numeric UNIQUE, t text COLLATE nocase UNIQUE, s smallint UNIQUE);
CREATE TABLE f1 (a int, b varchar(9), n int, FOREIGN KEY (a, b) REFERENCES fp (a, b) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE f2 (c int REFERENCES fp (c) ON UPDATE CASCADE ON DELETE SET NULL, s bigint DEFAULT 1 REFERENCES fp (s) ON UPDATE SET DEFAULT ON DELETE SET DEFAULT);
CREATE TABLE f3 (t text COLLATE nocase REFERENCES fp (t) ON UPDATE CASCADE ON DELETE RESTRICT, u text COLLATE nocase REFERENCES fp (t) DEFERRABLE INITIALLY DEFERRED) USING heap;
CREATE UNIQUE INDEX ON f2 (c, s);
INSERT INTO fp SELECT g, 'b' || g % 5, g, 'T' || g, g FROM generate_series(1, 50) g;
INSERT INTO f1 SELECT g, 'b' || g % 5, g FROM generate_series(1, 50) g;
INSERT INTO f2 SELECT g, g FROM generate_series(2, 20) g;
INSERT INTO f3 SELECT 't' || g, 't' || g FROM generate_series(41, 45) g;
INSERT INTO f1 VALUES (1, 'b2');
INSERT INTO f1 VALUES (1, NULL), (NULL, 'b2');
INSERT INTO f3 VALUES ('T99', NULL);
UPDATE fp SET a = a + 100, b = b || 'x' WHERE a <= 10;
UPDATE fp SET c = -c WHERE s < 6;
UPDATE fp SET s = -s WHERE s BETWEEN 10 AND 12;
UPDATE fp SET t = 'new' || s WHERE s = 41;
UPDATE fp SET t = upper(t) WHERE s = 42;
DELETE FROM fp WHERE s = 43;
DELETE FROM fp WHERE s BETWEEN 13 AND 15;
DELETE FROM fp WHERE s = 1;
BEGIN;
UPDATE f3 SET u = 'nobody' WHERE t = 't44';
SAVEPOINT s;
DELETE FROM f3 WHERE t = 't44';
ROLLBACK TO s;
INSERT INTO fp VALUES (900, 'nine', 900, 'NOBODY', 900);
COMMIT;
BEGIN;
DELETE FROM fp WHERE a = 900;
INSERT INTO fp VALUES (901, 'nine', 901, 'noBody', 901);
COMMIT;
BEGIN;
DELETE FROM fp WHERE a = 901;
COMMIT;
SELECT * FROM f1 WHERE n <= 15 AND n % 4 = 0 ORDER BY n;
SELECT * FROM f2 ORDER BY c, s;
SELECT * FROM f3 ORDER BY t;
SELECT intact(t) FROM unnest('{fp,f2}'::regclass[]) t;
CREATE TABLE fpt (id int, a int REFERENCES pt ON UPDATE CASCADE ON DELETE SET NULL) PARTITION BY HASH (id);
CREATE TABLE fpt1 PARTITION OF fpt FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE fpt2 PARTITION OF fpt FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING heap;
INSERT INTO fpt SELECT a, a FROM pt WHERE a % 50 = 0;
UPDATE pt SET a = a + 1 WHERE a IN (50, 150);
UPDATE pt SET a = 202 WHERE a = 100;
DELETE FROM pt WHERE a IN (200, 250);
UPDATE fpt SET a = 1 WHERE id = 50;
INSERT INTO pt VALUES (151, 'again') ON CONFLICT (a) DO UPDATE SET a = 152;
SELECT * FROM fpt ORDER BY id;

-- intact() can find something
BEGIN;
UPDATE pg_index SET indisready = false WHERE indexrelid = 'oc_key'::regclass;
INSERT INTO oc VALUES (1, 'double', 'double');
UPDATE pg_index SET indisready = true WHERE indexrelid = 'oc_key'::regclass;
SELECT count(*) FROM intact('oc');
ROLLBACK;

DROP SCHEMA t_index_unique CASCADE;
