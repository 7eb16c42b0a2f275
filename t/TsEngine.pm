# What the TAP tests share: a node with tsengine loaded, psql sessions that can be left waiting, and
# pgbench in the background.
#
# TS_AM names the table access method under test (default tsengine). With TS_AM=heap nothing is
# preloaded and what is tsengine's alone is skipped; that shows that the tests themselves are right.
# TS_INDEX sets tsengine.index (default: the setting's own).

package TsEngine;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

our @EXPORT = qw($AM on_tsengine new_node session ask try_ask send_query wait_query is_waiting
  wait_blocked used_bytes settled_bytes bench_start bench_finish bench_files quiet_sql
  postmaster_pid server_processes kill_server crash_and_start lose_tables kill_process
  wait_restarted set_conf index_differs check_index
  use_stop_points $stop arm arm_no_more disarm wait_stopped stop_session held_up);

our $AM = $ENV{TS_AM} // 'tsengine';

sub on_tsengine { return $AM eq 'tsengine'; }

# new_node(NAME, CONF, %init): an initialized and started node, extension created in postgres and
# template1. CONF is appended to postgresql.conf.
sub new_node
{
	my ($name, $conf, %init) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%init);
	$node->append_conf('postgresql.conf', <<END);
log_statement = none
max_connections = 50
max_prepared_transactions = 10
shared_buffers = 32MB
autovacuum_naptime = 1s
END
	$node->append_conf('postgresql.conf', <<END) if on_tsengine();
shared_preload_libraries = 'tsengine'
tsengine.memory = '256MB'
tsengine.commit_marker_interval = 0
END
	$node->append_conf('postgresql.conf', "tsengine.index = '$ENV{TS_INDEX}'\n") if on_tsengine() && $ENV{TS_INDEX};
	$node->append_conf('postgresql.conf', $conf) if defined $conf;
	$node->start;
	if (on_tsengine())
	{
		$node->safe_psql($_, 'CREATE EXTENSION tsengine') for ('postgres', 'template1');
	}
	return $node;
}

