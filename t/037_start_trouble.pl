# Starts that go wrong: what a start cannot read, it does not skip, and the next one that can has all rows.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();
plan skip_all => 'not for a user who may read everything' if $> == 0;

my $node = new_node('trouble', "autovacuum = off\nmax_worker_processes = 8\n");
my $dir = $node->data_dir . '/pg_tsengine';
my $place = $node->basedir . '/place';
mkdir $place or die "$place: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE there LOCATION '$place'");
$node->safe_psql('postgres', <<END);
CREATE TABLE t (id int PRIMARY KEY, v text) USING tsengine;
CREATE TABLE away (id int, v text) USING tsengine TABLESPACE there;
CREATE TABLE empty (id int) USING tsengine;
CREATE TABLE h (id int) USING heap;
END

my $rows = 0;

sub add_rows
{
	$node->safe_psql('postgres', "INSERT INTO t SELECT g, 'row of t ' || g FROM generate_series($rows + 1, $rows + 1000) g; INSERT INTO away SELECT * FROM t WHERE id > $rows");
	$rows += 1000;
	return;
}

sub all_there
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM away)'), "$rows|$rows", $name);
}

# What replay needs cannot be read
my %unreadable = (
	manifest => sub { chmod $_[0] ? 0600 : 0, glob "$dir/manifest.*" },
	directory => sub { chmod $_[0] ? 0700 : 0, $dir });
for my $what (sort keys %unreadable)
{
	add_rows();
	$node->safe_psql('postgres', 'CHECKPOINT');
	add_rows();
	kill_server($node);
	$unreadable{$what}->(0);
	my $offset = -s $node->logfile;
	ok(!$node->start(fail_ok => 1), "unreadable $what: the server does not start");
	like(slurp_file($node->logfile, $offset), qr/FATAL: .*pg_tsengine.*Permission denied/, "unreadable $what: it says why");
	$unreadable{$what}->(1);
	$node->start;
	all_there("unreadable $what: all rows are back when it can be read");
	add_rows();
}

# A tablespace that is not mounted: a link to nowhere, or to an empty directory
for my $empty (0, 1)
{
	my $name = $empty ? 'empty directory of a tablespace' : 'missing directory of a tablespace';
	add_rows();
	$node->stop;
	rename $place, "$place.away" or die "$place: $!";
	mkdir $place or die "$place: $!" if $empty;
	my $offset = -s $node->logfile;
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), $rows, "$name: another table");
	like(slurp_file($node->logfile, $offset), qr/LOG: .*directory "pg_tblspc.*is missing/, "$name: the log says so");
	$node->stop;
	rmdir $place if $empty;
	rename "$place.away", $place or die "$place: $!";
	$node->start;
	all_there("$name: all rows are back");
}

# One that cannot be looked at: tables wait, the server runs
$node->stop;
chmod 0, $place;
my $offset = -s $node->logfile;
$node->start;
$node->wait_for_log(qr/WARNING: .*could not look for the files of tsengine tables.*Permission denied/, $offset);
is($node->safe_psql('postgres', 'INSERT INTO h VALUES (1) RETURNING id'), 1, 'unreadable tablespace: heap can be written');
usleep(1_500_000);
unlike(slurp_file($node->logfile, $offset), qr/PANIC/, 'unreadable tablespace: the server stays');
chmod 0700, $place;
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM t');
all_there('unreadable tablespace: all rows are there when it can be read');
add_rows();

