# A checkpoint's image meets commits at each step, and commits meet an image at each step; then the server
# dies, at once or when the checkpoint is complete, and everything is as in heap tables (PITFALLS 23, 37,
# 40).

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('windows', "autovacuum = off\njit = off\nmax_wal_size = 1GB\nsynchronous_commit = on\n");
plan skip_all => 'not a test build' if !use_stop_points($node);

# The same tables in both schemas, a with tsengine and h with heap
my %am = (a => 'tsengine', h => 'heap');
my @tables = qw(t plain made emptied);

# Rows are not too small: an image file that is not half full is soon written anew as a whole.
sub make_tables
{
	$node->safe_psql('postgres', join "\n", map { <<END } sort keys %am);
DROP SCHEMA IF EXISTS $_ CASCADE; CREATE SCHEMA $_; SET search_path = $_; SET default_table_access_method = $am{$_};
CREATE TABLE t (id int PRIMARY KEY, v text, filler text DEFAULT repeat('f', 250));
CREATE TABLE plain (id int, v text, filler text DEFAULT repeat('f', 250));
CREATE TABLE emptied (id int, v text);
CREATE TABLE dropped (id int, v text);
INSERT INTO t SELECT g, 'old' FROM generate_series(1, 1000) g;
INSERT INTO plain SELECT g, 'old' FROM generate_series(1, 1000) g;
INSERT INTO emptied SELECT g, 'old' FROM generate_series(1, 1000) g;
INSERT INTO dropped VALUES (1, 'old');
END
	return;
}

# A table that is not there counts as such.
sub contents
{
	my ($schema) = @_;
	return $node->safe_psql('postgres', join ';', map { <<END } @tables, 'dropped');
SELECT to_regclass('$schema.$_') IS NOT NULL AS found \\gset
\\if :found
SELECT '$_', count(*), sum(id), md5(string_agg(id || v, ',' ORDER BY id, v)) FROM $schema.$_;
\\endif
END
}

sub as_heap
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(contents('a'), contents('h'), $name);
	return is(index_differs($node, 'a.t', 't_pkey', 'id', 'id > 0'), '', "$name: index");
}

# A transaction in one schema or, with a heap table as its witness, in both
sub in_schema
{
	my ($schema, $sql) = @_;
	return "SET search_path = $schema; SET default_table_access_method = $am{$schema}; $sql";
}

sub in_both
{
	my ($sql) = @_;
	return 'BEGIN;' . join(';', map { in_schema($_, $sql) } sort keys %am) . ';COMMIT';
}

my ($writer, $checker, @open);

sub begin_round
{
	make_tables();
	$node->safe_psql('postgres', 'CHECKPOINT');
	($writer, $checker, @open) = map { session($node) } 1 .. 5;
	return;
}

sub crash
{
	crash_and_start($node);
	eval { $_->quit } for $writer, $checker, @open;
	return;
}

sub checkpoint_done
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is((wait_query($checker))[1], '', "$name: the checkpoint completes");
}

# What a writer does that is stopped
my $change = "UPDATE t SET v = 'new' WHERE id <= 100; DELETE FROM plain WHERE id <= 50; DELETE FROM t WHERE id = 7; INSERT INTO plain VALUES (2000, 'new'); INSERT INTO t SELECT g, 'new' FROM generate_series(2000, 2300) g";
my $pure = "INSERT INTO plain VALUES (3000, 'new'); SAVEPOINT s; UPDATE t SET v = 'undone' WHERE id < 190; DELETE FROM plain WHERE id < 190; ROLLBACK TO s; SAVEPOINT s; UPDATE t SET v = 'new' WHERE id <= 100; DELETE FROM plain WHERE id <= 50; RELEASE s; UPDATE t SET v = 'newer' WHERE id < 10";
my $with_savepoints = "INSERT INTO t VALUES (3000, 'new'); SAVEPOINT s; UPDATE t SET v = 'undone' WHERE id < 190; DELETE FROM plain WHERE id < 190; ROLLBACK TO s; SAVEPOINT s; $change; RELEASE s; UPDATE t SET v = 'newer' WHERE id < 10";
my $large = "INSERT INTO plain SELECT g, repeat('x', 1000) FROM generate_series(10000, 13000) g";

