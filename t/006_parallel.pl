# Snapshots that travel: parallel workers in a transaction with rows of its own while others commit,
# exported snapshots, and a parallel pg_dump under load.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('parallel', <<END, allows_streaming => 1);
max_connections = 50
synchronous_commit = off
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
max_parallel_workers_per_gather = 2
max_worker_processes = 16
END

$node->safe_psql('postgres', <<END);
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, pad text DEFAULT repeat('x', 50)) USING $AM;
CREATE TABLE h (id int PRIMARY KEY, v int NOT NULL, pad text DEFAULT repeat('x', 50)) USING heap;
INSERT INTO t SELECT g, 1 FROM generate_series(1, 20000) g;
INSERT INTO h SELECT g, 1 FROM generate_series(1, 20000) g;
CREATE INDEX ON t (v);
ANALYZE t; ANALYZE h;
END
my $sum = 'SELECT count(*), sum(v) FROM t';
my $serial = 'SET max_parallel_workers_per_gather = 0; ';
my $back = '; SET max_parallel_workers_per_gather = 2';
my $other = session($node);

sub check
{
	my ($s, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ask($s, 'SET parallel_leader_participation = on');
	is(ask($s, $sum), $expected, "$name: leader and workers");
	ask($s, 'SET parallel_leader_participation = off');
	is(ask($s, $sum), $expected, "$name: workers alone");
	is(ask($s, "$serial$sum$back"), $expected, "$name: leader alone");
	is(ask($s, "SET enable_seqscan = off; SELECT count(*), sum(v) FROM t WHERE v > -1000; SET enable_seqscan = on"), $expected, "$name: by an index");
	return;
}

for my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	my ($n, $v) = split /\|/, $node->safe_psql('postgres', $sum);
	my $s = session($node);

	ask($s, "BEGIN ISOLATION LEVEL $level");
	like(ask($s, "EXPLAIN $sum"), qr/Gather/, 'the plan is parallel');
	check($s, "$n|$v", "$level, at the start");

	# Own rows, not committed.
	ask($s, 'INSERT INTO t SELECT 100000 + g, 10 FROM generate_series(1, 500) g');
	ask($s, 'UPDATE t SET v = v + 100 WHERE id BETWEEN 1 AND 10');
	ask($s, 'DELETE FROM t WHERE id BETWEEN 19001 AND 19100');
	my $gone = $node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id BETWEEN 19001 AND 19100');
	my $gonev = $node->safe_psql('postgres', 'SELECT coalesce(sum(v), 0) FROM t WHERE id BETWEEN 19001 AND 19100');
	$n += 500 - $gone;
	$v += 5000 + 1000 - $gonev;
	check($s, "$n|$v", "$level, own rows");
	is($node->safe_psql('postgres', $sum), ($n - 500 + $gone) . '|' . ($v - 6000 + $gonev), 'others do not see them');

	# Others commit between the statements.
	for my $i (1 .. 3)
	{
		my $base = 200000 + 1000 * $i + ($level =~ /REP/ ? 50000 : 0);
		ask($other, "INSERT INTO t SELECT $base + g, 1 FROM generate_series(1, 100) g");
		ask($other, 'UPDATE t SET v = v + 1 WHERE id BETWEEN 5001 AND 5100');
		ask($other, 'INSERT INTO h SELECT * FROM t WHERE id = ' . ($base + 1));
		if ($level eq 'READ COMMITTED')
		{
			$n += 100;
			$v += 200;
		}
		check($s, "$n|$v", "$level, others committed ($i)");
		ask($s, 'SAVEPOINT a; UPDATE t SET v = v + 1000 WHERE id BETWEEN 1 AND 3');
		check($s, "$n|" . ($v + 3000), "$level, in a savepoint ($i)");
		ask($s, 'ROLLBACK TO a');
		check($s, "$n|$v", "$level, rolled back to it ($i)");
	}
	is(ask($s, 'SELECT count(*) FROM t JOIN h USING (id)'), ask($s, "${serial}SELECT count(*) FROM t JOIN h USING (id)$back"), 'a parallel join with heap');

	# A parallel index build and CREATE TABLE AS in the same transaction
	ask($s, 'SET LOCAL max_parallel_maintenance_workers = 2');
	my ($out, $err) = try_ask($s, "CREATE TABLE copy USING $AM AS SELECT id, v FROM t");
	is($err, '', "$level: CREATE TABLE AS from a parallel plan");
	if ($err eq '')
	{
		is(ask($s, 'SELECT count(*), sum(v) FROM copy'), "$n|$v", 'all rows');
		($out, $err) = try_ask($s, "SET LOCAL statement_timeout = '5s'; CREATE INDEX ON copy (v); SET LOCAL statement_timeout = 0");
		is($err, '', 'a parallel index build of them');
		is(ask($s, 'SET LOCAL enable_seqscan = off; SELECT count(*), sum(v) FROM copy WHERE v > -1000'), "$n|$v", 'and its index') if $err eq '';
	}
	ask($s, 'ROLLBACK');
	$s->quit;
}

