# Damaged, missing and foreign files in pg_tsengine: whoever needs one gets an error that names it, before
# any row; other tables are usable; TRUNCATE and DROP work on the damaged ones; nothing is ever shown as
# an empty table (PITFALLS 33).

use strict;
use warnings FATAL => 'all';

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('corrupt', "autovacuum = off\n");
my $dir = $node->data_dir . '/pg_tsengine';
my $saved = $node->basedir . '/saved';
my @tables = qw(first second small);

# Each row carries its table's name, by which its place in the files can be found. Each table is written
# by a checkpoint of its own.
for my $t (@tables)
{
	my $rows = $t eq 'small' ? 10 : 20_000;
	$node->safe_psql('postgres', "CREATE TABLE $t (id int PRIMARY KEY, v text) USING tsengine;
		INSERT INTO $t SELECT g, 'row of $t, ' || repeat(g::text, 20) FROM generate_series(1, $rows) g; CHECKPOINT");
}
$node->safe_psql('postgres', 'CREATE TABLE h (id int) USING heap; INSERT INTO h VALUES (1)');
my $digest = 'SELECT count(*), sum(id), sum(hashtextextended(v, 0)::numeric) FROM';
my %digest = map { $_ => $node->safe_psql('postgres', "$digest $_") } @tables;

# The whole cluster as it was stopped, put back before each case
sub save
{
	$node->stop;
	system_or_bail('cp', '-a', $node->data_dir, $saved);
	return;
}

sub restore
{
	$node->stop('immediate');
	system_or_bail('rm', '-rf', $node->data_dir);
	system_or_bail('cp', '-a', $saved, $node->data_dir);
	return;
}

sub files
{
	my ($prefix) = @_;
	return sort grep { -f } glob "$dir/$prefix.*";
}

# Where the table's rows are: file => [offsets], one offset in each 8 kB
sub places
{
	my ($t) = @_;
	my %places;
	for my $file (files('image'))
	{
		my $data = slurp_file($file);
		my %block;
		$block{ int(pos($data) / 8192) } = pos($data) while $data =~ /row of $t, /g;
		$places{$file} = [ sort { $a <=> $b } values %block ] if %block;
	}
	return %places;
}

sub flip_bits
{
	my ($file, @offsets) = @_;
	open my $f, '+<:raw', $file or die "$file: $!";
	for my $offset (@offsets)
	{
		my $byte;
		seek $f, $offset, 0;
		read $f, $byte, 1;
		seek $f, $offset, 0;
		print $f chr(ord($byte) ^ 4);
	}
	close $f or die "$file: $!";
	return;
}

# Starts the server and looks at all tables: those in DAMAGED give an error that matches PATTERN, whatever
# the statement, the others all their rows.
sub look
{
	my ($name, $pattern, @damaged) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %damaged = map { $_ => 1 } @damaged;

	$node->start;
	for my $t (@tables)
	{
		if (!$damaged{$t})
		{
			is($node->safe_psql('postgres', "$digest $t"), $digest{$t}, "$name: $t is usable");
			next;
		}
		for my $sql ("SELECT * FROM $t", "SET enable_seqscan = off; SELECT v FROM $t WHERE id = 7", "INSERT INTO $t VALUES (0, '')",
			"UPDATE $t SET v = ''", "DELETE FROM $t WHERE id = 3", "SELECT FROM $t FOR UPDATE", "CREATE INDEX ON $t (v)", "COPY $t TO STDOUT",
			"ALTER TABLE $t SET ACCESS METHOD heap")
		{
			my ($ret, $out, $err) = quiet_sql($node, $sql);
			like($err, qr/ERROR: +XX001: /, "$name: error: $sql");
			like($err, $pattern, "$name: it names the file");
			is($out, '', "$name: no row");
		}
	}
	is($node->safe_psql('postgres', 'INSERT INTO h VALUES (2) RETURNING id'), 2, "$name: heap is usable");
	my $report = $node->safe_psql('postgres', 'SELECT * FROM tsengine.verify()');
	@damaged ? like($report, $pattern, "$name: verify() reports it") : is($report, '', "$name: verify() finds nothing");
	return;
}

# Damaged tables are emptied or dropped, then everything can be used again, and survives.
sub start_again
{
	my ($name, @damaged) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $i (0 .. $#damaged)
	{
		my $t = $damaged[$i];
		$node->safe_psql('postgres', $i % 2 ? "DROP TABLE $t; CREATE TABLE $t (id int PRIMARY KEY, v text) USING tsengine" : "TRUNCATE $t");
		$node->safe_psql('postgres', "INSERT INTO $t VALUES (1, 'new')");
	}
	my %damaged = map { $_ => 1 } @damaged;
	for my $end ('before', 'crash', 'checkpoint', 'stop')
	{
		crash_and_start($node) if $end eq 'crash';
		$node->safe_psql('postgres', 'CHECKPOINT') if $end eq 'checkpoint';
		$node->restart if $end eq 'stop';
		for my $t (@tables)
		{
			is($node->safe_psql('postgres', $damaged{$t} ? "SELECT * FROM $t" : "$digest $t"), $damaged{$t} ? '1|new' : $digest{$t}, "$name, $end: $t");
		}
		# the last image names the damaged file until there is another
		is($node->safe_psql('postgres', 'SELECT * FROM tsengine.verify()'), '', "$name, $end: verify() finds nothing") if $end ne 'before';
	}
	return;
}

sub any_of
{
	my $names = join '|', map { quotemeta basename($_) } @_;
	return qr/$names/;
}

save();
look('undamaged');

# Images, after an orderly stop and with a crash's redo on top
for my $crash (0, 1)
{
	my $with = $crash ? ', then redo' : '';
	if ($crash)
	{
		restore();
		$node->start;
		$node->safe_psql('postgres', "UPDATE $_ SET v = v || '.' WHERE id = 5; INSERT INTO $_ VALUES (-1, 'late')") for @tables;
		$digest{$_} = $node->safe_psql('postgres', "$digest $_") for @tables;
		kill_server($node);
		system_or_bail('rm', '-rf', $saved);
		system_or_bail('cp', '-a', $node->data_dir, $saved);
	}
	restore();
	my %places = map { $_ => { places($_) } } @tables;
	my %first = %{ $places{first} };
	my @alone = grep { !$places{second}{$_} } sort keys %first;
	my @hit = grep { my $t = $_; grep { $places{$t}{$_} } @alone } @tables;
	is(!!@alone, 1, "there is a file of the first table without the second$with");

	flip_bits($_, @{ $first{$_} }) for @alone;
	look("flipped bits$with", any_of(@alone), "first");
	start_again("flipped bits$with", 'first');

	restore();
	flip_bits($_, $first{$_}[ @{ $first{$_} } / 2 ]) for @alone;
	look("one flipped bit in each file$with", any_of(@alone), "first");

	restore();
	truncate $_, $first{$_}[-1] for @alone;
	look("truncated file$with", any_of(@alone), @hit);
	start_again("truncated file$with", @hit);

	restore();
	unlink @alone;
	look("missing file$with", any_of(@alone), @hit);
	start_again("missing file$with", @hit);
}

# What holds for all tables: manifests, the directory, another cluster's files
my $other = new_node('other', "autovacuum = off\n");
$other->safe_psql('postgres', "CREATE TABLE first (id int, v text) USING tsengine; INSERT INTO first VALUES (666, 'of another cluster'); CHECKPOINT");
$other->stop;

my %cases = (
	'damaged manifest' => sub { flip_bits($_, (-s $_) / 2) for files('manifest') },
	'truncated manifest' => sub { truncate $_, (-s $_) - 1 for files('manifest') },
	'empty manifest' => sub { truncate $_, 0 for files('manifest') },
	'missing manifest' => sub { unlink files('manifest') },
	'missing directory' => sub { system_or_bail('rm', '-rf', $dir) },
	'empty directory' => sub { unlink glob "$dir/*" },
	'another cluster' => sub {
		system_or_bail('rm', '-rf', $dir);
		system_or_bail('cp', '-a', $other->data_dir . '/pg_tsengine', $dir);
	});
# Where there is something to replay the server does not start, as what it skipped would be lost; after an
# orderly stop it does, and what does not need the image works.
for my $end ('crash', 'stop')
{
	if ($end eq 'stop')
	{
		restore();
		$node->start;
		$node->safe_psql('postgres', 'CHECKPOINT');
		$node->stop;
		system_or_bail('rm', '-rf', $saved);
		system_or_bail('cp', '-a', $node->data_dir, $saved);
	}
	for my $case (sort keys %cases)
	{
		my $name = "$case, $end";
		my $pattern = $case =~ /directory|missing/ ? qr/pg_tsengine/ : qr/manifest\.\w+/;
		my $fatal = $end eq 'crash' && $case !~ /directory/;

		restore();
		is(scalar(my @files = (files('manifest'), files('image'))) > 2, 1, "$name: there are files");
		$cases{$case}->();
		if ($fatal)
		{
			my $offset = -s $node->logfile // 0;
			ok(!$node->start(fail_ok => 1), "$name: the server does not start");
			like(slurp_file($node->logfile, $offset), qr/FATAL: .*$pattern/, "$name: it names the file");
		}
		else
		{
			look($name, $pattern, @tables);
		}

		# the way out that the hint names; without the directory the tables are already lost one by one
		if ($case !~ /directory/)
		{
			$node->stop if !$fatal;
			rename $dir, "$dir.away" or die "$dir: $!";
			$node->start;
		}
		start_again($name, @tables);
	}
}

$node->stop;
done_testing();
