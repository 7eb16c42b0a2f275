-- Indexes: every core access method gives what a sequential scan gives, before
-- and after changes; partial, expression and INCLUDE indexes, CREATE INDEX
-- CONCURRENTLY also when it fails, REINDEX, bitmap and/or, backward scans.
CREATE SCHEMA t_indexes;
SET search_path = t_indexes;
SET jit = off;

CREATE TABLE t (id int PRIMARY KEY, i int, x text, p point, r int4range, a int[], ts tsvector, n numeric);
INSERT INTO t SELECT g, g % 97, 'k' || (g % 53), point(g % 40, g % 31), int4range(g, g + g % 10 + 1),
	ARRAY[g % 5, g % 7, g % 11], to_tsvector('simple', 'w' || g % 13 || ' u' || g % 17), g / 10.0
	FROM generate_series(1, 2000) g;
CREATE INDEX t_bt ON t USING btree (i, n DESC NULLS FIRST);
CREATE INDEX t_ha ON t USING hash (x);
CREATE INDEX t_ga ON t USING gin (a);
CREATE INDEX t_gt ON t USING gin (ts) WITH (fastupdate = off);
CREATE INDEX t_gp ON t USING gist (p);
CREATE INDEX t_gr ON t USING gist (r);
CREATE INDEX t_sp ON t USING spgist (p);
CREATE INDEX t_sx ON t USING spgist (x);
CREATE INDEX t_br ON t USING brin (id, n) WITH (pages_per_range = 1);
CREATE INDEX t_ex ON t (lower(x), (i * 2));
CREATE INDEX t_pa ON t (n) WHERE i > 90;
CREATE UNIQUE INDEX t_in ON t (id DESC) INCLUDE (x, i);

-- each query runs once with a sequential scan and once with each index that can serve it
CREATE FUNCTION check_all() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE q text; idx text; want text; got text; mode text;
BEGIN
	FOR q, idx IN VALUES
		('i = 13', 't_bt'), ('i BETWEEN 5 AND 9 AND n > 50', 't_bt'), ('i IN (3, 50, 96)', 't_bt'), ('i IS NULL', 't_bt'),
		('x = ''k7''', 't_ha t_sx'), ('x >= ''k50''', 't_sx'), ('x ^@ ''k1''', 't_sx'),
		('a @> ARRAY[1, 6]', 't_ga'), ('a && ARRAY[10]', 't_ga'), ('a = ARRAY[1, 1, 1]', 't_ga'),
		('ts @@ ''w3 & u5''::tsquery', 't_gt'), ('ts @@ ''w3 | u5''::tsquery', 't_gt'),
		('p <@ box ''(5,5),(20,9)''', 't_gp t_sp'), ('p ~= point ''(7,7)''', 't_gp t_sp'),
		('r && int4range(100, 140)', 't_gr'), ('r @> 777', 't_gr'),
		('id BETWEEN 300 AND 420', 't_br t_pkey t_in'), ('n < 3', 't_br'),
		('lower(x) = ''k9'' AND i * 2 > 60', 't_ex'), ('i > 90 AND n < 40', 't_pa t_bt'), ('id > 1990', 't_in t_pkey')
	LOOP
		SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
		EXECUTE 'SELECT count(*) || '' '' || coalesce(sum(hashint8(id)), 0) FROM t WHERE ' || q INTO want;
		SET LOCAL enable_seqscan = off;
		FOREACH mode IN ARRAY ARRAY['enable_indexscan', 'enable_bitmapscan', 'enable_indexonlyscan'] LOOP
			EXECUTE format('SET LOCAL %I = on', mode);
			EXECUTE 'SELECT count(*) || '' '' || coalesce(sum(hashint8(id)), 0) FROM t WHERE ' || q INTO got;
			IF got IS DISTINCT FROM want THEN RETURN NEXT format('%s (%s): %s instead of %s', q, mode, got, want); END IF;
			EXECUTE format('SET LOCAL %I = off', mode);
		END LOOP;
	END LOOP;
	RESET enable_seqscan; RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;
	RETURN NEXT (SELECT 'checked ' || count(*) || ' rows, sum ' || sum(id) FROM t);
