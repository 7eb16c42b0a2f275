# Index entries that reached the disk while their rows were lost in a crash never lead to a row that was
# stored later in the same place (PITFALLS 24). Row places are used again after VACUUM, as often as can be.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('reuse', "autovacuum = off\njit = off\n");
$node->safe_psql('postgres', <<END);
CREATE TABLE t (id int PRIMARY KEY, x int, r int4range, a int[]) USING $AM;
CREATE INDEX t_x ON t (x);
CREATE INDEX t_r ON t USING gist (r);
CREATE INDEX t_a ON t USING gin (a) WITH (fastupdate = off);
CREATE TABLE other (id int) USING $AM;
CREATE TABLE other_heap (id int) USING heap;
END

# INSERT of the keys from FROM to TO
sub insert_keys
{
	my ($from, $to) = @_;
	return "INSERT INTO t SELECT g, -g, int4range(g, g + 1), ARRAY[g] FROM generate_series($from, $to) g;";
}

# How many rows each index finds for the keys, which must be those of the sequential scan.
sub found
{
	my ($from, $to) = @_;
	my $sql = 'SET enable_seqscan = off; SET enable_indexonlyscan = off;';
	for my $condition ('t.id = g', 't.x = -g', 't.r && int4range(g, g + 1)', 't.a @> ARRAY[g]')
	{
		$sql .= "SELECT count(*) FROM generate_series($from, $to) g, LATERAL (SELECT * FROM t WHERE $condition OFFSET 0) s;";
	}
	$sql .= "SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t WHERE id BETWEEN $from AND $to";
	return join ' ', split /\n/, $node->safe_psql('postgres', $sql);
}

sub agree
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(index_differs($node, 't', 't_pkey', 'id', 'id > 0'), '', "$name: the primary key agrees with the table");
	return is(index_differs($node, 't', 't_x', 'x', 'x < 0'), '', "$name: and so does the other index");
}

$node->safe_psql('postgres', insert_keys(1, 2000));
my $next = 10_000;
my $rows = 2000;

for my $round (1 .. 8)
{
	my ($checkpoint, $vacuum, $delete) = map { $round & $_ } (1, 2, 4);
	my $name = "round $round";

	# free some places, for those who come next
	if ($delete)
	{
		my $deleted = $node->safe_psql('postgres', "WITH d AS (DELETE FROM t WHERE id % 4 = 0 AND id < $next RETURNING 1) SELECT count(*) FROM d");
		$rows -= $deleted;
		cmp_ok($deleted, '>', 0, "$name: some are deleted");
	}
	$node->safe_psql('postgres', 'VACUUM t') if $vacuum;

	# rows that will be lost; the WAL of their index entries is written by the commits of others
	my @lost = ($next, $next + 1999);
	my ($open, $undone) = map { session($node) } 1 .. 2;
	ask($open, 'BEGIN;' . insert_keys($lost[0], $lost[0] + 999));
	ask($undone, 'BEGIN; SAVEPOINT s;' . insert_keys($lost[0] + 1000, $lost[1]) . "UPDATE t SET x = x - 5000000 WHERE id > $lost[0] + 1900; ROLLBACK TO s; ROLLBACK") if $round > 4;
	ask($undone, 'BEGIN; ' . insert_keys($lost[0] + 1000, $lost[1]) . "UPDATE t SET x = x - 5000000 WHERE id > $lost[0] + 1900") if $round <= 4;
	$node->safe_psql('postgres', 'CHECKPOINT') if $checkpoint;
	$node->safe_psql('postgres', 'INSERT INTO other VALUES (1); INSERT INTO other_heap VALUES (1)');
	crash_and_start($node);
	eval { $_->quit } for $open, $undone;

	is(found(@lost), '0 0 0 0 0', "$name: lost keys are not found");
	agree("$name, recovered");

	# others take their places, if the places are free
	my @new = ($next + 4000, $next + 5999);
	$node->safe_psql('postgres', insert_keys(@new));
	is(found(@lost), '0 0 0 0 0', "$name: nor by others in their places");
	is(found(@new), '2000 2000 2000 2000 2000', "$name: those are found");
	$node->safe_psql('postgres', insert_keys($lost[0], $lost[0] + 99));
	like((quiet_sql($node, insert_keys($lost[0] + 99, $lost[0] + 99)))[2], qr/23505/, "$name: a lost key is unique again");
	$rows += 2100;

	# and after VACUUM they are free for certain
	$node->safe_psql('postgres', 'VACUUM t;' . insert_keys($lost[0] + 100, $lost[0] + 199));
	$rows += 100;
	is(found(@lost), '200 200 200 200 200', "$name: what is back is found, after VACUUM");
	agree("$name, vacuumed");
	$next += 10_000;
	is($node->safe_psql('postgres', "SELECT count(*) FROM t"), $rows, "$name: number of rows");
}

# Space does not grow with each loss.
if (on_tsengine())
{
	my ($blocks, $dead) = split /\|/, $node->safe_psql('postgres', "VACUUM t; SELECT blocks, dead_rows FROM tsengine.stat_tables WHERE relid = 't'::regclass");
	cmp_ok($blocks, '<', 3 * $rows / 256, 'lost places are used again');
	is($dead, 0, 'and VACUUM has cleaned all');
}

$node->stop;
done_testing();