# ---- an image while a commit is under way ----

# Between its record and its effect in memory the image waits; elsewhere it does not.
my @commits = (
	[ 'PURE_ENDED', 0, 0 ], [ 'PREPARING', 0, 1 ], [ 'CSN_TAKEN', 0, 1 ], [ 'COMMITTED', 0, 1 ], [ 'BEFORE_FLUSH', 0, 0 ],
	[ 'LOGGED', 1, 1 ], [ 'MIXED_ENDED', 1, 0 ], [ 'COMMITTED', 1, 1 ]);
for my $commit (@commits)
{
	my ($point, $mixed, $waits) = @$commit;
	my $sql = $mixed ? in_both("$with_savepoints; $large") : 'BEGIN;' . in_schema('a', $pure) . '; COMMIT';
	for my $end ('at once', 'acknowledged')
	{
		my $name = ($mixed ? 'mixed' : 'pure') . " commit at $point, crash " . ($end eq 'at once' ? $end : "when $end");
		begin_round();
		stop_session($node, $writer, $point, $sql);
		send_query($checker, 'CHECKPOINT');
		if ($waits)
		{
			ok(held_up($checker), "$name: the checkpoint waits");
		}
		else
		{
			checkpoint_done($name);
		}
		if ($end eq 'acknowledged')
		{
			disarm($node, $point);
			is((wait_query($writer))[1], '', "$name: the writer has committed");
			checkpoint_done($name) if $waits;
		}
		crash();
		# a pure commit has its twin only if it happened, in whole
		my $happened = $node->safe_psql('postgres', "SELECT count(*) FROM a.t WHERE v = 'newer'") > 0;
		ok($happened, "$name: it is there") if $end eq 'acknowledged' || $point =~ /MIXED_ENDED/ || $mixed && $point eq 'COMMITTED';
		ok(!$happened, "$name: it is not there") if $end eq 'at once' && $point =~ /PURE_ENDED|PREPARING|CSN_TAKEN|LOGGED/;
		$node->safe_psql('postgres', 'BEGIN;' . in_schema('h', $pure) . '; COMMIT') if !$mixed && $happened;
		as_heap($name);
	}
}

# The first to touch a heap table, or to have an xid for other reasons, may be a trigger at the very end:
# still, all commits together or not at all (PITFALLS 40).
$node->safe_psql('postgres', <<'END');
CREATE TABLE told (id int) USING tsengine;
CREATE TABLE heard (id int) USING heap;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify('ch', NEW.id::text);
	INSERT INTO heard VALUES (NEW.id);
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER tell AFTER INSERT ON told DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell();
END
my $count = "SELECT (SELECT count(*) FROM told), (SELECT count(*) FROM heard)";
for my $case ([ 'LOGGED', '0|0' ], [ 'MIXED_ENDED', '1|1' ])
{
	my ($point, $found) = @$case;
	begin_round();
	stop_session($node, $writer, $point, 'INSERT INTO told VALUES (1)');
	crash();
	is($node->safe_psql('postgres', $count), $found, "deferred trigger, crash at $point: all or nothing");
}

# ---- commits while an image is written ----