END $$;
SELECT check_all();
UPDATE t SET n = n + 1 WHERE id % 10 = 0;
UPDATE t SET i = i + 1, x = 'K' || id % 53 WHERE id % 7 = 0;
UPDATE t SET p = point(1, 1), a = ARRAY[1, 6], r = 'empty' WHERE id % 50 = 3;
UPDATE t SET i = NULL, x = NULL, a = NULL, p = NULL, r = NULL, ts = NULL WHERE id % 101 = 0;
DELETE FROM t WHERE id % 9 = 4;
SELECT check_all();
BEGIN;
UPDATE t SET ts = to_tsvector('simple', 'w3 u5'), id = id + 10000 WHERE id % 20 = 1;
INSERT INTO t SELECT g, 13, 'k7', point(7, 7), int4range(100, 200), ARRAY[10], 'w3 u5', 2 FROM generate_series(3001, 3050) g;
DELETE FROM t WHERE i = 50;
SELECT check_all();
ROLLBACK;
SELECT check_all();
VACUUM t;
SELECT check_all();
INSERT INTO t SELECT g, g % 97, 'k' || (g % 53), point(g % 40, g % 31), int4range(g, g + 1), ARRAY[g % 5], 'w3 u5', g / 10.0
	FROM generate_series(4001, 4300) g;
SELECT check_all();
REINDEX TABLE t;
SELECT check_all();
REINDEX TABLE CONCURRENTLY t;
SELECT check_all();
UPDATE t SET n = n, i = i, x = x, p = p, r = r, a = a, ts = ts;
VACUUM FULL t;
SELECT check_all();

-- the planner uses each of them
ANALYZE t;
DROP INDEX t_sp;
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE i = 5 ORDER BY n DESC;
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY i DESC, n LIMIT 5;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE lower(x) = 'k1';
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY p <-> point '(3,3)' LIMIT 3;
SELECT id, i, n FROM t WHERE i < 2 ORDER BY i DESC, n LIMIT 4;
SELECT id, i, n FROM t ORDER BY i, n DESC LIMIT 4;
SELECT round((p <-> point '(3.2,3.7)')::numeric, 4) AS dist FROM t ORDER BY p <-> point '(3.2,3.7)' LIMIT 3;
SELECT min(id), max(id) FROM t;
SELECT min(i), max(i), min(n) FILTER (WHERE i > 90) FROM t;
RESET enable_seqscan; RESET enable_bitmapscan;

-- bitmap AND, OR, lossy (small work_mem)
SET enable_seqscan = off; SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE id < 50 OR i = 50;
SELECT count(*), sum(id) FROM t WHERE id < 50 OR i = 50;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE i = 7 AND x = 'k7';
SELECT count(*), sum(id) FROM t WHERE i IN (7, 8, 9, 10) AND x IN ('k7', 'k8', 'k9', 'k10', 'k11');
SELECT count(*), sum(id) FROM t WHERE (id < 500 OR i = 50) AND x = 'k7';
SELECT count(*), sum(id) FROM t WHERE (id < 500 AND i = 50) OR (a @> ARRAY[1, 6] AND r && int4range(100, 300));
SELECT count(*), sum(id) FROM t WHERE id < 900 AND a @> ARRAY[1];
SET work_mem = '64kB';
CREATE TABLE wide AS SELECT g AS id, g % 3 AS m, repeat('x', 200) AS pad FROM generate_series(1, 20000) g;
CREATE INDEX ON wide (m);
SELECT count(*), sum(id) FROM wide WHERE m = 1;
DELETE FROM wide WHERE id % 2 = 0;
SELECT count(*), sum(id) FROM wide WHERE m = 1;
RESET work_mem; RESET enable_seqscan; RESET enable_indexscan;

-- index-only scans count what is visible, also of other index methods
CREATE TABLE io (id int PRIMARY KEY, v int, q point);
INSERT INTO io SELECT g, g % 10, point(g, g) FROM generate_series(1, 1000) g;
CREATE INDEX io_v ON io (v) INCLUDE (id);
CREATE INDEX io_q ON io USING gist (q);
VACUUM ANALYZE io;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM io WHERE v = 3;
DELETE FROM io WHERE id <= 500;
SELECT count(*), sum(id) FROM io WHERE v = 3;
SELECT count(*) FROM io WHERE q <@ box '(0,0),(600,600)';
BEGIN;
INSERT INTO io VALUES (2003, 3, point(5, 5));
SELECT count(*), sum(id) FROM io WHERE v = 3;
UPDATE io SET v = 3 WHERE id BETWEEN 991 AND 994;
SELECT count(*), sum(id) FROM io WHERE v = 3;
ROLLBACK;
SELECT count(*), sum(id) FROM io WHERE v = 3;
SELECT count(*) FROM io WHERE q <@ box '(0,0),(600,600)';
VACUUM io;
SELECT count(*), sum(id) FROM io WHERE v = 3;
SELECT count(*) FROM io WHERE q <@ box '(0,0),(600,600)';
SELECT count(*) FROM io;
RESET enable_seqscan; RESET enable_bitmapscan;

