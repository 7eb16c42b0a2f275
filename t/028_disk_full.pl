# The disk is full, or fails, while an image is written: the checkpoint waits, queries go on, and when
# there is room again it completes; nothing is lost by a crash at any moment. Faults are made by
# tsengine.fault, which exists in test builds.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('full', "autovacuum = off\ncheckpoint_timeout = 1h\n");
plan skip_all => 'not a test build' if (quiet_sql($node, 'SHOW tsengine.fault'))[0] != 0;
$node->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING tsengine; CREATE TABLE h (id int) USING heap');

my $rows = 0;

sub add_rows
{
	$node->safe_psql('postgres', "INSERT INTO t SELECT g, 0, repeat('x', 100) FROM generate_series($rows + 1, $rows + 2000) g; UPDATE t SET v = v + 1");
	$rows += 2000;
	return;
}

# v counts the rounds of 2000 rows since the row was added
sub all_there
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $rounds = $rows / 2000;
	return is($node->safe_psql('postgres', 'SELECT count(*), sum(v), sum(length(pad)) FROM t'),
		join('|', $rows, 2000 * $rounds * ($rounds + 1) / 2, 100 * $rows), $name);
}

# Takes the fault out of the configuration of a server that is not running.
sub remove_fault
{
	my $path = $node->data_dir . '/postgresql.auto.conf';
	my $conf = slurp_file($path);
	$conf =~ s/^tsengine\.fault.*\n//m;
	open my $f, '>', $path or die "$path: $!";
	print $f $conf;
	close $f;
	return;
}

my %message = (ENOSPC => qr/No space left on device/, EIO => qr/Input\/output error/);

for my $fault ('write:1+:ENOSPC', 'write:3+:EIO', 'fsync:1+:EIO', 'rename:1+:ENOSPC')
{
	my ($errno) = $fault =~ /(\w+)$/;
	add_rows();
	my $offset = -s $node->logfile;
	ok(set_conf($node, 'tsengine.fault', $fault), "$fault: in force");
	my $s = session($node);
	send_query($s, 'CHECKPOINT');
	usleep(1_500_000);
	ok(is_waiting($s), "$fault: the checkpoint waits");
	add_rows();
	$node->safe_psql('postgres', 'INSERT INTO h VALUES (1)');
	all_there("$fault: work goes on");
	ok(is_waiting($s), "$fault: the checkpoint still waits");
	like(slurp_file($node->logfile, $offset), $message{$errno}, "$fault: the log says why");

	ok(set_conf($node, 'tsengine.fault', undef), "$fault: over");
	is((wait_query($s, 60))[1], '', "$fault: the checkpoint completes");
	$s->quit;
	all_there("$fault: before a crash");
	crash_and_start($node);
	all_there("$fault: after a crash");

	# a crash while the checkpoint waits
	add_rows();
	set_conf($node, 'tsengine.fault', $fault);
	$s = session($node);
	send_query($s, 'CHECKPOINT');
	add_rows();
	usleep(500_000);
	kill_server($node);
	remove_fault();
	$node->start;
	eval { $s->quit };
	all_there("$fault: after a crash with an unfinished checkpoint");

	# an orderly stop that cannot write its image is a crash (and takes its time to give up)
	next if $fault !~ /ENOSPC/;
	add_rows();
	set_conf($node, 'tsengine.fault', $fault);
	{
		local $ENV{PGCTLTIMEOUT} = 10;
		$node->stop('fast', fail_ok => 1) or kill_server($node);
	}
	remove_fault();
	$node->start;
	all_there("$fault: after a stop without an image");
}

$node->stop;
done_testing();