# Damage that whoever reads the manifest meets, under a lock: it can be interrupted later. Without a
# slot for the guard this is a session.
$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = 'changed' WHERE id = 500; PREPARE TRANSACTION 'p'");
$node->stop;
my $hits = 0;
for my $file (glob "$dir/image.*")
{
	my $data = slurp_file($file);
	next if $data !~ /row of t 500/;
	$data =~ s/row of t /row of x /g;
	$hits++;
	open my $f, '>:raw', $file or die "$file: $!";
	print $f $data;
	close $f or die "$file: $!";
}
cmp_ok($hits, '>', 0, 'the row is in a file');
$node->adjust_conf('postgresql.conf', 'max_worker_processes', 0);
$node->start;
my $s = session($node);
is(ask($s, 'SELECT count(*) FROM empty'), 0, 'damage under a prepared transaction: another table');
my $begin = time;
like((try_ask($s, "SET statement_timeout = '200ms'; SELECT pg_sleep(15)"))[1], qr/ERROR: .*statement timeout/, 'the session that met it can be interrupted');
cmp_ok(time - $begin, '<', 10, 'in time');
like((try_ask($s, 'SELECT count(*) FROM t'))[1], qr/ERROR: .*cannot be read from file/, 'the damaged table');
$s->quit;
$node->adjust_conf('postgresql.conf', 'max_worker_processes', 8);
$node->restart;
$node->safe_psql('postgres', "ROLLBACK PREPARED 'p'");
$node->safe_psql('postgres', 'TRUNCATE t, away');
$rows = 0;
add_rows();

# A table that is dropped while it is loaded: its file goes, and its place in memory is another table's
SKIP:
{
	skip 'not a test build', 3 if (quiet_sql($node, 'SHOW tsengine.slow_load'))[0] != 0;
	$node->append_conf('postgresql.conf', "tsengine.slow_load = 2000\n");
	$offset = -s $node->logfile;
	$node->restart;
	$node->safe_psql('postgres', join ';', 'DROP TABLE t, away', map { "CREATE TABLE next_$_ USING tsengine AS SELECT 7 AS id" } 1 .. 5);
	usleep(300_000);
	$node->safe_psql('postgres', join ';', map { "CREATE TABLE later_$_ USING tsengine AS SELECT 7 AS id" } 1 .. 5);
	$node->safe_psql('postgres', 'CHECKPOINT');
	is(scalar(grep { slurp_file($_) =~ /row of t/ } glob "$dir/image.*"), 0, 'dropped while it is loaded: its files are gone');
	$node->wait_for_log(qr/tsengine has loaded/, $offset);
	is($node->safe_psql('postgres', join ' UNION ALL ', map { ("SELECT id FROM next_$_", "SELECT id FROM later_$_") } 1 .. 5), join("\n", (7) x 10), 'dropped while it is loaded: others are usable');
	unlike(slurp_file($node->logfile, $offset), qr/could not load/, 'dropped while it is loaded: no complaint');
	$node->adjust_conf('postgresql.conf', 'tsengine.slow_load', undef);
	$node->restart;
	$node->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING tsengine; CREATE TABLE away (id int, v text) USING tsengine TABLESPACE there');
	$rows = 0;
	add_rows();
}

# A full disk at the end of recovery: the server can be stopped, and recovers when there is room
SKIP:
{
	skip 'not a test build', 3 if (quiet_sql($node, 'SHOW tsengine.fault'))[0] != 0;
	kill_server($node);
	$node->append_conf('postgresql.conf', "tsengine.fault = 'write:1+:ENOSPC'\n");
	$offset = -s $node->logfile;
	my @pg_ctl = ('pg_ctl', '-D', $node->data_dir, '-l', $node->logfile);
	local %ENV = $node->_get_env();
	system_or_bail(@pg_ctl, '-W', 'start');
	$node->wait_for_log(qr/No space left on device/, $offset);
	$begin = time;
	is(system(@pg_ctl, '-m', 'fast', '-t', '30', 'stop'), 0, 'full disk: a fast shutdown ends the start');
	cmp_ok(time - $begin, '<', 20, 'full disk: soon');
	$node->adjust_conf('postgresql.conf', 'tsengine.fault', undef);
	$node->start;
	all_there('full disk: all rows are there when there is room');
}

$node->stop;
done_testing();
