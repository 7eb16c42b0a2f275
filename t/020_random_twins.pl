# Random statements by six sessions on twin tables, one in heap and one in the access method under test,
# changed by the same transactions with savepoints and rollbacks, under READ COMMITTED and REPEATABLE
# READ: each statement does the same to both, and any snapshot sees both alike.
#
# Both tables are changed by one statement, heap first: whatever could change a row between the two
# would need the heap row, which is locked by then. For statements where that does not hold (ON CONFLICT
# DO NOTHING, FOR KEY SHARE) there are rows that nobody deletes, or only their keys are compared.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('random_twins', "deadlock_timeout = '20ms'\nsynchronous_commit = off\nlog_min_messages = fatal\njit = off\n");

# h: heap, x: under test; c: children. The second pair has neither keys nor triggers.
for my $pair ([ 'h', 'heap' ], [ 'x', $AM ])
{
	my ($t, $am) = @$pair;
	$node->safe_psql('postgres', <<END);
CREATE TABLE $t (id int PRIMARY KEY, k int, v int, t text, u int UNIQUE) USING $am;
CREATE INDEX ${t}_k ON $t (k);
CREATE TABLE ${t}c (id int, pid int REFERENCES $t ON DELETE CASCADE ON UPDATE CASCADE, n int) USING $am;
CREATE INDEX ${t}c_pid ON ${t}c (pid);
CREATE TABLE ${t}p (id int, v int) USING $am;
INSERT INTO $t SELECT g, g % 10, g, 'start', NULL FROM generate_series(1, 60) g;
INSERT INTO ${t}c SELECT g, g, 0 FROM generate_series(1, 60) g;
INSERT INTO ${t}p SELECT g, 0 FROM generate_series(1, 30) g;
END
}

$node->safe_psql('postgres', <<'END');
CREATE TABLE done (kind int, outcome text) USING heap;

-- a random integer between a and b
CREATE FUNCTION r(a int, b int) RETURNS int LANGUAGE sql AS 'SELECT a + floor(random() * (b - a + 1))::int';

-- T stands for the table
CREATE FUNCTION random_statement(kind int) RETURNS text LANGUAGE sql AS $$
SELECT CASE kind
	WHEN 1 THEN format('UPDATE T SET v = v + %s, t = left(t || %s, 30) WHERE id = %s RETURNING T.*', r(1, 9), r(1, 9), r(1, 60))
	WHEN 2 THEN format('UPDATE T SET v = v + 1 WHERE id BETWEEN %s AND %1$s + %s RETURNING T.*', r(1, 60), r(1, 4))
	WHEN 3 THEN format('UPDATE T SET k = (k + %s) %% 10 WHERE id = %s RETURNING T.*', r(1, 9), r(1, 60))
	WHEN 4 THEN format('UPDATE T SET k = (k + 1) %% 10, v = v * 3 %% 1000 WHERE k = %s AND id %% 3 = %s RETURNING T.*', r(0, 9), r(0, 2))
	WHEN 5 THEN format('UPDATE T SET id = %s WHERE id = %s RETURNING T.*', r(1, 60), r(1, 60))
	WHEN 6 THEN format('UPDATE T SET u = %s WHERE id = %s RETURNING T.*', r(1, 20), r(1, 60))
	WHEN 7 THEN format('INSERT INTO T VALUES (%s, %s, 0, %L) RETURNING T.*', r(1, 60), r(0, 9), 'inserted')
	WHEN 8 THEN format('INSERT INTO T VALUES (%s, %s, 0, %L) ON CONFLICT (id) DO UPDATE SET v = T.v + 1, t = excluded.t RETURNING T.*', r(1, 60), r(0, 9), 'upserted')
	WHEN 9 THEN format('INSERT INTO T SELECT %s, 0, 0, %L ON CONFLICT DO NOTHING RETURNING T.*', r(1001, 1050), 'kept')
	WHEN 10 THEN format('DELETE FROM T WHERE id = %s RETURNING T.*', r(1, 60))
	WHEN 11 THEN format('DELETE FROM T WHERE k = %s AND id %% 7 = %s AND id < 1000 RETURNING T.*', r(0, 9), r(0, 6))
	WHEN 12 THEN format('SELECT * FROM T WHERE id BETWEEN %s AND %1$s + 2 FOR %s', r(1, 60), (ARRAY['UPDATE', 'NO KEY UPDATE', 'SHARE'])[r(1, 3)])
	WHEN 13 THEN format('SELECT id FROM T WHERE id = %s FOR KEY SHARE', r(1, 60))
	WHEN 14 THEN format('INSERT INTO Tc VALUES (%s, %s, 1) RETURNING *', r(100, 999), r(1, 60))
	WHEN 15 THEN format('UPDATE Tc SET pid = %s WHERE pid = %s RETURNING *', r(1, 60), r(1, 60))
	WHEN 16 THEN format('UPDATE Tc SET n = n + 1 WHERE pid = %s RETURNING *', r(1, 60))
	WHEN 17 THEN format('DELETE FROM Tc WHERE pid = %s AND id > 60 RETURNING *', r(1, 60))
	WHEN 18 THEN format('UPDATE T SET v = T.v + 100 FROM (VALUES (%s), (%s)) s(id) WHERE s.id = T.id RETURNING T.*', r(1, 30), r(31, 60))
	WHEN 19 THEN format('UPDATE Tp SET v = v + %s WHERE id = %s RETURNING *', r(1, 9), r(1, 30))
	WHEN 20 THEN format('DELETE FROM Tp WHERE id = %s AND v > 20 RETURNING *', r(1, 30))
	WHEN 21 THEN format('INSERT INTO Tp VALUES (%s, 0) RETURNING *', r(1, 30))
