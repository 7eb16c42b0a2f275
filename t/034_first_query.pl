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

# one table each: to open a second one that is not there yet would wait for all of them
my %queries = ('SELECT count(*) FROM t' => $rows, 'SELECT count(*) FROM small' => 1);
my $loop = 'until psql -XAtc "$0" 2>/dev/null; do :; done';

# In test builds the manifest is read slowly, so that tables are seen half made.
$node->append_conf('postgresql.conf', 'tsengine.slow_manifest = 300') if on_tsengine();
for my $round (1 .. 4)
{
	$round % 2 ? $node->stop : kill_server($node);
	my @clients;
	{
		local %ENV = ($node->_get_env(), PGDATABASE => 'postgres');
		for my $query ((sort keys %queries) x 2)
		{
			my $out = '';
			push @clients, { query => $query, out => \$out, h => IPC::Run::start([ 'sh', '-c', $loop, $query ], '>', \$out, IPC::Run::timeout(60)) };
		}
	}
	$node->start;
	$_->{h}->finish for @clients;
	is(${ $_->{out} }, "$queries{$_->{query}}\n", "start $round: $_->{query}: all rows") for @clients;
}
$node->stop;
done_testing();
