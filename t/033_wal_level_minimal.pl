# wal_level = minimal: core leaves indexes and heap made in the same transaction out of the WAL and
# syncs their files instead. Rows of tsengine tables are logged at every level.

use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Utils;
use lib 't';
use TsEngine;
use Test::More;

my $node = new_node('minimal', "wal_level = minimal\nmax_wal_senders = 0\nautovacuum = off\n");

$node->safe_psql('postgres', <<END);
SET default_table_access_method = $AM;
BEGIN;
CREATE TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t SELECT g, 'x' || g FROM generate_series(1, 5000) g;
CREATE INDEX ON t (b);
SAVEPOINT s;
INSERT INTO t VALUES (-1, 'gone');
ROLLBACK TO s;
COMMIT;
CREATE TABLE big AS SELECT g AS a FROM generate_series(1, 100000) g;
ALTER TABLE t ALTER a TYPE bigint;
BEGIN;
TRUNCATE big;
INSERT INTO big VALUES (7);
COMMIT;
BEGIN;
CREATE TABLE gone (a int);
INSERT INTO gone VALUES (1);
ROLLBACK;
END

for my $round (1 .. 2)
{
	crash_and_start($node);
	is($node->safe_psql('postgres', 'SELECT count(*), sum(a), min(a) FROM t'), '5000|12502500|1', "rows, crash $round");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT a FROM t WHERE b = 'x77'"), 77, 'by index');
	is($node->safe_psql('postgres', 'SELECT * FROM big'), 7, 'a table truncated and filled again');
	$node->safe_psql('postgres', 'CHECKPOINT');
}

# An idle checkpoint: core writes nothing between its redo pointer and its record here. But a crash must find
# something to replay, or the image would not be brought up to the checkpoint at the end of recovery.
$node->safe_psql('postgres', 'CHECKPOINT');
my $offset = -s $node->logfile;
crash_and_start($node);
my $log = slurp_file($node->logfile, $offset);
like($log, qr/redo starts at/, 'there is something to replay after an idle checkpoint');
unlike($log, qr/redo is not required/, 'so redo is not skipped');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 5000, 'rows after that');
$node->stop;
done_testing();
