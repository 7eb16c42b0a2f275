-- Ordered indexes over every btree operator class of core, over classes of extensions and
-- of the user, and over collations: an index gives the rows, in the order, of a
-- sequential scan and a sort. Forward, backward, by bitmap and from the index alone.
SET client_min_messages = warning;
CREATE SCHEMA t_index_types;
SET search_path = t_index_types, pg_catalog;
SET jit = off;
SET intervalstyle = postgres;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE EXTENSION hstore;
CREATE EXTENSION cube;
CREATE EXTENSION seg;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'so so' BEFORE 'ok';
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE COLLATION libc (provider = libc, locale = 'C.UTF-8');
CREATE COLLATION icu (provider = icu, locale = 'und');
CREATE COLLATION numbers (provider = icu, locale = 'en-u-kn-true');
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION noaccent (provider = icu, locale = 'und-u-ks-level1-kc-true', deterministic = false);

-- An operator class whose comparison function is in SQL, and goes by a setting.
CREATE FUNCTION turn_cmp(a int, b int) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT btint4cmp(a, b) * current_setting('t.sign')::int);
END $$;
SET t.sign = 1;
CREATE FUNCTION turn_lt(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN turn_cmp($1, $2) < 0; END $$;
CREATE FUNCTION turn_le(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN turn_cmp($1, $2) <= 0; END $$;
CREATE FUNCTION turn_eq(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN turn_cmp($1, $2) = 0; END $$;
CREATE FUNCTION turn_ge(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN turn_cmp($1, $2) >= 0; END $$;
CREATE FUNCTION turn_gt(int, int) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN turn_cmp($1, $2) > 0; END $$;
CREATE OPERATOR #< (FUNCTION = turn_lt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = #>);
CREATE OPERATOR #<= (FUNCTION = turn_le, LEFTARG = int, RIGHTARG = int, COMMUTATOR = #>=);
CREATE OPERATOR #= (FUNCTION = turn_eq, LEFTARG = int, RIGHTARG = int, COMMUTATOR = #=);
CREATE OPERATOR #>= (FUNCTION = turn_ge, LEFTARG = int, RIGHTARG = int, COMMUTATOR = #<=);
CREATE OPERATOR #> (FUNCTION = turn_gt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = #<);
CREATE OPERATOR CLASS turn_ops FOR TYPE int USING btree AS
	OPERATOR 1 #<, OPERATOR 2 #<=, OPERATOR 3 #=, OPERATOR 4 #>=, OPERATOR 5 #>, FUNCTION 1 turn_cmp(int, int);

-- Operator class, type, values that are always there, SQL for a random value, collation.
CREATE TABLE kind (opc text, typ text, extremes text[], random text, coll text DEFAULT '') USING heap;
INSERT INTO kind VALUES
('bool_ops', 'bool', '{f,t}', 'random() < 0.5'),
('char_ops', '"char"', '{"",a,b,Z," "}', '(random() * 255 - 128)::int::"char"'),
('int2_ops', 'int2', '{-32768,32767,0,-1,1,255,256,-256}', '(random() * 65535 - 32768)::int2'),
('int4_ops', 'int4', '{-2147483648,2147483647,0,-1,1,65535,65536,-32769}', '(random() * 4294967295 - 2147483648)::int8::int4'),
('int4_ops', 'posint', '{1,2147483647}', '1 + (random() * 10)::int'),
('int8_ops', 'int8', '{-9223372036854775808,9223372036854775807,0,-1,1,2147483648,-2147483649,4294967296}', '(random() * 1.8e19 - 9e18)::int8'),
('float4_ops', 'float4', '{0,-0,NaN,Infinity,-Infinity,1e-45,-1e-45,3.4e38,-3.4e38,0.1}', '((random() - 0.5) * 10 ^ (random() * 60 - 30))::float4'),
('float8_ops', 'float8', '{0,-0,NaN,Infinity,-Infinity,5e-324,-5e-324,1.7e308,-1.7e308,0.1,1e39}', '(random() - 0.5) * 10 ^ (random() * 400 - 200)'),
('numeric_ops', 'numeric', '{0,-0.000,NaN,Infinity,-Infinity,1,1.0,1.000,-1,9999,10000,9999.9999,1e-200,-1e-200,1e1000,-1e1000,123456789012345678901234567890.1}',
	'CASE g % 3 WHEN 0 THEN (random() - 0.5)::numeric * 10::numeric ^ (random() * 60 - 30)::int WHEN 1 THEN round(random()::numeric * 20, g % 4) ELSE (random() * 1e14)::int8 * 10000 END'),
('money_ops', 'money', '{-92233720368547758.08,92233720368547758.07,0,0.01,-0.01}', '((random() - 0.5) * 1e9)::numeric::money'),
('oid_ops', 'oid', '{0,1,2147483647,2147483648,4294967295}', '(random() * 4294967295)::int8::oid'),
('xid8_ops', 'xid8', '{0,1,4294967296,18446744073709551615,9223372036854775808}', '(random() * 9e18)::int8::text::xid8'),
('tid_ops', 'tid', '{"(0,0)","(0,1)","(0,256)","(4294967295,65535)","(1,0)","(2147483648,1)"}', 'format(''(%s,%s)'', (random() * 600)::int, (random() * 600)::int)::tid'),
('pg_lsn_ops', 'pg_lsn', '{0/0,0/1,1/0,FFFFFFFF/FFFFFFFF,7FFFFFFF/0,80000000/0}', '''0/0''::pg_lsn + (random() * 9e18)::int8::numeric'),
('date_ops', 'date', '{-infinity,infinity,0001-01-01,"4713-01-01 BC",5874897-12-31,2000-01-01,1999-12-31}', '''2000-01-01''::date + ((random() - 0.5) * 1e6)::int'),
('time_ops', 'time', '{00:00,24:00,23:59:59.999999,12:00}', '''00:00''::time + random() * interval ''1 day'''),
('timetz_ops', 'timetz', '{00:00+15:59,24:00-15:59,12:00+00,13:00+01,11:00-01,12:00+01}', '(''00:00''::time + random() * interval ''1 day'')::text::timetz AT TIME ZONE ((random() * 30 - 15)::int * interval ''30 min'')'),
('timestamp_ops', 'timestamp', '{-infinity,infinity,"4713-01-01 00:00 BC","294276-12-31 23:59:59.999999","2000-01-01 00:00","1999-12-31 23:59:59.999999"}', '''2000-01-01''::timestamp + (random() - 0.5) * interval ''900 years'''),
('timestamptz_ops', 'timestamptz', '{-infinity,infinity,"4713-01-02 00:00+00 BC","294276-12-31 00:00+00","2000-01-01 00:00+00","1999-12-31 23:59:59.999999+00"}', '''2000-01-01 00:00+00''::timestamptz + (random() - 0.5) * interval ''900 years'''),
('interval_ops', 'interval', '{0,"1 mon","30 days","720 hours","29 days 24 hours","-1 mon","-30 days","178000000 years","-178000000 years","1 mon -30 days","2147483647 days","0.000001 s","-0.000001 s","1 day","24:00","23:59:59.999999"}',
	'(random() - 0.5) * interval ''3 mons'' + (random() * 4)::int * interval ''30 days'''),
('uuid_ops', 'uuid', '{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff,7fffffff-ffff-ffff-ffff-ffffffffffff,80000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000001}', 'gen_random_uuid()'),
('bytea_ops', 'bytea', '{"","\\\\x00","\\\\x0000","\\\\x0001","\\\\x01","\\\\xff","\\\\xff00","\\\\xffff","\\\\x6162636465666768","\\\\x616263646566676800","\\\\x6162636465666768ff"}',
	'CASE WHEN g % 2 = 0 THEN decode(left(md5(random()::text), 2 * (random() * 16)::int), ''hex'') ELSE ''\x6162636465666768''::bytea || decode(left(md5(random()::text), 2 * (random() * 3)::int), ''hex'') END'),
('name_ops', 'name', '{"","a","ab",abcdefgh,abcdefghi,"abcdefgh ",xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,Z,é}', 'repeat(''a'', g % 64) || left(md5(random()::text), 3)'),
('bit_ops', 'bit(12)', '{000000000000,111111111111,000000000001,100000000000,011111111111}', '((random() * 4095)::int)::bit(12)'),
('varbit_ops', 'varbit', '{"",0,00,000000000,1,10,11,111111111,00000001,000000010}', '((random() * 4095)::int)::bit(12)::text::bit varying(9)'),
('inet_ops', 'inet', '{0.0.0.0/0,0.0.0.0,255.255.255.255,10.0.0.1/8,10.0.0.1,10.0.0.0/8,10.0.0.0/9,10.0.0.1/24,::,::/0,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,::1,::ffff:10.0.0.1,2001:db8::1/64}',
	'CASE WHEN g % 2 = 0 THEN set_masklen(''10.0.0.0''::inet + (random() * 300)::int8, 24 + g % 9) ELSE set_masklen(''2001:db8::''::inet + (random() * 300)::int8, 100 + g % 29) END'),
('cidr_ops', 'cidr', '{0.0.0.0/0,10.0.0.0/8,10.0.0.0/9,10.0.0.0/32,::/0,2001:db8::/32,2001:db8::/128}', 'network(set_masklen(''10.0.0.0''::inet + (random() * 3000)::int8, 20 + g % 13))::cidr'),
('macaddr_ops', 'macaddr', '{00:00:00:00:00:00,ff:ff:ff:ff:ff:ff,7f:ff:ff:ff:ff:ff,80:00:00:00:00:00}', 'left(md5(random()::text), 12)::macaddr'),
('macaddr8_ops', 'macaddr8', '{00:00:00:00:00:00:00:00,ff:ff:ff:ff:ff:ff:ff:ff,80:00:00:00:00:00:00:00}', 'left(md5(random()::text), 16)::macaddr8'),
('array_ops', 'int[]', '{"{}","{NULL}","{1}","{1,2}","{1,NULL}","{{1,2}}","[0:1]={1,2}","{-1}","{2147483647,-2147483648}"}', '(SELECT array_agg(nullif((random() * 3)::int, 0)) FROM generate_series(0, g % 4))'),
('array_ops', 'text[]', '{"{}","{NULL}","{\"\"}","{a,b}","{abcdefgh1}","{abcdefgh,1}"}', '(SELECT array_agg(left(md5(random()::text), 1)) FROM generate_series(0, g % 4))'),
('enum_ops', 'mood', '{sad,"so so",ok,happy}', '(ARRAY[''happy'', ''ok'', ''so so'', ''sad''])[1 + g % 4]::mood'),
('range_ops', 'int4range', '{empty,"(,)","[1,)","(,1)","[1,2)","[1,3)","[0,3)"}', 'int4range(g % 7, g % 7 + (random() * 5)::int)'),
('range_ops', 'numrange', '{empty,"(,)","[1,)","(1,)","(,1)","(,1]","[1,2)","(1,2)","[1.0,2]"}', 'numrange(g % 7, g % 7 + (random() * 5)::numeric(4, 1), (ARRAY[''[]'', ''()'', ''[)'', ''(]''])[1 + g % 4])'),
('multirange_ops', 'int4multirange', '{"{}","{(,)}","{[1,2)}","{[1,2),[3,4)}","{(,0),[5,)}"}', 'int4multirange(int4range(g % 7, g % 7 + 2), int4range(9, 9 + (random() * 5)::int))'),
('record_ops', 'pair', '{"(,)","(1,)","(1,\"\")","(1,a)","(2,)","(,a)","(-1,abcdefghi)"}', 'ROW((random() * 4)::int, left(md5(random()::text), g % 3))::pair'),
('record_image_ops', 'pair', '{"(,)","(1,)","(1,\"\")","(1,a)","(256,)","(,a)","(-1,abcdefghi)"}', 'ROW((random() * 4)::int, left(md5(random()::text), g % 3))::pair'),
('jsonb_ops', 'jsonb', '{"null","true","false","0","-0.0","1","1.0","\"\"","\"a\"","[]","{}","[1]","[[]]","{\"a\": 1}","{\"a\": 1.00}","{\"b\": null}","[null]"}',
	'CASE g % 4 WHEN 0 THEN to_jsonb((random() * 9)::int) WHEN 1 THEN to_jsonb(left(md5(random()::text), 2)) WHEN 2 THEN jsonb_build_array((random() * 9)::int, g % 3) ELSE jsonb_build_object(left(md5(random()::text), 1), g % 3) END'),
('tsvector_ops', 'tsvector', '{"",a,"a:1","a:1A","a b","b","''x y''"}', 'to_tsvector(''simple'', left(md5(random()::text), 1) || '' '' || left(md5(random()::text), g % 2))'),
('tsquery_ops', 'tsquery', '{"",a,"!a","a & b","a | b","a <-> b","a:*"}', '(left(md5(random()::text), 1) || '' & '' || left(md5(random()::text), 1))::tsquery'),
('oidvector_ops', 'oidvector', '{"","0","1 2","1 2 3","4294967295","2 1"}', '(SELECT string_agg((random() * 3)::int::text, '' '') FROM generate_series(0, g % 4))::oidvector'),
('citext_ops', 'citext', '{"",a,A,b,B,É,é,abcdefgh1,ABCDEFGH1,ABCDEFGHi}', '(CASE WHEN g % 2 = 0 THEN upper(left(md5(random()::text), 2)) ELSE left(md5(random()::text), 2) END)::citext'),
('citext_pattern_ops', 'citext', '{"",a,A,b,B,É,é}', '(CASE WHEN g % 2 = 0 THEN upper(left(md5(random()::text), 2)) ELSE left(md5(random()::text), 2) END)::citext'),
('ltree_ops', 'ltree', '{"",a,a.b,a.b.c,ab,a.bc,B,1.2.10,1.2.9}', '(left(md5(random()::text), 1) || ''.'' || left(md5(random()::text), 1))::ltree'),
('btree_hstore_ops', 'hstore', '{"","a=>1","a=>NULL","b=>1,a=>2","a=>10"}', 'hstore(left(md5(random()::text), 1), (g % 3)::text)'),
('cube_ops', 'cube', '{"(0)","(-0)","(1),(2)","(1,2),(3,4)","(2),(1)"}', 'cube((random() * 5)::int, (random() * 5)::int)'),
('seg_ops', 'seg', '{"1","1 .. 2","<1","~1","1.0","> 1"}', '((random() * 9)::int || '' .. 10'')::seg'),
('turn_ops', 'int4', '{-2147483648,2147483647,0,-1,1}', '(random() * 100)::int');

-- strings: every collation over the same values, in the classes for text
INSERT INTO kind
SELECT opc, typ, ARRAY['', ' ', 'a', 'A', 'b', 'B', 'ab', 'a b', 'a-b', 'é', 'e', 'É', 'ß', 'ss', '日本', '😀', E'\x01', '~', '2', '10', 'a2', 'a10',
		'abcdefg', 'abcdefgh', 'abcdefghi', 'abcdefghI', E'abcdefgh\x01', 'abcdefgh ', 'abcdefghé', repeat('x', 15), repeat('x', 16), repeat('x', 17), repeat('x', 16) || 'a',
		repeat('long ', 400) || 'a', repeat('long ', 400) || 'B', repeat('long ', 400)],
	'CASE g % 3 WHEN 0 THEN left(md5(random()::text), (random() * 3)::int) WHEN 1 THEN ''abcdefgh'' || (random() * 99)::int ELSE initcap(translate(md5(random()::text), ''0123456789'', ''éßÄ -_xyzñ'')) END', coll
FROM (VALUES ('text_ops', 'text', '{C,POSIX,libc,icu,numbers,nocase,noaccent,default}'::text[]),
	('varchar_ops', 'varchar', '{C,icu}'), ('bpchar_ops', 'char(2005)', '{C,nocase}'),
	('text_pattern_ops', 'text', '{C,libc,icu}'), ('varchar_pattern_ops', 'varchar(3000)', '{icu}'), ('bpchar_pattern_ops', 'char(2005)', '{icu}'),
	('array_ops', 'text[]', '{nocase}'), ('citext_ops', 'citext', '{icu}')) c(opc, typ, colls), unnest(colls) coll
WHERE typ !~ '\[\]';
INSERT INTO kind VALUES ('array_ops', 'text[]', '{"{a}","{A}","{b,a}","{B,A}","{É}","{}"}', 'ARRAY[upper(left(md5(random()::text), 1)), left(md5(random()::text), 1)]', 'nocase');

-- none of core's classes is missing
SELECT opcname FROM pg_opclass o JOIN pg_am a ON a.oid = opcmethod
WHERE amname = 'btree' AND opcnamespace = 'pg_catalog'::regnamespace AND opcname NOT IN (SELECT opc FROM kind);

-- Which scans the planner may use.
CREATE FUNCTION allow(what text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', (what = 'seqscan')::text, false), set_config('enable_sort', (what IN ('seqscan', 'bitmapscan'))::text, false),
		set_config('enable_indexscan', (what IN ('indexscan', 'indexonlyscan'))::text, false), set_config('enable_bitmapscan', (what = 'bitmapscan')::text, false),
		set_config('enable_indexonlyscan', (what = 'indexonlyscan')::text, false)
$$;

-- what a column is compared with that is of another type
CREATE VIEW literal AS SELECT DISTINCT typ, e FROM kind, unnest(extremes[:8]) e WHERE opc ~ '^(int|float|date|time|name|text)' AND coll IN ('', 'C');

CREATE TABLE asked (n bigint) USING heap;

-- The answer of each query by each kind of scan; a row for each difference. Rows appear by the rank
-- of their value, since equal values need not look alike. Returns also what is not planned as it should.
CREATE FUNCTION ask_all(conditions text[], orders text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE c text; o text; q text; mode text; want text; got text; plan text; line text; n int := 0;
BEGIN
	FOREACH c IN ARRAY conditions LOOP
		FOREACH o IN ARRAY orders LOOP
			q := format('SELECT concat_ws('' '', count(*), sum(id), md5(string_agg(coalesce(rk::text, ''-''), '' ''))) FROM (SELECT id, rk FROM v WHERE %s ORDER BY %s) s', c, o);
			PERFORM allow('seqscan');
			EXECUTE q INTO want;
			FOREACH mode IN ARRAY ARRAY['indexscan', 'indexonlyscan', 'bitmapscan'] LOOP
				CONTINUE WHEN mode = 'bitmapscan' AND (o <> orders[1] OR c = 'true');
				PERFORM allow(mode);
				EXECUTE q INTO got;
				n := n + 1;
				IF got IS DISTINCT FROM want THEN
					RETURN NEXT format('%s ORDER BY %s (%s): %s instead of %s', c, o, mode, got, want);
				END IF;
				IF mode <> 'indexonlyscan' AND o = orders[1] THEN
					plan := '';
					FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP plan := plan || line || E'\n'; END LOOP;
					IF plan !~ (CASE mode WHEN 'indexscan' THEN 'Index Scan (Backward )?using v_k' ELSE 'Bitmap Index Scan on v_k' END) OR (mode = 'indexscan' AND plan ~ 'Sort') THEN
						RETURN NEXT format('%s ORDER BY %s (%s) is not planned so: %s', c, o, mode, plan);
					END IF;
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
	PERFORM allow('seqscan');
	INSERT INTO asked VALUES (n);
END $$;

-- A table of such values with an index, changed, and asked. AFTER is run before it is asked.
CREATE FUNCTION check_kind(k kind, shapes int[], after text DEFAULT 'SELECT') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	shape int; family oid; input oid; lt text; fill text; colla text := ''; nulls text; dir text; idx text; conditions text[]; ids int[]; answer text;
	ways text[];
BEGIN
	SELECT opcfamily, opcintype INTO family, input FROM pg_opclass WHERE opcname = k.opc AND opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree');
	SELECT format('OPERATOR(%s.%s)', oprnamespace::regnamespace, oprname) INTO lt
		FROM pg_amop JOIN pg_operator o ON o.oid = amopopr WHERE amopfamily = family AND amopstrategy = 1 AND amoplefttype = input AND amoprighttype = input;
	IF k.coll <> '' THEN colla := format('COLLATE %I', k.coll); END IF;
	FOREACH shape IN ARRAY shapes LOOP
		dir := CASE WHEN shape <= 2 THEN 'ASC' ELSE 'DESC' END;
		nulls := CASE WHEN shape IN (1, 3) THEN 'NULLS LAST' ELSE 'NULLS FIRST' END;
		idx := format('CREATE INDEX v_k ON v (k %s %s %s) INCLUDE (id, rk)', k.opc, dir, nulls);
		EXECUTE format('CREATE TABLE v (id int, k %s %s, rk int)', k.typ, colla);
		-- one half of them is built over rows, the other half grows by insertions
		IF shape % 2 = 1 THEN EXECUTE idx; END IF;
		EXECUTE format('INSERT INTO v SELECT row_number() OVER (), e::%s FROM unnest($1) e', k.typ) USING k.extremes;
		EXECUTE format('INSERT INTO v SELECT 100 + g, CASE WHEN g %% 15 > 0 THEN %s END FROM generate_series(1, 75) g', k.random);
		INSERT INTO v SELECT id + 200, v.k FROM v WHERE id % 3 = 0;
		IF shape % 2 = 0 THEN EXECUTE idx; END IF;
		EXECUTE format('INSERT INTO v SELECT 500 + g, %s FROM generate_series(1, 20) g', k.random);
		UPDATE v SET k = o.k FROM v o WHERE o.id = v.id + 1 AND v.id > 100 AND v.id % 5 = 0;
		UPDATE v SET k = NULL WHERE id % 40 = 3;
		DELETE FROM v WHERE id > 100 AND id % 9 = 4;
		EXECUTE format('UPDATE v SET rk = s.r FROM (SELECT id, dense_rank() OVER (ORDER BY k USING %s) AS r FROM v WHERE k IS NOT NULL) s WHERE s.id = v.id', lt);
		EXECUTE after;

		-- operators of the family with values of the column, with literals of the other types it knows, arrays, ranges, NULLs
		SELECT array_agg(id) INTO ids FROM (SELECT id FROM v WHERE v.k IS NOT NULL ORDER BY id > 100, random() LIMIT 2) s;
		ids[3] := (SELECT id FROM v WHERE id > 100 AND v.k IS NOT NULL ORDER BY random() LIMIT 1);
		SELECT array_agg(cond) INTO conditions FROM (
			SELECT format('k OPERATOR(%s.%s) (SELECT o.k FROM v o WHERE o.id = %s)', oprnamespace::regnamespace, oprname, i) AS cond
				FROM pg_amop JOIN pg_operator o ON o.oid = amopopr, unnest(ids) i
				WHERE amopfamily = family AND amoplefttype = input AND amoprighttype = input
			UNION ALL
			SELECT format('k OPERATOR(%s.%s) %L::%s %s', oprnamespace::regnamespace, oprname, e, t.typ, colla)
				FROM pg_amop JOIN pg_operator o ON o.oid = amopopr JOIN literal t ON to_regtype(t.typ) = amoprighttype
				WHERE amopfamily = family AND amoplefttype = input AND amoprighttype <> input
					AND (shape = 1 OR hashtext(e || shape) % 4 = 0)
			UNION ALL
			SELECT format('k %s ANY (ARRAY[%s, NULL, %2$s])', op, array_to_string(ARRAY(SELECT format('(SELECT o.k FROM v o WHERE o.id = %s)', i) FROM unnest(ids) i), ', '))
				FROM (SELECT format('OPERATOR(%s.%s)', oprnamespace::regnamespace, oprname) FROM pg_amop JOIN pg_operator o ON o.oid = amopopr
					WHERE amopfamily = family AND amoplefttype = input AND amoprighttype = input AND amopstrategy IN (1, 3, 4)) s(op)
				WHERE k.typ !~ '\[\]'
			UNION ALL
			SELECT format('k %s (SELECT o.k FROM v o WHERE o.id = %s) AND k %s (SELECT o.k FROM v o WHERE o.id = %s)', lt, a, replace(lt, '<', '>'), b)
				FROM unnest(ids) a, unnest(ids) b WHERE a <> b AND (a < b) = (shape % 2 = 0)
			UNION ALL SELECT unnest(ARRAY['true', format('k %s (SELECT NULL::%s)', lt, k.typ)])
			-- IS NULL of a composite value is about its fields
			UNION ALL SELECT unnest(ARRAY['k IS NULL', 'k IS NOT NULL', format('k %s (SELECT o.k FROM v o WHERE o.id = %s) AND k IS NOT NULL', lt, ids[1])]) WHERE k.typ <> 'pair') s;
		ways := ARRAY[format('k USING %s %s', CASE dir WHEN 'ASC' THEN lt ELSE replace(lt, '<', '>') END, nulls),
			format('k USING %s %s', CASE dir WHEN 'ASC' THEN replace(lt, '<', '>') ELSE lt END, CASE nulls WHEN 'NULLS LAST' THEN 'NULLS FIRST' ELSE 'NULLS LAST' END)];
		FOR answer IN SELECT ask_all(conditions, ways) LOOP
			RETURN NEXT format('%s %s %s %s: %s', k.opc, k.typ, k.coll, idx, answer);
		END LOOP;
		DROP TABLE v;
	END LOOP;
END $$;

SELECT setseed(0.4);
SELECT p.* FROM kind k, check_kind(k, CASE WHEN (opc, coll) IN (('int8_ops', ''), ('numeric_ops', ''), ('text_ops', 'C'), ('text_ops', 'icu'))
	THEN '{1,2,3,4}' ELSE ARRAY[1 + abs(hashtext(typ || opc || coll)) % 4] END, 'SELECT') p;
SELECT sum(n) > 8000 AS asked_enough FROM asked;

-- the checks find an index in the wrong order, and one that lacks a row
SELECT count(*) > 20 AS found FROM kind k, check_kind(k, '{1}', 'SET t.sign = -1') WHERE opc = 'turn_ops';
SET t.sign = 1;
SELECT count(*) > 20 AS found FROM kind k, check_kind(k, '{1}', $$
	UPDATE pg_index SET indisready = false WHERE indexrelid = 'v_k'::regclass;
	INSERT INTO v SELECT 9999, k, rk FROM v WHERE id = 107;
	UPDATE pg_index SET indisready = true WHERE indexrelid = 'v_k'::regclass $$) WHERE opc IN ('int4_ops', 'text_ops') AND coll IN ('', 'icu');
DROP SCHEMA t_index_types CASCADE;
