# Rows come and go while VACUUM runs and others look them up by several indexes: a look-up never gives a
# row with another key, however a row's place was used again, and unique keys stay unique.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('tid', "synchronous_commit = off\nautovacuum = off\n");
$node->safe_psql('postgres', <<END);
CREATE TABLE v (k int PRIMARY KEY, j int, s text, arr int[], r int4range) USING $AM;
CREATE INDEX v_j ON v (j);
CREATE INDEX v_hash ON v USING hash (s);
CREATE INDEX v_gin ON v USING gin (arr);
CREATE INDEX v_gist ON v USING gist (r);
CREATE INDEX v_brin ON v USING brin (k);
CREATE FUNCTION fill(i int) RETURNS v LANGUAGE sql AS 'SELECT i, i % 40, ''s'' || i, ARRAY[i, i + 1], int4range(i, i + 2)';
INSERT INTO v SELECT (fill(g)).* FROM generate_series(1, 1000) g;
END
$node->safe_psql('postgres', <<'END');
-- gives the row of key i the key j
CREATE FUNCTION move(i int, j int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM v WHERE k = move.j;
  UPDATE v SET (k, j, s, arr, r) = (SELECT * FROM fill(move.j)) WHERE k = i;
EXCEPTION WHEN unique_violation THEN NULL;
END $$;
-- looks up key i in several ways; what does not fit it is an error
CREATE FUNCTION look(i int) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE x record; n int := 0;
BEGIN
  FOR x IN SELECT * FROM v WHERE k = i LOOP
    n := n + 1;
    IF x.k <> i OR x.s <> 's' || i OR x.j <> i % 40 OR x.arr[1] <> i OR lower(x.r) <> i THEN
      RAISE EXCEPTION 'key %: found %', i, x USING ERRCODE = 'XX001';
    END IF;
  END LOOP;
  IF n > 1 THEN RAISE EXCEPTION 'key % found % times', i, n USING ERRCODE = 'XX001'; END IF;
  FOR x IN SELECT * FROM v WHERE j = i % 40 LOOP
    IF x.k % 40 <> i % 40 OR x.s <> 's' || x.k THEN RAISE EXCEPTION 'j %: found %', i % 40, x USING ERRCODE = 'XX001'; END IF;
  END LOOP;
  FOR x IN SELECT * FROM v WHERE s = 's' || i LOOP
    IF x.k <> i THEN RAISE EXCEPTION 's %: found %', i, x USING ERRCODE = 'XX001'; END IF;
  END LOOP;
  FOR x IN SELECT * FROM v WHERE arr @> ARRAY[i] LOOP
    IF x.k NOT IN (i, i - 1) THEN RAISE EXCEPTION 'arr %: found %', i, x USING ERRCODE = 'XX001'; END IF;
  END LOOP;
  FOR x IN SELECT * FROM v WHERE r @> i LOOP
    IF x.k NOT IN (i, i - 1) THEN RAISE EXCEPTION 'r %: found %', i, x USING ERRCODE = 'XX001'; END IF;
  END LOOP;
  -- index-only scans and bitmaps of one statement agree
  PERFORM 1 FROM (SELECT count(*) AS a FROM v WHERE j = i % 40) a, (SELECT count(k) AS b FROM v WHERE j = i % 40 AND s LIKE 's%') b WHERE a.a <> b.b;
  IF FOUND THEN RAISE EXCEPTION 'counts of j % differ', i % 40 USING ERRCODE = 'XX001'; END IF;
END $$;
END

my $bench = bench_start(
	$node, '-c', 6, '-j', 2, '-T', 8,
	bench_files(
		$node,
		'ins@3' => "\\set i random(1, 2000)\nINSERT INTO v SELECT (fill(:i)).* ON CONFLICT DO NOTHING;\n",
		'del@3' => "\\set i random(1, 2000)\nDELETE FROM v WHERE k = :i;\n",
		'move@2' => "\\set i random(1, 2000)\n\\set j random(2001, 3000)\nSELECT move(:i, :j);\n",
		'abort@1' => "\\set i random(1, 2000)\nBEGIN;\nDELETE FROM v WHERE k = :i;\nINSERT INTO v SELECT (fill(:i)).* ON CONFLICT DO NOTHING;\nROLLBACK;\n",
		'sp@1' => "\\set i random(3001, 4000)\nBEGIN;\nSAVEPOINT a;\nINSERT INTO v SELECT (fill(:i)).* ON CONFLICT DO NOTHING;\nROLLBACK TO a;\nINSERT INTO v SELECT (fill(:i)).* ON CONFLICT DO NOTHING;\nDELETE FROM v WHERE k = :i;\nCOMMIT;\n",
		'look@6' => "\\set i random(1, 3000)\nSELECT look(:i);\n",
		'rr@1' => "\\set i random(1, 3000)\nBEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT look(:i);\nSELECT look(:i);\nCOMMIT;\n"));
my $vacuums = 0;
while ($bench->{h}->pumpable && $bench->{out} !~ /tps =|abort/)
{
	$node->psql('postgres', $vacuums % 3 == 2 ? 'VACUUM ANALYZE v' : 'VACUUM v');
	$vacuums++;
	$bench->{h}->pump_nb;
	select undef, undef, undef, 0.05;
}
my $out = bench_finish($bench, 'no look-up gave a row of another key');
cmp_ok($vacuums, '>', 1, "$vacuums VACUUMs beside it");

is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT k FROM v GROUP BY k HAVING count(*) > 1) d'), 0, 'keys are unique');
is($node->safe_psql('postgres', "SELECT count(*) FROM v WHERE s <> 's' || k OR j <> k % 40 OR arr[1] <> k OR lower(r) <> k"), 0, 'rows are whole');
my $all = "SELECT count(*), md5(string_agg(v::text, ',' ORDER BY k)) FROM v";
my $seq = $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $all");
for my $where ('k > 0', 'j >= 0', 'arr && ARRAY(SELECT generate_series(0, 5000))', "r && '[0,9000)'", 's = ANY (ARRAY(SELECT \'s\' || g FROM generate_series(0, 5000) g))')
{
	is($node->safe_psql('postgres', "SET enable_seqscan = off; $all WHERE $where"), $seq, "by index: $where");
}
$node->safe_psql('postgres', 'VACUUM v');
is($node->safe_psql('postgres', "SET enable_seqscan = off; $all WHERE k > 0"), $seq, 'the same after VACUUM');
my ($ret, $o, $err) = $node->psql('postgres', 'INSERT INTO v SELECT (fill(k)).* FROM v');
like($err, qr/duplicate key value/, 'a duplicate is refused');
$node->safe_psql('postgres', 'DELETE FROM v; VACUUM v');
is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM v WHERE k > 0"), 0, 'empty after all');
$node->safe_psql('postgres', 'INSERT INTO v SELECT (fill(g)).* FROM generate_series(1, 1000) g');
is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*), sum(k) FROM v WHERE j >= 0"), '1000|500500', 'and filled again');

$node->stop;
done_testing();
