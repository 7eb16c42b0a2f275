# Rows are updated over and over by short transactions: memory stays bounded, also while an old
# snapshot, a waiting session or an open cursor is there, each of which sees what it must see.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('garbage', "synchronous_commit = off\nautovacuum = off\n");
my $bound = 16 * 1024 * 1024;

$node->safe_psql('postgres', <<END);
CREATE TABLE g (id int PRIMARY KEY, v bigint, pad text) USING $AM;
INSERT INTO g SELECT i, 0, repeat('x', 1000) FROM generate_series(0, 10) i;
ALTER TABLE g ALTER pad SET STORAGE PLAIN;
CREATE TABLE other (id int PRIMARY KEY, v int) USING $AM;
INSERT INTO other VALUES (1, 1);
CREATE PROCEDURE hot(n int, i int) LANGUAGE plpgsql AS \$\$
BEGIN
  FOR k IN 1..n LOOP
    UPDATE g SET v = v + 1 WHERE id = hot.i;
    COMMIT;
  END LOOP;
END \$\$;
END

# With old snapshots every look-up on heap reads all versions: a few are enough there.
my $rounds = on_tsengine() ? 100 : 3;

sub used { return on_tsengine() ? used_bytes($node) : 0; }
my $start = used();
my $done = 0;

# 200,000 updates by short transactions, 200 MB if nothing were collected: each of four sessions has a
# row of its own, and all meet in row 0.
sub churn
{
	my ($name, $during) = @_;
	my $bench = bench_start($node, '-c', 4, '-j', 2, '-t', $rounds,
		bench_files($node, 'hot' => "\\set me :client_id + 1\nCALL hot(499, :me);\nUPDATE g SET v = v + 1 WHERE id = 0;\n"));
	my $max = 0;
	while ($bench->{h}->pumpable && $bench->{out} !~ /tps =|abort/)
	{
		my $now = used();
		$max = $now if $now > $max;
		$during->() if defined $during;
		select undef, undef, undef, 0.1;
		$bench->{h}->pump_nb;
	}
	bench_finish($bench, $name);
	$done += 2000 * $rounds;
	is($node->safe_psql('postgres', 'SELECT sum(v), max(v) FILTER (WHERE id = 0) FROM g'), "$done|" . $done / 500, "$name: no update is lost");
	cmp_ok($max - $start, '<', $bound, "$name: memory is bounded, at most " . ($max - $start) . ' bytes more');
	return;
}

churn('alone');

# An old snapshot
my $old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
my $then = ask($old, 'SELECT v FROM g WHERE id = 1');
is($then, 499 * $rounds, 'a snapshot is taken');
my $bad = 0;
churn('with an old snapshot', sub { $bad++ if ask($old, 'SELECT v FROM g WHERE id = 1') != $then; });
is($bad, 0, 'the old snapshot sees its value all the time');
is(ask($old, 'SELECT v, length(pad) FROM g WHERE id = 1'), "$then|1000", 'and at the end');
is(ask($old, "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SELECT v FROM g WHERE id = 1"), $then, 'by a sequential scan too');
ask($old, 'COMMIT');

# A session that waits for a row
my $holder = session($node);
ask($holder, 'BEGIN; UPDATE other SET v = 2 WHERE id = 1');
my $waiter = session($node);
send_query($waiter, 'UPDATE other SET v = v + 10 WHERE id = 1 RETURNING v');
wait_blocked($node, 1);
churn('with a waiting session', sub { $bad++ if !is_waiting($waiter); });
is($bad, 0, 'it waits all the time');
ask($holder, 'COMMIT');
is(wait_query($waiter), 12, 'and goes on with the newest value');

# Cursors: an open one and one WITH HOLD
ask($old, 'BEGIN');
ask($old, 'DECLARE c CURSOR FOR SELECT id, v FROM g WHERE id = 1 UNION ALL SELECT id, v FROM g WHERE id = 1');
my $first = ask($old, 'FETCH 1 FROM c');
ask($holder, 'BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT id, v FROM g WHERE id = 1; COMMIT');
churn('with cursors');
is(ask($old, 'FETCH 1 FROM c'), $first, 'the open cursor shows its snapshot');
is(ask($holder, 'FETCH 1 FROM h'), $first, 'the held cursor as well');
ask($old, 'COMMIT');

# All gone: the memory is free again.
if (on_tsengine())
{
	my $end = settled_bytes($node, $start + 2 * 1024 * 1024);
	cmp_ok($end - $start, '<', 4 * 1024 * 1024, 'afterwards all is free again: ' . ($end - $start) . ' bytes more');
}

$_->quit for ($old, $holder, $waiter);
$node->stop;
done_testing();
