# A queue, rows inserted at one end of an index and deleted at the other, without VACUUM: memory stays
# bounded and the time to take the first row does not grow, also with an old snapshot elsewhere that
# sees the first rows only. Entries of rows that are gone must go by themselves.
#
# For tables whose indexes are all in memory; TS_QUEUE_ANY runs it on others too, where it fails.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('index_queue', "synchronous_commit = off\nautovacuum = off\njit = off\n");
$node->safe_psql('postgres', <<'END');
CREATE TABLE q (id bigint PRIMARY KEY, due timestamptz NOT NULL, pad text) USING tsengine;
CREATE INDEX q_due ON q (due, id);
CREATE SEQUENCE ids CACHE 1000;
ALTER DATABASE postgres SET enable_seqscan = off;
ALTER DATABASE postgres SET enable_sort = off;
ALTER DATABASE postgres SET enable_bitmapscan = off;

-- n times: a row in, the first one out, by the one index and by the other
CREATE PROCEDURE work(n int) LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..n LOOP
    INSERT INTO q VALUES (nextval('ids'), clock_timestamp(), repeat('x', 50));
    COMMIT;
    -- none is found when all that the snapshot sees have been taken meanwhile
    LOOP
      IF i % 2 = 0 THEN
        DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
      ELSE
        DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED);
      END IF;
      EXIT WHEN FOUND;
      COMMIT;
    END LOOP;
    COMMIT;
  END LOOP;
END $$;

-- time to find the first row, in microseconds, by each index: a quarter of the tries are faster
CREATE FUNCTION first_row() RETURNS TABLE (by_id float8, by_due float8) LANGUAGE plpgsql AS $$
DECLARE t timestamptz; ids float8[]; dues float8[];
BEGIN
  FOR i IN 1..101 LOOP
    t := clock_timestamp();
    PERFORM id FROM q ORDER BY id LIMIT 1;
    ids := ids || extract(epoch FROM clock_timestamp() - t)::float8 * 1e6;
    t := clock_timestamp();
    PERFORM id FROM q ORDER BY due, id LIMIT 1;
    dues := dues || extract(epoch FROM clock_timestamp() - t)::float8 * 1e6;
  END LOOP;
  RETURN QUERY SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY a), percentile_cont(0.25) WITHIN GROUP (ORDER BY b) FROM unnest(ids, dues) u(a, b);
END $$;
END

my $memory = $node->safe_psql('postgres', "SELECT count(*) FROM pg_class JOIN pg_am a ON a.oid = relam WHERE relname IN ('q_pkey', 'q_due') AND amname = 'tsindex'");
if ($memory != 2 && !$ENV{TS_QUEUE_ANY})
{
	$node->stop;
	plan skip_all => 'the indexes are not in memory';
}

my $length = 200;
my @first;
$node->safe_psql('postgres', "INSERT INTO q SELECT nextval('ids'), clock_timestamp(), repeat('x', 50) FROM generate_series(1, $length)");

# Four sessions pass 60,000 rows through the queue. The limits allow for some garbage that waits to be
# collected: the entries alone of all these rows would take 3 MB or more.
sub run_queue
{
	my ($name, $during) = @_;
	my $start = used_bytes($node);
	my $max = $start;
	@first = split /\|/, $node->safe_psql('postgres', 'SELECT * FROM first_row()') if !@first;
	my $bench = bench_start($node, '-c', 4, '-j', 2, '-t', 15, bench_files($node, 'work' => "CALL work(1000);\n"));

	while ($bench->{h}->pumpable && $bench->{out} !~ /tps =|abort/)
	{
		my $now = used_bytes($node);
		$max = $now if $now > $max;
		$during->() if defined $during;
		usleep(100_000);
		$bench->{h}->pump_nb;
	}
	bench_finish($bench, "$name: 60000 rows passed");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM q'), $length, "$name: as many are left as before");
	cmp_ok($max - $start, '<', 2 * 1024 * 1024, "$name: memory is bounded, at most " . ($max - $start) . ' bytes more');

	my @last = split /\|/, $node->safe_psql('postgres', 'SELECT * FROM first_row()');
	for my $i (0, 1)
	{
		my $index = ('q_pkey', 'q_due')[$i];
		cmp_ok($last[$i], '<', 3 * $first[$i] + 15, sprintf('%s: the first row of %s in %.0f us, at the beginning in %.0f us', $name, $index, $last[$i], $first[$i]));
		is(check_index($node, $index), '', "$name: $index is right");
	}
	return;
}

run_queue('alone');

my $old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
my $then = ask($old, 'SELECT count(*), sum(id), min(due), max(due) FROM q');
my $bad = 0;
run_queue('with an old snapshot', sub { $bad++ if ask($old, 'SELECT count(*), sum(id), min(due), max(due) FROM q') ne $then; });
is($bad, 0, 'the old snapshot sees its rows all the time');
is(ask($old, 'SELECT count(*) FROM (SELECT FROM q WHERE id > 0 ORDER BY id) s'), $length, 'by an index too');
ask($old, 'COMMIT');

# A queue that is filled and emptied, and entries that are rolled back, again and again
my @used;
for my $i (1 .. 4)
{
	my $fill = "INSERT INTO q SELECT nextval('ids'), clock_timestamp(), 'x' FROM generate_series(1, 20000)";
	$node->safe_psql('postgres', "$fill; DELETE FROM q");
	ask($old, "BEGIN; $fill; ROLLBACK");
	push @used, settled_bytes($node, ($used[0] // 4 * 1024 * 1024) + 512 * 1024);
}
cmp_ok($used[3] - $used[0], '<=', 512 * 1024, "nothing is left of the rows: @used");
is(check_index($node, $_), '', "$_ is right") for ('q_pkey', 'q_due');

$old->quit;
$node->stop;
done_testing();
