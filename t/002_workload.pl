# Eight sessions move money between accounts that exist twice, in a heap table and in one of the
# access method under test: transfers, new and closed accounts, savepoints, aborts, row locks. The heap
# row is always locked first, so at every step both tables must agree row by row; readers check the
# totals of both in REPEATABLE READ and in single statements all the time.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('workload', "deadlock_timeout = '50ms'\nsynchronous_commit = off\nautovacuum = on\n");

$node->safe_psql('postgres', <<END);
CREATE TABLE h (id int PRIMARY KEY, bal int NOT NULL, grp int, hist text DEFAULT '') USING heap;
CREATE TABLE t (id int PRIMARY KEY, bal int NOT NULL, grp int, hist text DEFAULT '') USING $AM;
CREATE INDEX h_grp ON h (grp);
CREATE INDEX t_grp ON t (grp);
CREATE SEQUENCE ids START 1001;
INSERT INTO h SELECT g, 1000, g % 7 FROM generate_series(1, 100) g;
INSERT INTO t SELECT g, 1000, g % 7 FROM generate_series(1, 100) g;
END

$node->safe_psql('postgres', <<'END');
-- changes one account in both tables; a difference is an error
CREATE FUNCTION change(i int, amount int, note text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE a h; b t;
BEGIN
  UPDATE h SET bal = bal + amount, hist = right(hist || note, 40) WHERE id = i RETURNING * INTO a;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE t SET bal = bal + amount, hist = right(hist || note, 40) WHERE id = i RETURNING * INTO b;
  IF NOT FOUND OR (a.bal, a.grp, a.hist) IS DISTINCT FROM (b.bal, b.grp, b.hist) THEN
    RAISE EXCEPTION 'account %: heap %, table %', i, a, b USING ERRCODE = 'XX001';
  END IF;
  RETURN true;
END $$;

CREATE FUNCTION transfer(i int, j int, amount int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
  IF NOT change(i, -amount, '-') THEN RETURN false; END IF;
  -- the other one is gone: take it back
  IF NOT change(j, amount, '+') THEN PERFORM change(i, amount, '='); RETURN false; END IF;
  RETURN true;
END $$;

CREATE FUNCTION open_account(i int, amount int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE n int := nextval('ids');
BEGIN
  PERFORM change(i, -amount, 'o');
  INSERT INTO h VALUES (n, amount, n % 7);
  INSERT INTO t VALUES (n, amount, n % 7);
END $$;

CREATE FUNCTION close_account(i int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE n int; a h; b t;
BEGIN
  SELECT id INTO n FROM h WHERE id > 1000 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN false; END IF;
  DELETE FROM h WHERE id = n RETURNING * INTO a;
  DELETE FROM t WHERE id = n RETURNING * INTO b;
  IF (a.id, a.bal, a.grp, a.hist) IS DISTINCT FROM (b.id, b.bal, b.grp, b.hist) THEN
    RAISE EXCEPTION 'closing %: heap %, table %', n, a, b USING ERRCODE = 'XX001';
  END IF;
  PERFORM change(i, a.bal, 'c');
  RETURN true;
END $$;

CREATE FUNCTION regroup(i int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE a h; b t;
BEGIN
  UPDATE h SET grp = (grp + 1) % 7 WHERE id = i RETURNING * INTO a;
  UPDATE t SET grp = (grp + 1) % 7 WHERE id = i RETURNING * INTO b;
  IF a IS DISTINCT FROM ROW(b.id, b.bal, b.grp, b.hist)::h THEN
    RAISE EXCEPTION 'regroup %: heap %, table %', i, a, b USING ERRCODE = 'XX001';
  END IF;
END $$;

CREATE FUNCTION torture(i int, j int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM change(i, 0, 's');
  BEGIN
    PERFORM change(j, 777, 'x');
    PERFORM regroup(j);
    DELETE FROM t WHERE id = i; DELETE FROM h WHERE id = i;
    RAISE EXCEPTION USING ERRCODE = 'P0999';
  EXCEPTION WHEN SQLSTATE 'P0999' THEN NULL;
  END;
  PERFORM change(i, 0, 'S');
END $$;

-- one statement of the caller has read both
CREATE FUNCTION check_two(a bigint, b bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF a IS DISTINCT FROM 100000 OR b IS DISTINCT FROM 100000 THEN
    RAISE EXCEPTION 'totals: heap %, table %', a, b USING ERRCODE = 'XX001';
  END IF;
END $$;

CREATE FUNCTION check_totals() RETURNS void LANGUAGE plpgsql AS $$
DECLARE a bigint; b bigint; bi bigint; n bigint;
BEGIN
  SELECT (SELECT sum(bal) FROM h), (SELECT sum(bal) FROM t) INTO a, b;
  SELECT count(*) INTO n FROM h FULL JOIN t USING (id)
    WHERE (h.bal, h.grp, h.hist) IS DISTINCT FROM (t.bal, t.grp, t.hist);
  SELECT sum(s) INTO bi FROM generate_series(0, 6) g, LATERAL (SELECT sum(bal) AS s FROM t WHERE grp = g) x;
  IF a IS DISTINCT FROM 100000 OR b IS DISTINCT FROM 100000 OR n <> 0 THEN
    RAISE EXCEPTION 'totals: heap %, table %, rows that differ %', a, b, n USING ERRCODE = 'XX001';
  END IF;
  IF current_setting('transaction_isolation') = 'repeatable read' AND bi IS DISTINCT FROM 100000 THEN
    RAISE EXCEPTION 'total by index: %', bi USING ERRCODE = 'XX001';
  END IF;
END $$;
END

my $ij = "\\set i random(1, 20)\n\\set j random(1, 20)\n\\set a random(1, 50)\n";
my $bench = bench_start(
	$node, '-c', 8, '-j', 2, '-T', 7,
	bench_files(
		$node,
		'transfer@6' => "${ij}SELECT transfer(:i, :j, :a);\n",
		'steps@3' => "${ij}BEGIN;\nSELECT change(:i, 0 - :a, 'b');\nSAVEPOINT s;\nSELECT change(:j, 999, 'z');\nSELECT regroup(:j);\nROLLBACK TO s;\nSELECT change(:j, :a, 'B');\nRELEASE s;\nCOMMIT;\n",
		'abort@2' => "${ij}BEGIN;\nSELECT transfer(:i, :j, :a);\nSELECT regroup(:i);\nSELECT open_account(:j, 5);\nROLLBACK;\n",
		'open@2' => "${ij}SELECT open_account(:i, :a);\n",
		'close@3' => "${ij}SELECT close_account(:i);\n",
		'regroup@2' => "${ij}SELECT regroup(:i);\n",
		'torture@1' => "${ij}SELECT torture(:i, :j);\n",
		'lock@2' => "${ij}BEGIN;\nSELECT id FROM h WHERE id IN (:i, :j) ORDER BY id FOR UPDATE;\nSELECT id FROM t WHERE id IN (:i, :j) ORDER BY id FOR UPDATE;\nSELECT transfer(:i, :j, :a);\nCOMMIT;\n",
		'share@1' => "${ij}BEGIN;\nSELECT id FROM h WHERE id = :i FOR SHARE;\nSELECT id FROM t WHERE id = :i FOR KEY SHARE;\nCOMMIT;\n",
		'read@2' => "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;\nSELECT check_totals();\nSELECT check_totals();\nCOMMIT;\n",
		'tworeads@1' => "SELECT check_two((SELECT sum(bal) FROM h), (SELECT sum(bal) FROM t));\n"));

# An old snapshot over the whole run.
my $old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
my $sum = ask($old, 'SELECT sum(bal), md5(string_agg(t::text, \',\' ORDER BY id)) FROM t');
my $n = 0;
while ($bench->{h}->pumpable && $n < 30)
{
	last if $bench->{out} =~ /tps =/;
	select undef, undef, undef, 0.2;
	$bench->{h}->pump_nb;
	$n++;
	if ($n % 5 == 0)
	{
		my $now = ask($old, 'SELECT sum(bal), md5(string_agg(t::text, \',\' ORDER BY id)) FROM t');
		BAIL_OUT("the old snapshot changed: $sum, then $now") if $now ne $sum;
	}
}
bench_finish($bench, 'eight sessions, no difference seen');
is(ask($old, 'SELECT sum(bal), md5(string_agg(t::text, \',\' ORDER BY id)) FROM t'), $sum, 'the old snapshot saw the same all the time');
ask($old, 'COMMIT');

is($node->safe_psql('postgres', 'SELECT sum(bal) FROM h'), 100000, 'total of the heap table');
is($node->safe_psql('postgres', 'SELECT sum(bal) FROM t'), 100000, 'total of the other table');
is($node->safe_psql('postgres', 'SELECT count(*) FROM ((TABLE h EXCEPT TABLE t) UNION ALL (TABLE t EXCEPT TABLE h)) d'), 0, 'row by row');
is( $node->safe_psql('postgres', "SET enable_seqscan = off; SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t WHERE grp >= 0"),
	$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t WHERE grp >= 0"),
	'index and sequential scan agree');
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', 'SELECT count(*) FROM ((TABLE h EXCEPT TABLE t) UNION ALL (TABLE t EXCEPT TABLE h)) d'), 0, 'and after VACUUM');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_locks WHERE NOT granted'), 0, 'nobody waits');
is($node->safe_psql('postgres', 'SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE NOWAIT'), 1, 'no lock is left');

$old->quit;
$node->stop;
done_testing();
