-- Values: wide rows, 1600 columns, NULLs, arrays, composites, domains, enums,
-- jsonb, large strings compressed and not, moved between heap and the default
-- access method, and an update of the column next to a large one.
CREATE SCHEMA t_types;
SET search_path = t_types;
SET jit = off;

-- all sorts of types in one row
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE all_types (
	id int PRIMARY KEY, b bool, c "char", s smallint, i bigint, f4 real, f8 float8, n numeric, m money,
	t text, vc varchar(10), bp char(5), nm name, by bytea, d date, tm time, ts timestamp, tz timestamptz, iv interval,
	u uuid, ip inet, mac macaddr, bt bit(4), vb varbit, p point, bx box, r int4range, mr int4multirange,
	j json, jb jsonb, x xml, tv tsvector, o oid, e mood, dom posint, cmp pair, arr int[], arr2 text[][], carr pair[], darr posint[]);
INSERT INTO all_types VALUES (1, true, 'x', -1, 9223372036854775807, 1.5, 1e300, 12345.678901234567890, 12.34,
	'text', 'varchar', 'bp', 'name', '\x00ff', '2024-02-29', '12:34:56.789', '2024-02-29 12:00', '2024-02-29 12:00+00', '1 mon 2 days 3 secs',
	'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1/8', '08:00:2b:01:02:03', '1010', '11', '(1,2)', '(1,1),(2,2)', '[1,5)', '{[1,2),[5,9)}',
	'{"a": 1}', '{"b": [1, null]}', '<x/>', 'a:1 b:2', 4294967295, 'happy', 7, (1, 'p'), '{1,NULL,3}', '{{a,b},{c,NULL}}', '{"(1,x)","(,)"}', '{1,2}');
INSERT INTO all_types (id) VALUES (2);
INSERT INTO all_types (id, t, arr, jb) VALUES (3, '', '{}', '{}');
\x on
SELECT * FROM all_types WHERE id = 1;
\x off
SELECT all_types FROM all_types WHERE id >= 2 ORDER BY id;
UPDATE all_types SET e = 'sad', cmp.b = 'changed', arr[5] = 50, arr2[1][2] = 'Z', jb = jb || '{"c": 2}', dom = 8, bp = 'longe' WHERE id = 1
	RETURNING e, cmp, arr, arr2, jb, dom, bp, t;
UPDATE all_types SET dom = 0 WHERE id = 1;
UPDATE all_types SET darr = '{-1}' WHERE id = 1;
UPDATE all_types SET e = 'angry' WHERE id = 1;
UPDATE all_types SET vc = 'longer than ten' WHERE id = 1;
UPDATE all_types SET t = NULL, n = NULL, jb = NULL, arr = NULL WHERE id = 1;
UPDATE all_types SET (t, n, i, f8) = ('back', 'NaN', 5, 'Infinity') WHERE id = 2 RETURNING id, t, n, i, f8;
SELECT id, t, n, jb, arr, nm, x IS NULL AS x_null FROM all_types ORDER BY id;
ALTER TYPE mood ADD VALUE 'great' AFTER 'happy';
UPDATE all_types SET e = 'great' WHERE id = 3;
SELECT id, e FROM all_types WHERE e > 'ok' ORDER BY id;
SELECT count(*) FROM all_types a JOIN all_types b ON a.id = b.id AND a.* IS NOT DISTINCT FROM b.*;
ALTER TYPE pair ADD ATTRIBUTE c int;

