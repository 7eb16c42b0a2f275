# Very many row locks of one transaction: on one row, by a foreign key, and in more savepoints than
# there are lock tags. They take bounded time and memory and stay what they are.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

my $node = new_node('row_locks', "synchronous_commit = off\nautovacuum = off\nstatement_timeout = '25s'\n");
sub used { return on_tsengine() ? used_bytes($node) : 0; }

# 300,000 rows that refer to one row, and as many that refer to none
my $n = 300_000;
$node->safe_psql('postgres', <<END);
CREATE TABLE parent (id int PRIMARY KEY, v int) USING $AM;
INSERT INTO parent VALUES (1, 1), (2, 2);
CREATE TABLE plain (id int, pid int) USING $AM;
CREATE TABLE child (id int, pid int REFERENCES parent) USING $AM;
END
my $s = session($node);

# Inserts in an open transaction, whose list of writes takes memory as well; returns bytes and errors.
sub insert_open
{
	my ($table) = @_;
	my $start = used();
	ask($s, 'BEGIN');
	my ($out, $err) = try_ask($s, "INSERT INTO $table SELECT g, 1 FROM generate_series(1, $n) g");
	return (used() - $start, $err);
}
my ($plain) = insert_open('plain');
ask($s, 'COMMIT');
my ($child, $err) = insert_open('child');
is($err, '', 'many rows that refer to one are inserted in time');
cmp_ok($child, '<', $plain + 2 * 1024 * 1024, "and take hardly more memory than others: $child, $plain") if on_tsengine();
like((quiet_sql($node, 'SELECT id FROM parent WHERE id = 1 FOR UPDATE NOWAIT'))[2], qr/55P03/, 'the row is locked');
is((quiet_sql($node, 'SELECT id FROM parent WHERE id = 1 FOR NO KEY UPDATE NOWAIT'))[1], 1, 'its key only');
try_ask($s, 'COMMIT');
is((quiet_sql($node, 'SELECT id FROM parent WHERE id = 1 FOR UPDATE NOWAIT'))[1], 1, 'and free after the end');

# The same lock in many savepoints: those that are released and rolled back leave the outer one.
ask($s, 'BEGIN; SELECT FROM parent WHERE id = 1 FOR KEY SHARE');
my $before = used();
(my $out, $err) = try_ask($s, <<'END');
DO $$
BEGIN
  FOR i IN 1..3000 LOOP
    BEGIN
      PERFORM FROM parent WHERE id = 1 FOR KEY SHARE;
      PERFORM FROM parent WHERE id = 2 FOR SHARE;
      IF i % 2 = 0 THEN RAISE EXCEPTION USING ERRCODE = 'P0999'; END IF;
    EXCEPTION WHEN SQLSTATE 'P0999' THEN NULL;
    END;
  END LOOP;
END $$
END
is($err, '', 'the same row locks in many savepoints');
cmp_ok(used() - $before, '<', 1024 * 1024, 'take little memory') if on_tsengine();
like((quiet_sql($node, "SELECT id FROM parent WHERE id = $_ FOR UPDATE NOWAIT"))[2], qr/55P03/, "row $_ is locked") for 1 .. 2;
ask($s, 'ROLLBACK');
is((quiet_sql($node, "SELECT id FROM parent WHERE id = $_ FOR UPDATE NOWAIT"))[1], $_, "row $_ is free") for 1 .. 2;

# More savepoints that write than there are numbers for them. Heap would need an xid for each, and
# shows the same.
$node->safe_psql('postgres', "CREATE TABLE held (id int, v int) USING $AM; INSERT INTO held VALUES (1, 0), (2, 0), (3, 0); CREATE TABLE work (id int, v int) USING $AM; INSERT INTO work VALUES (1, 0)");
ask($s, 'BEGIN; SELECT FROM held WHERE id = 1 FOR UPDATE');
ask($s, 'SAVEPOINT a; SELECT FROM held WHERE id = 2 FOR UPDATE');
ask($s, 'SAVEPOINT b; SELECT FROM held WHERE id = 3 FOR UPDATE; UPDATE held SET v = 1 WHERE id = 3');
($out, $err) = try_ask($s, <<'END');
DO $$
BEGIN
  FOR i IN 1..65532 LOOP
    BEGIN
      INSERT INTO work VALUES (2, 2);
      RAISE EXCEPTION USING ERRCODE = 'P0999';
    EXCEPTION WHEN SQLSTATE 'P0999' THEN NULL;
    END;
  END LOOP;
END $$
END
is($err, '', '65,532 more savepoints that write');
# the next ones are not mistaken for the outer ones: who waits for one goes on when it is rolled back
my $w = session($node);
for my $try (1 .. 4)
{
	ask($s, 'SAVEPOINT c; UPDATE work SET v = 5 WHERE id = 1');
	send_query($w, 'UPDATE work SET v = v WHERE id = 1 RETURNING v');
	wait_blocked($node, 1);
	ask($s, 'ROLLBACK TO c');
	is(eval { scalar wait_query($w, 3) } // $@, 0, 'a savepoint rolled back lets a waiter go on') or last;
}
for my $id (1 .. 3)
{
	like((quiet_sql($node, "SELECT id FROM held WHERE id = $id FOR UPDATE NOWAIT"))[2], qr/55P03/, "row $id stays locked");
	like((quiet_sql($node, "SET lock_timeout = '100ms'; UPDATE held SET v = 5 WHERE id = $id"))[2], qr/55P03/, "for UPDATE too");
}
ask($s, 'ROLLBACK TO b');
is((quiet_sql($node, 'SELECT id FROM held WHERE id = 3 FOR UPDATE NOWAIT'))[1], 3, 'free when its savepoint is rolled back');
like((quiet_sql($node, "SELECT id FROM held WHERE id = $_ FOR UPDATE NOWAIT"))[2], qr/55P03/, "row $_ stays locked") for 1 .. 2;
ask($s, 'COMMIT');
is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM held FOR UPDATE NOWAIT) x'), 3, 'all are free in the end');
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM work'), '1|0', 'and nothing is left of what was undone');

# Eight sessions insert the same keys and always roll back: nobody may find a duplicate.
$node->safe_psql('postgres', "CREATE TABLE keys (id int PRIMARY KEY, v int) USING $AM");
my $bench = bench_start($node, '-c', 8, '-j', 2, '-T', 3,
	bench_files($node,
		'one@4' => "\\set i random(1, 3)\nBEGIN;\nINSERT INTO keys VALUES (:i, 0);\nROLLBACK;\n",
		'savepoint@2' => "\\set i random(1, 3)\nBEGIN;\nSAVEPOINT a;\nINSERT INTO keys VALUES (:i, 0);\nROLLBACK TO a;\nCOMMIT;\n",
		'update@1' => "\\set i random(1, 3)\nBEGIN;\nINSERT INTO keys VALUES (:i, 0);\nUPDATE keys SET v = v + 1 WHERE id = :i;\nDELETE FROM keys WHERE id = :i;\nCOMMIT;\n"));
bench_finish($bench, 'no duplicate of a key that is never committed');
is($node->safe_psql('postgres', 'SELECT count(*) FROM keys'), 0, 'the table is empty');

$_->quit for ($s, $w);
$node->stop;
done_testing();