# session(NODE): a psql that stays. ask() returns its answer and dies on an error, try_ask() returns
# the answer with the error messages.
sub session
{
	my ($node, %params) = @_;
	return $node->background_psql($params{dbname} // 'postgres', on_error_stop => 0);
}

sub try_ask
{
	my ($s, $sql) = @_;
	send_query($s, $sql);
	return wait_query($s);
}

sub ask
{
	my ($s, $sql) = @_;
	my ($out, $err) = try_ask($s, $sql);
	die "query failed: $sql\n$err" if $err =~ /ERROR|FATAL|PANIC|psql:.*(server closed|no connection)/;
	return $out;
}

# Sends a query and does not wait for it.
my $serial = 0;

sub send_query
{
	my ($s, $sql) = @_;
	my $mark = 'tsengine: end of ' . ++$serial;

	$s->{ts_mark} = $mark;
	$s->{stdout} = $s->{stderr} = '';
	$s->{stdin} .= "$sql\n;\n\\echo '$mark'\n\\warn '$mark'\n";
	$s->{run}->pump_nb;
	return;
}

# The answer of the query sent last; in list context also what came on stderr.
sub wait_query
{
	my ($s, $seconds) = @_;
	my $mark = $s->{ts_mark};
	my $end = time + ($seconds // 30);

	until ($s->{stdout} =~ /$mark\n/ && $s->{stderr} =~ /$mark\n/)
	{
		die "no answer\nstdout: $s->{stdout}\nstderr: $s->{stderr}" if time > $end;
		$s->{run}->pump_nb;
		usleep(2_000);
	}
	my ($out, $err) = ($s->{stdout}, $s->{stderr});
	$out =~ s/\n?$mark\n//;
	$err =~ s/$mark\n//;
	return wantarray ? ($out, $err) : $out;
}

# Whether the query sent last has not been answered.
sub is_waiting
{
	my ($s) = @_;
	$s->{run}->pump_nb;
	return $s->{stdout} !~ /$s->{ts_mark}\n/;
}

# Waits until NUMBER sessions wait for a lock.
sub wait_blocked
{
	my ($node, $number) = @_;
	return $node->poll_query_until('postgres',
		"SELECT count(DISTINCT pid) >= $number FROM pg_locks WHERE NOT granted");
}

sub used_bytes
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT sum(used_bytes) FROM tsengine.stat_memory');
}

# Waits until used_bytes is at most LIMIT, for 15 seconds; returns the last value.
sub settled_bytes
{
	my ($node, $limit) = @_;
	my $end = time + 15;
	my $used;
	while (1)
	{
		$used = used_bytes($node);
		last if $used <= $limit || time > $end;
		usleep(200_000);
	}
	return $used;
}

# Files for pgbench -f with the given contents: name@weight => text.
sub bench_files
{
	my ($node, %scripts) = @_;
	my @args;
	for my $name (sort keys %scripts)
	{
		my ($plain, $weight) = split /@/, $name;
		my $path = $node->basedir . "/$plain.pgbench";
		open my $f, '>', $path or die "$path: $!";
		print $f $scripts{$name};
		close $f;
		push @args, '-f', defined $weight ? "$path\@$weight" : $path;
	}
	return @args;
}

# pgbench in the background; bench_finish waits for it, checks that no transaction failed and
# returns what it printed.
sub bench_start
{
	my ($node, @args) = @_;
	my $run = { out => '' };
	my @cmd = (
		'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-M', 'prepared', '--max-tries=1000',
		@args, 'postgres');

	local %ENV = $node->_get_env();
	print '# ' . join(' ', @cmd) . "\n";
	$run->{h} = IPC::Run::start(\@cmd, '<', \undef, '>&', \$run->{out}, IPC::Run::timeout(120));
	return $run;
}

sub bench_finish
{
	my ($run, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$run->{h}->finish;
	my $ok = $run->{h}->result(0) == 0 && $run->{out} !~ /ERROR|FATAL|PANIC|aborted/;
	ok($ok, $name) or diag(substr($run->{out}, 0, 4000));
	note($run->{out});
	return $run->{out};
}

# The pid in postmaster.pid, which may be stale; 0 without such a file.
sub postmaster_pid
{
	my ($node) = @_;
	open my $f, '<', $node->data_dir . '/postmaster.pid' or return 0;
	my $pid = <$f> // 0;
	close $f;
	return int($pid);
}

# (state, pid of the parent) of a process; nothing when it is gone.
sub process_state
{
	my ($pid) = @_;
	open my $stat, '<', "/proc/$pid/stat" or return;
	my $line = <$stat> // '';
	close $stat;
	return $line =~ /^\d+ \(.*\) (\S) (\d+) /;
}

# The postmaster's children whose title matches: pid => title. Read from /proc, because some are in no
# view and the server may not answer.
sub server_processes
{
	my ($node, $title) = @_;
	my $postmaster = postmaster_pid($node) or return;
	my %found;
	for my $pid (map { m{/(\d+)$} } glob '/proc/[0-9]*')
	{
		my ($state, $parent) = process_state($pid) or next;
		next if $parent != $postmaster || $state eq 'Z';
		open my $cmdline, '<', "/proc/$pid/cmdline" or next;
		my $name = <$cmdline> // '';
		close $cmdline;
		$name =~ s/[\0 ]+$//;
		$found{$pid} = $name if $name =~ $title;
	}
	return %found;
}

# Kills the postmaster and all its processes; with survivors => 1 these are left to find out by
# themselves. Returns when all are gone.
sub kill_server
{
	my ($node, %params) = @_;
	my %processes = server_processes($node, qr//);
	my $postmaster = postmaster_pid($node);
	my @kill = $params{survivors} ? () : keys %processes;

	if (%processes) # else the pid is stale
	{
		$processes{$postmaster} = 'postmaster';
		unshift @kill, $postmaster;
	}
	$node->kill9; # a server that the node knows of must be there
	kill 'KILL', @kill;

	my @alive;
	for my $try (1 .. 300)
	{
		# A zombie is dead, but its pid in a lock file keeps another postmaster from starting until
		# somebody has waited for it.
		@alive = grep { my ($state) = process_state($_); defined $state && $state ne 'Z' } keys %processes;
		last if !@alive;
		usleep(20_000);
	}
	die 'server processes survive: ' . join(', ', @processes{@alive}) if @alive;
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	return;
}

# Kills the server and starts it again.
sub crash_and_start
{
	my ($node) = @_;
	kill_server($node);
	$node->start;
	return;
}

# Restarts the server without its directory pg_tsengine: the rows of all tsengine tables are lost. Only
# the system's own catalogs and heap tables are as before.
sub lose_tables
{
	my ($node) = @_;
	my $dir = $node->data_dir . '/pg_tsengine';
	$node->stop;
	die "no $dir" if !-d $dir;
	rename $dir, $node->basedir . '/lost.' . ++$serial or die "$dir: $!";
	$node->start;
	return;
}

# Kills one process of the server whose title matches; returns its title, undef if there is none. The
# server then restarts by itself (restart_after_crash = on): see wait_restarted.
sub kill_process
{
	my ($node, $title) = @_;
	my %pids = server_processes($node, $title);
	my @pids = sort keys %pids or return;
	my $pid = $pids[ rand @pids ];
	return kill('KILL', $pid) ? $pids{$pid} : undef;
}

# Waits until a server that restarts by itself answers again. OFFSET is the log's size before.
sub wait_restarted
{
	my ($node, $offset) = @_;
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
	$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
	return $node->poll_query_until('postgres', 'SELECT true');
}

# ALTER SYSTEM SET or RESET, in force when it returns.
sub set_conf
{
	my ($node, $name, $value) = @_;
	$node->safe_psql('postgres', defined $value ? "ALTER SYSTEM SET $name = '$value'" : "ALTER SYSTEM RESET $name");
	$node->reload;
	my $now = defined $value ? "= '$value'" : '= boot_val';
	return $node->poll_query_until('postgres', "SELECT setting $now FROM pg_settings WHERE name = '$name'");
}

# Stop points of the test build (src/memory/testing.h) by name: arm($node, 'CSN_TAKEN').
our $stop = {};
@$stop{qw(PREPARING CSN_TAKEN COMMITTED MIXED_ENDED PURE_ENDED IMAGE_LSN IMAGE_SCAN IMAGE_MANIFEST
	IMAGE_DONE LOGGED BEFORE_FLUSH READER_FLUSH IMAGE_TABLE)} = (0 .. 12);

# Makes the functions below usable on the node; false if it does not run a test build.
sub use_stop_points
{
	my ($node) = @_;
	my ($ret) = quiet_sql($node, <<END);
CREATE FUNCTION arm(int, int) RETURNS void AS 'tsengine', 'tsengine_stop_point_arm' LANGUAGE C;
CREATE FUNCTION reached(int) RETURNS bool AS 'tsengine', 'tsengine_stop_point_reached' LANGUAGE C;
END
	return $ret == 0;
}

# Who comes to the point stands still.
sub arm
{
	my ($node, $point) = @_;
	$node->safe_psql('postgres', "SELECT arm($stop->{$point}, 1)");
	return;
}

# Who stands there stays, others pass.
sub arm_no_more
{
	my ($node, $point) = @_;
	$node->safe_psql('postgres', "SELECT arm($stop->{$point}, 2)");
	return;
}

# Lets go whoever stands there.
sub disarm
{
	my ($node, $point) = @_;
	$node->safe_psql('postgres', "SELECT arm($stop->{$point}, 0)");
	return;
}

sub wait_stopped
{
	my ($node, $point) = @_;
	my $end = time + 20;
	until ($node->safe_psql('postgres', "SELECT reached($stop->{$point})") eq 't')
	{
		die "nobody came to $point" if time > $end;
		usleep(10_000);
	}
	return;
}

# Lets the session run SQL until it stands at the point.
sub stop_session
{
	my ($node, $s, $point, $sql) = @_;
	arm($node, $point);
	send_query($s, $sql);
	wait_stopped($node, $point);
	return;
}

# Whether the session is still without an answer after a while.
sub held_up
{
	my ($s) = @_;
	usleep(300_000);
	return is_waiting($s);
}

# Whether an index gives other rows, or another order, than a sequential scan: '' or a description.
# COLUMNS is a list of leading index columns, then others that make the order unambiguous; CONDITION
# is true for all rows and brings the index into play.
sub index_differs
{
	my ($node, $table, $index, $columns, $condition) = @_;
	my $sql = "SELECT count(*), md5(string_agg(t::text, ' ')) FROM (SELECT * FROM $table WHERE $condition ORDER BY $columns) t";
	my $no = 'SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET jit = off; SET max_parallel_workers_per_gather = 0;';
	my $seq = $node->safe_psql('postgres', "$no SET enable_indexscan = off; $sql");
	my $use = "$no SET enable_seqscan = off; SET enable_sort = off;";

	my $plan = $node->safe_psql('postgres', "$use EXPLAIN $sql");
	die "index $index is not used:\n$plan" if $plan !~ /Index Scan using $index /;
	my $by_index = $node->safe_psql('postgres', "$use $sql");
	return $seq eq $by_index ? '' : "index $index: $by_index, sequential scan: $seq";
}

# What tsengine.check_index() has to say against the index; '' also where there is no such function, or
# the index is of another access method.
sub check_index
{
	my ($node, $index) = @_;
	return '' if $node->safe_psql('postgres', <<END) ne 't';
SELECT to_regprocedure('tsengine.check_index(regclass)') IS NOT NULL AND amname = 'tsindex'
FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = '$index'::regclass
END
	my ($ret, $out, $err) = quiet_sql($node, "SELECT p FROM tsengine.check_index('$index') p");
	return $ret == 0 ? $out : $err;
}

# Runs SQL, returns (exit code, stdout, stderr); errors are not fatal.
sub quiet_sql
{
	my ($node, $sql, %params) = @_;
	return $node->psql($params{dbname} // 'postgres', $sql, on_error_stop => 1,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
}

1;
