# A server whose memory for rows is full crashes: all rows come back, and deletes make room as before. A
# start with less memory says what is wrong, and loses nothing.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('memory', "autovacuum = off\ntsengine.memory = '64MB'\n");
$node->safe_psql('postgres', <<END);
CREATE TABLE t (id serial PRIMARY KEY, v int DEFAULT 0, pad text) USING tsengine;
CREATE TABLE h (id int) USING heap;
CREATE PROCEDURE fill(width int) LANGUAGE plpgsql AS \$\$
BEGIN
	LOOP
		INSERT INTO t (pad) SELECT repeat('x', width) FROM generate_series(1, 20);
		COMMIT;
	END LOOP;
END \$\$;
END

sub digest
{
	return $node->safe_psql('postgres', 'SELECT count(*), sum(id), sum(v), sum(length(pad)) FROM t; SET enable_seqscan = off; SELECT count(*) FROM t WHERE id > 0');
}

# Rows of all sizes until nothing goes in any more
sub fill
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $width (3000, 300, 10)
	{
		my ($ret, $out, $err) = quiet_sql($node, "CALL fill($width)");
		like($err, qr/ERROR: +53200/, "$name: full with rows of $width bytes");
	}
	# new versions as well
	my ($ret, $out, $err) = quiet_sql($node, 'DO $$ BEGIN FOR i IN 1 .. 100 LOOP UPDATE t SET v = v + 1; COMMIT; END LOOP; END $$');
	like($err, qr/ERROR: +53200/, "$name: full for updates");
	return;
}

for my $round (1 .. 3)
{
	my $name = "round $round";
	fill($name);
	$node->safe_psql('postgres', 'CHECKPOINT') if $round == 2;
	my $before = digest();
	like($before, qr/^\d{4,}\|/, "$name: thousands of rows");

	# a transaction that has filled the reserve for deletes, too, when the server dies
	my $s = session($node);
	ask($s, 'BEGIN; DELETE FROM t WHERE id % 2 = 0');
	$node->safe_psql('postgres', 'INSERT INTO h VALUES (1)');
	$round == 3 ? $node->restart : crash_and_start($node);
	eval { $s->quit };
	is(digest(), $before, "$name: all rows are back");
	is($node->safe_psql('postgres', "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY id LIMIT 10) RETURNING 'gone'"), join("\n", ('gone') x 10), "$name: rows can be deleted");
	$before = digest();
	crash_and_start($node);
	is(digest(), $before, "$name: the same after another crash");
}

# Less memory than the rows need
my $before = digest();
for my $how ('after a stop', 'after a crash')
{
	$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id IN (SELECT id FROM t LIMIT 1)');
	$before = digest();
	$how eq 'after a crash' ? kill_server($node) : $node->stop;
	$node->adjust_conf('postgresql.conf', 'tsengine.memory', "'16MB'");
	my $offset = -s $node->logfile;
	my $message;
	if ($node->start(fail_ok => 1))
	{
		my ($ret, $out, $err) = quiet_sql($node, 'SELECT count(*) FROM t');
		isnt($ret, 0, "$how, less memory: the table cannot be read");
		like($err, qr/ERROR: +53200/, "$how, less memory: out of memory");
		is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM h'), 't', "$how, less memory: other tables are usable");
		$message = $err;
		crash_and_start($node) if $how eq 'after a crash';
		$node->stop;
	}
	else
	{
		$message = slurp_file($node->logfile, $offset);
	}
	like($message, qr/HINT: .*tsengine\.memory/, "$how, less memory: a hint names the setting");
	$node->adjust_conf('postgresql.conf', 'tsengine.memory', "'64MB'");
	$node->start;
	is(digest(), $before, "$how: with enough memory all rows are back");
}
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 2 = 0; VACUUM t');
$before = digest();
$node->safe_psql('postgres', "INSERT INTO t (pad) SELECT 'new' FROM generate_series(1, 100)");
isnt(digest(), $before, 'and there is room after a delete');

$node->stop;
done_testing();
