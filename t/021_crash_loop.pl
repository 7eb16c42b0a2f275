# A server under load is killed again and again, as a whole or one of its processes, also during recovery
# and checkpoints. What was acknowledged is there afterwards, nothing is there in part, and tsengine,
# heap and indexes agree.
#
# TS_CRASH_ROUNDS sets the number of rounds, TS_SEED repeats a run's statements (not its timing).

use strict;
use warnings FATAL => 'all';

use Bank;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use TsEngine;

my $rounds = $ENV{TS_CRASH_ROUNDS} // 30;
my $seed = $ENV{TS_SEED} // int(time * 1000) % 2**31;
srand $seed;
diag("TS_SEED=$seed");

# Small segments and little WAL: checkpoints come all the time, also by themselves.
my $node = new_node('crash', <<END, extra => ['--wal-segsize=1']);
restart_after_crash = on
max_wal_size = 2MB
min_wal_size = 2MB
checkpoint_timeout = 30s
deadlock_timeout = 50ms
jit = off
END
my $bank = bank_create($node);

# The checks can fail: each sort of damage is found, and nothing else before and after.
sub finds
{
	my ($name, $pattern, $damage, $repair) = @_;
	$node->safe_psql('postgres', $damage);
	my @errors = bank_errors($bank);
	like("@errors", $pattern, "found: $name");
	$node->safe_psql('postgres', $repair);
	is(join("\n", bank_errors($bank)), '', 'repaired');
	return;
}
$node->safe_psql('postgres', 'SELECT transfer(1, g, 1 + g, 2 + g, 10, g % 2 = 0, g % 3 = 0) FROM generate_series(1, 12) g');
$bank->{acked}{"1 $_"} = 1 for 1 .. 12;
is(join("\n", bank_errors($bank)), '', 'all is well at the beginning');
finds('a lost transaction', qr/acknowledged but lost/, 'CREATE TABLE saved AS SELECT * FROM journal; DELETE FROM journal WHERE seq = 3',
	'INSERT INTO journal SELECT * FROM saved WHERE seq = 3');
finds('half a transfer', qr/sum of balances.*account and journal/, 'UPDATE account SET balance = balance - 1 WHERE id = 7', 'UPDATE account SET balance = balance + 1 WHERE id = 7');
finds('a repeated row', qr/journal row twice/, 'INSERT INTO journal SELECT * FROM saved WHERE seq = 5',
	'DELETE FROM journal WHERE seq = 5; INSERT INTO journal SELECT * FROM saved WHERE seq = 5');
finds('a savepoint', qr/rolled back to a savepoint/, 'INSERT INTO journal VALUES (1, -5, 1, 1, 0, false, false)', 'DELETE FROM journal WHERE seq = -5');
finds('a lost receipt', qr/receipt and journal/, 'DELETE FROM receipt WHERE seq = 4', 'INSERT INTO receipt SELECT * FROM saved WHERE seq = 4');
finds('a lost twin', qr/twin and journal/, 'DELETE FROM twin WHERE seq = 6', 'INSERT INTO twin SELECT * FROM saved WHERE seq = 6');
my $ready = "UPDATE pg_index SET indisready = %s WHERE indexrelid = 'receipt_pkey'::regclass";
my $again = 'DELETE FROM receipt WHERE seq = 12; INSERT INTO receipt SELECT * FROM saved WHERE seq = 12';
finds('a row not indexed', qr/index receipt_pkey/, join(';', 'BEGIN', sprintf($ready, 'false'), $again, sprintf($ready, 'true'), 'COMMIT'), $again);
$bank->{undone}{'1 9'} = 1;
like(join(' ', bank_errors($bank)), qr/undone but there/, 'found: an undone transaction');
bank_reset($bank);

# Starts the server and kills the startup process or the postmaster while it recovers.
sub start_and_kill
{
	my $h = IPC::Run::start([ 'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, '-o', '--cluster-name=crash', 'start' ],
		'<', \undef, '>', \my $out, '2>&1');
	my ($old, $end) = (postmaster_pid($node), time + 5);
	my $startup;
	until ($startup || time > $end || $out && $out =~ /server started/)
	{
		$h->pump_nb;
		($startup) = %{ { server_processes($node, qr/: startup/) } };
	}
	usleep(rand 30_000);
	# without its startup process the postmaster gives up
	kill 'KILL', $startup and usleep(300_000) if $startup && rand() < 0.5;
	kill_server($node);
	$h->finish;
	return;
}

my @kinds = ('server', 'processes', 'recovery', 'backend', 'checkpointer', 'walwriter', 'background writer', 'tsengine');
my %victims = (
	backend => qr/\[local\]/, checkpointer => qr/: checkpointer/, walwriter => qr/: walwriter/,
	'background writer' => qr/: background writer/, tsengine => qr/: tsengine/);
pop @kinds if !on_tsengine();

my $total = 0;
for my $round (1 .. $rounds)
{
	bank_reset($bank) if $round % 20 == 0;
	bank_start($bank, transactions => 2000, background => 1);
	usleep(200_000 + rand 1_200_000);

	# each kind in turn at first, so that a short run has them all
	my $kind = $kinds[ $round <= @kinds ? $round - 1 : rand @kinds ];
	my $offset = -s $node->logfile;
	if ($victims{$kind})
	{
		ok(kill_process($node, $victims{$kind}), "round $round: killed a $kind");
		wait_restarted($node, $offset);
	}
	else
	{
		kill_server($node, survivors => $kind eq 'server');
		start_and_kill() for 1 .. ($kind eq 'recovery' ? 1 + int rand 3 : 0);
		$node->start;
	}
	my $count = bank_finish($bank);
	$total += $count;
	is(join("\n", bank_errors($bank)), '', "round $round ($kind, $count commits)");
}
cmp_ok($total, '>', 20 * $rounds, 'there was something to lose');

$node->stop;
done_testing();
