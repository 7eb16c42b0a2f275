# NOTIFY together with changes of nothing but tsengine tables: the transaction has its xid in time, and
# who hears of it sees the rows.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use TsEngine;

my $node = new_node('notify', "synchronous_commit = off\n");
$node->safe_psql('postgres', <<END);
CREATE TABLE t (id int, v int) USING $AM;
CREATE TABLE trig (id int, v int) USING $AM;
CREATE TABLE late (id int, v int) USING $AM;
CREATE TABLE stmt (id int, v int) USING $AM;
INSERT INTO t VALUES (1, 0);
INSERT INTO trig VALUES (1, 0);
INSERT INTO late VALUES (1, 0);
INSERT INTO stmt VALUES (1, 0);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
  \$\$ BEGIN PERFORM pg_notify('ch', TG_TABLE_NAME || ' ' || NEW.v); RETURN NULL; END \$\$;
CREATE FUNCTION tell_statement() RETURNS trigger LANGUAGE plpgsql AS
  \$\$ BEGIN NOTIFY ch, 'stmt'; RETURN NULL; END \$\$;
CREATE TRIGGER tell AFTER UPDATE ON trig FOR EACH ROW EXECUTE FUNCTION tell();
CREATE CONSTRAINT TRIGGER tell AFTER UPDATE ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER tell AFTER UPDATE ON stmt EXECUTE FUNCTION tell_statement();
CREATE FUNCTION sql_tell(p text) RETURNS void LANGUAGE sql AS 'SELECT pg_notify(''ch'', p)';
CREATE FUNCTION dyn_tell(p text) RETURNS void LANGUAGE plpgsql AS
  \$\$ BEGIN EXECUTE 'SELECT pg_notify(\$1, \$2)' USING 'ch', p; END \$\$;
CREATE FUNCTION expr_tell(p text) RETURNS void LANGUAGE plpgsql AS
  \$\$ DECLARE x text; BEGIN x := pg_notify('ch', p); END \$\$;
CREATE PROCEDURE proc_tell(n int) LANGUAGE plpgsql AS
  \$\$ BEGIN FOR i IN 1..n LOOP UPDATE t SET v = v + 1; NOTIFY ch; COMMIT; END LOOP; END \$\$;
END

# late_xid, commits_pure
sub counters
{
	return (0, 0) if !on_tsengine();
	return split /\|/, $node->safe_psql('postgres', 'SELECT late_xid, commits_pure FROM tsengine.stat_transactions');
}

my $listener = session($node);
ask($listener, 'LISTEN ch');
my $writer = session($node);

# name, table, statements: each in a client message of its own
my @cases = (
	[ 'NOTIFY after UPDATE', 't', 'BEGIN; UPDATE t SET v = v + 1; NOTIFY ch; COMMIT' ],
	[ 'NOTIFY before UPDATE', 't', 'BEGIN; NOTIFY ch; UPDATE t SET v = v + 1; COMMIT' ],
	[ 'NOTIFY in a savepoint', 't', 'BEGIN; UPDATE t SET v = v + 1; SAVEPOINT a; NOTIFY ch; RELEASE a; COMMIT' ],
	[ 'NOTIFY rolled back, and again', 't', 'BEGIN; SAVEPOINT a; NOTIFY ch; ROLLBACK TO a; UPDATE t SET v = v + 1; NOTIFY ch; COMMIT' ],
	[ 'pg_notify', 't', "BEGIN; UPDATE t SET v = v + 1; SELECT pg_notify('ch', 'x'); COMMIT" ],
	[ 'pg_notify qualified', 't', "BEGIN; UPDATE t SET v = v + 1; SELECT pg_catalog.pg_notify('ch', v::text) FROM t; COMMIT" ],
	[ 'PG_NOTIFY in RETURNING', 't', "UPDATE t SET v = v + 1 RETURNING PG_NOTIFY('ch', v::text)" ],
	[ 'pg_notify prepared', 't', "BEGIN; UPDATE t SET v = v + 1; PREPARE p AS SELECT pg_notify(\$1, \$2); EXECUTE p('ch', 'x'); DEALLOCATE p; COMMIT" ],
	[ 'pg_notify in a CTE', 't', "WITH u AS (UPDATE t SET v = v + 1 RETURNING v) SELECT pg_notify('ch', v::text) FROM u" ],
	[ 'SQL function', 't', "BEGIN; UPDATE t SET v = v + 1; SELECT sql_tell('x'); COMMIT" ],
	[ 'SQL function in RETURNING', 't', "UPDATE t SET v = v + 1 RETURNING sql_tell(v::text)" ],
	[ 'EXECUTE', 't', "BEGIN; UPDATE t SET v = v + 1; SELECT dyn_tell('x'); COMMIT" ],
	[ 'PL/pgSQL expression', 't', "BEGIN; UPDATE t SET v = v + 1; SELECT expr_tell('x'); COMMIT" ],
	[ 'DO', 't', "DO \$\$ BEGIN UPDATE t SET v = v + 1; NOTIFY ch, 'x'; END \$\$" ],
	[ 'DO with pg_notify', 't', "DO \$\$ BEGIN UPDATE t SET v = v + 1; PERFORM pg_notify('ch', 'x'); END \$\$" ],
	[ 'procedure', 't', 'CALL proc_tell(20)' ],
	[ 'row trigger', 'trig', 'UPDATE trig SET v = v + 1' ],
	[ 'statement trigger', 'stmt', 'UPDATE stmt SET v = v + 1' ],
	[ 'deferred trigger', 'late', 'UPDATE late SET v = v + 1' ],
	[ 'deferred trigger made immediate', 'late', 'BEGIN; UPDATE late SET v = v + 1; SET CONSTRAINTS ALL IMMEDIATE; COMMIT' ],
	[ 'deferred trigger after a savepoint', 'late', 'BEGIN; SAVEPOINT a; UPDATE late SET v = v + 1; RELEASE a; COMMIT' ],
);

# Waits for the first notification; then what it is about must be seen.
sub hear
{
	my ($table) = @_;
	my $end = time + 10;
	while (time < $end)
	{
		return ask($listener, "SELECT v FROM $table") =~ s/\n.*//sr
		  if ask($listener, 'SELECT') =~ /Asynchronous notification "ch"/;
	}
	return -1;
}

for my $case (@cases)
{
	my ($name, $table, $sql) = @$case;
	my $before = $node->safe_psql('postgres', "SELECT v FROM $table");
	my ($late) = counters();
	send_query($writer, $sql);
	cmp_ok(hear($table), '>', $before, "$name: heard, and the row is seen");
	my ($out, $err) = wait_query($writer);
	is($err, '', "$name: no error");
	my ($now) = counters();
	# (an SQL function is inlined into the calling query, where nobody notices)
	is($now, $late, "$name: the xid came in time") if on_tsengine() && $name !~ /^SQL function/;
	ask($listener, 'SELECT') for 1 .. 2;
}

# Without a notification a commit needs no xid.
if (on_tsengine())
{
	my (undef, $pure) = counters();
	ask($writer, 'UPDATE t SET v = v + 1');
	ask($writer, "BEGIN; UPDATE t SET v = v + 1; SELECT 'pg_notify'; COMMIT");
	my (undef, $now) = counters();
	is($now - $pure, 2, 'other transactions are pure as ever');
	is($node->safe_psql('postgres', 'SELECT late_xid, snapshot_missing FROM tsengine.stat_transactions'), '2|0', 'no late xid but those of SQL functions, no lost count');
}

$_->quit for ($listener, $writer);
$node->stop;
done_testing();
