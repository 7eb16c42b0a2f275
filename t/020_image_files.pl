# Files of the checkpoint image: streams come back as they were written, damage is told by name, no
# fault leaves a file that looks good but is not, and nothing stays open. With each way of doing I/O.

use strict;
use warnings FATAL => 'all';

use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TsEngine;

plan skip_all => 'about tsengine alone' if !on_tsengine();

my $node = new_node('image', "autovacuum = off\n");
my ($ret) = quiet_sql($node, <<'END');
CREATE FUNCTION image_method() RETURNS text AS 'tsengine', 'tsengine_image_method' LANGUAGE C;
CREATE FUNCTION image_write(int, int, int) RETURNS bigint AS 'tsengine', 'tsengine_image_write' LANGUAGE C;
CREATE FUNCTION image_read(int, int, int, int, bool) RETURNS int AS 'tsengine', 'tsengine_image_read' LANGUAGE C;
CREATE FUNCTION image_verify(int, int, bool DEFAULT false) RETURNS text AS 'tsengine', 'tsengine_image_verify' LANGUAGE C;
CREATE FUNCTION image_remove(int, bigint) RETURNS void AS 'tsengine', 'tsengine_image_remove' LANGUAGE C;
CREATE FUNCTION image_reserve(bigint) RETURNS void AS 'tsengine', 'tsengine_image_reserve' LANGUAGE C;
CREATE FUNCTION image_speed(int, int, bool) RETURNS float8 AS 'tsengine', 'tsengine_image_speed' LANGUAGE C;
CREATE FUNCTION durable_write(text, text) RETURNS void AS 'tsengine', 'tsengine_durable_write' LANGUAGE C;
END
plan skip_all => 'not a test build' if $ret != 0;

my $PAGE = 65536;
my $PIECES = 100;
my $dir = $node->data_dir . '/pg_tsengine';
my $last_file = 0;
my $s;

sub image_name { return sprintf('pg_tsengine/image.%08X', $_[0]); }
sub image_path { return $node->data_dir . '/' . image_name($_[0]); }
sub pages { return (-s image_path($_[0])) / $PAGE; }