END $$;

CREATE FUNCTION compare() RETURNS text LANGUAGE sql AS $$
SELECT string_agg(which || ' ' || line, ', ') FROM (
	(SELECT 'h' AS which, h::text AS line FROM h EXCEPT ALL SELECT 'h', x::text FROM x) UNION ALL
	(SELECT 'x', x::text FROM x EXCEPT ALL SELECT 'x', h::text FROM h) UNION ALL
	(SELECT 'hc', c::text FROM hc c EXCEPT ALL SELECT 'hc', c::text FROM xc c) UNION ALL
	(SELECT 'xc', c::text FROM xc c EXCEPT ALL SELECT 'xc', c::text FROM hc c) UNION ALL
	(SELECT 'hp', p::text FROM hp p EXCEPT ALL SELECT 'hp', p::text FROM xp p) UNION ALL
	(SELECT 'xp', p::text FROM xp p EXCEPT ALL SELECT 'xp', p::text FROM hp p)) d
$$;

-- One statement on both tables, in a savepoint of its own.  What heap refuses is undone and noted; what
-- only the other table refuses or does otherwise is the end of the test.
CREATE PROCEDURE on_both(kind int, roll_back bool) LANGUAGE plpgsql AS $$
DECLARE
	stmt text := random_statement(kind);
	ha text; xa text; tab text;
BEGIN
	EXECUTE format('WITH a AS MATERIALIZED (%s), b AS MATERIALIZED (%s) SELECT
		(SELECT coalesce(string_agg(a::text, '','' ORDER BY a::text), '''') FROM a),
		(SELECT coalesce(string_agg(b::text, '','' ORDER BY b::text), '''') FROM b)',
		regexp_replace(stmt, '\mT(c|p)?\M', 'h\1', 'g'), regexp_replace(stmt, '\mT(c|p)?\M', 'x\1', 'g'))
		INTO ha, xa;
	IF ha <> xa THEN
		RAISE EXCEPTION 'different rows by %: heap %, table %', stmt, ha, xa USING ERRCODE = 'XX001';
	END IF;
	IF roll_back THEN
		RAISE EXCEPTION USING ERRCODE = 'P0999';
	END IF;
	INSERT INTO done VALUES (kind, CASE ha WHEN '' THEN 'none' ELSE 'rows' END);
EXCEPTION
	WHEN unique_violation OR foreign_key_violation OR serialization_failure OR deadlock_detected OR SQLSTATE 'P0999' THEN
		GET STACKED DIAGNOSTICS tab = TABLE_NAME;
		IF tab LIKE 'x%' THEN
			RAISE EXCEPTION '% by %', SQLERRM, stmt USING ERRCODE = 'XX001';
		END IF;
		INSERT INTO done VALUES (kind, SQLSTATE);
END $$;

CREATE PROCEDURE several() LANGUAGE plpgsql AS $$
DECLARE d text;
BEGIN
	PERFORM set_config('enable_seqscan', r(0, 1)::text, true);
	FOR i IN 1..r(1, 6) LOOP
		CALL on_both(r(1, 21), random() < 0.2);
		IF random() < 0.3 THEN
			d := compare();
			IF d IS NOT NULL THEN
				RAISE EXCEPTION 'the tables differ: %', d USING ERRCODE = 'XX001';
			END IF;
		END IF;
	END LOOP;
END $$;
END

my $bench = bench_start(
	$node, '-c', 6, '-j', 2, '-T', 8,
	bench_files(
		$node,
		'rc@5' => "BEGIN;\nCALL several();\nCOMMIT;\n",
		'rr@4' => "BEGIN ISOLATION LEVEL REPEATABLE READ;\nCALL several();\nCOMMIT;\n",
		'undone@1' => "BEGIN;\nCALL several();\nROLLBACK;\n"));
bench_finish($bench, 'six sessions, no difference seen');

is($node->safe_psql('postgres', 'SELECT compare()'), '', 'the tables are alike at the end');
for my $t ('h', 'x')
{
	my @by = map { $node->safe_psql('postgres', "$_; SELECT count(*), sum(hashtext(${t}::text)::bigint) FROM $t WHERE k >= 0") }
	  ('SET enable_seqscan = off', 'SET enable_indexscan = off; SET enable_bitmapscan = off');
	is($by[0], $by[1], "$t: index and sequential scan agree");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM xc WHERE NOT EXISTS (SELECT FROM x WHERE x.id = pid)'), 0, 'no orphans');

# The test is worth something only if all kinds came about, and met each other.
is($node->safe_psql('postgres', "SELECT count(DISTINCT kind) FROM done WHERE outcome = 'rows'"), 21, 'every kind of statement found rows');
is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT outcome, ' ' ORDER BY outcome) FROM done WHERE outcome ~ '^(23|40001|P0999)'"),
	'23503 23505 40001 P0999', 'conflicts and rollbacks came about');
note($node->safe_psql('postgres', 'SELECT outcome, count(*) FROM done GROUP BY 1 ORDER BY 2 DESC'));

$node->stop;
done_testing();
