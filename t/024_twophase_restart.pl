# Prepared transactions across crashes and restarts, with and without a checkpoint: their rows and row
# locks stay, waiters wait for COMMIT or ROLLBACK PREPARED, a prepared child row keeps its parent
# (PITFALLS 32); tables created, dropped or truncated by a prepared transaction.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('twophase', "autovacuum = off\n");

sub restart
{
	my (@steps) = @_;
	for my $step (@steps)
	{
		if ($step eq 'checkpoint') { $node->safe_psql('postgres', 'CHECKPOINT'); }
		elsif ($step eq 'crash') { crash_and_start($node); }
		else { $node->stop($step); $node->start; }
	}
	return;
}

# What the statement ends with: its SQLSTATE, or its answer.
sub outcome
{
	my ($sql) = @_;
	my ($ret, $out, $err) = quiet_sql($node, "SET lock_timeout = '100ms'; $sql");
	return $err =~ /ERROR: +(\w{5}):/ ? $1 : $out;
}

sub contents
{
	return $node->safe_psql('postgres', "SELECT string_agg(t::text, ' ' ORDER BY id) FROM t WHERE id < 1000;
		SELECT count(*), sum(v) FROM t WHERE id >= 1000; SELECT count(*) FROM h; SELECT string_agg(c::text, ' ') FROM child c");
}

my $t_before = '(1,0) (2,0) (3,0) (4,0) (5,0) (6,0) (7,0)';

for my $steps (['crash'], ['fast'], ['immediate'], ['checkpoint', 'crash'], ['checkpoint', 'fast'], ['checkpoint', 'crash', 'fast', 'crash'])
{
	my $name = join ' ', @$steps;
	$node->safe_psql('postgres', <<END);
DROP TABLE IF EXISTS t, h, child, parent;
CREATE TABLE t (id int PRIMARY KEY, v int) USING $AM;
CREATE TABLE h (id int) USING heap;
CREATE TABLE parent (id int PRIMARY KEY, v int) USING $AM;
CREATE TABLE child (id int, parent int REFERENCES parent) USING $AM;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 7) g;
INSERT INTO parent SELECT g, 0 FROM generate_series(1, 20) g;

BEGIN;
INSERT INTO t VALUES (100, 1);
UPDATE t SET v = 1 WHERE id = 1;
DELETE FROM t WHERE id = 2;
SELECT FROM t WHERE id = 3 FOR UPDATE;
SELECT FROM t WHERE id = 4 FOR SHARE;
SELECT FROM t WHERE id = 5 FOR NO KEY UPDATE;
SAVEPOINT s; UPDATE t SET v = 9; INSERT INTO t VALUES (101, 1); ROLLBACK TO s;
SAVEPOINT s; INSERT INTO child VALUES (1, 10); RELEASE s;
INSERT INTO h VALUES (1);
INSERT INTO t SELECT g, 1 FROM generate_series(1001, 11000) g;
PREPARE TRANSACTION 'one';

BEGIN;
INSERT INTO t VALUES (200, 1);
UPDATE t SET v = 2 WHERE id = 7;
SELECT FROM t WHERE id = 4 FOR SHARE;
INSERT INTO child VALUES (2, 20);
INSERT INTO h VALUES (2);
PREPARE TRANSACTION 'two';
END
	restart(@$steps);

	is($node->safe_psql('postgres', 'SELECT string_agg(gid, chr(32) ORDER BY gid) FROM pg_prepared_xacts'), 'one two', "$name: both are there");
	is(contents(), "$t_before\n0|\n0\n", "$name: nothing of them is seen");
	my $lock = sub { return outcome("SELECT id FROM $_[0] FOR $_[1]") };
	is($lock->('t WHERE id = 1', 'NO KEY UPDATE'), '55P03', "$name: an updated row is locked");
	is($lock->('t WHERE id = 1', 'KEY SHARE'), '1', "$name: but not its key");
	is($lock->('t WHERE id = 2', 'KEY SHARE'), '55P03', "$name: a deleted row is locked");
	is($lock->('t WHERE id = 3', 'KEY SHARE'), '55P03', "$name: FOR UPDATE holds");
	is($lock->('t WHERE id = 4', 'SHARE'), '4', "$name: FOR SHARE admits another");
	is($lock->('t WHERE id = 4', 'NO KEY UPDATE'), '55P03', "$name: FOR SHARE holds");
	is($lock->('t WHERE id = 5', 'KEY SHARE'), '5', "$name: FOR NO KEY UPDATE admits FOR KEY SHARE");
	is($lock->('t WHERE id = 5', 'SHARE'), '55P03', "$name: FOR NO KEY UPDATE holds");
	is($lock->('t WHERE id = 6', 'UPDATE'), '6', "$name: what a savepoint undid is free");
	is($lock->('parent WHERE id = 10', 'NO KEY UPDATE'), '10', "$name: a foreign key lets the parent be updated");
	is($lock->('parent WHERE id = 10', 'UPDATE'), '55P03', "$name: but not deleted");
	is($lock->('parent WHERE id = 11', 'UPDATE'), '11', "$name: another parent is free");
	is(outcome('INSERT INTO t VALUES (100, 5)'), '55P03', "$name: a prepared key is waited for");
	is(outcome('INSERT INTO t VALUES (101, 5); DELETE FROM t WHERE id = 101'), '', "$name: a key undone is free");

	# waiters
	my %s = map { $_ => session($node) } qw(update key parent seven orphan key2);
	send_query($s{update}, 'UPDATE t SET v = v + 10 WHERE id = 1 RETURNING v');
	send_query($s{key}, 'INSERT INTO t VALUES (100, 5)');
	send_query($s{parent}, 'DELETE FROM parent WHERE id = 10');
	send_query($s{seven}, 'UPDATE t SET v = v + 10 WHERE id = 7 RETURNING v');
	send_query($s{orphan}, 'DELETE FROM parent WHERE id = 20 RETURNING id');
	send_query($s{key2}, 'INSERT INTO t VALUES (200, 5) RETURNING v');
	ok(wait_blocked($node, 6), "$name: six wait");
	$node->safe_psql('postgres', "COMMIT PREPARED 'one'");
	like(wait_query($s{update}), qr/^11$/m, "$name: an update goes on from the prepared one");
	like((wait_query($s{key}))[1], qr/duplicate key/, "$name: a prepared key is refused");
	like((wait_query($s{parent}))[1], qr/violates foreign key/, "$name: no orphan");
	ok(is_waiting($s{$_}), "$name: $_ still waits") for qw(seven orphan key2);
	$node->safe_psql('postgres', "ROLLBACK PREPARED 'two'");
	like(wait_query($s{seven}), qr/^10$/m, "$name: an update goes on from the old row");
	like(wait_query($s{orphan}), qr/^20$/m, "$name: the parent goes");
	like(wait_query($s{key2}), qr/^5$/m, "$name: the key is free");
	$_->quit for values %s;

	my $end = "(1,11) (3,0) (4,0) (5,0) (6,0) (7,10) (100,1) (200,5)\n10000|10000\n1\n(1,10)";
	is(contents(), $end, "$name: contents");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM t FOR UPDATE NOWAIT) x'), 10008, "$name: no lock is left");
	is(index_differs($node, 't', 't_pkey', 'id', 'id > 0'), '', "$name: the index agrees");
	restart('crash');
	is(contents(), $end, "$name: contents after another crash");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM t FOR UPDATE NOWAIT) x'), 10008, "$name: nor any lock");
}

