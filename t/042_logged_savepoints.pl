# Savepoints whose changes are logged in pieces while the transaction runs: released, rolled back, nested,
# without an xid inside a transaction that has one. One session stands at each step when a checkpoint
# comes and the server dies; then everything is as in heap tables (PITFALLS 22).

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('pieces', "autovacuum = off\njit = off\nmax_wal_size = 4GB\nmax_connections = 60\n");

# More than is logged at once: rows from KEY on
sub much { return "INSERT INTO t%1\$d SELECT g, 0, repeat('x', 4000) FROM generate_series($_[0], $_[0] + 349) g;"; }

# %1$d is the session's number
my @steps = (
	'BEGIN;' . much(1000) . "UPDATE t%1\$d SET v = 1 WHERE id <= 20;",
	"SAVEPOINT a; INSERT INTO t%1\$d VALUES (2000, 0, 'no xid yet');" . much(2001),
	"SAVEPOINT b; DELETE FROM t%1\$d WHERE id BETWEEN 10 AND 40; UPDATE t%1\$d SET v = 2 WHERE id BETWEEN 1000 AND 2349; SAVEPOINT c;" . much(3000),
	"ROLLBACK TO b; UPDATE t%1\$d SET v = 3 WHERE id BETWEEN 15 AND 25;",
	'SAVEPOINT c;' . much(3000) . "UPDATE t%1\$d SET v = v + 1 WHERE id > 1000; RELEASE c;",
	'RELEASE b;' . much(4000),
	"ROLLBACK TO a; UPDATE t%1\$d SET v = 4 WHERE id BETWEEN 1200 AND 1300; INSERT INTO t%1\$d VALUES (2000, 0, 'again');",
	'SAVEPOINT d; SAVEPOINT e;' . much(5000) . 'RELEASE e; DELETE FROM t%1$d WHERE id BETWEEN 5 AND 8; RELEASE d;',
	'SAVEPOINT d;' . much(6000) . 'SAVEPOINT e; DELETE FROM t%1$d WHERE id > 20;' . much(7000) . 'RELEASE e; ROLLBACK TO d;',
	"SAVEPOINT f; UPDATE t%1\$d SET v = 5 WHERE id = 30; RELEASE f; SAVEPOINT g; UPDATE t%1\$d SET v = 6 WHERE id = 31;");
my $sessions = @steps;

my %am = (a => $AM, h => 'heap');
my %session;

sub begin_round
{
	for my $schema (sort keys %am)
	{
		$node->safe_psql('postgres', "DROP SCHEMA IF EXISTS $schema CASCADE; CREATE SCHEMA $schema; SET search_path = $schema; SET default_table_access_method = $am{$schema};" . join '', map {
			# every other table has an index, whose rows are another way to commit
			my $key = $_ % 2 ? 'PRIMARY KEY' : '';
			"CREATE TABLE t$_ (id int $key, v int, filler text); INSERT INTO t$_ SELECT g, 0, 'first' FROM generate_series(1, 50) g;"
		} 0 .. $sessions - 1);
		for my $i (0 .. $sessions - 1)
		{
			$session{"$schema$i"} = session($node);
			ask($session{"$schema$i"}, "SET search_path = $schema");
		}
	}
	return;
}

# Session I takes the steps FROM to TO.
sub take_steps
{
	my ($i, $from, $to) = @_;
	for my $schema (sort keys %am)
	{
		ask($session{"$schema$i"}, sprintf $_, $i) for @steps[$from .. $to];
	}
	return;
}

sub end_transaction
{
	my ($i, $end) = @_;
	ask($session{"$_$i"}, $end) for sort keys %am;
	return;
}

# Another commit brings to disk what was logged before.
sub crash
{
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS other (id int); INSERT INTO other VALUES (1)');
	crash_and_start($node);
	for my $s (values %session) { eval { $s->quit }; }
	%session = ();
	return;
}

sub contents
{
	my ($schema) = @_;
	return $node->safe_psql('postgres', join ';', map { "SELECT 't$_', count(*), sum(id), sum(v), md5(string_agg(concat(id, ' ', v, filler), ',' ORDER BY id)) FROM $schema.t$_" } 0 .. $sessions - 1);
}

# Compares; COMMITTED are the sessions whose changes must be there.
sub as_heap
{
	my ($name, @committed) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $heap = contents('h');
	is(contents('a'), $heap, $name);
	is(join(' ', map { /^t(\d+)\|747\|/ ? $1 : () } split /\n/, $heap), "@committed", "$name: who has committed");
	my @differs = grep { $_ } map { index_differs($node, "a.t$_", "t${_}_pkey", 'id', 'id > 0') } grep { $_ % 2 } 0 .. $sessions - 1;
	return is("@differs", '', "$name: indexes");
}

my @all = (0 .. $sessions - 1);
my @even = grep { $_ % 2 == 0 } @all;

for my $checkpoint (0, 1)
{
	my $name = 'crash at each step' . ($checkpoint ? ', after a checkpoint' : '');
	begin_round();
	take_steps($_, 0, $_) for @all;
	$node->safe_psql('postgres', 'CHECKPOINT') if $checkpoint;
	crash();
	as_heap($name);
}

# committed after a checkpoint at each step; in the second round some stay open through another one
for my $again (0, 1)
{
	my @committed = $again ? @even : @all;
	my $name = 'checkpoint at each step, ' . ($again ? 'some commit before another' : 'all commit');
	begin_round();
	take_steps($_, 0, $_) for @all;
	$node->safe_psql('postgres', 'CHECKPOINT');
	for my $i (@all)
	{
		take_steps($i, $i + 1, $#steps);
		end_transaction($i, 'COMMIT') if !$again || $i % 2 == 0;
	}
	$node->safe_psql('postgres', 'CHECKPOINT') if $again;
	crash();
	as_heap($name, @committed);
	crash();
	as_heap("$name, another crash", @committed);
}

# prepared at the end: without its xid nobody else could finish it
begin_round();
for my $i (@all)
{
	take_steps($i, 0, $#steps);
	end_transaction($i, 'COMMIT') if $i % 3 == 0;
	next if $i % 3 == 0;
	ask($session{"$_$i"}, "PREPARE TRANSACTION '$_$i'") for 'a', 'h';
	$node->safe_psql('postgres', 'CHECKPOINT') if $i == 4;
	last if $i == 5; # max_prepared_transactions
}
crash();
for my $i (1, 2, 4, 5)
{
	$node->safe_psql('postgres', ($i % 3 == 1 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$_$i'") for 'a', 'h';
}
as_heap('prepared', 0, 1, 3, 4);
crash();
as_heap('prepared, another crash', 0, 1, 3, 4);

$node->stop;
done_testing();
