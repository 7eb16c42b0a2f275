# A backend is killed in the middle of its work: the server restarts by itself, nothing hangs, new work
# is possible. (Until tables are durable, permanent ones have lost their rows then and say so.)

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use TsEngine;

my $node = new_node('kill', "restart_after_crash = on\nsynchronous_commit = off\n");

for my $round (1 .. 3)
{
	$node->safe_psql('postgres', <<END);
CREATE TABLE k$round (id int PRIMARY KEY, v int, pad text) USING $AM;
INSERT INTO k$round SELECT g, 0, repeat('x', 100) FROM generate_series(1, 1000) g;
CREATE TABLE h$round (id int PRIMARY KEY, v int) USING heap;
INSERT INTO h$round SELECT g, g FROM generate_series(1, 1000) g;
END

	# A victim with row locks and versions, one that is busy writing, one that waits, a load.
	my $idle = session($node);
	my $pid = ask($idle, 'SELECT pg_backend_pid()');
	ask($idle, "BEGIN; UPDATE k$round SET v = v + 1 WHERE id < 100; SELECT FROM k$round WHERE id = 500 FOR UPDATE LIMIT 1");
	my $busy = session($node);
	my $busy_pid = ask($busy, 'SELECT pg_backend_pid()');
	send_query($busy, "DO \$\$ BEGIN LOOP UPDATE k$round SET v = v + 1, pad = repeat('y', (random() * 300)::int) WHERE id BETWEEN 600 AND 700; COMMIT; END LOOP; END \$\$");
	my $waiter = session($node);
	send_query($waiter, "UPDATE k$round SET v = v + 1 WHERE id = 50");
	ok(wait_blocked($node, 1), 'one waits');
	my $bench = bench_start($node, '-c', 4, '-T', 30,
		bench_files($node, 'k' => "\\set i random(200, 1000)\nUPDATE k$round SET v = v + 1 WHERE id = :i;\nDELETE FROM k$round WHERE id = :i;\nINSERT INTO k$round VALUES (:i, 0, 'new') ON CONFLICT DO NOTHING;\n"));
	usleep(500_000);

	my $offset = -s $node->logfile;
	kill 'KILL', $round == 2 ? $pid : $busy_pid;
	ok($node->poll_query_until('postgres', "SELECT pg_postmaster_start_time() IS NOT NULL AND NOT pg_is_in_recovery()", 't'), 'the server is back');
	ok($node->wait_for_log(qr/database system is ready to accept connections/, $offset), 'after a restart of its own');
	eval { $bench->{h}->finish; };
	for my $s ($idle, $busy, $waiter)
	{
		eval { $s->quit; };
	}

	is($node->safe_psql('postgres', "SELECT count(*), sum(v) FROM h$round"), '1000|500500', 'heap rows are there');
	if (on_tsengine())
	{
		my ($ret, $out, $err) = quiet_sql($node, "SELECT count(*) FROM k$round");
		ok(($ret != 0 && $err =~ /HINT/) || $out eq '1000' || $out > 900, 'the table says that its rows are lost, or has them');
		$node->safe_psql('postgres', "TRUNCATE k$round");
	}
	$node->safe_psql('postgres', <<END);
TRUNCATE k$round;
INSERT INTO k$round SELECT g, g FROM generate_series(1, 1000) g;
UPDATE k$round SET v = v + 1 WHERE id % 2 = 0;
DELETE FROM k$round WHERE id > 990;
END
	is($node->safe_psql('postgres', "SELECT count(*), sum(v) FROM k$round"), '990|491040', 'new work is possible');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE NOT granted OR locktype IN ('tuple', 'userlock', 'advisory')"), 0, 'no lock is left');
	is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT FROM k$round FOR UPDATE NOWAIT) x"), 990, 'no row lock is left');
}

# A session that is terminated or cancelled is no crash.
my $s = session($node);
my $pid = ask($s, 'SELECT pg_backend_pid()');
ask($s, 'BEGIN; UPDATE k3 SET v = 0 WHERE id = 1');
my $w = session($node);
send_query($w, 'UPDATE k3 SET v = v + 100 WHERE id = 1 RETURNING v');
ok(wait_blocked($node, 1), 'one waits');
my $offset = -s $node->logfile;
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
is(wait_query($w), 101, 'pg_terminate_backend undoes and wakes the waiter');
ask($w, 'BEGIN; UPDATE k3 SET v = 7 WHERE id = 2');
my $s2 = session($node);
$pid = ask($s2, 'SELECT pg_backend_pid()');
send_query($s2, 'UPDATE k3 SET v = v + 100 WHERE id = 2');
ok(wait_blocked($node, 1), 'one waits');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
my ($o, $e) = wait_query($s2);
like($e, qr/canceling statement due to user request/, 'pg_cancel_backend ends a wait');
ask($w, 'COMMIT');
is($node->safe_psql('postgres', 'SELECT v FROM k3 WHERE id = 2 FOR UPDATE NOWAIT'), 7, 'and leaves nothing');
unlike(slurp_file($node->logfile, $offset), qr/terminated by signal|PANIC/, 'no crash');
$w->quit;
$s2->quit;
eval { $s->quit; };

$node->stop;
done_testing();
