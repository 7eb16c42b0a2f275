# Eight sessions insert, delete, move and look up keys, few ones that everybody wants and random ones,
# while readers compare each index with the table under one snapshot. In later rounds the server or one
# of its processes is killed in the middle. Afterwards every index gives the rows and the order of a
# sequential scan, and no unique key is there twice.
#
# TS_STRESS_ROUNDS sets the number of rounds, TS_STRESS_SECONDS how long each takes.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use TsEngine;

my $rounds = $ENV{TS_STRESS_ROUNDS} // 4;
my $seconds = $ENV{TS_STRESS_SECONDS} // 4;

my $node = new_node('index_stress', <<END);
restart_after_crash = on
synchronous_commit = off
deadlock_timeout = 20ms
jit = off
max_parallel_workers_per_gather = 0
max_wal_size = 32MB
min_wal_size = 32MB
END

# few: 200 keys; many: random ones. In a test build the indexes in memory begin with small nodes, for
# many splits; after a restart they are of the usual size.
$node->safe_psql('postgres', <<END);
SELECT set_config(name, '5', false) FROM pg_settings WHERE name = 'tsengine.index_fanout';
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE few (k int PRIMARY KEY, u text COLLATE nocase UNIQUE, d int, x int, v int DEFAULT 0) USING $AM;
CREATE INDEX few_d ON few (d DESC NULLS LAST, k DESC);
CREATE UNIQUE INDEX few_x ON few ((x % 100), (x / 100)) WHERE x IS NOT NULL;
CREATE TABLE many (k bigint PRIMARY KEY, t text, n numeric, v int DEFAULT 0) USING $AM;
CREATE INDEX many_t ON many (t COLLATE "C", n);
CREATE UNIQUE INDEX many_n ON many (n, k);
END

$node->safe_psql('postgres', <<'END');
CREATE FUNCTION r(low int, high int) RETURNS int LANGUAGE sql AS 'SELECT low + floor(random() * (high - low + 1))::int';
CREATE FUNCTION r8() RETURNS bigint LANGUAGE sql AS 'SELECT ((random() - 0.5) * 1.8e19)::bigint';

-- changes of the few keys; a violated key undoes the one change
CREATE FUNCTION change_few(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE i int; done int := 0; k1 int; k2 int;
BEGIN
  FOR i IN 1..n LOOP
    BEGIN
      k1 := r(1, 200); k2 := r(1, 200);
      CASE r(1, 9)
      WHEN 1, 2 THEN INSERT INTO few VALUES (k1, (ARRAY['Key ', 'KEY '])[r(1, 2)] || k1, r(1, 9), k1 * 7);
      WHEN 3 THEN INSERT INTO few VALUES (k1, 'key ' || k2, nullif(r(0, 9), 0), nullif(k2 % 3, 0)) ON CONFLICT DO NOTHING;
      WHEN 4 THEN INSERT INTO few VALUES (k1, 'kEy ' || k1, r(1, 9)) ON CONFLICT (k) DO UPDATE SET v = few.v + 1, d = excluded.d;
      WHEN 5, 6 THEN DELETE FROM few WHERE k = k1;
      WHEN 7 THEN UPDATE few SET k = k2, v = v + 1 WHERE k = k1;
      WHEN 8 THEN UPDATE few SET u = upper(u), d = r(1, 9), x = k2 * 7 WHERE k = k1;
      WHEN 9 THEN
        INSERT INTO few VALUES (k1, 'gone ' || k1, r(1, 9), k1);
        UPDATE few SET k = k + 500 WHERE k = k1;
        RAISE EXCEPTION USING ERRCODE = 'P0999';
      END CASE;
      done := done + 1;
    EXCEPTION WHEN unique_violation OR SQLSTATE 'P0999' THEN NULL;
    END;
  END LOOP;
  RETURN done;
END $$;

CREATE FUNCTION change_many(number int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE low bigint := r8();
BEGIN
  CASE r(1, 6)
  WHEN 1, 2, 3 THEN INSERT INTO many SELECT r8(), 'prefix ' || md5(g::text || random()), r(1, 50) / 10.0 FROM generate_series(1, number) g ON CONFLICT DO NOTHING;
  -- neighbours in the index
  WHEN 4 THEN INSERT INTO many SELECT low + g, 'prefix ' || g, 7.5 FROM generate_series(1, number) g WHERE low < 9e18 ON CONFLICT DO NOTHING;
  WHEN 5 THEN DELETE FROM many WHERE k IN (SELECT k FROM many WHERE k >= low ORDER BY k LIMIT 4 * number FOR UPDATE SKIP LOCKED);
  WHEN 6 THEN UPDATE many SET k = r8(), t = t || 'x', n = many.n + 1 WHERE k IN (SELECT k FROM many WHERE k >= low ORDER BY k LIMIT number / 4 FOR UPDATE SKIP LOCKED);
  END CASE;
END $$;

-- One statement, one snapshot: what an index says against what a scan of the table says. The operand
-- of "+" or "||" keeps a condition away from the index.
CREATE FUNCTION look_up(k1 int) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE bad text;
BEGIN
  SELECT concat_ws(', ', a, b, c) INTO bad FROM
    (SELECT (SELECT string_agg(v::text, ' ') FROM few WHERE k = k1) AS a1, (SELECT string_agg(v::text, ' ') FROM few WHERE k + 0 = k1) AS a2,
      (SELECT sum(v) FROM few WHERE u = 'KEY ' || k1) AS b1, (SELECT sum(v) FROM few WHERE u || '' = 'key ' || k1) AS b2,
      (SELECT string_agg(k || ' ' || v, ',' ORDER BY k) FROM few WHERE k BETWEEN k1 AND k1 + 20) AS c1,
      (SELECT string_agg(k || ' ' || v, ',' ORDER BY k) FROM few WHERE k + 0 BETWEEN k1 AND k1 + 20) AS c2) s,
    LATERAL (SELECT CASE WHEN a1 IS DISTINCT FROM a2 THEN format('key %s: %s instead of %s', k1, a1, a2) END AS a,
      CASE WHEN b1 IS DISTINCT FROM b2 THEN format('text %s: %s instead of %s', k1, b1, b2) END AS b,
      CASE WHEN c1 IS DISTINCT FROM c2 THEN format('range from %s: %s instead of %s', k1, c1, c2) END AS c) t;
  IF bad <> '' THEN RAISE EXCEPTION '%', bad USING ERRCODE = 'XX001'; END IF;
END $$;

-- All of an index against the table; in REPEATABLE READ.
CREATE FUNCTION compare(tab text, columns text, condition text DEFAULT 'true') RETURNS void LANGUAGE plpgsql
  SET enable_bitmapscan = off SET enable_indexonlyscan = off AS $$
DECLARE
  q text := format('SELECT count(*) || '' '' || md5(string_agg(s::text, '' '')) FROM (SELECT * FROM %s WHERE %s ORDER BY %s) s', tab, condition, columns);
  by_index text; by_table text;
BEGIN
  PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true), set_config('enable_indexscan', 'on', true);
  EXECUTE q INTO by_index;
  PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true), set_config('enable_indexscan', 'off', true);
  EXECUTE q INTO by_table;
  PERFORM set_config('enable_indexscan', 'on', true);
  IF by_index IS DISTINCT FROM by_table THEN
    RAISE EXCEPTION '% by %: index %, table %', tab, columns, by_index, by_table USING ERRCODE = 'XX001';
  END IF;
