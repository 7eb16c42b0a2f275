# A commit is visible before it is on disk. Who has seen it reports nothing before it is on disk, and who
# has not seen it is not held up; then the server is killed (PITFALLS 36).
#
# The WAL writer sleeps and nothing else writes WAL, so that what nobody has flushed is lost for certain.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('readers', <<END);
autovacuum = off
jit = off
wal_level = minimal
max_wal_senders = 0
checkpoint_timeout = 1h
bgwriter_lru_maxpages = 0
END
plan skip_all => 'not a test build' if !use_stop_points($node);
$node->safe_psql('postgres', <<END);
CREATE TABLE t (id int, v int) USING tsengine;
CREATE TABLE other (id int, v int) USING tsengine;
CREATE TABLE lazy (id int, v int) USING tsengine;
CREATE TABLE copied (id int, v int) USING tsengine;
CREATE TABLE calm (id int, v int) USING tsengine;
INSERT INTO t VALUES (1, 0);
INSERT INTO other VALUES (1, 0);
INSERT INTO lazy VALUES (1, 0);
INSERT INTO calm VALUES (1, 0);
END
my $parallel = join ';', map { "SET $_" } 'force_parallel_mode = on', 'max_parallel_workers_per_gather = 1', 'parallel_leader_participation = off',
  map { "$_ = 0" } qw(min_parallel_table_scan_size parallel_setup_cost parallel_tuple_cost);
my ($writer, $rival, @reader);

# Until nobody who reads these tables is held up: what is durable is known to be so after a while.
sub settle
{
	my $end = time + 10;
	my $s = session($node);
	kill 'CONT', keys %{ { server_processes($node, qr/: walwriter/) } };
	while (1)
	{
		arm($node, 'READER_FLUSH');
		send_query($s, 'SELECT FROM t UNION ALL SELECT FROM other UNION ALL SELECT FROM lazy UNION ALL SELECT FROM copied UNION ALL SELECT FROM calm');
		usleep(50_000);
		my $held = is_waiting($s);
		disarm($node, 'READER_FLUSH');
		wait_query($s);
		last if !$held;
		die 'durable commits are not known to be so' if time > $end;
	}
	$s->quit;
	kill 'STOP', keys %{ { server_processes($node, qr/: walwriter/) } };
	return;
}

# Everybody connects, and nothing is left to be flushed.
sub begin_round
{
	($writer, $rival, @reader) = map { session($node) } 1 .. 9;
	settle();
	return;
}

sub crash
{
	crash_and_start($node);
	eval { $_->quit } for $writer, $rival, @reader;
	return;
}

sub rows { return $node->safe_psql('postgres', "SELECT count(*) FROM $_[0]"); }

# With nobody to read it, what stands before the flush is not on disk: else the rest would show nothing.
begin_round();
stop_session($node, $writer, 'BEFORE_FLUSH', 'INSERT INTO t VALUES (2, 0)');
is(ask($reader[0], 'BEGIN; SELECT count(*) FROM t'), 2, 'what is not flushed yet is visible');
crash();
is(rows('t'), 1, 'and lost if nobody flushes it');

# Who has seen it is held up
begin_round();
ask($rival, "SET synchronous_commit = off; INSERT INTO lazy VALUES (2, 0)");
my %sees = (
	'autocommitted SELECT' => 'SELECT count(*) FROM t',
	'COMMIT of a reader' => 'COMMIT',
	'writer of another table' => 'INSERT INTO copied SELECT * FROM t WHERE id = 2',
	'parallel query' => 'SELECT count(*) FROM t',
	'SELECT that saw a DELETE' => 'SELECT count(*) FROM other',
	'statement in a transaction' => 'SELECT count(*) FROM t');
my %session;
@session{sort keys %sees} = @reader;
my $old = $reader[6];
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t');
stop_session($node, $writer, 'BEFORE_FLUSH', 'BEGIN; INSERT INTO t VALUES (2, 0); DELETE FROM other; COMMIT');
is(ask($session{'COMMIT of a reader'}, 'BEGIN; SELECT count(*) FROM t'), 2, 'its statement is not held up');
ask($session{'writer of another table'}, 'SET synchronous_commit = off');
ask($session{'parallel query'}, $parallel);
like(ask($session{'parallel query'}, 'EXPLAIN SELECT count(*) FROM t'), qr/Gather/, 'the parallel query is one');
ask($session{'statement in a transaction'}, 'SET tsengine.read_durability = statement; BEGIN');
arm($node, 'READER_FLUSH');
send_query($session{$_}, $sees{$_}) for sort keys %sees;
usleep(300_000);
ok(is_waiting($session{$_}), "held up: $_") for sort keys %sees;
is(scalar(my @workers = %{ { server_processes($node, qr/parallel worker/) } }) / 2, 1, 'the worker is held up itself');

