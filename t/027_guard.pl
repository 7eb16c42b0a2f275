# The process that makes checkpoints wait for images (tsengine guard): without a worker slot for it
# nothing is written, terminating or killing it does no harm; single-user mode only reads.

use strict;
use warnings FATAL => 'all';

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('guard', "restart_after_crash = on\nautovacuum = off\nmax_worker_processes = 8\n");
$node->safe_psql('postgres', <<END);
CREATE TABLE t (id int PRIMARY KEY, v int) USING tsengine;
CREATE TABLE plain (id int, v int) USING tsengine;
CREATE TABLE h (id int) USING heap;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 1000) g;
INSERT INTO plain SELECT * FROM t;
END

my $rows = 1000; # of t and of plain

sub all_there
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM plain); SET enable_seqscan = off; SELECT max(id) FROM t'),
		"$rows|$rows\n$rows", $name);
}

sub add_rows
{
	$node->safe_psql('postgres', "INSERT INTO t SELECT g, 0 FROM generate_series($rows + 1, $rows + 100) g; INSERT INTO plain SELECT * FROM t WHERE id > $rows");
	$rows += 100;
	return;
}

my @writes = (
	'INSERT INTO t VALUES (0, 0)', 'INSERT INTO plain VALUES (0, 0)', 'UPDATE t SET v = 1', 'DELETE FROM plain', 'COPY (SELECT 1) TO STDOUT; INSERT INTO t SELECT -1, 0',
	'CREATE TABLE other USING tsengine AS SELECT 1 AS id', 'BEGIN; INSERT INTO h VALUES (1); UPDATE plain SET v = 1; COMMIT');

sub guards
{
	my %found = server_processes($node, qr/tsengine guard/);
	return scalar keys %found;
}
is(guards(), 1, 'there is a guard');

# No slot for it
for my $case ([0, 'stop'], [0, 'crash'], [1, 'crash'])
{
	my ($slots, $end) = @$case;
	my $name = "max_worker_processes = $slots after a $end";
	$node->adjust_conf('postgresql.conf', 'max_worker_processes', 8);
	$node->restart;
	add_rows();
	$node->adjust_conf('postgresql.conf', 'max_worker_processes', $slots);
	$end eq 'crash' ? crash_and_start($node) : $node->restart;
	all_there("$name: reading works");
	ok(!guards(), "$name: no guard") if $slots == 0;
	if (!guards())
	{
		for my $sql (@writes)
		{
			my ($ret, $out, $err) = quiet_sql($node, $sql);
			like($err, qr/ERROR: +55000: .*tsengine/, "$name: refused: $sql");
			like($err, qr/HINT: .*max_worker_processes/, "$name: and says what to do");
		}
		is($node->safe_psql('postgres', 'INSERT INTO h VALUES (1) RETURNING id; SELECT count(*) FROM (SELECT FROM t LIMIT 5) x'), "1\n5", "$name: heap can be written");
	}
	else
	{
		add_rows();
	}
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash_and_start($node);
	all_there("$name: and after a crash");
	$node->restart;
	all_there("$name: and a restart");
}
$node->adjust_conf('postgresql.conf', 'max_worker_processes', 8);
$node->restart;
is(guards(), 1, 'there is a guard again');
add_rows();
all_there('and writing works');

# Signals: it stays, or comes back before a checkpoint ends
for my $signal ('pg_terminate_backend', 'TERM', 'INT', 'HUP', 'USR1')
{
	my ($pid) = server_processes($node, qr/tsengine guard/);
	add_rows();
	if ($signal eq 'pg_terminate_backend') { $node->psql('postgres', "SELECT pg_terminate_backend($pid)"); }
	else { kill $signal, $pid; }
	usleep(200_000);
	add_rows();
	my $s = session($node);
	send_query($s, 'CHECKPOINT');
	is((wait_query($s, 60))[1], '', "$signal: a checkpoint completes");
	$s->quit;
	is(guards(), 1, "$signal: there is a guard");
	crash_and_start($node);
	all_there("$signal: nothing is lost");
}

# Killed
for my $round (1 .. 3)
{
	add_rows();
	$node->safe_psql('postgres', 'CHECKPOINT') if $round == 2;
	my $offset = -s $node->logfile;
	ok(kill_process($node, qr/tsengine guard/), "killed, $round");
	wait_restarted($node, $offset);
	all_there('nothing is lost');
	is(guards(), 1, 'there is a guard');
	add_rows();
}

# Single-user mode, after an orderly stop and after a crash, when it is what recovers
sub single_user
{
	my ($sql) = @_;
	my ($out, $err);
	local %ENV = $node->_get_env();
	IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ], '<', \$sql, '>', \$out, '2>', \$err, IPC::Run::timeout(120));
	return ($out, $err);
}

for my $end ('fast', 'crash')
{
	add_rows();
	$end eq 'crash' ? kill_server($node) : $node->stop('fast');
	my ($out, $err) = single_user("SELECT 'rows: ' || count(*) AS n FROM t\nINSERT INTO t VALUES (0, 0)\nUPDATE plain SET v = 1\nINSERT INTO h VALUES (7)\nSELECT 'rows: ' || count(*) AS n FROM plain\n");
	is(join(' ', $out =~ /"rows: (\d+)"/g), "$rows $rows", "single-user mode after $end: reading works");
	is(scalar(my @errors = $err =~ /ERROR: .*tsengine/g), 2, "single-user mode after $end: writing is refused");
	$node->start;
	all_there("nothing is lost by single-user mode after $end");
	is($node->safe_psql('postgres', 'DELETE FROM h WHERE id = 7 RETURNING id'), 7, 'heap was written');
	add_rows();
	crash_and_start($node);
	all_there('nor later');
}

$node->stop;
done_testing();
