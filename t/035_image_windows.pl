# What happens between an image's LSN and the parts of it, and other orders of records and memory that have
# gone wrong: each case ends in a crash.

use strict;
use warnings FATAL => 'all';
use lib 't';
use TsEngine;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('windows', "autovacuum = off\nmax_wal_size = 4GB\n", allows_streaming => 1);
plan skip_all => 'not a test build' if !use_stop_points($node);

$node->safe_psql('postgres', <<END);
SET default_table_access_method = tsengine;
CREATE TABLE t (id int, v int);
CREATE TABLE hot (id int, v int);
CREATE TABLE p (id int);
CREATE TABLE q (id int);
CREATE TABLE c (id int PRIMARY KEY, v int, pad text);
CREATE TABLE parent (id int, v int);
INSERT INTO hot VALUES (1, 0);
INSERT INTO parent VALUES (1, 0);
INSERT INTO c SELECT g, 0, repeat('x', 100) FROM generate_series(1, 20000) g;
CHECKPOINT;
END

my ($s, $c);

sub begin_case { ($s, $c) = map { session($node) } 1 .. 2; return; }
sub answer { return $node->safe_psql('postgres', $_[0]); }

sub end_image
{
	my ($point) = @_;
	disarm($node, $point);
	wait_query($c);
	return;
}

sub crash
{
	crash_and_start($node);
	eval { $_->quit } for $s, $c;
	return;
}

# A transaction logs rows before the image's LSN, and others after it, on top of a change that came in between.
begin_case();
ask($s, 'BEGIN; INSERT INTO t SELECT g, 1 FROM generate_series(1, 60000) g');
stop_session($node, $c, 'IMAGE_LSN', 'CHECKPOINT');
answer('UPDATE hot SET v = v + 1');
ask($s, 'UPDATE hot SET v = v + 100; INSERT INTO t SELECT g, 1 FROM generate_series(1, 60000) g');
end_image('IMAGE_LSN');
ask($s, 'COMMIT');
crash();
is(answer('SELECT count(*) FROM t'), '120000', 'logged before and after the LSN: all rows');
is(answer('SELECT v FROM hot'), '101', 'and the row changed twice');

# A savepoint that begins, logs and is rolled back after the LSN.
begin_case();
ask($s, 'BEGIN; INSERT INTO p SELECT g FROM generate_series(1, 5000) g');
stop_session($node, $c, 'IMAGE_LSN', 'CHECKPOINT');
ask($s, 'SAVEPOINT s; INSERT INTO q SELECT g FROM generate_series(1, 60000) g; INSERT INTO q VALUES (0)');
end_image('IMAGE_LSN');
ask($s, 'ROLLBACK TO s; INSERT INTO p VALUES (0); COMMIT');
crash();
is(answer('SELECT count(*) FROM q'), '0', 'a savepoint rolled back stays so');
is(answer('SELECT count(*) FROM p'), '5001', 'what was around it is there');

# A table is rewritten by a transaction that has changed much of it.
begin_case();
ask($s, 'BEGIN; INSERT INTO p VALUES (-1); UPDATE c SET v = v + 1; CLUSTER c USING c_pkey; COMMIT');
crash();
is(answer('SELECT count(*), sum(v), sum(length(pad)) FROM c'), '20000|20000|2000000', 'CLUSTER after an UPDATE: all rows');
is(answer('SELECT count(*) FROM p WHERE id = -1'), '1', 'and the rest of the transaction');

# A table is emptied in place while the image is written.
begin_case();
ask($s, 'BEGIN; CREATE TABLE e (id int) USING tsengine; INSERT INTO e VALUES (1)');
stop_session($node, $c, 'IMAGE_SCAN', 'CHECKPOINT');
ask($s, 'TRUNCATE e; INSERT INTO e VALUES (7)');
end_image('IMAGE_SCAN');
ask($s, 'COMMIT');
crash();
is(answer('SELECT id FROM e'), '7', 'TRUNCATE of a table made in the same transaction');

# PREPARE waits for a standby that is not there: its row lock is logged, it is not prepared for others yet.
begin_case();
set_conf($node, 'synchronous_standby_names', 'nobody');
ask($s, 'BEGIN; SELECT id FROM parent FOR KEY SHARE');
send_query($s, "PREPARE TRANSACTION 'x'");
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"), 'PREPARE waits for a standby');
ask($c, 'SET synchronous_commit = local; CHECKPOINT');
kill_server($node);
eval { $_->quit } for $s, $c;
$node->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''");
$node->start;
is(answer('SELECT count(*) FROM pg_prepared_xacts'), '1', 'the transaction is prepared');
like((quiet_sql($node, "SET lock_timeout = '500ms'; DELETE FROM parent"))[2], qr/55P03/, 'and holds its row lock');
answer("ROLLBACK PREPARED 'x'");

# Who locks a row reads it.
begin_case();
my $reader = session($node);
ask($s, 'BEGIN; UPDATE hot SET v = 0');
send_query($reader, 'SELECT v FROM hot FOR UPDATE');
wait_blocked($node, 1);
arm($node, 'READER_FLUSH');
stop_session($node, $s, 'BEFORE_FLUSH', 'COMMIT');
wait_stopped($node, 'READER_FLUSH');
ok(is_waiting($reader), 'FOR UPDATE of a row whose commit is not flushed is not reported');
disarm($node, $_) for 'READER_FLUSH', 'BEFORE_FLUSH';
is((wait_query($reader))[0], '0', 'but shows it in the end');
wait_query($s);

$node->stop;
done_testing();
