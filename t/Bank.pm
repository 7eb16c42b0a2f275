# A bank for crash tests: accounts, a journal of all transfers, receipts with a primary key, and a heap
# table (twin). Each transfer changes two accounts and writes a journal row and, some of them, a receipt,
# a twin row or both. So whatever survives must agree: an account's balance and its number of transfers
# follow from the journal, receipts and twin rows are there exactly when the journal says so.
#
# Clients are psql processes that run scripts made in advance and write what the server answered to a
# file: a transaction counts as acknowledged when COMMIT has come back, and as undone after ROLLBACK.

package Bank;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Utils;
use TsEngine;

our @EXPORT = qw(bank_create bank_reset bank_start bank_finish bank_errors);

my $ACCOUNTS = 100;
my $BALANCE = 1000;

# bank_create(NODE): the tables, and what bank_errors has to know.
sub bank_create
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<END);
CREATE TABLE account (id int PRIMARY KEY, balance bigint, transfers int, mark int) USING $AM;
CREATE INDEX account_mark ON account (mark);
CREATE TABLE journal (client int, seq int, src int, dst int, amount int, receipt bool, twin bool) USING $AM;
CREATE INDEX journal_key ON journal (client, seq); -- not unique: a transaction with one has an xid
CREATE TABLE receipt (LIKE journal, PRIMARY KEY (client, seq)) USING $AM;
CREATE TABLE twin (LIKE journal, PRIMARY KEY (client, seq)) USING heap;
INSERT INTO account SELECT g, $BALANCE, 0, 0 FROM generate_series(1, $ACCOUNTS) g;

CREATE FUNCTION pay(account int, amount int) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	UPDATE account SET balance = balance + pay.amount, transfers = transfers + 1 WHERE id = pay.account;
	IF NOT FOUND THEN RAISE 'account % is closed', account; END IF;
END \$\$;

CREATE FUNCTION transfer(client int, seq int, src int, dst int, amount int, receipt bool, twin bool)
RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	IF src < dst THEN
		PERFORM pay(src, -amount), pay(dst, amount);
	ELSE
		PERFORM pay(dst, amount), pay(src, -amount);
	END IF;
	INSERT INTO journal VALUES (client, seq, src, dst, amount, receipt, twin);
	IF receipt THEN INSERT INTO receipt VALUES (client, seq, src, dst, amount, receipt, twin); END IF;
	IF twin THEN INSERT INTO twin VALUES (client, seq, src, dst, amount, receipt, twin); END IF;
END \$\$;

CREATE FUNCTION reopen(account int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE a record;
BEGIN
	DELETE FROM account WHERE id = reopen.account RETURNING * INTO a;
	IF NOT FOUND THEN RAISE 'account % is closed', account; END IF;
	INSERT INTO account VALUES (a.id, a.balance, a.transfers, a.mark);
END \$\$;
END
	return { node => $node, seq => 0, acked => {}, undone => {}, clients => [] };
}

# Empties journal, receipts and twin.
sub bank_reset
{
	my ($bank) = @_;
	$bank->{node}->safe_psql('postgres',
		"BEGIN; TRUNCATE journal, receipt, twin; UPDATE account SET balance = $BALANCE, transfers = 0; COMMIT");
	$bank->{$_} = {} for qw(acked undone);
	return;
}

# The text of one transaction. Negative numbers are for transfers that are always rolled back.
sub transaction
{
	my ($client, $seq) = @_;
	my $transfer = sub {
		my $src = 1 + int rand $ACCOUNTS;
		my $dst = 1 + ($src + int rand($ACCOUNTS - 1)) % $ACCOUNTS;
		my ($receipt, $twin) = map { rand() < 0.3 ? 'true' : 'false' } 1 .. 2;
		return sprintf "SELECT transfer(%d, %d, %d, %d, %d, %s, %s);\n", $client, $_[0], $src, $dst, rand 100, $receipt, $twin;
	};
	my $account = 1 + int rand $ACCOUNTS;

	my $sql = "BEGIN;\n";
	$sql .= "SAVEPOINT s;\n" . $transfer->(-$seq) . "ROLLBACK TO s;\n" if rand() < 0.3;
	$sql .= $transfer->($seq);
	$sql .= "SAVEPOINT s;\nUPDATE account SET mark = mark + 1 WHERE id = $account;\nRELEASE s;\n" if rand() < 0.2;
	$sql .= "SELECT reopen($account);\n" if rand() < 0.05;
	$sql .= rand() < 0.05 ? "ROLLBACK;\n" : "COMMIT;\n";
	return "$sql\\echo ended $seq\n";
}

sub start_client
{
	my ($bank, $name, $script, %about) = @_;
	my $node = $bank->{node};
	my $base = $node->basedir . "/bank-$name";

	append_to_file("$base.sql", '');
	open my $f, '>', "$base.sql" or die "$base.sql: $!";
	print $f $script;
	close $f;
	my @cmd = ('psql', '-XAt', '-h', $node->host, '-p', $node->port, '-f', "$base.sql", 'postgres');
	my $run = IPC::Run::start(\@cmd, '<', \undef, '>', "$base.out", '2>', "$base.err");
	push @{ $bank->{clients} }, { run => $run, name => $name, out => "$base.out", err => "$base.err", %about };
	return;
}

