# Queries that come while the server starts: they wait for their table, and get all of it.

use strict;
use warnings FATAL => 'all';
use lib 't';
use IPC::Run ();
use TsEngine;
use Test::More;

my $rows = 100_000;
my $node = new_node('first', "autovacuum = off\n");

$node->safe_psql('postgres', <<END);
CREATE TABLE t (a bigint, b bigint) USING $AM;
INSERT INTO t SELECT g, g FROM generate_series(1, $rows) g;
CREATE TABLE small (a int) USING $AM;
INSERT INTO small VALUES (1);
END

my $query = 'SELECT (SELECT count(*) FROM small), count(*) FROM t';
my $loop = 'until psql -XAtc "$0" 2>/dev/null; do :; done';

# In test builds the manifest is read slowly, so that tables are seen half made.
$node->append_conf('postgresql.conf', 'tsengine.slow_manifest = 300') if on_tsengine();
for my $round (1 .. 4)
{
	$round % 2 ? $node->stop : kill_server($node);
	my @clients;
	{
		local %ENV = ($node->_get_env(), PGDATABASE => 'postgres');
		for (1 .. 3)
		{
			my $out = '';
			push @clients, { out => \$out, h => IPC::Run::start([ 'sh', '-c', $loop, $query ], '>', \$out, IPC::Run::timeout(60)) };
		}
	}
	$node->start;
	$_->{h}->finish for @clients;
	is(${ $_->{out} }, "1|$rows\n", "start $round: all rows") for @clients;
}
$node->stop;
done_testing();
