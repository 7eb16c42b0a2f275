-- Random statements on twin tables, one in the default access method and one in
-- heap: the same results, row counts, errors, trigger calls and contents after
-- each, by sequential and index scans, with savepoints, commits and rollbacks.
CREATE SCHEMA t_twins;
SET search_path = t_twins;
SET jit = off;
SELECT setseed(0.4211) IS NOT NULL AS seeded;

-- x: default access method, h: heap; the second pair has triggers and children
CREATE TABLE x1 (id int PRIMARY KEY, k int, v text, n int DEFAULT 0);
CREATE TABLE h1 (LIKE x1 INCLUDING DEFAULTS) USING heap;
CREATE TABLE x2 (LIKE x1 INCLUDING DEFAULTS);
CREATE TABLE h2 (LIKE x1 INCLUDING DEFAULTS) USING heap;
CREATE TABLE log (tab name, tag text, h bigint) USING heap;
DO $$ DECLARE t text; BEGIN
	FOREACH t IN ARRAY ARRAY['h1', 'x2', 'h2'] LOOP EXECUTE format('ALTER TABLE %s ADD PRIMARY KEY (id)', t); END LOOP;
	FOREACH t IN ARRAY ARRAY['x1', 'h1', 'x2', 'h2'] LOOP EXECUTE format('CREATE INDEX ON %s (k); CREATE INDEX ON %1$s USING hash (n) WHERE n > 2', t); END LOOP;
END $$;
CREATE TABLE x2c (id int PRIMARY KEY, pid int REFERENCES x2 ON UPDATE CASCADE ON DELETE SET NULL);
CREATE TABLE h2c (id int PRIMARY KEY, pid int REFERENCES h2 ON UPDATE CASCADE ON DELETE SET NULL) USING heap;
CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log VALUES (TG_TABLE_NAME, TG_NAME || TG_OP, hashtext(concat(TG_NAME, TG_OP,
		CASE WHEN TG_OP <> 'INSERT' THEN OLD END, '>', CASE WHEN TG_OP <> 'DELETE' THEN NEW END)));
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION logged_table() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO log SELECT TG_TABLE_NAME, 'table', sum(hashtext(concat(o.*, '>', n.*))) FROM o FULL JOIN n USING (v); RETURN NULL; END $$;
DO $$ DECLARE t text; BEGIN
	FOREACH t IN ARRAY ARRAY['x2', 'h2'] LOOP
		EXECUTE format('CREATE TRIGGER bef BEFORE UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION logged()', t);
		EXECUTE format('CREATE TRIGGER aft AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION logged()', t);
		EXECUTE format('CREATE CONSTRAINT TRIGGER def AFTER INSERT OR UPDATE OR DELETE ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION logged()', t);
		EXECUTE format('CREATE TRIGGER tab AFTER UPDATE ON %s REFERENCING OLD TABLE AS o NEW TABLE AS n EXECUTE FUNCTION logged_table()', t);
	END LOOP;
END $$;

