# All DDL that makes, empties, copies and drops tables, committed and rolled back (durable_ddl.sql), then
# a crash or an orderly restart: each table has what its heap twin has.

use strict;
use warnings FATAL => 'all';

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('ddl', "autovacuum = off\njit = off\n");
$node->safe_psql('postgres', 'SET allow_in_place_tablespaces = on; CREATE TABLESPACE elsewhere LOCATION \'\'');
my $script = slurp_file(dirname(__FILE__) . '/durable_ddl.sql');

sub run_script
{
	for my $schema ('a', 'h')
	{
		my $am = $schema eq 'a' ? $AM : 'heap';
		$node->safe_psql('postgres', "DROP SCHEMA IF EXISTS $schema CASCADE; CREATE SCHEMA $schema;
			SET search_path = $schema; SET default_table_access_method = $am;\n\\set am $am\n$script");
	}
	return;
}

# Tables of the script; kinds as in pg_class.relkind.
sub tables
{
	my ($kinds) = @_;
	return split /\n/, $node->safe_psql('postgres', "SELECT relname FROM pg_class WHERE relnamespace = 'h'::regnamespace AND relkind = ANY ('$kinds') ORDER BY 1");
}

# Number and sum of the rows, by sequential scans and through whatever index there is.
sub contents
{
	my ($schema, @tables) = @_;
	my $sql = 'SET enable_bitmapscan = off;';
	for my $set ('on', 'off')
	{
		$sql .= "SET enable_seqscan = $set; SELECT '$_', '$set', count(*), sum(hashtextextended(t::text, 0)::numeric) FROM $schema.$_ t WHERE id >= 0 OR id IS NULL;\n" for @tables;
	}
	return $node->safe_psql('postgres', $sql);
}

sub as_heap
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @tables = tables('{r,m,p}');
	return is(contents('a', @tables), contents('h', @tables), $name);
}

sub change_rows
{
	$node->safe_psql('postgres', join "\n", map { my $s = $_; map { "UPDATE $s.$_ SET id = id + 20000 WHERE id % 3 = 0; DELETE FROM $s.$_ WHERE id % 5 = 0;" } grep { !/indexed|referencing|parent|part/ } tables('{r}') } ('a', 'h'));
	return;
}

sub count_unlogged
{
	return $node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM a.unlogged), (SELECT count(*) FROM a.made_unlogged)');
}

# crash_open: another session is in the middle of DDL when the server dies
for my $round (['minimal', 'crash'], ['replica', 'crash_open'], ['replica', 'checkpoint', 'crash'], ['minimal', 'stop'], ['replica', 'immediate'])
{
	my ($wal_level, @steps) = @$round;
	my $name = "wal_level $wal_level, @steps";

	$node->adjust_conf('postgresql.conf', 'wal_level', $wal_level);
	$node->restart;
	run_script();
	as_heap("$name: before");
	cmp_ok(scalar(my @all = tables('{r,m,p}')), '>', 35, "$name: many tables");
	for my $step (@steps)
	{
		if ($step eq 'checkpoint') { $node->safe_psql('postgres', 'CHECKPOINT'); }
		elsif ($step eq 'crash') { crash_and_start($node); }
		elsif ($step eq 'crash_open')
		{
			my $s = session($node);
			ask($s, "SET search_path = a; SET default_table_access_method = $AM; BEGIN; REFRESH MATERIALIZED VIEW viewed; DROP TABLE plain CASCADE; TRUNCATE retyped; INSERT INTO retyped VALUES (1, 1);
				ALTER TABLE widened ALTER c TYPE text; DELETE FROM to_am; CREATE TABLE never AS SELECT g AS id FROM generate_series(1, 1000) g; ALTER TABLE to_heap SET ACCESS METHOD $AM; ALTER TABLE moved SET TABLESPACE pg_default");
			$node->safe_psql('postgres', 'CREATE TABLE h.other (id int); INSERT INTO h.other VALUES (1); CHECKPOINT; CREATE TABLE a.other (id int); INSERT INTO a.other VALUES (1)');
			crash_and_start($node);
			eval { $s->quit };
			is($node->safe_psql('postgres', "SELECT to_regclass('a.never')"), '', "$name: what was not committed is not there");
		}
		else { $node->stop($step eq 'stop' ? 'fast' : $step); $node->start; }
	}
	is(count_unlogged(), $name =~ /stop/ ? '1000|1000' : '0|0', "$name: unlogged tables");
	as_heap("$name: contents");
	change_rows();
	as_heap("$name: new work");
	is($node->safe_psql('postgres', "INSERT INTO a.restarted (v) VALUES ('x') RETURNING id > 5"), 't', "$name: identity goes on");
	is($node->safe_psql('postgres', "INSERT INTO a.plain (v) VALUES ('x') RETURNING id > 1000"), 't', "$name: sequence goes on");
	$node->safe_psql('postgres', "DELETE FROM a.restarted WHERE v = 'x'; DELETE FROM a.plain WHERE v = 'x'");
	crash_and_start($node);
	as_heap("$name: after another crash");
}

# The comparison can fail.
$node->safe_psql('postgres', "UPDATE a.wide_values SET v = v || '.' WHERE id = 14");
isnt(contents('a', 'wide_values'), contents('h', 'wide_values'), 'a difference is found');

# Nothing of it is left.
$node->safe_psql('postgres', 'DROP SCHEMA a CASCADE; DROP SCHEMA h CASCADE');
crash_and_start($node);
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_|^information_|^tsengine')"), 0, 'all dropped');
is(used_bytes($node) < 4 * 1024 * 1024, 1, 'and its memory with it') if on_tsengine();

$node->stop;
done_testing();
