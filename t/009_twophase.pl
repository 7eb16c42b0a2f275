# Prepared transactions: their rows and row locks stay, the session that prepared may go, others wait
# and are woken by COMMIT PREPARED or ROLLBACK PREPARED from anywhere.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('twophase', "deadlock_timeout = '100ms'\n");
my $setup = <<END;
DROP TABLE IF EXISTS c, t, h;
CREATE TABLE t (id int PRIMARY KEY, v int, ix int) USING $AM;
CREATE INDEX ON t (ix);
CREATE TABLE h (id int PRIMARY KEY, v int) USING heap;
CREATE TABLE c (id int PRIMARY KEY, pid int REFERENCES t) USING $AM;
INSERT INTO t VALUES (1, 10, 1), (2, 20, 2);
INSERT INTO h VALUES (1, 10);
END
my $all = "SELECT string_agg(t::text, ' ' ORDER BY id) FROM t";

# what is prepared, what waits for it, its answer after commit, after rollback
my @cases = (
	[ 'update', 'UPDATE t SET v = v + 1 WHERE id = 1; UPDATE h SET v = v + 1', 'UPDATE t SET v = v + 100 WHERE id = 1 RETURNING v', '111', '110' ],
	[ 'moving update', 'UPDATE t SET ix = 50 WHERE id = 1', 'UPDATE t SET v = v + 100 WHERE ix IN (1, 50) RETURNING v, ix', '110|50', '110|1' ],
	[ 'key update', 'UPDATE t SET id = 9 WHERE id = 1', 'UPDATE t SET v = v + 100 WHERE id = 1 RETURNING v', '', '110' ],
	[ 'delete', 'DELETE FROM t WHERE id = 1', 'UPDATE t SET v = v + 100 WHERE id = 1 RETURNING v', '', '110' ],
	[ 'delete, then insert', 'DELETE FROM t WHERE id = 1', "INSERT INTO t VALUES (1, 7, 7) RETURNING v", '7', qr/duplicate key/ ],
	[ 'insert', 'INSERT INTO t VALUES (3, 30, 3)', 'INSERT INTO t VALUES (3, 31, 3) RETURNING v', qr/duplicate key/, '31' ],
	[ 'insert, upsert', 'INSERT INTO t VALUES (3, 30, 3)', 'INSERT INTO t VALUES (3, 31, 3) ON CONFLICT (id) DO UPDATE SET v = t.v + 5 RETURNING v', '35', '31' ],
	[ 'FOR UPDATE', 'SELECT FROM t WHERE id = 1 FOR UPDATE', 'SELECT v FROM t WHERE id = 1 FOR KEY SHARE', '10', '10' ],
	[ 'FOR SHARE', 'SELECT FROM t WHERE id = 1 FOR SHARE', 'UPDATE t SET v = 0 WHERE id = 1 RETURNING v', '0', '0' ],
	[ 'FOR KEY SHARE', 'SELECT FROM t WHERE id = 1 FOR KEY SHARE', 'DELETE FROM t WHERE id = 1 RETURNING v', '10', '10' ],
	[ 'child', 'INSERT INTO c VALUES (1, 1)', 'DELETE FROM t WHERE id = 1 RETURNING v', qr/violates foreign key/, '10' ],
	[ 'parent deleted', 'DELETE FROM t WHERE id = 1', 'INSERT INTO c VALUES (1, 1) RETURNING id', qr/violates foreign key/, '1' ],
	[ 'savepoints', 'SAVEPOINT a; UPDATE t SET v = 99 WHERE id = 1; ROLLBACK TO a; SAVEPOINT b; UPDATE t SET v = v + 2 WHERE id = 1; RELEASE b', 'UPDATE t SET v = v + 100 WHERE id = 1 RETURNING v', '112', '110' ],
	[ 'lock and update', 'SELECT FROM t WHERE id = 1 FOR UPDATE; UPDATE t SET v = v + 1 WHERE id = 1; UPDATE t SET v = v + 1 WHERE id = 1', 'SELECT v FROM t WHERE id = 1 FOR UPDATE', '12', '10' ],
	[ 'heap row', 'UPDATE h SET v = v + 1; UPDATE t SET v = v + 1 WHERE id = 1', 'UPDATE h SET v = v + 100 RETURNING v, (SELECT v FROM t WHERE id = 1)', '111|10', '110|10' ],
	[ 'truncated', 'TRUNCATE t, c; INSERT INTO t VALUES (5, 50, 5)', 'SELECT count(*), min(id) FROM t', '1|5', '2|1' ],
);