-- wide rows and 1600 columns
DO $$ BEGIN
	EXECUTE 'CREATE TABLE w1600 (' || (SELECT string_agg('c' || g || ' int', ',') FROM generate_series(1, 1600) g) || ')';
	EXECUTE 'INSERT INTO w1600 SELECT ' || (SELECT string_agg('g * ' || g, ',') FROM generate_series(1, 1600) g) || ' FROM generate_series(1, 3) g';
	EXECUTE 'INSERT INTO w1600 (c1, c800, c1600) VALUES (7, 8, 9)';
	EXECUTE 'CREATE TABLE w35 (' || (SELECT string_agg('c' || g || CASE WHEN g % 2 = 0 THEN ' text' ELSE ' int' END, ',') FROM generate_series(1, 35) g) || ')';
	EXECUTE 'INSERT INTO w35 SELECT ' || (SELECT string_agg(CASE WHEN g % 2 = 0 THEN '''t'' || g' ELSE 'CASE WHEN g % 3 > 0 THEN g END' END, ',') FROM generate_series(1, 35) g) || ' FROM generate_series(1, 50) g';
END $$;
SELECT c1, c2, c799, c800, c1600 FROM w1600;
UPDATE w1600 SET c1600 = -1, c1 = NULL WHERE c2 IS NULL;
UPDATE w1600 SET c800 = c1 + c1600 WHERE c1 = 2;
SELECT c1, c800, c1599, c1600 FROM w1600 ORDER BY c1;
SELECT count(*), sum(hashtext(w1600::text)) IS NOT NULL AS hashed FROM w1600;
SELECT count(*), sum(c1), sum(c35), count(DISTINCT c34), max(length(w35::text)) FROM w35;
ALTER TABLE w1600 ADD one_more int;
DELETE FROM w1600 WHERE c1 IS NULL;
CREATE TABLE wide (id int PRIMARY KEY, a char(3000), b char(3000), c char(3000), d char(1000));
INSERT INTO wide VALUES (1, 'a', 'b', 'c', 'd'), (2, NULL, 'b2', NULL, 'd2');
UPDATE wide SET b = 'B' WHERE id = 1;
SELECT id, length(a), rtrim(b) AS b, octet_length(c), rtrim(d) AS d FROM wide ORDER BY id;

-- large values: heap to here, here to here, here to heap
CREATE FUNCTION noise(seed int, len int) RETURNS text LANGUAGE sql AS
	$$ SELECT substr(string_agg(md5(seed || ' ' || g), '' ORDER BY g), 1, len) FROM generate_series(1, len / 32 + 1) g $$;
CREATE TABLE h (id int PRIMARY KEY, small int, big text, ext text, cmp pair, arr text[], jb jsonb) USING heap;
ALTER TABLE h ALTER ext SET STORAGE EXTERNAL;
INSERT INTO h SELECT g, g, repeat('compress me ', 10000 * g), noise(g, 50000 * g), ROW (g, noise(g + 10, 20000), NULL)::pair,
	ARRAY[noise(g + 20, 9000), NULL, repeat('z', 50000)], jsonb_build_object('k', noise(g + 30, 30000), 'n', g) FROM generate_series(1, 3) g;
CREATE TABLE x (LIKE h INCLUDING ALL);
CREATE VIEW sums AS
	SELECT 'h' AS t, id, small, md5(big) AS big, md5(ext) AS ext, md5(cmp::text) AS cmp, md5(arr::text) AS arr, md5(jb::text) AS jb FROM h
	UNION ALL SELECT 'x', id, small, md5(big), md5(ext), md5(cmp::text), md5(arr::text), md5(jb::text) FROM x;
CREATE VIEW same AS SELECT count(*) AS rows, count(DISTINCT (id, big, ext, cmp, arr, jb)) AS different FROM sums;
INSERT INTO x SELECT * FROM h;
SELECT * FROM same;
SELECT id, length(big), length(ext), length(cmp::text), length(arr::text), length(jb ->> 'k') FROM x ORDER BY id;
-- the column next to the large one
UPDATE x SET small = small + 100;
SELECT * FROM same;
BEGIN;
UPDATE x SET small = 1, ext = ext || 'more' WHERE id = 1;
UPDATE x SET small = 2 WHERE id = 1;
SELECT id, small, length(ext) FROM x ORDER BY id;
SAVEPOINT s;
DELETE FROM x;
ROLLBACK TO s;
UPDATE x SET ext = (SELECT ext FROM h WHERE h.id = x.id), big = h.big FROM h WHERE h.id = x.id;
SELECT * FROM same;
ROLLBACK;
SELECT * FROM same;
INSERT INTO x SELECT id + 10, small, big, ext, cmp, arr, jb FROM x;
SELECT count(*), count(DISTINCT md5(ext)), count(DISTINCT md5(cmp::text)) FROM x;
DELETE FROM x WHERE id > 10;
TRUNCATE h;
INSERT INTO h SELECT * FROM x;
SELECT * FROM same;
TRUNCATE x;
INSERT INTO x SELECT * FROM h;
DROP VIEW same, sums;
DROP TABLE h;
SELECT id, length(big), length(ext), left((cmp).b, 8) = left(noise(id + 10, 32), 8) AS same, length(arr[3]) FROM x ORDER BY id;
-- through a record variable, an array of rows, a join back, and a function argument
DO $$
DECLARE r x%ROWTYPE; rs x[];
BEGIN
	SELECT * INTO r FROM x WHERE id = 2;
	DELETE FROM x WHERE id = 2;
	r.small := -5;
	INSERT INTO x SELECT r.*;
	SELECT array_agg(x ORDER BY id) INTO rs FROM x;
	DELETE FROM x;
	INSERT INTO x SELECT (u).* FROM unnest(rs) u;
END $$;
SELECT id, small, length(big), length(ext), length(arr::text) FROM x ORDER BY id;
CREATE TABLE rowcol (id int, r x);
INSERT INTO rowcol SELECT id, x FROM x;
DELETE FROM x;
SELECT id, length((r).big), length((r).ext), (r).jb ->> 'n' AS n FROM rowcol ORDER BY id;
-- 5 MB, both kinds; slices; long keys
CREATE TABLE huge (id int PRIMARY KEY, v text, b bytea, n int DEFAULT 0);
INSERT INTO huge VALUES (1, repeat('0123456789', 500000)), (2, repeat(noise(1, 100000), 50));
INSERT INTO huge SELECT 3, NULL, decode(repeat(md5('x'), 100000), 'hex');
SELECT id, length(v), md5(v), length(b) FROM huge ORDER BY id;
SELECT id, substr(v, 4999990), substr(v, 2500000, 10) FROM huge WHERE v IS NOT NULL ORDER BY id;
BEGIN;
UPDATE huge SET n = n + 1;
UPDATE huge SET n = n + 1;
UPDATE huge SET v = v || 'tail' WHERE id = 2;
SELECT id, length(v), right(v, 6), n FROM huge ORDER BY id;
ROLLBACK;
DO $$ BEGIN FOR i IN 1..5 LOOP UPDATE huge SET n = i; END LOOP; END $$;
SELECT id, length(v), n, length(b) FROM huge ORDER BY id;
CREATE TABLE key (k text PRIMARY KEY, v int);
INSERT INTO key VALUES (repeat('k', 2000), 1), (repeat('k', 2001), 2);
INSERT INTO key VALUES (repeat('k', 2001), 3) ON CONFLICT (k) DO UPDATE SET v = 33;
SELECT length(k), v FROM key ORDER BY v;

SET client_min_messages = warning;
DROP SCHEMA t_types CASCADE;
