# Images written while transactions stand at every step of their end, and transactions that end while an
# image stands at each of its steps: a crash afterwards loses nothing and brings nothing back (PITFALLS
# 23, 37).

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;
use Time::HiRes qw(usleep);

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('races', "autovacuum = off\nfsync = on\ncheckpoint_timeout = 1h\n");
plan skip_all => 'not a test build' if !use_stop_points($node);

my @image_points = qw(IMAGE_LSN IMAGE_SCAN IMAGE_MANIFEST IMAGE_DONE);

# A table without a unique index, which would make all transactions mixed, and its image
sub begin_case
{
	$node->safe_psql('postgres', <<END);
DROP TABLE IF EXISTS t, h;
CREATE TABLE t (id int, v int) USING tsengine; CREATE INDEX t_id ON t (id);
CREATE TABLE h (id int, v int) USING heap;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 1000) g; INSERT INTO h VALUES (1, 0);
CHECKPOINT;
END
	return;
}

my $contents = 'SELECT id, v FROM t WHERE v <> 0 OR id > 1000 ORDER BY id; SELECT count(*) FROM t; SELECT v FROM h';

sub crash_and_compare
{
	my ($name, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	crash_and_start($node);
	is($node->safe_psql('postgres', $contents), $expected, "$name: after a crash");
	$node->restart;
	is($node->safe_psql('postgres', $contents), $expected, "$name: after a restart");
	return;
}

my $change = 'UPDATE t SET v = 1 WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (1001, 7)';
my $pure = "BEGIN; $change; COMMIT";
my $mixed = "BEGIN; $change; UPDATE h SET v = 1; COMMIT";
my %after = (pure => "1|1\n1001|7\n1000\n0", mixed => "1|1\n1001|7\n1000\n1");
my $before = "1000\n0";

# A transaction stands where its record is in the WAL and its rows are not in memory as committed: the
# image waits for it.
for my $case (['CSN_TAKEN', $pure, 'pure'], ['COMMITTED', $pure, 'pure'], ['LOGGED', $mixed, 'mixed'], ['COMMITTED', $mixed, 'mixed'])
{
	my ($at, $sql, $kind) = @$case;
	my $name = "$kind transaction at '$at'";
	begin_case();
	my ($s, $c) = map { session($node) } 1 .. 2;
	arm($node, $at);
	send_query($s, $sql);
	wait_stopped($node, $at);
	send_query($c, 'CHECKPOINT');
	usleep(400_000);
	ok(is_waiting($c), "$name: the checkpoint waits");
	disarm($node, $at);
	wait_query($s);
	wait_query($c);
	$_->quit for $s, $c;
	crash_and_compare($name, $after{$kind});
}

# A mixed transaction has ended for the world, by its xid, and not for its rows; the checkpoint does not
# wait, and its redo pointer is behind the commit record.
begin_case();
my ($s, $c) = map { session($node) } 1 .. 2;
arm($node, 'MIXED_ENDED');
send_query($s, $mixed);
wait_stopped($node, 'MIXED_ENDED');
my ($out, $err) = try_ask($c, 'CHECKPOINT');
is($err, '', 'mixed transaction that has ended by its xid only: the checkpoint completes');
eval { $_->quit } for $c;
kill_server($node);
eval { $s->quit };
$node->start;
is($node->safe_psql('postgres', $contents), $after{mixed}, 'and the transaction is there after a crash');
$node->restart;
is($node->safe_psql('postgres', $contents), $after{mixed}, 'and after a restart');

# An image stands at each of its steps while transactions commit, roll back, are prepared and overwrite what
# others have logged before; with a crash in the middle of it, and with one after its end.
for my $at (@image_points)
{
	for my $crash ('during', 'after')
	{
		my $name = "image at '$at', crash $crash it";
		begin_case();
		my ($c, $undone, $commits) = map { session($node) } 1 .. 3;
		# large enough to be logged before they end
		my $large = "INSERT INTO t SELECT g, 5 FROM generate_series(%d, %d) g";
		ask($undone, 'BEGIN; ' . sprintf($large, 100_001, 130_000) . '; UPDATE t SET v = 99 WHERE id = 5');
		ask($commits, 'BEGIN; ' . sprintf($large, 200_001, 230_000) . '; UPDATE t SET v = 6 WHERE id = 6; UPDATE h SET v = v + 1');
		$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = 8 WHERE id = 8; PREPARE TRANSACTION 'p'");
		$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = 9 WHERE id = 9; INSERT INTO t VALUES (1009, 9); PREPARE TRANSACTION 'q'");
		arm($node, $at);
		send_query($c, 'CHECKPOINT');
		wait_stopped($node, $at);
		$node->safe_psql('postgres', $pure);
		ask($commits, 'COMMIT');
		$node->safe_psql('postgres', 'UPDATE t SET v = 66 WHERE id = 6; DELETE FROM t WHERE id = 200001');
		ask($undone, 'ROLLBACK');
		$node->safe_psql('postgres', 'UPDATE t SET v = 55 WHERE id = 5');
		$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
		$node->safe_psql('postgres', 'UPDATE t SET v = 88 WHERE id = 8');
		$node->safe_psql('postgres', "ROLLBACK PREPARED 'q'");
		$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = 10 WHERE id = 10; PREPARE TRANSACTION 'r'");
		my $expected = $node->safe_psql('postgres', $contents);
		if ($crash eq 'after')
		{
			disarm($node, $at);
			wait_query($c);
		}
		kill_server($node);
		eval { $_->quit } for $c, $undone, $commits;
		$node->start;
		is($node->safe_psql('postgres', $contents), $expected, "$name: all is there");
		is(index_differs($node, 't', 't_id', 'id', 'id >= 0'), '', "$name: index");
		is($node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts'), 'r', "$name: one transaction is prepared");
		$node->safe_psql('postgres', "COMMIT PREPARED 'r'; UPDATE t SET v = v + 1 WHERE id = 10");
		is($node->safe_psql('postgres', 'SELECT v FROM t WHERE id = 10'), 11, "$name: and can be committed");
		is($node->safe_psql('postgres', 'SELECT * FROM tsengine.verify()'), '', "$name: verify() finds nothing");
	}
}

# Files do not pile up: what is rewritten again and again takes about twice its size.
$node->safe_psql('postgres', <<END);
DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int) USING tsengine;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 100000) g;
END
for my $i (1 .. 25)
{
	$node->safe_psql('postgres', "UPDATE t SET v = $i WHERE id BETWEEN $i * 3000 AND $i * 3000 + 20000; CHECKPOINT");
}
my ($disk, $live) = split /\|/, $node->safe_psql('postgres', 'SELECT disk_bytes, live_bytes FROM tsengine.stat_checkpoint');
cmp_ok($live, '>', 1_000_000, 'the rows are in the image');
cmp_ok($disk, '<', 2.5 * $live, 'its files are not much larger');

$node->stop;
done_testing();
