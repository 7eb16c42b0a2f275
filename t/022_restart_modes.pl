# Smart, fast and immediate shutdown under load, each several times: nothing acknowledged is lost, and no
# xmin comes back that a client may have kept as an optimistic lock from before the restart (PITFALLS 34).

use strict;
use warnings FATAL => 'all';

use Bank;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use TsEngine;

my $node = new_node('modes', "deadlock_timeout = 50ms\njit = off\n");
my $bank = bank_create($node);
$node->safe_psql('postgres', "CREATE TABLE kept (id int PRIMARY KEY, v int) USING $AM; INSERT INTO kept VALUES (1, 0)");

my %seen;

# Other clients change the row: each time its xmin must be one that nobody has seen before.
sub change_row
{
	my ($name) = @_;
	my @xmins = split /\n/, $node->safe_psql('postgres', "UPDATE kept SET v = v + 1; SELECT xmin FROM kept;\n" x 50);
	my @again = grep { $seen{$_}++ } @xmins;
	is("@again", '', "$name: each change has a new xmin");
	return;
}

my ($count, $value) = (0, 0);
for my $round (1 .. 6)
{
	for my $mode ('smart', 'fast', 'immediate')
	{
		my $name = "$mode shutdown $round";
		change_row("before $name");

		# smart waits until the clients have finished
		bank_start($bank, $mode eq 'smart' ? (transactions => 100) : (transactions => 1000, background => 1));
		usleep(300_000 + rand 300_000);
		$node->stop($mode);
		$node->start;
		my $commits = bank_finish($bank);
		$count += $commits;
		is(join("\n", bank_errors($bank)), '', "$name: all is well ($commits commits)");

		is($node->safe_psql('postgres', 'SELECT v FROM kept'), $value += 50, "$name: the row's value");
		change_row("after $name");
		my $old = join ',', keys %seen;
		my $current = $node->safe_psql('postgres', 'SELECT xmin FROM kept');
		is($node->safe_psql('postgres', "UPDATE kept SET v = -1 WHERE xmin::text = ANY ('{$old}') AND xmin <> '$current' RETURNING v"),
			'', "$name: an optimistic client finds that the row has changed");
		$value += 50;
	}
}
cmp_ok($count, '>', 5000, 'there was something to lose');
is($node->safe_psql('postgres', "UPDATE kept SET v = -1 WHERE xmin = (SELECT xmin FROM kept) RETURNING v"), -1, 'the current xmin would have matched');

$node->stop;
done_testing();