# Exported snapshots
my ($a, $b) = (session($node), session($node));
ask($a, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
my $expected = ask($a, $sum);
my $id = ask($a, 'SELECT pg_export_snapshot()');
ask($other, 'UPDATE t SET v = v + 1 WHERE id <= 100; DELETE FROM t WHERE id > 200000; UPDATE h SET v = v + 1 WHERE id <= 100');
isnt(ask($other, $sum), $expected, 'others have committed');
ask($b, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
ask($b, "SET TRANSACTION SNAPSHOT '$id'");
check($b, $expected, 'imported snapshot');
check($a, $expected, 'exporter');
ask($other, 'UPDATE t SET v = v + 1 WHERE id = 7');
check($b, $expected, 'imported snapshot after another commit');
my ($o, $e) = try_ask($b, 'UPDATE t SET v = 0 WHERE id = 7');
like($e, qr/could not serialize access due to concurrent update/, 'the importer cannot overwrite what it does not see');
ask($b, 'ROLLBACK');
ask($b, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
ask($b, "SET TRANSACTION SNAPSHOT '$id'");
ask($a, 'UPDATE t SET v = v + 5 WHERE id = 9000');
is(ask($b, $sum), $expected, "the exporter's later changes are not seen");
ask($a, 'COMMIT');
is(ask($b, $sum), $expected, 'the snapshot outlives its exporter');
($o, $e) = try_ask($b, 'UPDATE t SET v = 0 WHERE id = 9000');
like($e, qr/could not serialize access due to concurrent update/, "nor overwritten");
ask($b, 'ROLLBACK');

# pg_dump -j 2 under load: money moves within and between the two tables
$node->safe_psql('postgres', <<'END');
TRUNCATE t, h;
INSERT INTO t SELECT g, 100 FROM generate_series(1, 3000) g;
INSERT INTO h SELECT g, 100 FROM generate_series(1, 3000) g;
END
my $bench = bench_start($node, '-c', 4, '-T', 6,
	bench_files($node, 'move' => <<'END'));
\set i random(1, 3000)
\set a random(1, 9)
BEGIN;
UPDATE t SET v = v - :a WHERE id = :i;
UPDATE h SET v = v + :a WHERE id = :i;
COMMIT;
END
my $dir = PostgreSQL::Test::Utils::tempdir();
for my $i (1 .. 2)
{
	$node->command_ok([ 'pg_dump', '-Fd', '-j', 2, '-f', "$dir/dump$i", '-d', $node->connstr('postgres') ], "pg_dump -j 2 ($i)");
}
bench_finish($bench, 'load beside it');
for my $i (1 .. 2)
{
	$node->safe_psql('postgres', "CREATE DATABASE restored$i TEMPLATE template0");
	$node->command_ok([ 'pg_restore', '-j', 2, '-d', $node->connstr("restored$i"), "$dir/dump$i" ], 'restored');
	is($node->safe_psql("restored$i", 'SELECT sum(v) FROM (SELECT v FROM t UNION ALL SELECT v FROM h) x'), 600000, 'both tables are from one moment');
	is($node->safe_psql("restored$i", 'SELECT count(*) FROM t JOIN h USING (id) WHERE t.v + h.v <> 200'), 0, 'row by row');
	is($node->safe_psql("restored$i", "SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 't'"), $AM, 'with the access method');
}

$_->quit for ($a, $b, $other);
$node->stop;
done_testing();