# bank_start(BANK, transactions => number, background => bool): four clients, two more that commit
# asynchronously, two that only read, and in the background CHECKPOINT and VACUUM all the time.
sub bank_start
{
	my ($bank, %params) = @_;
	my $first = $bank->{seq} + 1;
	$bank->{seq} += $params{transactions};

	for my $client (1 .. 6)
	{
		my $script = $client > 4 ? "SET synchronous_commit = off;\n" : '';
		$script .= transaction($client, $_) for $first .. $bank->{seq};
		start_client($bank, "client$client", $script, client => $client, durable => $client <= 4);
	}
	for my $reader (1 .. 2)
	{
		my $script = '';
		for (1 .. $params{transactions})
		{
			my $client = 1 + int rand 4;
			$script .= "SELECT 'saw', $client, max(seq) FROM journal WHERE client = $client;\n";
		}
		start_client($bank, "reader$reader", $script);
	}
	return if !$params{background};
	start_client($bank, 'checkpoint', "CHECKPOINT;\nSELECT pg_sleep(random() * 0.1);\n" x 1000);
	start_client($bank, 'vacuum', "VACUUM account, journal, receipt, twin;\nSELECT pg_sleep(random() * 0.1);\n" x 1000);
	return;
}

# Waits for all clients and notes what they were told. Returns the number of acknowledged commits.
sub bank_finish
{
	my ($bank) = @_;
	my $count = 0;

	for my $c (@{ $bank->{clients} })
	{
		$c->{run}->finish;
		my $errors = slurp_file($c->{err});
		my @strange = grep { /ERROR|PANIC/ && !/deadlock detected|is closed|transaction is aborted|terminating connection/ } split /\n/, $errors;
		die "$c->{name}: $strange[0]" if @strange;

		my $tag = '';
		for my $line (split /\n/, slurp_file($c->{out}))
		{
			if ($line =~ /^saw\|(\d+)\|(\d+)$/) { $bank->{acked}{"$1 $2"} = 1; }
			elsif ($line !~ /^ended (\d+)$/) { $tag = $line; }
			elsif ($tag eq 'ROLLBACK') { $bank->{undone}{"$c->{client} $1"} = 1; }
			elsif ($tag eq 'COMMIT')
			{
				$bank->{acked}{"$c->{client} $1"} = 1 if $c->{durable};
				$count++;
			}
			else { die "$c->{name}: unexpected answer before transaction $1: $tag"; }
		}
	}
	$bank->{clients} = [];
	return $count;
}

sub copy_of
{
	my ($name, $keys) = @_;
	return "CREATE TEMP TABLE $name (client int, seq int);\nCOPY $name FROM stdin (DELIMITER ' ');\n"
	  . join('', map { "$_\n" } keys %$keys) . "\\.\nANALYZE $name;\n";
}

# bank_errors(BANK): what is wrong, one line each; nothing when all is well.
sub bank_errors
{
	my ($bank) = @_;
	my $node = $bank->{node};

	my $sql = "SET default_table_access_method = heap; SET work_mem = '64MB'; SET client_min_messages = warning;\n"
	  . copy_of('acked', $bank->{acked}) . copy_of('undone', $bank->{undone}) . <<END;
SELECT 'sum of balances', sum(balance) FROM account HAVING sum(balance) IS DISTINCT FROM $BALANCE * $ACCOUNTS;
SELECT 'account and journal', a.id, a.balance, a.transfers, j.effect, j.transfers
FROM account a FULL JOIN (
	SELECT id, sum(amount) AS effect, count(*) AS transfers
	FROM (SELECT src AS id, -amount AS amount FROM journal UNION ALL SELECT dst, amount FROM journal) x GROUP BY id) j USING (id)
WHERE a.balance IS DISTINCT FROM $BALANCE + coalesce(j.effect, 0) OR a.transfers IS DISTINCT FROM coalesce(j.transfers, 0) LIMIT 3;
SELECT 'journal row twice', client, seq FROM journal GROUP BY client, seq HAVING count(*) > 1 LIMIT 3;
SELECT 'rolled back to a savepoint', client, seq FROM journal WHERE seq < 0 LIMIT 3;
SELECT 'receipt and journal', r, j FROM (SELECT * FROM journal WHERE receipt) j FULL JOIN receipt r USING (client, seq)
WHERE r.* IS DISTINCT FROM j.* LIMIT 3;
SELECT 'twin and journal', t, j FROM (SELECT * FROM journal WHERE twin) j FULL JOIN twin t USING (client, seq)
WHERE t.* IS DISTINCT FROM j.* LIMIT 3;
SELECT 'acknowledged but lost', * FROM acked WHERE NOT EXISTS (SELECT FROM journal j WHERE j.client = acked.client AND j.seq = acked.seq) LIMIT 3;
SELECT 'undone but there', * FROM undone WHERE EXISTS (SELECT FROM journal j WHERE j.client = undone.client AND j.seq = undone.seq) LIMIT 3;
END
	my @errors = split /\n/, $node->safe_psql('postgres', $sql);
	push @errors,
	  index_differs($node, 'account', 'account_pkey', 'id', 'id > 0'),
	  index_differs($node, 'account', 'account_mark', 'mark, id', 'mark >= 0'),
	  index_differs($node, 'journal', 'journal_key', 'client, seq', 'client > 0'),
	  index_differs($node, 'receipt', 'receipt_pkey', 'client, seq', 'client > 0');

	# New work: keys that exist are refused, others are not.
	$sql = 'BEGIN; INSERT INTO account VALUES (0, 0, 0, 0), (-1, 0, 0, 0); SELECT transfer(99, 1, 1, 2, 5, true, true), transfer(99, 2, 2, 1, 5, true, true);';
	push @errors, 'new work: ' . $_ for grep { /ERROR/ } split /\n/, (quiet_sql($node, "$sql ROLLBACK"))[2];
	push @errors, 'duplicate accepted' if (quiet_sql($node, "$sql INSERT INTO account SELECT 50, 0, 0, 0"))[2] !~ /ERROR: +23505/;
	return grep { $_ ne '' } @errors;
}

1;
