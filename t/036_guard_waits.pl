# Who waits for the guard, and for whom it waits: readers of new commits while it writes an image, and
# transactions of walsenders at shutdown, which core leaves running until it has gone.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('waits', "autovacuum = off\nwal_level = replica\nmax_wal_senders = 4\n");
$node->safe_psql('postgres', 'CREATE TABLE t (id int) USING tsengine; INSERT INTO t VALUES (1)');

SKIP:
{
	skip 'not a test build', 3 if !use_stop_points($node);
	my ($checkpoint, $reader) = map { session($node) } 1 .. 2;
	stop_session($node, $checkpoint, 'IMAGE_SCAN', 'CHECKPOINT');
	$node->safe_psql('postgres', 'INSERT INTO t VALUES (2)');
	my $end = time + 10;
	my $held;
	do
	{
		arm($node, 'READER_FLUSH');
		send_query($reader, 'SELECT count(*) FROM t');
		usleep(100_000);
		$held = is_waiting($reader);
		disarm($node, 'READER_FLUSH');
		is(scalar wait_query($reader), 2, 'the commit is visible') if !$held;
		wait_query($reader) if $held;
	} while ($held && time < $end);
	ok(!$held, 'a commit is known to be durable while an image is written');
	ok(is_waiting($checkpoint), 'which is still the case');
	disarm($node, 'IMAGE_SCAN');
	wait_query($checkpoint);
	$_->quit for $checkpoint, $reader;
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 2');
}

# Sessions that have written and not ended
for my $mode ('fast', 'smart')
{
	my $walsender = $node->background_psql('postgres', replication => 'database', on_error_stop => 0);
	my $idle = $node->background_psql('postgres', replication => 'database', on_error_stop => 0);
	ask($idle, 'SELECT 1');
	ask($walsender, 'BEGIN; INSERT INTO t VALUES (2)');
	like($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_activity WHERE backend_type = $$walsender$$'), qr/^2$/, "$mode: two walsenders");
	my $offset = -s $node->logfile;
	my $begin = time;
	local %ENV = $node->_get_env(PGCTLTIMEOUT => 30);
	is(system('pg_ctl', '-D', $node->data_dir, '-m', $mode, 'stop'), 0, "$mode: the server stops");
	cmp_ok(time - $begin, '<', 20, "$mode: soon");
	kill_server($node) if -e $node->data_dir . '/postmaster.pid';
	eval { $_->quit } for $walsender, $idle;
	$node->_update_pid(0);
	$node->start;
	like(slurp_file($node->logfile, $offset), qr/database system was shut down at/, "$mode: in order");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 1, "$mode: nothing of what had not been committed");
}

$node->stop;
done_testing();
