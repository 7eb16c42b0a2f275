# Transactions of 300,000 rows with savepoints, released, rolled back and nested, with a checkpoint at
# different moments, committed or still open when the server dies; values of 100 MB.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('large', "autovacuum = off\nmax_wal_size = 4GB\njit = off\n" . (on_tsengine() ? "tsengine.memory = '1GB'\n" : ''));

# keyed has a unique index, plain none: for tsengine these are two ways to commit
my @tables = ('plain', 'keyed');

sub contents
{
	return $node->safe_psql('postgres', join ';', map { "SELECT count(*), sum(id), sum(v) FROM $_" } @tables);
}

sub insert
{
	my ($from, $to) = @_;
	return join ';', map { "INSERT INTO $_ SELECT g, 1 FROM generate_series($from, $to) g" } @tables;
}

my @steps = (
	insert(1, 150_000) . ";UPDATE plain SET v = 2 WHERE id BETWEEN 1 AND 1000; DELETE FROM keyed WHERE id BETWEEN 1 AND 1000",
	'SAVEPOINT a;' . insert(500_001, 550_000) . '; UPDATE plain SET v = 9; DELETE FROM keyed',
	'ROLLBACK TO a; SAVEPOINT b;' . insert(150_001, 200_000),
	'SAVEPOINT c;' . insert(200_001, 250_000) . '; SAVEPOINT d; ' . insert(600_001, 650_000) . '; ROLLBACK TO d; RELEASE c; UPDATE keyed SET v = 3 WHERE id BETWEEN 150001 AND 160000',
	'RELEASE b;' . insert(250_001, 300_000));
my ($sum, $removed) = (300_000 * 300_001 / 2, 1000 * 1001 / 2);
my $committed = "300000|$sum|301000\n" . join('|', 299_000, $sum - $removed, 319_000);

# -1: no checkpoint, else after this step
for my $case (['COMMIT', -1], ['COMMIT', 3], ['open', 1], ['open', 4])
{
	my ($end, $checkpoint) = @$case;
	my $name = ($checkpoint < 0 ? 'no checkpoint' : "checkpoint after step $checkpoint") . ", $end";
	$node->safe_psql('postgres', <<END);
DROP TABLE IF EXISTS plain, keyed;
CREATE TABLE plain (id int, v int) USING $AM;
CREATE TABLE keyed (id int PRIMARY KEY, v int) USING $AM;
INSERT INTO plain VALUES (0, 0); INSERT INTO keyed VALUES (0, 0);
END
	my $s = session($node);
	ask($s, 'BEGIN');
	for my $i (0 .. $#steps)
	{
		ask($s, $steps[$i]);
		$node->safe_psql('postgres', 'CHECKPOINT') if $i == $checkpoint;
	}
	# another commit brings what is open to disk
	ask($s, $end) if $end eq 'COMMIT';
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS other (id int); INSERT INTO other VALUES (1)');
	crash_and_start($node);
	eval { $s->quit };
	if ($end eq 'open')
	{
		is(contents(), "1|0|0\n1|0|0", "$name: nothing of it is there");
		$node->safe_psql('postgres', 'BEGIN;' . join(';', @steps) . '; COMMIT; CHECKPOINT');
	}
	my $expected = join "\n", map { my @f = split /\|/; join '|', $f[0] + 1, @f[1, 2] } split /\n/, $committed;
	is(contents(), $expected, "$name: all of it is there");
	is(index_differs($node, 'keyed', 'keyed_pkey', 'id', 'id >= 0'), '', "$name: index");
	if ($end eq 'open')
	{
		crash_and_start($node);
		is(contents(), $expected, "$name: and again after a crash");
	}
}

# Values of 100 MB, no two parts of which are the same
$node->safe_psql('postgres', "DROP TABLE plain, keyed; CREATE TABLE huge (id int PRIMARY KEY, n int, v text) USING $AM; ALTER TABLE huge ALTER v SET STORAGE EXTERNAL");
my $value = "(SELECT string_agg(lpad((g * %d)::text, 100, '.'), '') FROM generate_series(1, 1000000) g)";
my $digest = "SELECT id, n, length(v), md5(v) FROM huge ORDER BY id";
$node->safe_psql('postgres', sprintf("INSERT INTO huge SELECT 1, 0, $value", 1));
$node->safe_psql('postgres', 'UPDATE huge SET n = 1');
my $expected = $node->safe_psql('postgres', $digest);
like($expected, qr/^1\|1\|100000000\|/, '100 MB are stored');
crash_and_start($node);
is($node->safe_psql('postgres', $digest), $expected, 'and there after a crash');
$node->safe_psql('postgres', 'CHECKPOINT;' . sprintf("INSERT INTO huge SELECT 2, 0, $value", 3) . "; BEGIN; UPDATE huge SET v = 'rolled back'; ROLLBACK");
$expected = $node->safe_psql('postgres', $digest);
$node->safe_psql('postgres', "BEGIN; UPDATE huge SET v = v || 'x', n = 7 WHERE id = 1; PREPARE TRANSACTION 'large'; CHECKPOINT; ROLLBACK PREPARED 'large'");
crash_and_start($node);
is($node->safe_psql('postgres', $digest), $expected, 'two of them, one in the image');
$node->restart;
is($node->safe_psql('postgres', $digest), $expected, 'the same after an orderly restart');
$node->safe_psql('postgres', 'DELETE FROM huge WHERE id = 1');
crash_and_start($node);
is($node->safe_psql('postgres', $digest), $expected =~ s/^1.*\n//r, 'one is deleted');

$node->stop;
done_testing();
