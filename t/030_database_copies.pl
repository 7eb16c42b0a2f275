# Databases made from a template that holds tables (both strategies), moved to another tablespace and
# dropped, each followed by a crash or a restart: copies have all rows and lead a life of their own.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('databases', "autovacuum = off\nwal_level = replica\n");
$node->safe_psql('postgres', $_) for 'CREATE DATABASE source', "SET allow_in_place_tablespaces = on; CREATE TABLESPACE elsewhere LOCATION ''";
$node->safe_psql('source', <<END);
CREATE TABLE t (id int PRIMARY KEY, v text) USING $AM;
CREATE TABLE small (id int) USING $AM;
CREATE UNLOGGED TABLE u (id int PRIMARY KEY) USING $AM;
INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 5000) g;
UPDATE t SET v = 'changed' WHERE id % 7 = 0;
DELETE FROM t WHERE id % 11 = 0;
INSERT INTO small VALUES (1);
INSERT INTO u SELECT generate_series(1, 10);
END

sub contents
{
	my ($db) = @_;
	return $node->safe_psql($db, 'SELECT count(*), sum(id), sum(hashtextextended(v, 0)::numeric) FROM t; SELECT count(*) FROM small;
		SET enable_seqscan = off; SELECT v FROM t WHERE id = 7; SELECT count(*) FROM u WHERE id > 0');
}
my $full = contents('source');
my $crashed = $full =~ s/\n10$/\n0/r; # the unlogged table
isnt($full, $crashed, 'ten rows to lose');

for my $strategy ('wal_log', 'file_copy')
{
	for my $restart ('none', 'crash', 'checkpoint', 'fast')
	{
		my ($name, $db) = ("$strategy, $restart", "copy_${strategy}_$restart");
		$node->safe_psql('source', 'TRUNCATE u; INSERT INTO u SELECT generate_series(1, 10)');
		$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE source STRATEGY $strategy");
		if ($restart eq 'fast') { $node->restart; }
		elsif ($restart ne 'none')
		{
			$node->safe_psql('postgres', 'CHECKPOINT') if $restart eq 'checkpoint';
			crash_and_start($node);
		}
		my $lost = $restart =~ /crash|checkpoint/;
		is(contents($db), $lost ? $crashed : $full, "$name: the copy");
		is(contents('source'), $lost ? $crashed : $full, "$name: the source");

		$node->safe_psql($db, "UPDATE t SET id = -id, v = 'copy' WHERE id < 100; DELETE FROM t WHERE id > 4000; INSERT INTO t VALUES (11, 'new'); TRUNCATE small");
		my $changed = contents($db);
		unlike($changed, qr/changed/, "$name: the copy can be changed");
		is(contents('source'), $lost ? $crashed : $full, "$name: and the source does not change");
		crash_and_start($node);
		is(contents($db), $changed =~ s/\n10$/\n0/r, "$name: nor does the copy by a crash");
		is(contents('source'), $crashed, "$name: nor the source");
	}
}

# moved, there and back
my @moves = (['elsewhere'], ['pg_default', 'crash'], ['elsewhere', 'checkpoint', 'crash'], ['pg_default', 'fast']);
for my $move (@moves)
{
	my ($tablespace, @steps) = @$move;
	my $name = "moved to $tablespace, @steps";
	$node->safe_psql('postgres', "ALTER DATABASE source SET TABLESPACE $tablespace");
	for my $step (@steps)
	{
		if ($step eq 'checkpoint') { $node->safe_psql('postgres', 'CHECKPOINT'); }
		elsif ($step eq 'crash') { crash_and_start($node); }
		else { $node->restart; }
	}
	is(contents('source'), $crashed, $name);
	$node->safe_psql('source', 'UPDATE t SET v = v WHERE id < 100');
	crash_and_start($node);
	is(contents('source'), $crashed, "$name, and changed there");
}

# dropped, and another of the same name
for my $strategy ('wal_log', 'file_copy')
{
	my $db = "copy_${strategy}_crash";
	$node->safe_psql($db, 'UPDATE t SET v = v');
	$node->safe_psql('postgres', "DROP DATABASE $db");
	crash_and_start($node);
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_database WHERE datname = '$db'"), 0, "$strategy: dropped");
	$node->safe_psql('postgres', $_) for "CREATE DATABASE $db TEMPLATE source STRATEGY $strategy", "DROP DATABASE $db", "CREATE DATABASE $db TEMPLATE source STRATEGY $strategy";
	crash_and_start($node);
	is(contents($db), $crashed, "$strategy: made again");
}
my @copies = split /\n/, $node->safe_psql('postgres', "SELECT datname FROM pg_database WHERE datname ~ '^copy|source'");
$node->safe_psql('postgres', "DROP DATABASE $_") for @copies;
crash_and_start($node);
cmp_ok(used_bytes($node), '<', 4 * 1024 * 1024, 'dropped databases leave no rows in memory') if on_tsengine();

$node->stop;
done_testing();