END $$;

-- A cursor that walks slowly along an index: strictly ascending, and no row more or less than there were.
CREATE FUNCTION walk() RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
  row many; last bigint; n int := 0; total numeric := 0; want text; low bigint := r8();
BEGIN
  SELECT count(*) || ' ' || coalesce(sum(k), 0) INTO want FROM many WHERE k + 0 >= low AND v = v;
  FOR row IN SELECT * FROM many WHERE k >= low ORDER BY k LOOP
    IF row.k <= last THEN RAISE EXCEPTION '% comes after %', row.k, last USING ERRCODE = 'XX001'; END IF;
    last := row.k; n := n + 1; total := total + row.k;
    IF n % 200 = 0 THEN PERFORM pg_sleep(0.002); END IF;
  END LOOP;
  IF n || ' ' || total <> want THEN RAISE EXCEPTION 'walked %, there are %', n || ' ' || total, want USING ERRCODE = 'XX001'; END IF;
END $$;
END

my @scripts = bench_files(
	$node,
	'few@6' => "SELECT change_few(5);\n",
	'look@6' => "\\set k random(1, 200)\nSELECT look_up(:k);\n",
	'many@6' => "SELECT change_many(40);\n",
	'both@2' => "BEGIN;\nSELECT change_few(2);\nSELECT change_many(20);\nSELECT change_few(2);\nCOMMIT;\n",
	'undone@2' => "BEGIN;\nSELECT change_few(3);\nSELECT change_many(30);\nROLLBACK;\n",
	'compare@2' => "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT compare('few', 'k'), compare('few', 'u'), compare('few', 'd DESC NULLS LAST, k DESC');\n"
	  . "SELECT compare('few', 'x % 100, x / 100', 'x IS NOT NULL'), compare('few', 'd NULLS FIRST, k');\nCOMMIT;\n",
	'comparemany@1' => "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT compare('many', 'k'), compare('many', 'n DESC, k DESC');\nCOMMIT;\n",
	'walk@1' => "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT walk();\nCOMMIT;\n");

# Keys that are there twice, by the table alone.
my $twice = <<'END';
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
SELECT 'twice: ' || key FROM (
  SELECT 'few ' || k AS key FROM few UNION ALL SELECT 'few ' || lower(u) FROM few UNION ALL
  SELECT 'x ' || x FROM few WHERE x IS NOT NULL UNION ALL SELECT 'many ' || k FROM many) s
GROUP BY key HAVING count(*) > 1;
END

