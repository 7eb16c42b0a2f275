# Loading and settings: no preload, wrong values, another arena size. Tables survive a restart and a
# crash; those whose rows are lost are an error until they are truncated or dropped.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my ($ret, $out, $err);

# Without shared_preload_libraries
{
	my $node = PostgreSQL::Test::Cluster->new('bare');
	$node->init;
	$node->start;
	($ret, $out, $err) = quiet_sql($node, 'CREATE EXTENSION tsengine');
	isnt($ret, 0, 'CREATE EXTENSION is refused without preload');
	like($err, qr/ERROR: .*\n.*HINT: .*shared_preload_libraries/s, 'the hint names shared_preload_libraries');
	($ret, $out, $err) = quiet_sql($node, "LOAD 'tsengine'");
	isnt($ret, 0, 'LOAD is refused without preload');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_am WHERE amname = 'tsengine'"), 0, 'nothing is left');
	is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the server lives');
	$node->stop;
}

my $node = new_node('main', undef);

# Wrong values
for my $value ('abc', '1kB', '-1', '12parsecs')
{
	($ret, $out, $err) = quiet_sql($node, "ALTER SYSTEM SET tsengine.memory = '$value'");
	isnt($ret, 0, "tsengine.memory = '$value' is refused");
	like($err, qr/ERROR: .*tsengine\.memory/, 'and named');
}
for my $setting ('load_workers = 65', 'load_workers = -1', 'io_method = mmap', "read_durability = 'never'", "commit_marker_interval = '61s'")
{
	($ret, $out, $err) = quiet_sql($node, "ALTER SYSTEM SET tsengine.$setting");
	like($err, qr/ERROR: +22023: /, "tsengine.$setting is refused");
}
($ret, $out, $err) = quiet_sql($node, "SET tsengine.memory = '300MB'");
like($err, qr/cannot be changed without restarting|55P02/, 'memory cannot be set in a session');
($ret, $out, $err) = quiet_sql($node, 'SET tsengine.no_such_thing = 1');
isnt($ret, 0, 'an unknown tsengine setting is refused');

# A wrong value in the file: named in the log, whether the server starts or not.
for my $value ('abc', '1kB')
{
	$node->stop;
	my $offset = -s $node->logfile;
	$node->append_conf('postgresql.conf', "tsengine.memory = '$value'");
	my $started = $node->start(fail_ok => 1);
	my $log = slurp_file($node->logfile, $offset);
	like($log, qr/(invalid value for parameter|outside the valid range for parameter) "tsengine\.memory"|parameter "tsengine\.memory"/,
		"'$value' in postgresql.conf is reported");
	unlike($log, qr/terminated by signal|TRAP/, 'no crash');
	$node->stop if $started;
	$node->append_conf('postgresql.conf', "tsengine.memory = '256MB'");
	$node->start;
}

# A restart with a smaller arena
my $fill = <<'END';
CREATE TABLE p (id int PRIMARY KEY, v text) USING tsengine;
CREATE TABLE p2 (id int PRIMARY KEY, v text) USING tsengine;
CREATE TABLE p3 (v text) USING tsengine;
CREATE UNLOGGED TABLE u (id int PRIMARY KEY, v text) USING tsengine;
CREATE TABLE h (id int PRIMARY KEY, v text) USING heap;
INSERT INTO p SELECT g, 'p' || g FROM generate_series(1, 1000) g;
INSERT INTO p2 SELECT * FROM p;
INSERT INTO p3 SELECT v FROM p;
INSERT INTO u SELECT * FROM p;
INSERT INTO h SELECT * FROM p;
END
# what is in each table, heap's too, by a scan
sub contents
{
	return $node->safe_psql('postgres', join ';',
		map { "SELECT '$_', count(*), md5(string_agg(t::text, ',' ORDER BY t::text)) FROM $_ t" } @_);
}

$node->safe_psql('postgres', $fill);
my $contents = contents(qw(p p2 p3 u h));
$node->stop;
$node->append_conf('postgresql.conf', "tsengine.memory = '64MB'");
$node->start;
pass('the server starts with a smaller arena');
is(contents(qw(p p2 p3 u h)), $contents, 'with all rows of all tables');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT v FROM p WHERE id = 7'), 'p7', 'and their indexes');
like($node->safe_psql('postgres', 'SHOW tsengine.memory'), qr/^64MB$/, 'the new size is in force');