-- INCLUDE of a column that is also the key, sequential scans off
CREATE TABLE ink (a int, b int, c text);
CREATE UNIQUE INDEX ink_i ON ink (a) INCLUDE (a, c);
INSERT INTO ink VALUES (1, 1, 'x'), (2, 2, 'y');
INSERT INTO ink VALUES (1, 3, 'z');
UPDATE ink SET c = 'x2' WHERE a = 1;
SET enable_seqscan = off;
SELECT a, c FROM ink WHERE a = 1;
SELECT * FROM ink ORDER BY a;
RESET enable_seqscan;

-- unique indexes: build over duplicates, partial, expression, several columns with NULL
CREATE TABLE dup (id int, v text);
INSERT INTO dup VALUES (1, 'a'), (2, 'b'), (2, 'c'), (NULL, 'd'), (NULL, 'e');
CREATE UNIQUE INDEX dup_id ON dup (id);
CREATE UNIQUE INDEX CONCURRENTLY dup_cic ON dup (id);
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'dup_cic'::regclass;
INSERT INTO dup VALUES (3, 'fine'), (1, 'not checked');
REINDEX INDEX dup_cic;
REINDEX INDEX CONCURRENTLY dup_cic;
SELECT relname ~ '_ccnew' AS leftover FROM pg_class WHERE relname LIKE 'dup_cic%' ORDER BY 1;
DELETE FROM dup WHERE v IN ('c', 'not checked');
REINDEX INDEX dup_cic;
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'dup_cic'::regclass;
INSERT INTO dup VALUES (2, 'not fine');
DROP INDEX dup_cic_ccnew;
DROP INDEX CONCURRENTLY dup_cic;
INSERT INTO dup VALUES (2, 'fine again'), (NULL, 'f');
SELECT count(*) FROM dup WHERE id = 2;
CREATE UNIQUE INDEX CONCURRENTLY dup_v ON dup (upper(v)) WHERE id IS NOT NULL;
INSERT INTO dup VALUES (7, 'A');
INSERT INTO dup VALUES (NULL, 'A'), (NULL, 'a');
UPDATE dup SET id = 8 WHERE v = 'A';
CREATE UNIQUE INDEX dup_nd ON dup (id) NULLS NOT DISTINCT;

-- an index built after changes in the same transaction, and concurrently by another name
BEGIN;
DELETE FROM dup;
INSERT INTO dup SELECT g, 'n' || g FROM generate_series(1, 100) g;
UPDATE dup SET v = v || '!' WHERE id <= 50;
UPDATE dup SET id = id + 1000 WHERE id > 90;
CREATE INDEX dup_late ON dup (id);
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM dup WHERE id < 10;
SELECT count(*) FROM dup WHERE id BETWEEN 91 AND 100;
SELECT count(*) FROM dup WHERE id > 1000;
SAVEPOINT s;
DROP INDEX dup_late;
ROLLBACK TO s;
SELECT v FROM dup WHERE id = 7;
COMMIT;
CREATE INDEX CONCURRENTLY dup_conc ON dup (v text_pattern_ops);
SET enable_seqscan = off;
SELECT count(*) FROM dup WHERE v LIKE 'n1%';
RESET enable_seqscan;
CREATE INDEX bad ON dup ((1 / (id - 1)));
CREATE INDEX CONCURRENTLY bad ON dup ((1 / (id - 1)));
SELECT indisvalid FROM pg_index WHERE indexrelid = 'bad'::regclass;
DELETE FROM dup WHERE id = 1;
REINDEX INDEX bad;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'bad'::regclass;
UPDATE dup SET id = 1 WHERE id = 2;
ALTER INDEX dup_conc RENAME TO dup_renamed;
ALTER INDEX dup_renamed SET (fillfactor = 50);
CREATE STATISTICS st ON id, v FROM dup;
CLUSTER dup USING dup_late;
SELECT id FROM dup LIMIT 3;

-- merge join with mark and restore over duplicates
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_sort = off; SET enable_seqscan = off;
SELECT count(*), sum(a.id + b.id) FROM io a JOIN io b ON a.v = b.v WHERE a.id < 560;

SET client_min_messages = warning;
DROP SCHEMA t_indexes CASCADE;
