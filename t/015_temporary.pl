# The memory of temporary tables, and of tables dropped by a prepared transaction, is free again: in a
# session that goes on, at its end, by ON COMMIT DROP, and after a rollback. 64 MB hold a few of them.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('temporary', "tsengine.memory = '64MB'\nsynchronous_commit = off\nautovacuum = off\n");
my $mb = 1024 * 1024;
$node->safe_psql('postgres', 'CREATE TABLE keep (id int PRIMARY KEY, v int) USING tsengine; INSERT INTO keep SELECT g, g FROM generate_series(1, 1000) g');
my $start = used_bytes($node);

# rows for ten megabytes
my $rows = "SELECT g, repeat('x', 1000) FROM generate_series(1, 9500) g";
my $temp = "SET default_table_access_method = tsengine; CREATE TEMP TABLE %s (id int, v text)";

sub is_free
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $used = settled_bytes($node, $start + 2 * $mb);
	cmp_ok($used - $start, '<', 2 * $mb, "$name: all is free again");
	return;
}

# DROP TABLE of a session that has not used tsengine before, in a prepared transaction
for my $i (1 .. 7)
{
	$node->safe_psql('postgres', "CREATE TABLE big (id int, v text) USING tsengine; INSERT INTO big $rows");
	my ($ret, $out, $err) = $i % 2
	  ? quiet_sql($node, "BEGIN; DROP TABLE big; PREPARE TRANSACTION 'drop'")
	  : quiet_sql($node, "BEGIN; TRUNCATE big; DROP TABLE big; PREPARE TRANSACTION 'drop'");
	is($ret, 0, 'DROP TABLE, PREPARE TRANSACTION') or diag($err);
	if ($i == 1)
	{
		$node->safe_psql('postgres', "ROLLBACK PREPARED 'drop'");
		is($node->safe_psql('postgres', 'SELECT count(*) FROM big'), 9500, 'rolled back: the table is whole');
		$node->safe_psql('postgres', "BEGIN; DROP TABLE big; PREPARE TRANSACTION 'drop'");
	}
	$node->safe_psql('postgres', "COMMIT PREPARED 'drop'");
}
is_free('after prepared drops');
for my $i (1 .. 4)
{
	$node->safe_psql('postgres', "BEGIN; CREATE TABLE big (id int, v text) USING tsengine; INSERT INTO big $rows; PREPARE TRANSACTION 'create'");
	$node->safe_psql('postgres', "ROLLBACK PREPARED 'create'");
}
is_free('after prepared creations, rolled back');

# Fifty tables one after the other, in one session: 500 MB
my $s = session($node);
my $failed = '';
sub work
{
	my ($sql) = @_;
	my ($out, $err) = try_ask($s, $sql);
	$failed .= "$sql: $err" if $err ne '';
	return $out;
}
work('SET default_table_access_method = tsengine');
for my $i (1 .. 50)
{
	work("CREATE TEMP TABLE big (id int, v text); INSERT INTO big $rows; SELECT count(*) FROM big; DROP TABLE big");
	last if $failed ne '';
}
is($failed, '', 'fifty temporary tables, created, filled and dropped');

# The same in other ways, more than fits each
my %ways = (
	'under names of their own' => "CREATE TEMP TABLE big_%d (id int, v text); INSERT INTO big_%d $rows; DROP TABLE big_%d",
	'ON COMMIT DROP' => "BEGIN; CREATE TEMP TABLE big (id int, v text) ON COMMIT DROP; INSERT INTO big $rows; COMMIT",
	'created and dropped in a transaction' => "BEGIN; CREATE TEMP TABLE big (id int, v text); INSERT INTO big $rows; DROP TABLE big; COMMIT",
	'creation rolled back' => "BEGIN; CREATE TEMP TABLE big (id int, v text); INSERT INTO big $rows; ROLLBACK",
	'creation rolled back to a savepoint' => "BEGIN; SAVEPOINT a; CREATE TEMP TABLE big (id int, v text); INSERT INTO big $rows; ROLLBACK TO a; COMMIT",
	'with an index' => "CREATE TEMP TABLE big (id int PRIMARY KEY, v text); INSERT INTO big $rows; DROP TABLE big",
	'CREATE TABLE AS' => "CREATE TEMP TABLE big AS $rows; DROP TABLE big",
	'DISCARD' => "CREATE TEMP TABLE big AS $rows; DISCARD TEMP",
);
for my $name (sort keys %ways)
{
	$failed = '';
	for my $i (1 .. 7)
	{
		work($ways{$name} =~ s/%d/$i/gr);
		last if $failed ne '';
	}
	work('ROLLBACK') if $failed ne '';
	is($failed, '', $name);
}
# one that stays is emptied and rewritten
$failed = '';
work('CREATE TEMP TABLE stays (id int, v text) ON COMMIT DELETE ROWS');
work("BEGIN; INSERT INTO stays $rows; COMMIT") for 1 .. 10;
work('CREATE TEMP TABLE other (id int, v text)');
work("INSERT INTO other $rows");
for my $rewrite (('VACUUM FULL other', 'ALTER TABLE other ALTER id TYPE bigint', 'VACUUM FULL other', 'ALTER TABLE other ALTER id TYPE int') x 3)
{
	# what the last one left is freed by the worker, after a grace period
	settled_bytes($node, $start + 25 * $mb);
	work($rewrite);
}
work("TRUNCATE other; INSERT INTO other $rows") for 1 .. 10;
is($failed, '', 'emptied at commit, rewritten, truncated');
is(work('SELECT (SELECT count(*) FROM stays), count(*) FROM other'), '0|9500', 'with the right rows');
$s->quit;
is_free('at the end of the session');

# Sessions that end with filled tables, also within a transaction or killed
for my $i (1 .. 7)
{
	my ($ret, $out, $err) = quiet_sql($node, sprintf($temp, 'big') . "; INSERT INTO big $rows; SELECT count(*) FROM big");
	is("$ret $out", '0 9500', 'a session that ends with a filled table') or diag($err);
}
for my $i (1 .. 7)
{
	my $t = session($node);
	ask($t, 'BEGIN') if $i % 2;
	ask($t, sprintf($temp, 'big') . "; INSERT INTO big $rows");
	if ($i > 4)
	{
		my $pid = ask($t, 'SELECT pg_backend_pid()');
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 5000)");
		eval { $t->quit };
	}
	else
	{
		$t->quit;
	}
}
is_free('after sessions that ended');

is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM keep'), '1000|500500', 'the other table is whole');
is($node->safe_psql('postgres', 'SELECT leaked_bytes FROM tsengine.stat_memory'), 0, 'nothing has leaked');

$node->stop;
done_testing();