# Without workers that load them, tables are loaded by who uses them. That none can be had is said only if
# some were asked for. (The three others are the collector, the guard and core's replication launcher.)
for my $case ([ 'tsengine.load_workers = 0', 0 ], [ "tsengine.load_workers = 2\nmax_worker_processes = 3", 1 ])
{
	my ($conf, $told) = @$case;
	$node->stop;
	my $offset = -s $node->logfile;
	$node->append_conf('postgresql.conf', $conf);
	$node->start;
	is(contents(qw(p p2 p3 u h)), $contents, "all rows with $conf");
	$node->safe_psql('postgres', 'DELETE FROM p2 WHERE id < 0'); # so the guard is there
	is(slurp_file($node->logfile, $offset) =~ /no background worker could be registered/ ? 1 : 0, $told, "the log with $conf");
	is($node->safe_psql('postgres', "SELECT count(*), min(state), max(state) FROM tsengine.stat_load"), '4|ready|ready', 'no table is left out');
}
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');

# Without their checkpoint image they are lost.
$contents = contents('h');
lose_tables($node);
is(contents('h'), $contents, 'heap tables are whole without the image');

sub check_lost
{
	my ($table, $when) = @_;
	for my $sql (
		"SELECT count(*) FROM $table", "SELECT * FROM $table WHERE v = 'p7'", "UPDATE $table SET v = 'x'",
		"DELETE FROM $table", "INSERT INTO $table (v) VALUES ('new')", "COPY $table TO STDOUT",
		"SELECT * FROM $table FOR UPDATE", "SELECT FROM $table WHERE ctid = '(1,1)'")
	{
		next if $sql =~ /INSERT/ && $table ne 'p3';
		($ret, $out, $err) = quiet_sql($node, $sql);
		isnt($ret, 0, "$when: $sql fails");
		is($out, '', "$when: no answer");
		like($err, qr/ERROR: +XX001: +rows of tsengine table "$table" are missing/, "$when: it is named");
		like($err, qr/HINT: .*TRUNCATE/s, "$when: hint at TRUNCATE");
	}
}
check_lost($_, 'without image') for ('p', 'p2', 'p3', 'u');
$node->restart;
check_lost($_, 'after another restart') for ('p', 'u');
crash_and_start($node);
check_lost($_, 'after a crash') for ('p', 'p3');
($ret, $out, $err) = quiet_sql($node, "SET enable_seqscan = off; SELECT * FROM p WHERE id = 7");
isnt($ret, 0, 'nor by an index');
is($node->psql('postgres', 'ANALYZE h; SELECT relname FROM pg_class; SELECT * FROM tsengine.stat_tables'), 0,
	'other work goes on');

$node->safe_psql('postgres', 'BEGIN; TRUNCATE p; ROLLBACK');
check_lost('p', 'after a TRUNCATE rolled back');
$node->safe_psql('postgres', 'TRUNCATE p');
is($node->safe_psql('postgres', 'SELECT count(*) FROM p'), 0, 'TRUNCATE makes the table usable');
$node->safe_psql('postgres', "INSERT INTO p VALUES (7, 'again')");
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT v FROM p WHERE id = 7'), 'again', 'with its indexes');
$node->safe_psql('postgres', 'DROP TABLE p2');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'p2'"), 0, 'DROP works');
check_lost('p3', 'beside tables made usable');
$node->restart;
is($node->safe_psql('postgres', 'SELECT * FROM p'), '7|again', 'what was inserted since survives');
check_lost('p3', 'for good');
$node->safe_psql('postgres', 'DROP TABLE p, p3, h, u');

# A crash: unlogged tables are empty, others have all their rows, logged before and after a checkpoint.
$node->safe_psql('postgres', $fill);
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', "UPDATE p SET v = 'late' WHERE id = 7; INSERT INTO p3 VALUES ('late'); INSERT INTO h VALUES (0, 'late')");
$contents = contents(qw(p p2 p3 h));
crash_and_start($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), 0, 'an unlogged table is empty after a crash');
$node->safe_psql('postgres', "INSERT INTO u VALUES (1, 'one')");
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT v FROM u WHERE id = 1'), 'one', 'and usable');
is(contents(qw(p p2 p3 h)), $contents, 'all other tables have their rows');

# The extension cannot go while tables need it.
($ret, $out, $err) = quiet_sql($node, 'DROP EXTENSION tsengine');
isnt($ret, 0, 'DROP EXTENSION is refused while there are tables');
$node->safe_psql('postgres', 'DROP EXTENSION tsengine CASCADE');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname IN ('p', 'p2', 'p3', 'u')"), 0, 'CASCADE drops them');
$node->safe_psql('postgres', 'CREATE EXTENSION tsengine; CREATE TABLE p (x int) USING tsengine; INSERT INTO p VALUES (1)');
is($node->safe_psql('postgres', 'SELECT x FROM p'), 1, 'and it can be created again');

$node->stop;
done_testing();
