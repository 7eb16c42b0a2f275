# The arena fills up: a clear error, nothing lost, deletes and rollback still work, memory comes back.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('memory', "tsengine.memory = '32MB'\nsynchronous_commit = off\n");
my $empty = used_bytes($node);
my ($ret, $out, $err);

$node->safe_psql('postgres', "CREATE TABLE m (id int, pad text) USING tsengine; CREATE TABLE keep (id int PRIMARY KEY, v int) USING tsengine; INSERT INTO keep SELECT g, g FROM generate_series(1, 1000) g");

# One statement that is too large is undone.
($ret, $out, $err) = quiet_sql($node, "INSERT INTO m SELECT g, repeat('x', 500) FROM generate_series(1, 200000) g");
isnt($ret, 0, 'the arena is full');
like($err, qr/ERROR:\s+53200:/, 'SQLSTATE 53200');
like($err, qr/DETAIL: .*\d.*\d/s, 'figures in DETAIL');
like($err, qr/HINT: .*tsengine\.memory/s, 'the setting in HINT');
is($node->safe_psql('postgres', 'SELECT count(*) FROM m'), 0, 'the statement is undone');
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM keep'), '1000|500500', 'nothing else is lost');

# Fill up in small transactions.
$node->safe_psql('postgres', 'TRUNCATE m');
sub fill
{
	my $n = 0;
	while ($n < 2000)
	{
		($ret, $out, $err) = quiet_sql($node, <<'END');
DO $$
BEGIN
  FOR i IN 1..100 LOOP
    INSERT INTO m SELECT g, repeat('x', 500) FROM generate_series(1, 100) g;
    COMMIT;
  END LOOP;
END $$
END
		last if $ret != 0;
		$n++;
	}
	return $err;
}
like(fill(), qr/ERROR:\s+53200:/, 'full by small transactions');
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM m');
cmp_ok($rows, '>', 10000, "rows of the committed transactions are there: $rows");
is($rows % 100, 0, 'none of the failed one');
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM keep'), '1000|500500', 'reads work');

my $full = used_bytes($node);
cmp_ok($full, '<=', 32 * 1024 * 1024, 'used_bytes is within the limit');
cmp_ok($full, '>', 20 * 1024 * 1024, "and near it: $full");

# Savepoints and rollback in a full arena
my $s = session($node);
ask($s, 'BEGIN');
ask($s, 'SAVEPOINT a');
my ($o, $e) = try_ask($s, "INSERT INTO m SELECT g, repeat('y', 500) FROM generate_series(1, 20000) g");
like($e, qr/ERROR/, 'an error inside of a transaction');
ask($s, 'ROLLBACK TO a');
ask($s, 'DELETE FROM m WHERE id = 1');
is(ask($s, 'SELECT count(*) FROM m'), $rows - $rows / 100, 'DELETE works after it');
ask($s, 'ROLLBACK');
is(ask($s, 'SELECT count(*) FROM m'), $rows, 'ROLLBACK works');

# Everything can be deleted in a full arena, a thousand rows at a time, and the memory comes back.
my $failed = '';
for my $i (1 .. 100)
{
	($o, $e) = try_ask($s, 'DELETE FROM m WHERE id = ' . $i);
	$failed .= $e;
}
is($failed, '', 'DELETE in a full arena');
is(ask($s, 'SELECT count(*) FROM m'), 0, 'all rows are deleted');
$node->safe_psql('postgres', 'VACUUM m');
my $after = settled_bytes($node, $full * 0.4);
cmp_ok($after, "<=", $full * 0.4, "memory of deleted rows is free again: $after of $full");
like(fill(), qr/ERROR:\s+53200:/, 'it can be used again');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM m'), '>', $rows * 0.8, 'for about as many rows');

# One statement that deletes all of them
ask($s, 'BEGIN');
($o, $e) = try_ask($s, 'DELETE FROM m');
is($e, '', 'DELETE of all rows in one statement in a full arena');
is(ask($s, 'SELECT count(*) FROM m'), 0, 'no row is left in its transaction') if $e eq '';
ask($s, 'ROLLBACK');
ask($s, 'SELECT 1');

# A large value that does not fit, and one that does
$node->safe_psql('postgres', 'TRUNCATE m');
settled_bytes($node, $full / 3);
($ret, $out, $err) = quiet_sql($node, "ALTER TABLE m ALTER pad SET STORAGE EXTERNAL; INSERT INTO m SELECT 0, repeat('z', 64 * 1024 * 1024)");
like($err, qr/ERROR:\s+53200:/, 'a value larger than the arena');
($ret, $out, $err) = quiet_sql($node, "INSERT INTO m SELECT 0, repeat('z', 8 * 1024 * 1024)");
is($ret, 0, 'one that fits') or diag($err);
is($node->safe_psql('postgres', 'SELECT length(pad) FROM m'), $ret ? '' : 8 * 1024 * 1024, 'and is whole');
$node->safe_psql('postgres', 'TRUNCATE m');

# Fill and roll back, twenty times: nothing leaks.
my $base = settled_bytes($node, $full / 3);
for my $i (1 .. 20)
{
	ask($s, 'BEGIN');
	if ($i % 2)
	{
		ask($s, "INSERT INTO m SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g");
	}
	else
	{
		try_ask($s, "INSERT INTO m SELECT g, repeat('x', 500) FROM generate_series(1, 200000) g");
	}
	ask($s, 'ROLLBACK');
}
$after = settled_bytes($node, $base + 2 * 1024 * 1024);
cmp_ok($after, '<=', $base + 2 * 1024 * 1024, "fill and ROLLBACK does not leak: $base, then $after");

for my $i (1 .. 20)
{
	ask($s, 'BEGIN');
	ask($s, 'CREATE TABLE gone (id int PRIMARY KEY, pad text) USING tsengine');
	ask($s, "INSERT INTO gone SELECT g, repeat('x', 500) FROM generate_series(1, 10000) g");
	ask($s, $i % 2 ? 'ROLLBACK' : 'DROP TABLE gone');
	ask($s, 'COMMIT') if !($i % 2);
}
$after = settled_bytes($node, $base + 2 * 1024 * 1024);
cmp_ok($after, '<=', $base + 2 * 1024 * 1024, "nor do tables: $base, then $after");
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM keep'), '1000|500500', 'the other table is whole');

# An index build, ALTER and CREATE TABLE AS that do not fit
$node->safe_psql('postgres', "INSERT INTO m SELECT g, repeat('x', 500) FROM generate_series(1, 30000) g");
for my $sql ('CREATE TABLE copy USING tsengine AS SELECT * FROM m a, generate_series(1, 5)', "ALTER TABLE m ALTER pad TYPE text USING repeat(pad, 10)")
{
	($ret, $out, $err) = quiet_sql($node, $sql);
	like($err, qr/ERROR:\s+53200:/, $sql);
}
is($node->safe_psql('postgres', 'SELECT count(*), sum(length(pad)) FROM m'), '30000|15000000', 'the table is as before');

$s->quit;
$node->stop;
done_testing();
