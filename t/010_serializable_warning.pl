# Until validation exists, the first use of tsengine in a SERIALIZABLE transaction says so: one WARNING
# per session, none without tsengine, none in other isolation levels.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('serializable', undef);
$node->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v int) USING tsengine; INSERT INTO t VALUES (1, 1); CREATE TABLE h (id int) USING heap');

# psql -c 'a' -c 'b' ... in one session, warnings of all of it
sub warnings_of
{
	my (@sql) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', join(";\n", @sql) . ';');
	is($ret, 0, 'no error') or diag($err);
	my $n = () = $err =~ /WARNING:.*(serializable|SERIALIZABLE)/g;
	return $n;
}

my $begin = 'BEGIN ISOLATION LEVEL SERIALIZABLE';
is(warnings_of($begin, 'SELECT * FROM t', 'COMMIT'), 1, 'a read warns');
is(warnings_of($begin, 'SELECT * FROM t', 'SELECT * FROM t', 'UPDATE t SET v = v + 1', 'COMMIT', $begin, 'SELECT * FROM t', 'COMMIT'), 1, 'once per session');
is(warnings_of('SELECT * FROM t', $begin, 'SELECT * FROM t', 'COMMIT'), 1, 'also when the table was used before in READ COMMITTED');
is(warnings_of($begin, 'INSERT INTO t VALUES (2, 2)', 'ROLLBACK', $begin, 'DELETE FROM t WHERE id = 2', 'COMMIT'), 1, 'a write warns');
is(warnings_of($begin, 'SET LOCAL enable_seqscan = off', 'SELECT * FROM t WHERE id = 1', 'COMMIT'), 1, 'an index scan warns');
is(warnings_of('SET default_transaction_isolation = serializable', 'SELECT * FROM t', 'SELECT * FROM t'), 1, 'single statements warn');
is(warnings_of($begin, 'SELECT * FROM h', 'COMMIT'), 0, 'heap does not');
is(warnings_of('BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT * FROM t', 'COMMIT', 'SELECT * FROM t'), 0, 'other levels do not');

# It behaves at least as REPEATABLE READ.
my ($a, $b) = (session($node), session($node));
ask($a, $begin);
my $v = ask($a, 'SELECT v FROM t WHERE id = 1');
ask($b, 'UPDATE t SET v = v + 1 WHERE id = 1');
is(ask($a, 'SELECT v FROM t WHERE id = 1'), $v, 'the snapshot stays');
my ($o, $e) = try_ask($a, 'UPDATE t SET v = 0 WHERE id = 1');
like($e, qr/could not serialize access/, 'a lost update is refused');
ask($a, 'ROLLBACK');
$_->quit for ($a, $b);

$node->stop;
done_testing();
