# Unlogged tables: an orderly restart keeps their rows; after a crash, which empties their indexes, they
# are empty and work, deleted rows and their index entries included. If the rows are missing after an
# orderly stop, where the indexes are kept, any access is an error until they are truncated.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('unlogged', "autovacuum = off\nsynchronous_commit = off\nrestart_after_crash = on\n");
my $fill = "INSERT INTO %s SELECT g, g %% 50, 'row ' || g FROM generate_series(1, 2000) g";
my @tables = qw(u u2 u3);

for my $t (@tables)
{
	$node->safe_psql('postgres', "CREATE UNLOGGED TABLE $t (id int PRIMARY KEY, x int, v text) USING tsengine; CREATE INDEX ${t}_x ON $t (x); CREATE INDEX ${t}_h ON $t USING hash (v); " . sprintf($fill, $t));
}

my $seq = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;';
my $index = 'SET enable_seqscan = off;';

# The answers of the indexes to what is and was there are those of a sequential scan.
sub indexes_agree
{
	my ($t, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $sql = "SELECT 'id', g, count(u.id), max(u.x), max(u.v) FROM generate_series(-2500, 6000, 7) g LEFT JOIN LATERAL (SELECT * FROM $t WHERE id = g) u ON true GROUP BY g ORDER BY g;
		SELECT 'x', g, count(u.id), sum(u.id), max(u.v) FROM generate_series(-60, 260) g LEFT JOIN LATERAL (SELECT * FROM $t WHERE x = g) u ON true GROUP BY g ORDER BY g;
		SELECT 'v', g, count(u.id), sum(u.id), max(u.v) FROM generate_series(1, 6000, 97) g LEFT JOIN LATERAL (SELECT * FROM $t WHERE v = 'row ' || g) u ON true GROUP BY g ORDER BY g;
		SELECT 'all', count(*), sum(id), sum(x) FROM $t WHERE %s;";
	my $by_seq = $node->safe_psql('postgres', $seq . sprintf($sql, 'true'));
	my $by_index = $node->safe_psql('postgres', $index . sprintf($sql, 'id > -100000'));
	ok($by_seq eq $by_index, "$name: index and sequential scans agree")
	  or diag(join("\n", grep { my $l = $_; !grep { $_ eq $l } split /\n/, $by_seq } split /\n/, $by_index));
	return;
}

# Changes of all kinds on an empty table, with pauses for the garbage collector.
sub work_on
{
	my ($t, $name) = @_;
	indexes_agree($t, "$name, empty");
	$node->safe_psql('postgres', sprintf($fill, $t));
	indexes_agree($t, "$name, filled");
	$node->safe_psql('postgres', "DELETE FROM $t WHERE id % 3 = 0; UPDATE $t SET x = x + 100 WHERE id % 3 = 1; UPDATE $t SET id = -id WHERE id % 6 = 2");
	select undef, undef, undef, 0.5;
	# other rows, perhaps in the same places
	$node->safe_psql('postgres', "INSERT INTO $t SELECT g, -g % 50, 'new ' || g FROM generate_series(3001, 5000) g");
	indexes_agree($t, "$name, changed");
	$node->safe_psql('postgres', "VACUUM $t");
	indexes_agree($t, "$name, after VACUUM");
	$node->safe_psql('postgres', "INSERT INTO $t SELECT g, g % 50, 'last ' || g FROM generate_series(5001, 6000) g");
	indexes_agree($t, "$name, filled up again");
	my ($ret, $out, $err) = quiet_sql($node, "INSERT INTO $t VALUES (5001)");
	like($err, qr/23505/, "$name: a duplicate key is refused");
	is($node->safe_psql('postgres', "INSERT INTO $t VALUES (3, 3, 'back') RETURNING id"), 3, "$name: a deleted key is not");
	return;
}

# All rows of all tables, by a sequential scan
sub contents
{
	return $node->safe_psql('postgres', $seq . join ';',
		map { "SELECT '$_', count(*), sum(id), md5(string_agg(t::text, ',' ORDER BY id)) FROM $_ t" } @tables);
}

# An orderly restart, in both ways, also of tables that have not been touched since the one before
my $contents = contents();
for my $mode ('fast', 'smart', 'fast')
{
	$node->stop($mode);
	$node->start;
	is(contents(), $contents, "a $mode shutdown keeps the rows");
	indexes_agree($_, "after a $mode shutdown, $_") for @tables;
	$node->safe_psql('postgres', "UPDATE u SET x = x + 1 WHERE id % 3 = 0; UPDATE u SET id = id + 2000 WHERE id <= 2000 AND id % 5 = 0; DELETE FROM u WHERE id % 7 = 0; INSERT INTO u SELECT -g, g, 'row ' || g FROM generate_series(1, 10) g ON CONFLICT DO NOTHING");
	$contents = contents();
}
$node->safe_psql('postgres', 'CHECKPOINT');
$node->restart;
is(contents(), $contents, 'also when a checkpoint came before');

# The rows are lost, the indexes are not: errors after either shutdown
lose_tables($node);
for my $mode ('', 'fast', 'smart')
{
	if ($mode ne '') { $node->stop($mode); $node->start; }
	for my $sql (
		'SELECT count(*) FROM u', "SELECT * FROM u WHERE v = 'row 7'", 'SELECT * FROM u WHERE id = 8', 'SELECT id FROM u WHERE id = 99999',
		"INSERT INTO u VALUES (9999, 1, 'new')", "INSERT INTO u VALUES (8, 1, 'dup') ON CONFLICT DO NOTHING", 'UPDATE u SET x = 1',
		'DELETE FROM u', 'SELECT * FROM u FOR UPDATE', 'COPY u TO STDOUT', 'SELECT count(*) FROM u2, u', "SELECT FROM u WHERE ctid = '(1,1)'",
		'CREATE INDEX ON u (v)')
	{
		for my $set ($seq, $index)
		{
			my ($ret, $out, $err) = quiet_sql($node, "$set $sql");
			like($err, qr/ERROR: +XX001: +rows of tsengine table "u2?" are missing/, "lost, $mode shutdown: $sql");
			is($out, '', 'no answer');
		}
	}
	my ($ret, $out, $err) = quiet_sql($node, 'VACUUM');
	is($ret, 0, 'VACUUM of all goes on');
	like($err, qr/WARNING: .*"u"/, 'and names the table');
	is($node->safe_psql('postgres', "SELECT count(*) FROM tsengine.stat_tables WHERE relname IN ('u', 'u2', 'u3')"), 0, 'no table in the statistics');
}
$node->safe_psql('postgres', 'TRUNCATE u');
work_on('u', 'truncated after the loss');
my ($ret, $out, $err) = quiet_sql($node, 'SELECT * FROM u2');
like($err, qr/are missing/, 'the others are as before');

# A crash
$node->safe_psql('postgres', 'CHECKPOINT');
crash_and_start($node);
is($node->safe_psql('postgres', "SELECT count(*) FROM $_"), 0, "$_ is empty after a crash") for @tables;
work_on('u', 'after a crash');
# first used by a look-up, a change, or nothing but VACUUM
is($node->safe_psql('postgres', "$index SELECT count(*) FROM u2 WHERE id = 7"), 0, 'an old key is not found');
work_on('u2', 'after a crash and a look-up');
$node->safe_psql('postgres', 'VACUUM u3; REINDEX TABLE u3');
work_on('u3', 'after a crash, VACUUM and REINDEX');

# A crash of a single session's process starts shared memory anew, too.
my $s = session($node);
my $pid = ask($s, 'SELECT pg_backend_pid()');
kill 'KILL', $pid;
my $end = time + 15;
until (time > $end || ($node->psql('postgres', "SELECT 1 / (count(*) = 0)::int FROM pg_stat_activity WHERE pid = $pid"))[0] == 0)
{
	select undef, undef, undef, 0.1;
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), 0, 'empty after the crash of a session');
work_on('u', 'after the crash of a session');
eval { $s->quit };

# and an orderly restart after all that
$contents = contents();
$node->restart;
is(contents(), $contents, 'an orderly restart keeps what came after a crash');
indexes_agree($_, "after a crash and a restart, $_") for @tables;

$node->stop;
done_testing();