# What is wrong with the indexes now.
sub problems
{
	return join "\n", grep { $_ ne '' } (
		index_differs($node, 'few', 'few_pkey', 'k', 'k > -1000'),
		index_differs($node, 'few', 'few_u_key', 'u', "u >= ''"),
		index_differs($node, 'few', 'few_d', 'd DESC NULLS LAST, k DESC', '(d > 0 OR d IS NULL)'),
		index_differs($node, 'few', 'few_x', 'x % 100, x / 100', 'x IS NOT NULL'),
		index_differs($node, 'many', 'many_pkey', 'k', 'k >= -9223372036854775808'),
		index_differs($node, 'many', 'many_t', 't COLLATE "C", n, k', qq(t COLLATE "C" >= '')),
		index_differs($node, 'many', 'many_n', 'n, k', 'n > -1000'),
		$node->safe_psql('postgres', $twice),
		map { check_index($node, $_) } qw(few_pkey few_u_key few_d few_x many_pkey many_t many_n));
}

# The checks can fail: a row that its index does not have, a key twice.
sub finds
{
	my ($name, $pattern, $index, $damage, $repair) = @_;
	my $ready = "UPDATE pg_index SET indisready = %s WHERE indexrelid = '$index'::regclass";

	$node->safe_psql('postgres', join ';', 'BEGIN', sprintf($ready, 'false'), $damage, sprintf($ready, 'true'), 'COMMIT');
	like(problems(), $pattern, "found: $name");
	$node->safe_psql('postgres', $repair);
	is(problems(), '', 'and repaired');
	return;
}
$node->safe_psql('postgres', 'SELECT change_few(200); SELECT change_many(200) FROM generate_series(1, 10)');
is(problems(), '', 'all is well at the beginning');
finds('a row that is not indexed', qr/index many_t: /, 'many_t', "INSERT INTO many VALUES (1, 'prefix a', 1)", 'DELETE FROM many WHERE k = 1');
finds('a key twice', qr/twice: few 1$/m, 'few_pkey', "DELETE FROM few; INSERT INTO few VALUES (1, 'a', 1), (1, 'b', 1)", 'TRUNCATE few');
my ($ret, $out, $err) = quiet_sql($node, join ';', 'BEGIN', "UPDATE pg_index SET indisready = false WHERE indrelid = 'few'::regclass",
	"INSERT INTO few VALUES (1, 'a', 1)", "UPDATE pg_index SET indisready = true WHERE indrelid = 'few'::regclass", 'SELECT look_up(1)');
like($err, qr/XX001: key 1:  instead of 0, range from 1:  instead of 1 0/, 'a look-up finds it too');
($ret, $out, $err) = quiet_sql($node, join ';', 'BEGIN', "UPDATE pg_index SET indisready = false WHERE indexrelid = 'many_pkey'::regclass",
	"INSERT INTO many VALUES (9223372036854775807, 'a', 1)", "UPDATE pg_index SET indisready = true WHERE indexrelid = 'many_pkey'::regclass", 'SELECT walk()');
like($err, qr/XX001: walked \d+ .*, there are \d+/, 'and so does a walk');

my @kinds = ('nothing', 'server', 'backend', 'stop');
for my $round (1 .. $rounds)
{
	my $kind = $kinds[ ($round - 1) % @kinds ];
	my $bench = bench_start($node, '-c', 8, '-j', 2, '-T', $kind eq 'nothing' ? $seconds : 60, @scripts);

	if ($kind eq 'nothing')
	{
		bench_finish($bench, "round $round: eight sessions, no difference seen");
		is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_locks WHERE NOT granted'), 0, 'nobody waits');
	}
	else
	{
		my $end = time + $seconds * (0.5 + rand 0.5);
		while (time < $end && $bench->{h}->pumpable) { $bench->{h}->pump_nb; usleep(20_000); }
		my $offset = -s $node->logfile;
		if ($kind eq 'server') { crash_and_start($node); }
		elsif ($kind eq 'stop') { $node->restart; }
		else
		{
			kill_process($node, qr/\[local\]/) or die 'no backend';
			wait_restarted($node, $offset);
		}
		$bench->{h}->finish;
		unlike($bench->{out}, qr/XX\d\d\d|instead of|comes after|there are|by k: index/, "round $round ($kind): no difference seen before");
	}
	is(problems(), '', "round $round ($kind): the indexes are right");
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM few') + $node->safe_psql('postgres', 'SELECT count(*) FROM many'), '>', 300, 'there are rows');
}

# VACUUM, and further changes by the same indexes
$node->safe_psql('postgres', 'VACUUM few, many');
is(problems(), '', 'after VACUUM');
$node->safe_psql('postgres', 'DELETE FROM few; DELETE FROM many WHERE v = 0');
is(problems(), '', 'when all is deleted');
$node->safe_psql('postgres', 'SELECT change_few(100); SELECT change_many(100) FROM generate_series(1, 10)');
is(problems(), '', 'and filled again');

$node->stop;
done_testing();
