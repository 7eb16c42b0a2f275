# A server that recovers is killed again and again: at several places of the WAL, while the image at the
# end of recovery is written, and while tables are loaded. What comes up at last has everything.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use TsEngine;

# Small segments: the startup process tells in its title which one it is at.
my $node = new_node('again', <<END, extra => ['--wal-segsize=1']);
autovacuum = off
jit = off
max_wal_size = 4GB
checkpoint_timeout = 1h
END

my %am = (a => $AM, h => 'heap');

sub in_both
{
	my ($sql) = @_;
	$node->safe_psql('postgres', "SET search_path = $_; SET default_table_access_method = $am{$_}; $sql") for sort keys %am;
	return;
}

sub as_heap
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($a, $h) = map {
		my $s = $_;
		$node->safe_psql('postgres', join ';', map { "SELECT '$_', count(*), sum(id), md5(string_agg(concat(id, ' ', v, filler), ',' ORDER BY id)) FROM $s.$_" } 'keyed', 'plain', 'made')
	} 'a', 'h';
	is($a, $h, $name);
	return is(index_differs($node, 'a.keyed', 'keyed_pkey', 'id', 'id > 0'), '', "$name: index");
}

$node->safe_psql('postgres', "CREATE SCHEMA $_") for sort keys %am;
in_both(<<END);
CREATE TABLE keyed (id int PRIMARY KEY, v int, filler text);
CREATE TABLE plain (id int, v int, filler text);
CREATE TABLE dropped AS SELECT * FROM plain;
INSERT INTO keyed SELECT g, 0, repeat('x', 500) FROM generate_series(1, 20000) g;
INSERT INTO plain SELECT g, 0, repeat('y', 500) FROM generate_series(1, 20000) g;
END
$node->safe_psql('postgres', 'CHECKPOINT');

# work to be replayed
for my $i (1 .. 10)
{
	in_both(<<END);
UPDATE keyed SET v = $i WHERE id % 20 = $i;
UPDATE plain SET v = v + $i, filler = repeat('z', 100 * $i) WHERE id % 20 = $i;
DELETE FROM plain WHERE id BETWEEN 1000 * $i AND 1000 * $i + 100;
BEGIN;
INSERT INTO keyed SELECT g, $i, repeat('k', 900) FROM generate_series(20000 + 2000 * $i, 21000 + 2000 * $i) g;
SAVEPOINT s; UPDATE keyed SET v = -1 WHERE id < 1000; DELETE FROM plain WHERE id > 15000; ROLLBACK TO s;
SAVEPOINT s; UPDATE keyed SET v = 100 + $i WHERE id % 1000 = $i; RELEASE s;
COMMIT;
END
}
in_both("CREATE TABLE made AS SELECT * FROM plain; DROP TABLE dropped; UPDATE made SET v = -v");
for my $schema (sort keys %am)
{
	$node->safe_psql('postgres', "SET search_path = $schema; BEGIN; UPDATE keyed SET v = -7 WHERE id % 10 = 7; DELETE FROM plain WHERE id % 10 = 7; PREPARE TRANSACTION '$schema'");
}
my $open = session($node);
ask($open, "BEGIN; DELETE FROM a.made; INSERT INTO a.keyed SELECT g, 0, repeat('open', 300) FROM generate_series(100001, 102000) g");
$node->safe_psql('postgres', 'CREATE TABLE other (id int); INSERT INTO other VALUES (1)');
my $segment = sub { hex substr $_[0], 16 };
my $first = $segment->($node->safe_psql('postgres', 'SELECT pg_walfile_name(redo_lsn) FROM pg_control_checkpoint()'));
my $last = $segment->($node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())'));
cmp_ok($last - $first, '>', 30, 'there is much to be replayed');
kill_server($node);
eval { $open->quit };

sub files
{
	my ($pattern) = @_;
	return map { s|.*/||r } glob $node->data_dir . "/pg_tsengine/$pattern.*";
}

# Starts the server and kills it as soon as the condition, which gets the startup process's title, is
# true; false if the server had started before that.
sub start_and_kill
{
	my ($condition) = @_;
	my $offset = -s $node->logfile;
	my $end = time + 60;
	my ($startup, $met);
	system_or_bail('pg_ctl', '-W', '-D', $node->data_dir, '-l', $node->logfile, '-o', '--cluster-name=again', 'start');
	until ($met)
	{
		($startup) = %{ { server_processes($node, qr/startup/) } } if !$startup;
		my $title = '';
		if ($startup && open my $f, '<', "/proc/$startup/cmdline")
		{
			$title = <$f> // '';
			close $f;
		}
		$met = $condition->($title);
		last if !$met && slurp_file($node->logfile, $offset) =~ /ready to accept connections/;
		die 'neither' if time > $end;
		usleep(1_000);
	}
	kill_server($node);
	return $met;
}

sub at_segment
{
	my ($number) = @_;
	return sub { return $_[0] =~ /recovering ([0-9A-F]{24})/ && $segment->($1) >= $number };
}

# a new file in the directory: the image that ends recovery is being written
sub at_new_file
{
	my ($pattern) = @_;
	my %old = map { $_ => 1 } files($pattern);
	return sub { return scalar grep { !$old{$_} } files($pattern) };
}

for my $part (1 .. 4)
{
	ok(start_and_kill(at_segment($first + int($part * ($last - $first) / 5))), "killed at $part/5 of the WAL");
}
if (on_tsengine())
{
	ok(start_and_kill(at_new_file('image')), 'killed while the last image is written');
	ok(start_and_kill(at_new_file('manifest')), 'killed when it is complete');
	# from here on there is little to be replayed
	ok(start_and_kill(sub { my %p = server_processes($node, qr/tsengine loader/); return scalar %p }), 'killed while tables are loaded') for 1 .. 3;
}
$node->start;
as_heap('recovered at last');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 2, 'the prepared transactions are there');
$node->safe_psql('postgres', "COMMIT PREPARED '$_'") for 'a', 'h';
as_heap('prepared transactions committed');
in_both('DELETE FROM keyed WHERE id % 3 = 0; UPDATE made SET v = 5 WHERE id % 3 = 0');
crash_and_start($node);
as_heap('new work after it, another crash');

$node->stop;
done_testing();
