# Rewrites of tables, moves of locked rows and index builds while others write and garbage is collected.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('rewrite', "synchronous_commit = off\nautovacuum = off\ndeadlock_timeout = '50ms'\n");

# CLUSTER, VACUUM FULL and ALTER TABLE right after all rows have been changed, again and again, in one
# session and with a second one that changes them in between
$node->safe_psql('postgres', <<END);
CREATE TABLE r (id int PRIMARY KEY, k int, v int, pad text) USING $AM;
CREATE INDEX r_k ON r (k);
INSERT INTO r SELECT g, 20000 - g, 0, 'x' FROM generate_series(1, 20000) g;
END
my ($s, $other, $old) = map { session($node) } 1 .. 3;
my $v = 0;
my $columns = 0;
my $state = "SELECT count(*), sum(id), min(v), max(v), sum(length(pad)) FROM r";
for my $i (1 .. 2)
{
	for my $rewrite ('CLUSTER r USING r_k', 'VACUUM FULL r', 'CLUSTER r USING r_pkey', 'ALTER', 'BEGIN')
	{
		ask($s, 'UPDATE r SET v = v + 1');
		ask($s, 'UPDATE r SET v = v + 1, k = k + 1 WHERE id % 2 = 0');
		ask($other, 'UPDATE r SET v = v + 1 WHERE id % 2 = 1');
		$v += 2;
		if ($rewrite eq 'ALTER')
		{
			$columns++;
			ask($s, "ALTER TABLE r ADD COLUMN c$columns int DEFAULT $columns");
			ask($s, 'UPDATE r SET v = v WHERE id % 3 = 0');
			ask($s, 'CLUSTER r USING r_k');
			is(ask($s, "SELECT count(*) FROM r WHERE c$columns = $columns"), 20000, 'CLUSTER keeps the values of a new column');
		}
		elsif ($rewrite eq 'BEGIN')
		{
			ask($s, 'BEGIN');
			ask($s, 'UPDATE r SET v = v + 1; UPDATE r SET v = v + 1 WHERE id > 10');
			ask($s, 'SAVEPOINT a; UPDATE r SET v = v + 1, k = k + 3');
			ask($s, 'CLUSTER r USING r_k');
			is(ask($s, 'SELECT count(*), min(v), max(v) FROM r'), '20000|' . ($v + 2) . '|' . ($v + 3), 'CLUSTER of what is not committed');
			ask($s, 'ROLLBACK TO a');
			is(ask($s, 'SELECT count(*), min(v), max(v) FROM r'), '20000|' . ($v + 1) . '|' . ($v + 2), 'undone');
			ask($s, $i % 2 ? 'ROLLBACK' : 'UPDATE r SET v = v - 1; UPDATE r SET v = v - 1 WHERE id > 10; COMMIT');
		}
		else
		{
			ask($s, $rewrite);
		}
		is(ask($s, $state), "20000|200010000|$v|$v|20000", "$rewrite keeps the rows");
		is(ask($s, 'SET enable_seqscan = off; SELECT count(*), sum(id) FROM r WHERE k > -1; RESET enable_seqscan'), '20000|200010000', 'and the index');
	}
}

# Rows that are locked by foreign keys while others move them, commit or roll back, and delete them:
# no child is left without its parent.
$node->safe_psql('postgres', <<END);
CREATE TABLE parent (id int PRIMARY KEY, ix int, v int) USING $AM;
CREATE INDEX parent_ix ON parent (ix);
CREATE TABLE child (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, pid int REFERENCES parent) USING $AM;
CREATE INDEX child_pid ON child (pid);
INSERT INTO parent SELECT g, g, 0 FROM generate_series(1, 4) g;
CREATE PROCEDURE adopt(p int) LANGUAGE plpgsql AS
  \$\$ BEGIN INSERT INTO child (pid) VALUES (p); EXCEPTION WHEN foreign_key_violation THEN NULL; END \$\$;
CREATE PROCEDURE remove(p int) LANGUAGE plpgsql AS
  \$\$ BEGIN DELETE FROM parent WHERE id = p; EXCEPTION WHEN foreign_key_violation THEN NULL; END \$\$;