# and who has not is not
is(ask($old, 'SELECT count(*) FROM t'), 1, 'an old snapshot does not see it');
ask($old, 'COMMIT');
is(ask($old, 'SELECT count(*) FROM calm'), 1, 'not held up: who has not seen it');
is(ask($old, 'SELECT count(*) FROM lazy'), 2, 'nor a reader of what was committed with synchronous_commit = off');
ok(is_waiting($writer), 'all the while, the writer stands');

# They flush it themselves: the writer is not needed for that.
disarm($node, 'READER_FLUSH');
my %answer = map { $_ => scalar wait_query($session{$_}) } sort keys %sees;
is($answer{'autocommitted SELECT'} . $answer{'parallel query'} . $answer{'statement in a transaction'}, 222, 'they have seen it');
ok(is_waiting($writer), 'still, the writer stands');
crash();
is(rows('t'), 2, 'what readers were told of is there after a crash');
is(rows('other'), 0, 'all of it');

# Each of them flushes by itself
for my $who (sort keys %sees)
{
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 2; INSERT INTO other SELECT 1, 0 WHERE NOT EXISTS (SELECT FROM other)');
	begin_round();
	my $s = $reader[0];
	ask($s, 'SET synchronous_commit = off') if $who =~ /writer/;
	ask($s, $parallel) if $who =~ /parallel/;
	ask($s, 'SET tsengine.read_durability = statement; BEGIN') if $who =~ /statement/;
	stop_session($node, $writer, 'BEFORE_FLUSH', 'BEGIN; INSERT INTO t VALUES (2, 0); DELETE FROM other; COMMIT');
	ask($s, 'BEGIN; SELECT count(*) FROM t') if $who =~ /^COMMIT/;
	ask($s, $sees{$who});
	crash();
	is(rows('t') . rows('other'), 20, "there after a crash: what was seen by $who");
}

# The reader of one that has taken its csn first and is logged last still waits, though a later csn is
# known to be on disk.
begin_round();
stop_session($node, $writer, 'CSN_TAKEN', 'UPDATE t SET v = 9 WHERE id = 1');
arm_no_more($node, 'CSN_TAKEN');
ask($rival, 'INSERT INTO copied VALUES (10, 10)');
usleep(300_000);				# the guard would have noted by now that all is on disk
arm($node, 'BEFORE_FLUSH');
disarm($node, 'CSN_TAKEN');
wait_stopped($node, 'BEFORE_FLUSH');
arm($node, 'READER_FLUSH');
send_query($reader[0], 'SELECT v FROM t WHERE id = 1');
ok(held_up($reader[0]), 'an earlier csn, logged later: its reader is held up');
disarm($node, 'READER_FLUSH');
is((wait_query($reader[0]))[0], 9, 'and has seen it');
crash();
is($node->safe_psql('postgres', 'SELECT v FROM t WHERE id = 1'), 9, 'it is there after a crash');

# Mixed commits become visible after their flush: nobody waits for them.
begin_round();
$node->safe_psql('postgres', 'CREATE TABLE h (id int) USING heap');
settle();
stop_session($node, $writer, 'MIXED_ENDED', 'BEGIN; INSERT INTO h VALUES (1); INSERT INTO t VALUES (3, 0); COMMIT');
is(ask($reader[0], 'SELECT count(*) FROM t'), 3, 'a mixed commit is visible');
crash();
is(rows('t') . rows('h'), 31, 'and on disk');

# An image is a reader, too: what it has of a commit is on disk before the image counts, or half of that
# commit might be all that is left. Here one table is in the image when the commit changes both.
begin_round();
$node->safe_psql('postgres', 'CHECKPOINT; UPDATE t SET v = 20; UPDATE lazy SET v = 20');
settle();
stop_session($node, $rival, 'IMAGE_TABLE', 'CHECKPOINT');
usleep(300_000);				# core's part of the checkpoint is done by now
stop_session($node, $writer, 'BEFORE_FLUSH', 'BEGIN; UPDATE t SET v = 21; UPDATE lazy SET v = 21; COMMIT');
arm($node, 'IMAGE_DONE');
disarm($node, 'IMAGE_TABLE');
wait_stopped($node, 'IMAGE_DONE');
crash();
is($node->safe_psql('postgres', 'SELECT DISTINCT t.v, lazy.v FROM t, lazy'), '21|21', 'a commit that an image has met half way');

$node->stop;
done_testing();
