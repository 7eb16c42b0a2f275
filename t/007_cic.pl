# CREATE INDEX CONCURRENTLY, REINDEX CONCURRENTLY and DROP INDEX CONCURRENTLY again and again while
# pgbench inserts, updates and deletes: every index gives the rows of a sequential scan.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use TsEngine;

my $node = new_node('cic', "synchronous_commit = off\n");
$node->safe_psql('postgres', <<END);
CREATE TABLE c (id int PRIMARY KEY, a int, b int, t text) USING $AM;
CREATE SEQUENCE s START 10001;
INSERT INTO c SELECT g, g % 100, g, 'x' FROM generate_series(1, 2000) g;
END

my $bench = bench_start(
	$node, '-c', 4, '-j', 2, '-T', 9,
	bench_files(
		$node,
		'upd@4' => "\\set i random(1, 2000)\nUPDATE c SET a = a + 1, b = b + 1 WHERE id = :i;\n",
		'other@2' => "\\set i random(1, 2000)\nUPDATE c SET t = t || 'y' WHERE id = :i AND length(t) < 50;\n",
		'ins@2' => "INSERT INTO c VALUES (nextval('s'), 5, 5, 'new');\n",
		'del@1' => "\\set i random(1, 2000)\nDELETE FROM c WHERE id = :i OR id IN (SELECT id FROM c WHERE id > 10000 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);\n",
		'tx@2' => "\\set i random(1, 2000)\nBEGIN;\nUPDATE c SET a = a - 1 WHERE id = :i;\nSAVEPOINT s;\nUPDATE c SET a = 77 WHERE id = :i;\nROLLBACK TO s;\nINSERT INTO c VALUES (:i, 1, 1, 'back') ON CONFLICT DO NOTHING;\nCOMMIT;\n",
		'abort@1' => "\\set i random(1, 2000)\nBEGIN;\nUPDATE c SET a = -5, b = -5 WHERE id = :i;\nINSERT INTO c VALUES (nextval('s'), -5, -5, 'no');\nROLLBACK;\n"));

# One REPEATABLE READ snapshot holds both scans; wrong counts name the index.
my $compare = <<'END';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off;
CREATE TEMP TABLE seq ON COMMIT DROP AS SELECT id, a, b FROM c;
SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off;
CREATE TEMP TABLE by_a ON COMMIT DROP AS SELECT id, a, b FROM c WHERE a > -100000 ORDER BY a;
CREATE TEMP TABLE by_b ON COMMIT DROP AS SELECT id, a, b FROM c WHERE b > -100000 AND b % 2 = 0 ORDER BY b;
CREATE TEMP TABLE by_id ON COMMIT DROP AS SELECT id, a, b FROM c WHERE id > 0 ORDER BY id;
SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on;
CREATE TEMP TABLE by_bm ON COMMIT DROP AS SELECT id, a, b FROM c WHERE a > -100000;
SET LOCAL enable_seqscan = on;
SELECT (SELECT count(*) FROM ((TABLE seq EXCEPT ALL TABLE by_a) UNION ALL (TABLE by_a EXCEPT ALL TABLE seq)) x),
  (SELECT count(*) FROM ((SELECT * FROM seq WHERE b % 2 = 0 EXCEPT ALL TABLE by_b) UNION ALL (TABLE by_b EXCEPT ALL SELECT * FROM seq WHERE b % 2 = 0)) x),
  (SELECT count(*) FROM ((TABLE seq EXCEPT ALL TABLE by_id) UNION ALL (TABLE by_id EXCEPT ALL TABLE seq)) x),
  (SELECT count(*) FROM ((TABLE seq EXCEPT ALL TABLE by_bm) UNION ALL (TABLE by_bm EXCEPT ALL TABLE seq)) x);
COMMIT;
END

my $end = time + 8;
my ($rounds, $wrong) = (0, '');
while (time < $end)
{
	for my $sql (
		'CREATE INDEX CONCURRENTLY c_a ON c (a)',
		'CREATE INDEX CONCURRENTLY c_b ON c (b) WHERE b % 2 = 0',
		'CREATE UNIQUE INDEX CONCURRENTLY c_u ON c (id) INCLUDE (a)')
	{
		my ($ret, $out, $err) = $node->psql('postgres', $sql);
		$wrong .= "$sql: $err\n" if $ret != 0;
	}
	my $d = $node->safe_psql('postgres', $compare);
	$wrong .= "round $rounds, created: $d\n" if $d ne '0|0|0|0';
	for my $sql ('REINDEX INDEX CONCURRENTLY c_a', 'REINDEX TABLE CONCURRENTLY c')
	{
		my ($ret, $out, $err) = $node->psql('postgres', $sql);
		$wrong .= "$sql: $err\n" if $ret != 0;
	}
	$d = $node->safe_psql('postgres', $compare);
	$wrong .= "round $rounds, reindexed: $d\n" if $d ne '0|0|0|0';
	last if $wrong;
	$rounds++;
	last if time > $end;
	for my $i ('c_a', 'c_b', 'c_u')
	{
		my ($ret, $out, $err) = $node->psql('postgres', "DROP INDEX CONCURRENTLY $i");
		$wrong .= "DROP $i: $err\n" if $ret != 0;
	}
}
bench_finish($bench, 'load without errors');
is($wrong, '', "indexes built $rounds times give the rows of a sequential scan");
cmp_ok($rounds, '>', 0, "$rounds rounds");
is($node->safe_psql('postgres', $compare), '0|0|0|0', 'and after the load');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_index WHERE indrelid = 'c'::regclass AND NOT indisvalid"), 0, 'all are valid');
$node->safe_psql('postgres', 'VACUUM c');
is($node->safe_psql('postgres', $compare), '0|0|0|0', 'and after VACUUM');

# A unique build that meets duplicates leaves an invalid index, which REINDEX repairs once they are gone.
$node->safe_psql('postgres', "INSERT INTO c VALUES (-1, 1, -7, 'd'), (-2, 1, -7, 'd')");
my ($ret, $out, $err) = $node->psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY c_dup ON c (b) WHERE b < 0');
like($err, qr/could not create unique index/, 'duplicates are found');
$node->safe_psql('postgres', "INSERT INTO c VALUES (-3, 1, -8, 'd'); DELETE FROM c WHERE id = -2");
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY c_dup');
($ret, $out, $err) = $node->psql('postgres', "INSERT INTO c VALUES (-4, 1, -8, 'd')");
like($err, qr/duplicate key value violates unique constraint "c_dup"/, 'the repaired index is unique');

$node->stop;
done_testing();
