# Common paths take no LWLock per row: a statement on many rows acquires hardly more of them in the
# engine than one on a single row. The test build counts the engine's acquisitions per process.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('lwlocks', "autovacuum = off\nmax_parallel_workers_per_gather = 0\n");
my ($ret) = quiet_sql($node, "CREATE FUNCTION lwlocks() RETURNS bigint AS 'tsengine', 'tsengine_lwlock_count' LANGUAGE C");
plan skip_all => 'not a test build' if $ret != 0;

my $rows = 20000;
$node->safe_psql('postgres', <<END);
CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING tsengine;
INSERT INTO t SELECT g, 0, 'x' FROM generate_series(1, $rows) g;
CREATE TABLE plain (id int, v int) USING tsengine;
VACUUM ANALYZE t;
END

# Acquisitions of a statement, in a session that has run it before.
sub lwlocks
{
	my ($sql) = @_;
	my $out = $node->safe_psql('postgres', <<END);
SET enable_seqscan = off; SET enable_bitmapscan = off;
BEGIN; $sql; ROLLBACK;
BEGIN;
SELECT 'a' || lwlocks();
$sql;
SELECT 'b' || lwlocks();
ROLLBACK;
END
	my ($before) = $out =~ /^a(\d+)$/m;
	my ($after) = $out =~ /^b(\d+)$/m;
	return $after - $before;
}

my $empty = lwlocks('SELECT WHERE false');
# (the planner's look at the ends of the index samples the horizon: two)
cmp_ok(lwlocks("SELECT sum(v) FROM t WHERE id <= $rows"), '<=', $empty + 2, 'reads by an index: none at all');
is(lwlocks('SET LOCAL enable_seqscan = on; SELECT sum(v) FROM plain'), $empty, 'a sequential scan: none at all');

# memory comes in batches of up to 64 objects, and what is retired goes in batches of 62
for my $case (
	[ 'UPDATE in place', 'UPDATE t SET v = v + 1 WHERE id <= %d' ],
	[ 'DELETE', 'DELETE FROM t WHERE id <= %d' ],
	[ 'INSERT', 'INSERT INTO plain SELECT g, g FROM generate_series(1, %d) g' ],
  )
{
	my ($what, $sql) = @$case;
	my $one = lwlocks(sprintf $sql, 1);
	my $many = lwlocks(sprintf $sql, $rows);
	cmp_ok($one, '<=', $empty + 10, "$what of one row: $one");
	cmp_ok(($many - $one) / $rows, '<', 0.1, "$what of $rows rows: $many, not one per row");
}

done_testing();