# COMMIT PREPARED is itself lost or kept with its record: crash at once after it.
$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = -1 WHERE id < 1000; PREPARE TRANSACTION 'three'; CHECKPOINT; COMMIT PREPARED 'three'");
crash_and_start($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE v = -1'), 8, 'committed just before a crash');
$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = -2 WHERE id < 1000; PREPARE TRANSACTION 'three'; CHECKPOINT; ROLLBACK PREPARED 'three'; CHECKPOINT");
crash_and_start($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE v = -1'), 8, 'rolled back before a checkpoint and a crash');

# Tables
for my $end ('COMMIT', 'ROLLBACK')
{
	for my $steps (['crash'], ['checkpoint', 'crash'], ['fast'])
	{
		my $name = "tables, @$steps, $end";
		$node->safe_psql('postgres', <<END);
DROP TABLE IF EXISTS dropped, made, emptied, rewritten;
SET default_table_access_method = $AM;
CREATE TABLE dropped AS SELECT g AS id FROM generate_series(1, 100) g;
CREATE TABLE emptied AS SELECT g AS id FROM generate_series(1, 100) g;
CREATE TABLE rewritten AS SELECT g AS id FROM generate_series(1, 100) g;
BEGIN;
DROP TABLE dropped;
CREATE TABLE made AS SELECT g AS id FROM generate_series(1, 100) g;
TRUNCATE emptied;
INSERT INTO emptied VALUES (1), (2);
ALTER TABLE rewritten ALTER id TYPE bigint USING id + 1000;
PREPARE TRANSACTION 'four';
END
		restart(@$steps);
		is(outcome('SELECT count(*) FROM dropped'), '55P03', "$name: locked");
		$node->safe_psql('postgres', "$end PREPARED 'four'");
		for my $again (0 .. 1)
		{
			is(outcome('SELECT count(*) FROM dropped'), $end eq 'COMMIT' ? '42P01' : '100', "$name: dropped");
			is(outcome('SELECT count(*) FROM made'), $end eq 'COMMIT' ? '100' : '42P01', "$name: made");
			is(outcome('SELECT count(*) FROM emptied'), $end eq 'COMMIT' ? '2' : '100', "$name: emptied");
			is(outcome('SELECT sum(id) FROM rewritten'), $end eq 'COMMIT' ? '105050' : '5050', "$name: rewritten");
			restart('crash') if !$again;
		}
	}
}

$node->stop;
done_testing();