# What the session has open of ours.
sub open_files
{
	my @links = map { readlink($_) // () } glob '/proc/' . ask($s, 'SELECT pg_backend_pid()') . '/fd/*';
	die if !@links;
	return join ' ', sort grep { /pg_tsengine|io_uring/ } @links;
}

sub fault { ask($s, "SET tsengine.fault = '$_[0]'"); return; }
sub error_of { my ($out, $err) = try_ask($s, $_[0]); return $err; }
sub files { return join ' ', sort map { s|.*/||r } glob "$dir/*"; }

# Writes a new file of the stream and returns its number.
sub write_image
{
	my ($seed) = @_;
	ask($s, 'SELECT image_write(' . ++$last_file . ", $PIECES, $seed)");
	return $last_file;
}

sub verify
{
	my ($file, $pages) = @_;
	return ask($s, "SELECT image_verify($file, " . ($pages // pages($file)) . ')');
}

sub empty_directory
{
	unlink glob "$dir/*";
	return;
}

# Changes a file's bytes at an offset through a function.
sub alter_bytes
{
	my ($file, $offset, $len, $change) = @_;
	open my $f, '+<:raw', image_path($file) or die $!;
	seek $f, $offset, 0;
	read($f, my $bytes, $len);
	seek $f, $offset, 0;
	print $f $change->($bytes);
	close $f;
	return;
}

# CRC-32C, to make pages that are wrong in nothing but what we want.
my @crc_table = map {
	my $c = $_;
	$c = $c & 1 ? ($c >> 1) ^ 0x82F63B78 : $c >> 1 for 1 .. 8;
	$c
} 0 .. 255;

sub with_crc
{
	my ($page) = @_;
	my $crc = 0xFFFFFFFF;
	$crc = $crc_table[($crc ^ $_) & 0xFF] ^ ($crc >> 8) for unpack 'C*', substr $page, 4;
	return pack('V', $crc ^ 0xFFFFFFFF) . substr $page, 4;
}

sub test_streams
{
	my $file = write_image(1);
	is(verify($file), '', 'a file that was written is good');
	is((stat image_path($file))[2] & 07777, 0600, 'it is private');
	ok(pages($file) > 3 * 16, 'it has more than a few batches');
	is(ask($s, "SELECT image_read($file, $PIECES, 1, 1, false)"), $PIECES, 'read in order');
	is(ask($s, "SELECT image_read($file, $PIECES, 1, 7, false)"), int(($PIECES + 6) / 7), 'with skips');
	is(ask($s, "SELECT image_read($file, $PIECES, 1, 40, false)"), 3, 'with large skips');
	is(ask($s, "SELECT image_read($file, $PIECES, 1, 1, true)"), $PIECES, 'each piece alone');
	like(error_of("SELECT image_read($file, $PIECES, 2, 1, false)"), qr/piece \d+ differs|ends in page|goes on behind/,
		'another stream is not taken for it');

	fault('write:1:short,write:2:EINTR,write:4:short,write:5:short');
	my $twin = write_image(1);
	fault('');
	is(ask($s, "SELECT image_read($twin, $PIECES, 1, 1, false)"), $PIECES, 'short writes are completed');
	fault('read:1:short,read:2:EINTR,read:4:short,read:5:short');
	is(ask($s, "SELECT image_read($twin, $PIECES, 1, 1, false)"), $PIECES, 'and short reads');

	# a range is read up to its last page, a small one at once
	fault('read:2+:EIO');
	is(ask($s, "SELECT image_read($file, 3, 1, 3, true)"), 1, 'a small piece costs one read');
	fault('');
	truncate image_path($file), $PAGE * 2;
	is(ask($s, "SELECT image_read($file, 3, 1, 1, false)"), 3, 'nothing is read behind the range');
	is(write_image(3), $last_file, 'files differ by number');
	is(verify($last_file - 1), '', 'an older one is still good');
	return;
}

sub test_damage
{
	my $other = write_image(4);
	my $check = sub {
		my ($name, $pattern, $change, $state) = @_;
		my $file = write_image(5);
		my $pages = pages($file);
		$change->($file);
		my $path = image_name($file);
		like(verify($file, $pages), qr/\Q$path\E.*$pattern|$pattern.*\Q$path\E/, "$name: found");
		ask($s, '\set VERBOSITY verbose');
		like(error_of("SELECT image_read($file, $PIECES, 5, 1, false)"),
			qr/$state.*(\Q$path\E.*$pattern|$pattern.*\Q$path\E)/, "$name: not served") if defined $state;
		unlink image_path($file);
	};
	$check->('flipped bit', 'wrong checksum', sub {
		alter_bytes($_[0], 17 * $PAGE + 12345, 1, sub { $_[0] ^ "\x10" }) }, 'XX001');
	$check->('flipped bit of a checksum', 'wrong checksum', sub {
		alter_bytes($_[0], 3 * $PAGE, 1, sub { $_[0] ^ "\x01" }) }, 'XX001');
	$check->('truncated', 'bytes instead of|is truncated', sub {
		truncate image_path($_[0]), 18 * $PAGE }, 'XX001');
	$check->('truncated within a page', 'bytes instead of|is truncated', sub {
		truncate image_path($_[0]), 18 * $PAGE + 5000 }, 'XX001');
	$check->('missing', 'No such file', sub { unlink image_path($_[0]) }, 'XX001');
	$check->('one page more', 'bytes instead of', sub {
		truncate image_path($_[0]), (pages($_[0]) + 1) * $PAGE });
	$check->('another file', 'belongs to file', sub {
		my $path = image_path($_[0]);
		my $bytes = -s $path;
		copy(image_path($other), $path) or die $!;
		truncate $path, $bytes }, 'XX001');
	$check->('two pages exchanged', 'it is page', sub {
		my ($file) = @_;
		my ($a, $b);
		alter_bytes($file, 4 * $PAGE, $PAGE, sub { $a = $_[0] });
		alter_bytes($file, 5 * $PAGE, $PAGE, sub { $b = $_[0]; $a });
		alter_bytes($file, 4 * $PAGE, $PAGE, sub { $b }) }, 'XX001');
	$check->('not a page', 'wrong magic', sub {
		alter_bytes($_[0], 0, $PAGE, sub { with_crc($_[0] =~ s/^.{8}/\0\0\0\0JUNK/sr) }) }, 'XX001');
	$check->('newer format', 'format version 2', sub {
		alter_bytes($_[0], 0, $PAGE, sub { substr($_[0], 8, 4) = pack 'V', 2; with_crc($_[0]) }) }, '0A000');
	$check->('length beyond the page', 'wrong length', sub {
		alter_bytes($_[0], 0, $PAGE, sub { substr($_[0], 28, 4) = pack 'V', 65535; with_crc($_[0]) }) }, 'XX001');
	$check->('a page in the middle that ends early', 'ends', sub {
		alter_bytes($_[0], 0, $PAGE, sub { substr($_[0], 28, 4) = pack 'V', 100; with_crc($_[0]) }) }, 'XX001');
	like(ask($s, "SELECT image_verify($other, " . pages($other) . ', true)'),
		qr/belongs to the database system/, 'another system: found');
	like(error_of('SELECT image_write(' . $other . ", $PIECES, 5)"), qr/exists already/,
		'a file is not written twice');
	is(verify($other), '', 'and stays as it was');
	return;
}

# Writes a file while operation number N fails, for N = 1 up to the first that nobody noticed.
sub test_write_faults
{
	my ($operation, $error) = @_;
	for (my $n = 1;; $n++)
	{
		my $file = ++$last_file;
		# a file to reuse, so that there is a rename
		ask($s, 'SELECT image_remove(' . write_image(6) . ', 1)');
		fault("$operation:$n:$error");
		my $err = error_of("SELECT image_write($file, $PIECES, 7)");
		fault('');
		if ($err eq '')
		{
			cmp_ok($n, '>', 1, "$operation faults were met");
			is(verify($file), '', "without one the file is good");
			last;
		}
		like($err, qr/could not .*pg_tsengine/, "$operation $n fails");
		ok(!-e image_path($file), 'and leaves no file');
		empty_directory();
		die if $n > 1000;
	}
	empty_directory();
	return;
}

# The same, and the incomplete file cannot be removed either.
sub test_incomplete_file
{
	my ($reuse) = @_;
	my $old = write_image(8);
	my $pages = pages($old);
	ask($s, "SELECT image_remove($old, " . ($reuse ? 1 : 0) . ')');
	my $file = ++$last_file;
	fault('write:3:EIO,unlink:1:EIO');
	like(error_of("SELECT image_write($file, $PIECES, 8)"), qr/could not write file/, 'a write fails');
	fault('');
	is(-e image_path($file), 1, 'the file cannot be removed');
	truncate image_path($file), $pages * $PAGE;
	like(verify($file, $pages), qr/wrong checksum|belongs to file/,
		$reuse ? 'old pages in it are not taken for its own' : 'it is not taken for complete');
	empty_directory();
	return;
}

sub test_durable_write
{
	my $path = 'pg_tsengine/manifest';
	for my $operation (qw(open write fsync rename))
	{
		for (my $n = 1;; $n++)
		{
			ask($s, "SELECT durable_write('$path', 'old')");
			fault("$operation:$n:EIO");
			my $err = error_of("SELECT durable_write('$path', repeat('new', 100000))");
			fault('');
			my $found = slurp_file($node->data_dir . "/$path");
			is(files(), 'manifest', 'nothing beside the manifest');
			if ($err eq '')
			{
				cmp_ok($n, '>', 1, "durable write: $operation faults were met");
				is($found, 'new' x 100000, 'new contents');
				last;
			}
			like($err, qr/could not .*pg_tsengine/, "durable write: $operation $n fails");
			ok($found eq 'old' || $found eq 'new' x 100000, 'old or new contents');
			is($found, 'old', 'the old ones when that failed') if $operation eq 'write';
		}
	}
	fault('write:1:short,write:2:EINTR');
	ask($s, "SELECT durable_write('$path', 'abcdefghi')");
	is(slurp_file($node->data_dir . "/$path"), 'abcdefghi', 'durable write: short writes are completed');
	fault('');
	empty_directory();
	return;
}

sub test_recycling
{
	my $old = write_image(9);
	my $inode = (stat image_path($old))[1];
	my $name = sprintf 'recycle.%08X', $old;
	ask($s, "SELECT image_remove($old, 1)");
	is(files(), $name, 'a removed file is kept for reuse');
	my $new = ++$last_file;
	ask($s, "SELECT image_write($new, 5, 9)");
	is((stat image_path($new))[1], $inode, 'a new file takes its place');
	is(files(), image_name($new) =~ s|.*/||r, 'the old name is gone');
	is(verify($new), '', 'it is good, and as short as it should be');
	is(ask($s, "SELECT image_read($new, 5, 9, 1, false)"), 5, 'and reads well');
	my $second = write_image(10);
	ask($s, "SELECT image_remove($new, 1), image_remove($second, 1), image_remove($second, 0)");
	is(files(), sprintf('recycle.%08X', $new), 'no more are kept than the limit says');
	empty_directory();
	return;
}

sub test_full_disk
{
	ask($s, 'SELECT image_reserve(3000000)');
	my @stat = stat "$dir/reserve";
	ok($stat[7] >= 3000000 && $stat[12] * 512 >= 3000000, 'space is reserved');
	my $log = -s $node->logfile;
	ask($s, 'SELECT image_reserve(1::bigint << 60)');
	like(slurp_file($node->logfile, $log), qr/LOG:.*could not reserve/, 'not being able to is logged');
	is(-s "$dir/reserve", $stat[7], 'what was reserved stays');

	# a file that cannot be created becomes the reserve, one that cannot grow uses it up
	for my $fault ('open:1:ENOSPC', 'write:2:ENOSPC', 'write:2:ENOSPC,write:4:ENOSPC')
	{
		ask($s, 'SELECT image_reserve(3000000)');
		fault($fault);
		my $file = write_image(11);
		fault('');
		is(files(), image_name($file) =~ s|.*/||r, "$fault: the reserve is used up");
		is(verify($file), '', 'and the file is good');
		empty_directory();
	}
	ask($s, '\set VERBOSITY verbose');
	for my $fault ('open:1+:ENOSPC', 'write:2+:ENOSPC')
	{
		ask($s, 'SELECT image_reserve(3000000)');
		fault($fault);
		like(error_of('SELECT image_write(' . ++$last_file . ", $PIECES, 11)"),
			qr/53100: could not (create|write) file/, "$fault: an error in the end");
		fault('');
		is(files(), '', 'that leaves nothing');
	}
	# what was allocated ahead of the stream must not keep the space from it
	my $file = ++$last_file;
	fault('write:1+:ENOSPC,unlink:1+:EIO');
	error_of("SELECT image_write($file, $PIECES, 11)");
	fault('');
	cmp_ok(-s image_path($file), '<=', 8 * 16 * $PAGE, 'nothing stays allocated ahead when the disk is full');
	empty_directory();

	# what is kept for reuse goes before the reserve
	my $old = write_image(12);
	ask($s, 'SELECT image_reserve(1000000)');
	fault('write:1:ENOSPC');
	rename image_path($old), "$dir/recycle.00000001";
	ask($s, "SELECT durable_write('pg_tsengine/manifest', 'x')");
	fault('');
	is(files(), 'manifest reserve', 'a file kept for reuse makes room before the reserve');
	empty_directory();
	return;
}

sub test_cancel
{
	ask($s, "SET statement_timeout = '300ms'");
	like(error_of('SELECT image_write(' . ++$last_file . ', 100000, 13)'), qr/statement timeout/, 'a writer can be cancelled');
	is(files(), '', 'and leaves no file');
	ask($s, 'RESET statement_timeout');
	return;
}

sub test_method
{
	my ($method) = @_;
	$s = session($node);
	write_image(1);				# opens what stays open
	my $before = open_files();
	is($before, $method eq 'sync' ? '' : 'anon_inode:[io_uring]', 'a session has a ring open if it uses io_uring, and no file');
	empty_directory();

	test_streams();
	test_damage();
	empty_directory();
	test_write_faults($_, 'EIO') for qw(open write truncate fsync rename);
	test_incomplete_file($_) for (0, 1);
	test_durable_write();
	test_recycling();
	test_full_disk();
	test_cancel();
	is(open_files(), $before, 'nothing else stays open in the end');
	$s->quit;
	return;
}

my $method = $node->safe_psql('postgres', 'SELECT image_method()');
note("auto is $method");
subtest $method => \&test_method, $method;
if ($method ne 'sync')
{
	$node->append_conf('postgresql.conf', "tsengine.io_method = sync\n");
	$node->restart;
	is($node->safe_psql('postgres', 'SELECT image_method()'), 'sync', 'the setting counts');
	subtest sync => \&test_method, 'sync';
}
like((quiet_sql($node, "SET tsengine.fault = 'write:0:EIO'"))[2], qr/22023/, 'a wrong fault is refused');
$node->stop;
done_testing();