END
my $i = "\\set i random(1, 4)\n";
my $bench = bench_start($node, '-c', 8, '-j', 2, '-T', 4,
	bench_files($node,
		'move@4' => "${i}UPDATE parent SET ix = ix + 1, v = v + 1 WHERE id = :i;\n",
		'twice@2' => "${i}BEGIN;\nUPDATE parent SET ix = ix + 1 WHERE id = :i;\nSAVEPOINT a;\nUPDATE parent SET ix = ix + 1 WHERE id = :i;\nROLLBACK TO a;\nCOMMIT;\n",
		'abort@4' => "${i}BEGIN;\nUPDATE parent SET ix = ix + 1, v = v + 1 WHERE id = :i;\nROLLBACK;\n",
		'adopt@4' => "${i}CALL adopt(:i);\n",
		'adoptabort@2' => "${i}BEGIN;\nCALL adopt(:i);\nROLLBACK;\n",
		'lock@2' => "${i}BEGIN;\nSELECT * FROM parent WHERE id = :i FOR KEY SHARE;\nSELECT * FROM parent WHERE id = :i;\nCOMMIT;\n",
		'leave@3' => "${i}DELETE FROM child WHERE pid = :i;\n",
		'remove@3' => "${i}CALL remove(:i);\n",
		'again@3' => "${i}INSERT INTO parent VALUES (:i, :i, 0) ON CONFLICT DO NOTHING;\n"));
bench_finish($bench, 'locks by foreign keys beside moves and deletes');
is($node->safe_psql('postgres', 'SELECT count(*) FROM child WHERE pid NOT IN (SELECT id FROM parent)'), 0, 'no child has lost its parent');
is($node->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT id) FROM parent'), 0, 'no parent is there twice');
is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM parent FOR UPDATE NOWAIT) x'), $node->safe_psql('postgres', 'SELECT count(*) FROM parent'), 'no lock is left');

# An event trigger that runs a utility command at the beginning of CREATE INDEX CONCURRENTLY: commits
# take an xid all the same until it has ended, and the index is right.
$node->safe_psql('postgres', <<END);
CREATE TABLE c (id int, v int) USING $AM;
INSERT INTO c SELECT g, g FROM generate_series(1, 2000) g;
CREATE FUNCTION at_start() RETURNS event_trigger LANGUAGE plpgsql AS
  \$\$ BEGIN IF TG_TAG <> 'CREATE INDEX' THEN RETURN; END IF; SET search_path = public; EXECUTE 'COMMENT ON TABLE c IS ''seen'''; END \$\$;
CREATE EVENT TRIGGER at_start ON ddl_command_start EXECUTE FUNCTION at_start();
END
ask($old, 'BEGIN; UPDATE c SET v = v WHERE id = 1');
send_query($s, 'CREATE INDEX CONCURRENTLY c_v ON c (v)');
wait_blocked($node, 1);
my $pure = on_tsengine() ? $node->safe_psql('postgres', 'SELECT commits_pure FROM tsengine.stat_transactions') : 0;
my $mixed = on_tsengine() ? $node->safe_psql('postgres', 'SELECT commits_mixed FROM tsengine.stat_transactions') : 0;
ask($other, "UPDATE c SET v = v + 10000 WHERE id % 10 = $_") for 2 .. 6;
if (on_tsengine())
{
	is($node->safe_psql('postgres', 'SELECT commits_pure FROM tsengine.stat_transactions'), $pure, 'no pure commits during the build');
	is($node->safe_psql('postgres', 'SELECT commits_mixed FROM tsengine.stat_transactions'), $mixed + 5, 'but mixed ones');
}
ask($old, 'COMMIT');
my ($out, $err) = wait_query($s);
is($err, '', 'CREATE INDEX CONCURRENTLY with an event trigger');
is($node->safe_psql('postgres', "SELECT obj_description('c'::regclass)"), 'seen', 'which has run');
is($node->safe_psql('postgres', "SELECT indisvalid FROM pg_index WHERE indexrelid = 'c_v'::regclass"), 't', 'the index is valid');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*), sum(v) FROM c WHERE v > 0'),
	$node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*), sum(v) FROM c WHERE v > 0'), 'and complete');
if (on_tsengine())
{
	ask($other, 'UPDATE c SET id = id WHERE id = 1');
	is($node->safe_psql('postgres', 'SELECT commits_pure FROM tsengine.stat_transactions'), $pure + 1, 'commits are pure again');
}

$_->quit for ($s, $other, $old);
$node->stop;
done_testing();