my @ends = ('at once', 'after the checkpoint', 'after another checkpoint');
for my $point ('IMAGE_LSN', 'IMAGE_SCAN', 'IMAGE_TABLE', 'IMAGE_MANIFEST', 'IMAGE_DONE')
{
	for my $end (@ends)
	{
		my $name = "image at $point, crash $end";
		begin_round();
		# so that the image has every block to write
		$node->safe_psql('postgres', in_both("UPDATE plain SET v = 'before' WHERE id % 7 = 0; UPDATE t SET v = 'before' WHERE id % 7 = 0"));

		# begun before, and logged in part: one commits meanwhile, one is rolled back, one stays open
		my @ids = ([ 5000, 200 ], [ 6000, 300 ], [ 7000, 400 ]);
		for my $i (0 .. 2)
		{
			my ($key, $old) = @{ $ids[$i] };
			ask($open[$i], 'BEGIN;' . join ';', map { in_schema($_, "INSERT INTO t SELECT g, repeat('y', 4000) FROM generate_series($key, $key + 600) g; UPDATE t SET v = 'open' WHERE id BETWEEN $old AND $old + 50; SAVEPOINT s; DELETE FROM plain WHERE id = $old; RELEASE s") } sort keys %am);
		}
		stop_session($node, $checker, $point, 'CHECKPOINT');
		ask($open[0], 'COMMIT');
		ask($open[1], 'ROLLBACK');

		# pure, twice the same rows
		for my $schema (sort keys %am)
		{
			ask($writer, in_schema($schema, "BEGIN; $pure; COMMIT; BEGIN; $with_savepoints; COMMIT; UPDATE t SET v = 'last' WHERE id <= 20; DELETE FROM t WHERE id BETWEEN 15 AND 25; INSERT INTO t VALUES (7, 'again')"));
		}
		# mixed, large, prepared
		ask($writer, in_both("$large; UPDATE t SET v = 'mixed' WHERE id BETWEEN 100 AND 150; DELETE FROM t WHERE id = 110"));
		ask($writer, in_both("UPDATE t SET v = 'twice' WHERE id BETWEEN 100 AND 105"));
		my %prepared = (kept => 500, committed => 600, undone => 700);
		for my $gid (sort keys %prepared)
		{
			ask($writer, in_both("UPDATE t SET v = 'prepared' WHERE id = $prepared{$gid}; INSERT INTO plain VALUES ($prepared{$gid}, 'prepared')") =~ s/COMMIT$/PREPARE TRANSACTION '$gid'/r);
		}
		ask($writer, "COMMIT PREPARED 'committed'");
		ask($writer, "ROLLBACK PREPARED 'undone'");
		# tables
		ask($writer, in_both("CREATE TABLE made AS SELECT g AS id, 'made' AS v FROM generate_series(1, 600) g; DROP TABLE dropped; TRUNCATE emptied; INSERT INTO emptied VALUES (1, 'new')"));
		ask($writer, in_both("UPDATE made SET v = 'changed' WHERE id < 300"));

		ok(is_waiting($checker), "$name: meanwhile the checkpoint waits");
		if ($end ne 'at once')
		{
			disarm($node, $point);
			checkpoint_done($name);
			$node->safe_psql('postgres', 'CHECKPOINT') if $end =~ /another/;
		}
		crash();
		as_heap($name);
		$node->safe_psql('postgres', "COMMIT PREPARED 'kept'");
		as_heap("$name: prepared transaction committed");
	}
}

# What was changed behind the image's back goes into the next one. Nothing else is in these images: else the
# file of the first would be half empty by then, and rewritten as a whole.
for my $point ('IMAGE_TABLE', 'IMAGE_MANIFEST', 'IMAGE_DONE')
{
	begin_round();
	$node->safe_psql('postgres', in_both("UPDATE plain SET v = 'before' WHERE id % 7 = 0; UPDATE t SET v = 'before' WHERE id % 7 = 0"));
	stop_session($node, $checker, $point, 'CHECKPOINT');
	ask($writer, in_schema($_, "BEGIN; $pure; COMMIT")) for sort keys %am;
	disarm($node, $point);
	checkpoint_done("changes at $point");
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash();
	as_heap("changes at $point, crash after the next checkpoint");
}

$node->stop;
done_testing();