-- contents by one kind of scan
CREATE FUNCTION contents(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text; BEGIN
	EXECUTE format('SELECT concat_ws('' '', count(*), sum(hashtext(t::text)::bigint), sum(id), sum(k), sum(n)) FROM %I t WHERE id > -1 AND (k > -1 OR k IS NULL)', t) INTO r;
	RETURN r; END $$;
CREATE FUNCTION by_seq(t text) RETURNS text LANGUAGE sql SET enable_indexscan = off SET enable_bitmapscan = off AS 'SELECT contents(t)';
CREATE FUNCTION by_index(t text) RETURNS text LANGUAGE sql SET enable_seqscan = off SET enable_bitmapscan = off AS 'SELECT contents(t)';
CREATE FUNCTION by_bitmap(t text) RETURNS text LANGUAGE sql SET enable_seqscan = off SET enable_indexscan = off AS 'SELECT contents(t)';

-- one statement on one table: its outcome as text; T stands for the table, P for its pair
CREATE FUNCTION run(stmt text, t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text; n bigint;
BEGIN
	stmt := regexp_replace(stmt, '\mT\M', t, 'g');
	stmt := regexp_replace(stmt, '\mTC\M', t || 'c', 'g');
	IF stmt ~ 'RETURNING' THEN
		EXECUTE 'WITH r AS (' || stmt || ') SELECT concat_ws('' '', count(*), sum(hashtext(r::text)::bigint)) FROM r' INTO r;
	ELSE
		EXECUTE stmt;
		GET DIAGNOSTICS n = ROW_COUNT;
		r := n::text;
	END IF;
	RETURN r;
EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE;
END $$;
CREATE PROCEDURE compare(pair text, stmt text, a text, b text) LANGUAGE plpgsql AS $$
DECLARE xt text := 'x' || pair; ht text := 'h' || pair; want text := contents('h' || pair);
BEGIN
	IF a IS DISTINCT FROM b THEN RAISE WARNING '%: % on x, % on h', stmt, a, b; END IF;
	IF by_seq(xt) <> want THEN RAISE WARNING '%: seq scan % instead of %', stmt, by_seq(xt), want; END IF;
	IF by_index(xt) <> want THEN RAISE WARNING '%: index scan % instead of %', stmt, by_index(xt), want; END IF;
	IF by_bitmap(xt) <> want THEN RAISE WARNING '%: bitmap scan % instead of %', stmt, by_bitmap(xt), want; END IF;
	IF pair = '2' AND EXISTS (SELECT FROM (SELECT replace(tab::text, 'h', 'x') AS tab, tag, h, count(*) FILTER (WHERE tab = 'x2') - count(*) FILTER (WHERE tab = 'h2') AS d FROM log GROUP BY 1, 2, 3) s WHERE d <> 0) THEN
		RAISE WARNING '%: triggers differ', stmt;
		DELETE FROM log;
	END IF;
END $$;
CREATE FUNCTION r(n int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT floor(random() * n)::int';
CREATE FUNCTION random_stmt(pair text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE i int := r(60); j int := r(60); m int := r(6);
BEGIN
	RETURN CASE r(18 + (pair = '2')::int * 2)
		WHEN 0 THEN format('INSERT INTO T VALUES (%s, %s, ''ins %s'', %s)', i, m, j, m)
		WHEN 1 THEN format('INSERT INTO T SELECT g, g %% 7, ''many'', %s FROM generate_series(%s, %s) g ON CONFLICT DO NOTHING', m, i, i + 5)
		WHEN 2 THEN format('INSERT INTO T AS t VALUES (%s, %s, ''ups''), (%s, 1, ''ups'') ON CONFLICT (id) DO UPDATE SET v = t.v || ''u'', n = t.n + 1 RETURNING *', i, m, j)
		WHEN 3 THEN format('INSERT INTO T AS t VALUES (%s, %s, ''upk'') ON CONFLICT (id) DO UPDATE SET k = t.k + 1 WHERE t.n < 5 RETURNING *', i, m)
		WHEN 4 THEN format('UPDATE T SET v = left(v, 20) || ''%s'' WHERE id = %s RETURNING *', m, i)
		WHEN 5 THEN format('UPDATE T SET k = k + 1 WHERE id BETWEEN %s AND %s RETURNING id, k', i, i + 8)
		WHEN 6 THEN format('UPDATE T SET n = (n + 1) %% 9 WHERE k = %s RETURNING *', m)
		WHEN 7 THEN format('UPDATE T SET id = id + 60 WHERE id = %s', i)
		WHEN 8 THEN format('UPDATE T SET id = id - 60 WHERE id > 60 RETURNING *')
		WHEN 9 THEN format('DELETE FROM T WHERE id = %s RETURNING *', i)
		WHEN 10 THEN format('DELETE FROM T WHERE k = %s AND id > %s', m, i)
		WHEN 11 THEN format('MERGE INTO T AS t USING generate_series(%s, %s) s (i) ON t.id = s.i WHEN MATCHED AND t.k > 3 THEN DELETE '
			'WHEN MATCHED THEN UPDATE SET v = ''m'' || t.n, k = t.k + %s WHEN NOT MATCHED AND s.i %% 2 = 0 THEN INSERT VALUES (s.i, %s, ''mi'')', i, i + 6, r(2), m)
		WHEN 12 THEN format('UPDATE T AS a SET n = b.n + 1, v = b.v FROM T AS b WHERE b.id = a.id + 1 AND a.id BETWEEN %s AND %s RETURNING a.*', i, i + 10)
		WHEN 13 THEN format('UPDATE T SET v = ''locked %s'' WHERE id IN (SELECT id FROM T WHERE k = %s ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING *', j, m)
		WHEN 14 THEN format('DELETE FROM T AS a USING T AS b WHERE a.id = b.id + %s AND b.k = %s RETURNING a.*, b.id', m, m)
		WHEN 15 THEN format('UPDATE T SET n = n + 1, k = NULLIF(k, %s) WHERE id %% 7 = %s', m, m)
		WHEN 16 THEN format('UPDATE T SET v = (10 / (id - %s))::text WHERE id > %s', i, j)
		WHEN 17 THEN 'UPDATE T SET n = 0, k = coalesce(k, 0) WHERE k > 8 OR k IS NULL RETURNING *'
		WHEN 18 THEN format('INSERT INTO TC VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET pid = excluded.pid', i, j)
		ELSE format('UPDATE TC SET pid = %s WHERE id = %s', j, i)
	END;
END $$;
CREATE PROCEDURE one(pair text) LANGUAGE plpgsql AS $$
DECLARE s text := random_stmt(pair);
BEGIN CALL compare(pair, s, run(s, 'x' || pair), run(s, 'h' || pair)); END $$;
-- nested blocks, a third of which is undone
CREATE PROCEDURE nest(pair text, depth int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..1 + r(3) LOOP
		CALL one(pair);
		IF depth > 0 AND random() < 0.6 THEN
			BEGIN
				CALL nest(pair, depth - 1);
				IF random() < 0.4 THEN RAISE EXCEPTION 'undo' USING ERRCODE = 'TS000'; END IF;
			EXCEPTION WHEN SQLSTATE 'TS000' THEN NULL;
			END;
			CALL compare(pair, 'after a block', '', '');
		END IF;
	END LOOP;
END $$;
CREATE PROCEDURE work(pair text, rounds int) LANGUAGE plpgsql AS $$
DECLARE kinds text[] := '{}';
BEGIN
	FOR i IN 1..rounds LOOP
		CALL nest(pair, r(4));
		IF random() < 0.3 THEN ROLLBACK; ELSE COMMIT; END IF;
		CALL compare(pair, 'after the end', '', '');
		kinds := kinds || ARRAY(SELECT DISTINCT tag FROM log WHERE tag <> ALL (kinds));
		TRUNCATE log;
		COMMIT;
	END LOOP;
	RAISE NOTICE '% kinds of trigger calls', cardinality(kinds);
END $$;
CALL work('1', 30);
CALL work('2', 30);
VACUUM x1; VACUUM x2;
CALL work('1', 15);
CALL work('2', 15);
SELECT count(*) > 5 AS some FROM x1;
SELECT count(*) AS differences FROM ((TABLE x1 EXCEPT TABLE h1) UNION ALL (TABLE h1 EXCEPT TABLE x1)
	UNION ALL (TABLE x2 EXCEPT TABLE h2) UNION ALL (TABLE h2 EXCEPT TABLE x2)) d;
SELECT count(*) AS differences FROM ((TABLE x2c EXCEPT TABLE h2c) UNION ALL (TABLE h2c EXCEPT TABLE x2c)) d;
SELECT count(*) AS orphans FROM x2c c LEFT JOIN x2 p ON p.id = c.pid WHERE c.pid IS NOT NULL AND p.id IS NULL;

SET client_min_messages = warning;
DROP SCHEMA t_twins CASCADE;