for my $case (@cases)
{
	my ($name, $work, $wait, @answers) = @$case;
	for my $end ('COMMIT', 'ROLLBACK')
	{
		my $answer = shift @answers;
		$node->safe_psql('postgres', $setup);
		my $before = $node->safe_psql('postgres', $all);
		my $writer = session($node);
		ask($writer, 'BEGIN');
		ask($writer, $_) for split /; /, $work;
		ask($writer, "PREPARE TRANSACTION 'two'");
		# the session goes on, and away
		is(ask($writer, $all), $before, "$name: not seen before its end") if $name ne 'truncated';
		$writer->quit;
		my $waiter = session($node);
		send_query($waiter, $wait);
		ok(wait_blocked($node, 1), "$name: one waits");
		ok(is_waiting($waiter), 'without an answer');
		$node->safe_psql('postgres', "$end PREPARED 'two'");
		my ($out, $err) = wait_query($waiter);
		if (ref $answer)
		{
			like($err, $answer, "$name: $end PREPARED, error");
		}
		else
		{
			is("$out$err", $answer, "$name: $end PREPARED, woken");
		}
		$waiter->quit;
		is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM t FOR UPDATE NOWAIT) x'),
			$node->safe_psql('postgres', 'SELECT count(*) FROM t'), 'no lock is left');
	}
}

# REPEATABLE READ readers and writers across the end of a prepared transaction
$node->safe_psql('postgres', $setup);
my ($w, $r) = (session($node), session($node));
ask($w, 'BEGIN; UPDATE t SET v = v + 1; UPDATE h SET v = v + 1');
ask($w, "PREPARE TRANSACTION 'two'");
ask($r, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
is(ask($r, 'SELECT t.v, h.v FROM t JOIN h USING (id)'), '10|10', 'old values in both tables');
$node->safe_psql('postgres', "COMMIT PREPARED 'two'");
is(ask($r, 'SELECT t.v, h.v FROM t JOIN h USING (id)'), '10|10', 'also after its commit');
my ($o, $e) = try_ask($r, 'UPDATE t SET v = 0 WHERE id = 1');
like($e, qr/could not serialize access due to concurrent update/, 'which wins');
ask($r, 'ROLLBACK');
is(ask($r, 'SELECT t.v, h.v FROM t JOIN h USING (id)'), '11|11', 'new values in both tables');

# Two at a time, and the order of their ends
ask($w, 'BEGIN; INSERT INTO t VALUES (100, 1, 1)');
ask($w, "PREPARE TRANSACTION 'first'");
ask($w, 'BEGIN; INSERT INTO t VALUES (200, 2, 2); DELETE FROM t WHERE id = 2');
ask($w, "PREPARE TRANSACTION 'second'");
is(ask($w, 'SELECT count(*) FROM pg_prepared_xacts'), 2, 'two prepared transactions');
ask($r, "COMMIT PREPARED 'second'");
is(ask($r, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), '1,200', 'the second is seen');
ask($r, "ROLLBACK PREPARED 'first'");
is(ask($r, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), '1,200', 'the first is gone');

# PREPARE that fails, and a deadlock with a waiter behind a prepared transaction
ask($w, 'BEGIN; UPDATE t SET v = 5 WHERE id = 1; CREATE TEMP TABLE tmp (x int)');
($o, $e) = try_ask($w, "PREPARE TRANSACTION 'two'");
like($e, qr/ERROR.*temporary/, 'PREPARE can fail');
is(ask($r, 'SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT'), 11, 'and undoes everything');
$node->safe_psql('postgres', $setup);
ask($w, 'BEGIN; UPDATE t SET v = 1 WHERE id = 1');
ask($w, "PREPARE TRANSACTION 'two'");
ask($r, 'BEGIN; UPDATE t SET v = 2 WHERE id = 2');
send_query($r, 'UPDATE t SET v = 2 WHERE id = 1 RETURNING v');
ok(wait_blocked($node, 1), 'one waits for the prepared transaction');
ask($w, "SET lock_timeout = '200ms'");
($o, $e) = try_ask($w, 'UPDATE t SET v = 3 WHERE id = 2');
like($e, qr/lock timeout/, 'one behind it gives up');
ask($w, "ROLLBACK PREPARED 'two'");
is(wait_query($r), 2, 'the first goes on');
ask($r, 'COMMIT');

# VACUUM beside a prepared transaction keeps its versions.
ask($w, 'BEGIN; DELETE FROM t WHERE id = 1; UPDATE t SET ix = 77 WHERE id = 2');
ask($w, "PREPARE TRANSACTION 'two'");
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE ix < 50'), 2, 'old versions are kept');
$node->safe_psql('postgres', "COMMIT PREPARED 'two'");
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT id, ix FROM t WHERE ix > 0'), '2|77', 'new ones afterwards');

$_->quit for ($w, $r);
$node->stop;
done_testing();
