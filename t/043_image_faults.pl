# Each operation on files that a checkpoint's image makes fails once: the checkpoint completes all the same,
# later, and nothing is lost if the server dies at the moment of the fault or after the checkpoint.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('faults', "autovacuum = off\njit = off\n");
plan skip_all => 'not a test build' if (quiet_sql($node, "SET tsengine.fault = ''"))[0] != 0;

for my $am ('tsengine', 'heap')
{
	$node->safe_psql('postgres', "CREATE TABLE $am (id int PRIMARY KEY, v int, filler text) USING $am; INSERT INTO $am SELECT g, 0, repeat('x', 100) FROM generate_series(1, 5000) g");
}
$node->append_conf('postgresql.conf', "tsengine.fault = ''\n");

# Each change is one that no other has made.
my $changes = 0;

sub change
{
	my $n = ++$changes;
	for my $am ('tsengine', 'heap')
	{
		$node->safe_psql('postgres', "UPDATE $am SET v = $n WHERE id % 20 = $n % 20; INSERT INTO $am VALUES (5000 + $n, $n, 'new'); DELETE FROM $am WHERE id = $n");
	}
	return;
}

sub as_heap
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($a, $h) = map { $node->safe_psql('postgres', "SELECT count(*), sum(id), md5(string_agg(concat(id, ' ', v, filler), ',' ORDER BY id)) FROM $_") } 'tsengine', 'heap';
	return is($a, $h, $name);
}

# In the file, so that it does not outlive the server: see crash.
sub fault
{
	my ($fault) = @_;
	$node->adjust_conf('postgresql.conf', 'tsengine.fault', "'$fault'");
	return;
}

sub reload
{
	$node->reload;
	usleep(100_000);			# the guard looks each 10 ms
	return;
}

my $s;

sub crash
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	kill_server($node);
	fault('');
	$node->start;
	eval { $s->quit };
	$s = session($node);
	return as_heap($name);
}

# CHECKPOINT under a fault, up to the moment when the fault or the end of the checkpoint shows: whether it
# was the fault.
sub checkpoint_meets
{
	my ($fault) = @_;
	my $offset = -s $node->logfile;
	my $end = time + 20;
	my $met;
	change();
	fault($fault);
	reload();
	send_query($s, 'CHECKPOINT');
	do
	{
		usleep(5_000);
		my $waiting = is_waiting($s);
		$met = slurp_file($node->logfile, $offset) =~ m{pg_tsengine.*Input/output error};
		return 0 if !$met && !$waiting;
		die 'neither a fault nor the end' if time > $end;
	} until ($met);
	return 1;
}

$s = session($node);
for my $operation (qw(open write truncate fsync rename unlink))
{
	my ($n, $again) = (0, 0);
	while (checkpoint_meets("$operation:" . ++$n . ':EIO'))
	{
		my $name = "$operation $n fails";
		change();
		crash("$name, crash at once");
		# (an image takes fewer steps when there is no old file to be used again)
		$again++ if checkpoint_meets("$operation:$n:EIO");
		change();
		is((wait_query($s))[1], '', "$name: the checkpoint completes");
		change();
		crash("$name, crash after the checkpoint");
	}
	cmp_ok($n, '>', 1, "faults of $operation were met");
	cmp_ok($again, '>', 0, "and after a crash once more");
	fault('');
	reload();
	as_heap("$operation: no more faults");
}

# as long as the fault stays, so does the checkpoint
ok(checkpoint_meets('fsync:1+:EIO'), 'a fault that stays');
$node->poll_query_until('postgres', 'SELECT failures >= 2 FROM tsengine.stat_checkpoint') or die;
ok(is_waiting($s), 'the checkpoint waits');
change();
fault('');
reload();
is((wait_query($s))[1], '', 'and completes when it is over');
crash('a fault that stayed');

$node->stop;
done_testing();
