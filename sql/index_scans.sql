-- Scans of ordered indexes: several columns, row comparisons, arrays, LIKE, min and max, LIMIT,
-- scroll cursors, merge joins that go back to a mark, partial, expression and INCLUDE
-- indexes, many equal keys, long keys. Each query gives what it gives without an index.
SET client_min_messages = warning;
CREATE SCHEMA t_index_scans;
SET search_path = t_index_scans;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SELECT setseed(0.7);

-- Which scans the planner may use.
CREATE FUNCTION allow(what text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', (what = 'seqscan')::text, false), set_config('enable_sort', (what IN ('seqscan', 'bitmapscan'))::text, false),
		set_config('enable_indexscan', (what IN ('indexscan', 'indexonlyscan'))::text, false), set_config('enable_bitmapscan', (what = 'bitmapscan')::text, false),
		set_config('enable_indexonlyscan', (what = 'indexonlyscan')::text, false)
$$;
-- The query's rows by each kind of scan: a row for each difference, and for a plan without the index.
-- (Only for nbtree has the planner row comparisons as index conditions: no bitmap scans for others.)
CREATE FUNCTION ask(query text, idx text, modes text[] DEFAULT '{indexscan,indexonlyscan,bitmapscan}') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q text := format('SELECT concat_ws('' '', count(*), md5(string_agg(s::text, '' ''))) FROM (%s) s', query);
	mode text; want text; got text; plan text; line text;
BEGIN
	PERFORM allow('seqscan');
	EXECUTE q INTO want;
	FOREACH mode IN ARRAY modes LOOP
		PERFORM allow(mode);
		EXECUTE q INTO got;
		IF got IS DISTINCT FROM want THEN RETURN NEXT format('%s (%s): %s instead of %s', query, mode, got, want); END IF;
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP plan := plan || line || E'\n'; END LOOP;
		CONTINUE WHEN mode = 'bitmapscan' AND query ~ 'WHERE \(a, b';
		IF plan !~ ((CASE mode WHEN 'bitmapscan' THEN 'Bitmap Index Scan on ' ELSE 'Index (Only )?Scan (Backward )?using ' END) || idx) OR mode <> 'bitmapscan' AND plan ~ 'Sort' THEN
			RETURN NEXT format('%s (%s): no use of %s: %s', query, mode, idx, plan);
		END IF;
	END LOOP;
	PERFORM allow('seqscan');
END $$;

-- several columns
CREATE TABLE m (a int, b text COLLATE "C", c numeric, d bool, id int);
CREATE FUNCTION fill(n int, base int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO m SELECT CASE WHEN random() > 0.1 THEN (random() * 8)::int END, CASE WHEN random() > 0.1 THEN left('abcdefghij', (random() * 10)::int) || left(md5(g::text), 1) END,
		CASE WHEN random() > 0.1 THEN round((random() * 4)::numeric, 1) END, random() > 0.5, base + g FROM generate_series(1, n) g
$$;
CREATE VIEW conditions AS SELECT unnest(ARRAY['true', 'a = 3', 'a = 3 AND b = ''abca''', 'a > 2 AND a <= 5', 'a >= 2 AND b < ''abc''', 'a = 4 AND b >= ''ab'' AND b < ''abcdx''', 'a = 4 AND b = ''1'' AND c > 1',
	'a IS NULL', 'a IS NULL AND b IS NULL', 'a IS NOT NULL AND b IS NULL', 'a = 5 AND b IS NULL AND c < 2', 'a IN (1, 3, 3, 7, NULL)', 'a = ANY (''{6,2,99,-1}'') AND b = ANY (ARRAY[''a1'', ''ab2'', ''abc3'', ''0''])',
	'a IN (2, 4) AND b > ''abcd''', 'a IN (2, 4) AND b IS NOT NULL AND c IN (0, 1, 2)', 'a = ANY (''{}''::int[])', 'a = ANY (NULL::int[])', 'a > ANY (''{5,7}'')', 'a > -1 AND a < ALL (''{4,6}'')',
	'(a, b) > (3, ''abc'')', '(a, b) <= (3, ''abc'')', '(a, b, c) >= (4, ''ab1'', 1.5)', '(a, b, c) < (4, ''ab1'', 1.5)', '(a, b) > (2, ''b'') AND (a, b) < (5, ''abcdef'')', 'a = 3 AND (a, b) > (3, ''abcd'')', '(a, b) > (3, NULL)',
	'a > 3 AND a > 5 AND a >= 4', 'a = 3 AND a = 4', 'a > 5 AND a < 5', 'a = 3::bigint AND b = ''abc4''::name', 'a < 2::smallint OR a > 6::bigint', 'b = ''abcde5''', 'c = 2 AND a < 4', 'a BETWEEN -5000000000 AND 2',
	'a > 4294967296', 'a <= 32768::int8 AND a > -1::int2', 'd', 'a = 6 AND NOT d']) AS c;
SELECT fill(400, 0);
CREATE INDEX m1 ON m (a, b, c);
SELECT fill(400, 1000);
UPDATE m SET b = b || 'x', c = c + 1 WHERE id % 10 = 0;
UPDATE m SET a = (a + 1) % 9 WHERE id % 7 = 0;
DELETE FROM m WHERE id % 6 = 1;
-- OR can only be served by bitmaps
SELECT ask('SELECT a, b, c FROM m WHERE ' || c || ' ORDER BY a, b, c', 'm1') FROM conditions WHERE c !~ ' OR ' AND c ~ '\ma\M' ORDER BY c;
SELECT ask('SELECT a, b, c FROM m WHERE ' || c || ' ORDER BY a DESC, b DESC, c DESC', 'm1', '{indexscan}') FROM conditions WHERE c !~ ' OR ' ORDER BY c;
SELECT ask('SELECT a, b, c FROM m WHERE ' || c || ' ORDER BY a, b, c', 'm1', '{bitmapscan}') FROM conditions WHERE c ~ ' OR ';
SELECT ask('SELECT a, b, c FROM m WHERE ' || c || ' ORDER BY a, b, c LIMIT 5', 'm1', '{indexscan,indexonlyscan}') FROM conditions WHERE c !~ ' OR ' ORDER BY c;
SELECT ask('SELECT a, b, c FROM m WHERE ' || c || ' ORDER BY a, b, c LIMIT 7 OFFSET 150', 'm1', '{indexscan}') FROM conditions WHERE c !~ ' OR ' ORDER BY c;
DROP INDEX m1;
CREATE INDEX m2 ON m (a DESC, b ASC NULLS FIRST, c DESC NULLS LAST) INCLUDE (d, id);
SELECT fill(200, 2000);
SELECT ask('SELECT a, b, c FROM m WHERE ' || c || ' ORDER BY a DESC, b NULLS FIRST, c DESC NULLS LAST', 'm2') FROM conditions WHERE c !~ ' OR ' AND c ~ '\ma\M' ORDER BY c;
SELECT ask('SELECT a, b, c FROM m WHERE ' || c || ' ORDER BY a, b DESC NULLS LAST, c NULLS FIRST', 'm2', '{indexscan,indexonlyscan}') FROM conditions WHERE c !~ ' OR ' ORDER BY c;
SELECT ask('SELECT d, count(*), sum(id) FROM m WHERE a = 4 GROUP BY d ORDER BY d', 'm2', '{bitmapscan}');
DROP INDEX m2;
CREATE INDEX m3 ON m (d, (a * 10 + 1), lower(b) COLLATE "POSIX" DESC) WHERE c IS NOT NULL;
SELECT fill(200, 3000);
UPDATE m SET c = CASE WHEN c IS NULL THEN 5 END WHERE id % 11 = 0;
SELECT ask('SELECT d, a * 10, lower(b) FROM m WHERE c IS NOT NULL AND ' || c || ' ORDER BY d, a * 10 + 1, lower(b) COLLATE "POSIX" DESC', 'm3', '{indexscan}') FROM unnest(ARRAY['true', 'd', 'NOT d AND a * 10 + 1 > 31', 'd AND a * 10 + 1 IN (1, 21, 51) AND lower(b) COLLATE "POSIX" > ''abc''']) c;
DROP TABLE m CASCADE;

-- patterns
CREATE TABLE p (id int, c text COLLATE "C", k text COLLATE "en-x-icu");
INSERT INTO p SELECT g, s, s FROM (SELECT g, left('abcdefgh', g % 9) || (ARRAY['', 'x', '%', '_', '\', 'Ä', 'zz', E'\x7f', '日'])[1 + g % 7 % 9] || g % 50 AS s FROM generate_series(1, 500) g) x;
CREATE INDEX p_c ON p (c);
CREATE INDEX p_k ON p (k text_pattern_ops);
INSERT INTO p VALUES (0, NULL, NULL), (0, '', ''), (0, 'abcdefghx', 'abcdefghx'), (0, U&'\+10FFFF', U&'\+10FFFF');
SELECT ask(format('SELECT %1$s FROM p WHERE %1$s %2$s ORDER BY %1$s %3$s', col, c, CASE col WHEN 'k' THEN 'USING ~<~' END), 'p_' || col)
	FROM unnest('{c,k}'::text[]) col, unnest(ARRAY['LIKE ''abc%''', 'LIKE ''abcdefghx%''', 'LIKE ''abcdefgh\_%''', 'LIKE ''ab_def%''', 'LIKE ''abcx3''', 'LIKE ''abcÄ%''', 'LIKE E''\x7f%''', '~ ''^abcdefg[hz]''', '^@ ''abcde''', 'LIKE ''Ä%''', U&'LIKE ''\+10FFFF%''']) c;
CREATE INDEX p_icu ON p (k);
SELECT ask('SELECT k FROM p WHERE k >= ''abc'' AND k < ''abd'' ORDER BY k, id', 'p_icu', '{bitmapscan}');
SELECT ask('SELECT k FROM p ORDER BY k', 'p_icu', '{indexscan,indexonlyscan}');
DROP TABLE p;

-- min and max, DISTINCT, GROUP BY, windows; NULLs and deleted ends
CREATE TABLE e (k int, v int);
CREATE INDEX e_k ON e (k);
SELECT ask('SELECT min(k), max(k) FROM e', 'e_k', '{indexscan,indexonlyscan}');
INSERT INTO e VALUES (NULL, 1), (NULL, 2);
SELECT ask('SELECT min(k), max(k) FROM e', 'e_k', '{indexscan,indexonlyscan}');
INSERT INTO e SELECT g % 400, g FROM generate_series(1, 2000) g;
DELETE FROM e WHERE k < 20 OR k > 380;
SELECT ask('SELECT min(k), max(k) FROM e', 'e_k', '{indexscan,indexonlyscan}');
SELECT ask('SELECT min(k), max(k) FROM e WHERE k > 77 AND k < 200 AND v % 2 = 1', 'e_k', '{indexscan}');
SELECT ask('SELECT DISTINCT k FROM e ORDER BY k', 'e_k', '{indexscan,indexonlyscan}');
SELECT ask('SELECT k, count(*), sum(v) FROM e GROUP BY k ORDER BY k DESC', 'e_k', '{indexscan}');
SELECT ask('SELECT k, rank() OVER (ORDER BY k) FROM e WHERE k < 30', 'e_k', '{indexscan}');
SELECT min(k), max(k) FROM e;

-- one key many times, beside others
INSERT INTO e SELECT 100, g FROM generate_series(10001, 13000) g;
SELECT ask('SELECT k, count(*), sum(v) FROM e WHERE k BETWEEN 99 AND 101 GROUP BY k ORDER BY k', 'e_k', '{indexscan}');
SELECT ask('SELECT count(*), sum(v) FROM e WHERE k = 100', 'e_k', '{indexscan,bitmapscan}');
DELETE FROM e WHERE v BETWEEN 10500 AND 12500;
UPDATE e SET k = 101 WHERE v BETWEEN 12600 AND 12700;
SELECT ask('SELECT k, count(*), sum(v) FROM e WHERE k BETWEEN 99 AND 101 GROUP BY k ORDER BY k', 'e_k', '{indexscan}');
VACUUM e;
INSERT INTO e SELECT 100, g FROM generate_series(20001, 20500) g;
SELECT ask('SELECT k, count(*), sum(v) FROM e WHERE k BETWEEN 99 AND 101 GROUP BY k ORDER BY k', 'e_k', '{indexscan}');
SELECT ask('SELECT k FROM e ORDER BY k DESC', 'e_k', '{indexscan,indexonlyscan}');

-- merge joins go back to a mark: keys that occur often on both sides, also ones that occur on one only
CREATE TABLE f (k bigint, w int);
CREATE INDEX f_k ON f (k DESC);
INSERT INTO f SELECT g % 150 * 3, g FROM generate_series(1, 600) g;
DELETE FROM e WHERE k = 100 AND v % 40 > 0;
CREATE FUNCTION merge_joins() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE q text; want text; got text; line text; plan text;
BEGIN
	FOREACH q IN ARRAY ARRAY['e JOIN f ON e.k = f.k', 'e LEFT JOIN f ON e.k = f.k AND f.w > 300', 'e FULL JOIN f ON e.k = f.k', 'e e JOIN e f ON e.k = f.k AND e.v <> f.v', 'f e JOIN f ON f.k = e.k AND f.w < e.w'] LOOP
		q := format('SELECT concat_ws('' '', count(*), sum(hashtext(concat_ws('' '', e::text, f::text)))) FROM %s', q);
		PERFORM allow('seqscan'), set_config('enable_mergejoin', 'off', false), set_config('enable_hashjoin', 'on', false);
		EXECUTE q INTO want;
		PERFORM allow('indexscan'), set_config('enable_mergejoin', 'on', false), set_config('enable_hashjoin', 'off', false), set_config('enable_nestloop', 'off', false),
			set_config('enable_material', 'off', false);
		EXECUTE q INTO got;
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP plan := plan || line || E'\n'; END LOOP;
		IF plan !~ 'Merge .*Index Scan.*Index Scan' OR plan ~ 'Sort|Materialize' THEN RETURN NEXT plan; END IF;
		IF got IS DISTINCT FROM want THEN RETURN NEXT format('%s: %s instead of %s', q, got, want); END IF;
	END LOOP;
	PERFORM set_config('enable_nestloop', 'on', false), set_config('enable_hashjoin', 'on', false), set_config('enable_material', 'on', false), allow('seqscan');
	RETURN NEXT want ~ '^[1-9]';
END $$;
SELECT merge_joins();

-- scroll cursors: to and fro, past both ends, with changes around the place
DELETE FROM f WHERE w > 12;
SELECT allow('indexscan');
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k, w FROM f WHERE k > 3 ORDER BY k;
FETCH 3 FROM c;
INSERT INTO f SELECT g, 0 FROM generate_series(1, 40) g;
DELETE FROM f WHERE w IN (4, 5);
FETCH 2 FROM c;
FETCH BACKWARD 3 FROM c;
FETCH ALL FROM c;
FETCH NEXT FROM c;
FETCH BACKWARD 2 FROM c;
FETCH ABSOLUTE 3 FROM c;
FETCH RELATIVE -2 FROM c;
FETCH BACKWARD ALL FROM c;
FETCH PRIOR FROM c;
FETCH NEXT FROM c;
FETCH LAST FROM c;
FETCH FIRST FROM c;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k, w FROM f WHERE k = ANY ('{36,3,9,3,12,100}') ORDER BY k DESC;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
DECLARE x SCROLL CURSOR FOR SELECT k, w FROM f WHERE k > 9 AND k < 9 ORDER BY k;
FETCH NEXT FROM x;
FETCH BACKWARD ALL FROM x;
FETCH NEXT FROM c;
UPDATE f SET w = -w WHERE CURRENT OF c;
MOVE NEXT IN c;
UPDATE f SET w = -w, k = 1000 WHERE CURRENT OF c RETURNING *;
FETCH NEXT FROM c;
ROLLBACK;
SELECT allow('seqscan');

-- a nested loop asks the inner index again and again; parameters change their type and are NULL
CREATE TABLE g (i2 smallint, i8 bigint, t text);
INSERT INTO g VALUES (9, 30, '3'), (NULL, 12, '4'), (36, NULL, '99'), (-3, 4294967305, NULL), (3, 0, '1');
SELECT allow('indexscan'), set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false);
SELECT g.*, f.w FROM g LEFT JOIN f ON f.k = g.i2 ORDER BY g.t;
SELECT g.*, f.w FROM g LEFT JOIN f ON f.k > g.i2 AND f.k <= g.i8 ORDER BY g.t, f.w;
SELECT g.i8, e.k, count(e.v) FROM g LEFT JOIN e ON e.k = g.i8 GROUP BY 1, 2 ORDER BY 1;
SELECT allow('seqscan');
RESET enable_hashjoin; RESET enable_mergejoin;

-- Long keys. What is too long for the access method is refused and leaves nothing behind; what is taken is found.
CREATE TABLE l (id int, k text COLLATE "C", b bytea);
CREATE INDEX l_k ON l (k);
CREATE INDEX l_b ON l (b DESC);
CREATE FUNCTION noise(seed int, len int) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$ SELECT substr(string_agg(md5(seed || ' ' || g), '' ORDER BY g), 1, len) FROM generate_series(1, len / 32 + 1) g $$;
CREATE FUNCTION long_key(n int, len int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
	BEGIN
		INSERT INTO l SELECT n, noise(1, len - 2) || n, decode(noise(1, len * 2 - 2) || to_char(n, 'fm00'), 'hex');
		answer := 'taken';
	EXCEPTION WHEN program_limit_exceeded THEN
		answer := 'refused';
	END;
	PERFORM allow('indexscan');
	IF (SELECT count(*) FROM l WHERE k = noise(1, len - 2) || n) <> (answer = 'taken')::int OR (SELECT count(*) FROM l WHERE b = decode(noise(1, len * 2 - 2) || to_char(n, 'fm00'), 'hex')) <> (answer = 'taken')::int THEN
		answer := answer || ', but ' || (SELECT count(*) FROM l);
	END IF;
	PERFORM allow('seqscan');
	RETURN answer;
END $$;
SELECT long_key(n, 2000) FROM generate_series(11, 14) n;
SELECT count(*) FROM generate_series(21, 24) n, long_key(n, 8000) a WHERE a IN ('taken', 'refused');
SELECT count(*) FROM generate_series(31, 36) n, long_key(n, 60000) a WHERE a IN ('taken', 'refused');
SELECT count(*) FROM generate_series(41, 42) n, long_key(n, 1000000) a WHERE a IN ('taken', 'refused');
INSERT INTO l VALUES (50, repeat('x', 60000), convert_to(repeat('y', 60000), 'UTF8')), (51, repeat('x', 60001), ''), (52, NULL, NULL);
SELECT ask('SELECT k FROM l ORDER BY k', 'l_k', '{indexscan,indexonlyscan}'), ask('SELECT b FROM l ORDER BY b', 'l_b', '{indexscan,indexonlyscan}');
SELECT ask('SELECT id FROM l WHERE k > noise(1, 1998) || 12 ORDER BY k', 'l_k'), ask('SELECT id FROM l WHERE k = repeat(''x'', 60001) ORDER BY k', 'l_k');
DELETE FROM l WHERE id % 2 = 0;
VACUUM l;
SELECT long_key(n, 2000) FROM generate_series(12, 14, 2) n;
SELECT ask('SELECT k FROM l ORDER BY k DESC', 'l_k', '{indexscan,indexonlyscan}'), ask('SELECT b FROM l ORDER BY b DESC', 'l_b', '{indexscan,indexonlyscan}');
SELECT count(*) >= 5 AS rows_left FROM l;

-- the comparisons above can fail
CREATE TABLE w (k int);
CREATE INDEX w_k ON w (k);
INSERT INTO w VALUES (1), (2);
BEGIN;
UPDATE pg_index SET indisready = false WHERE indexrelid = 'w_k'::regclass;
INSERT INTO w VALUES (3);
UPDATE pg_index SET indisready = true WHERE indexrelid = 'w_k'::regclass;
COMMIT;
SELECT ask('SELECT k FROM w ORDER BY k', 'w_k', '{indexscan}');
SELECT bool_or(a LIKE '%no use of other_index%') AS plan_is_looked_at FROM ask('SELECT k FROM w WHERE k > 0 ORDER BY k', 'other_index', '{bitmapscan}') a;

DROP SCHEMA t_index_scans CASCADE;
