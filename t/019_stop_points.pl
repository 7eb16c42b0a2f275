# Interleavings with a commit, made certain by stop points of the test build: readers, writers and
# CREATE INDEX CONCURRENTLY meet a transaction at each step between its end for core and its end for us
# (PITFALLS 9 and 12), and before its record is on disk.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;
use Time::HiRes qw(usleep);

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('stops', "autovacuum = off\n");
plan skip_all => 'not a test build' if !use_stop_points($node);

$node->safe_psql('postgres', <<END);
CREATE TABLE t (id int, v int) USING tsengine;
CREATE TABLE h (id int, v int) USING heap;
CREATE TABLE calm (id int) USING tsengine;
INSERT INTO t VALUES (1, 0); INSERT INTO h VALUES (1, 0); INSERT INTO calm VALUES (1);
END
my ($writer, $reader, $old, $other) = map { session($node) } 1 .. 4;

sub stop_writer { return stop_session($node, $writer, @_); }

sub release_writer
{
	my ($point) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	disarm($node, $point);
	my ($out, $err) = wait_query($writer);
	return is($err, '', 'the writer has committed');
}

my $v = sub { ask($_[0], 'SELECT v FROM t') };

# before the csn is taken, nobody sees the change and nobody waits
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ'); is($v->($old), 0, 'an old snapshot');
stop_writer('PREPARING', 'UPDATE t SET v = 1');
is($v->($reader), 0, 'csn not taken: a reader sees the old version, at once');
release_writer('PREPARING');
is($v->($reader), 1, 'then the new one');
is($v->($old), 0, 'the old snapshot does not');

# csn taken, not decided: who may see it waits for the decision
stop_writer('CSN_TAKEN', 'UPDATE t SET v = 2');
is($v->($old), 0, 'csn taken: an old snapshot does not wait');
send_query($reader, 'SELECT v FROM t');
ok(held_up($reader), 'a new one waits');
release_writer('CSN_TAKEN');
is((wait_query($reader))[0], 2, 'and sees the new version');

# the same for an insert that a scan would skip
stop_writer('CSN_TAKEN', 'INSERT INTO t VALUES (2, 2)');
send_query($reader, 'SELECT count(*) FROM t');
ok(held_up($reader), 'a scan that meets an insert waits, too');
release_writer('CSN_TAKEN');
is((wait_query($reader))[0], 2, 'and counts it');
ask($writer, 'DELETE FROM t WHERE id = 2');

# decided, not stamped: readers see it, writers go on when it is stamped
stop_writer('COMMITTED', 'UPDATE t SET v = 3');
is($v->($reader), 3, 'decided: a reader sees it at once');
is($v->($old), 0, 'an old snapshot does not');
send_query($other, 'UPDATE t SET v = v + 10 RETURNING v');
ok(held_up($other), 'a writer waits for the stamp');
release_writer('COMMITTED');
is((wait_query($other))[0] =~ s/\n.*//sr, 13, 'and builds on it');

# mixed: as soon as its xid has ended, heap and tsengine show it together
stop_writer('MIXED_ENDED', 'BEGIN; UPDATE h SET v = 7; UPDATE t SET v = 7; COMMIT');
is(ask($reader, 'SELECT t.v, h.v FROM t, h'), '7|7', 'mixed: both tables at once');
is(ask($old, 'SELECT t.v, h.v FROM t, h'), '0|0', 'neither in an old snapshot');
release_writer('MIXED_ENDED');
ask($old, 'COMMIT');

# CREATE INDEX CONCURRENTLY does not overlook who is in the middle of a commit
for my $point ('PURE_ENDED', 'PREPARING', 'CSN_TAKEN')
{
	my $key = 100 + $stop->{$point};
	stop_writer($point, "INSERT INTO t VALUES ($key, 1)");
	send_query($other, "CREATE INDEX CONCURRENTLY t_id_$point ON t (id)");
	ok(held_up($other), 'CREATE INDEX CONCURRENTLY waits for a commit under way');
	release_writer($point);
	is((wait_query($other))[1], '', 'it is built');
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM t WHERE id = $key"), 1, 'and has the row');
}

# and while it is under way, nobody commits without an xid: here it waits for another session
ask($reader, 'BEGIN; UPDATE t SET v = 0 WHERE id = 1');
send_query($other, 'CREATE INDEX CONCURRENTLY t_id_again ON t (id)');
wait_blocked($node, 1);
my $pure = $node->safe_psql('postgres', 'SELECT commits_pure FROM tsengine.stat_transactions');
arm($node, 'PURE_ENDED');
send_query($writer, 'INSERT INTO t VALUES (200, 1)');
for (1 .. 100)
{
	last if !is_waiting($writer) || $node->safe_psql('postgres', "SELECT reached($stop->{PURE_ENDED})") eq 't';
	usleep(50_000);
}
ok(!is_waiting($writer), 'a commit has an xid meanwhile');
ask($reader, 'COMMIT');
is((wait_query($other))[1], '', 'the index is built');
disarm($node, 'PURE_ENDED');
wait_query($writer);
is($node->safe_psql('postgres', 'SELECT commits_pure FROM tsengine.stat_transactions'), $pure, 'none was pure');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE id = 200'), 1, 'and the row is in the index');
is($node->safe_psql('postgres', 'SELECT late_xid, snapshot_missing FROM tsengine.stat_transactions'), '0|0', 'no late xid, no lost count');

$_->quit for ($writer, $reader, $old, $other);
$node->stop;
done_testing();
