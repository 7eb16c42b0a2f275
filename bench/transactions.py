"""pgbench workloads: loading, single runs, and the check that the data is still right."""

import os
import re
from typing import NamedTuple

from server import Failure

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts")
FUNCTIONS = os.path.join(SCRIPTS, "create-functions.sql")
GRACE_SECONDS = 60            # beyond the run time, before pgbench counts as hanging
LOAD_SECONDS = 1800
# A run over a number of transactions may take this much longer than the run the number
# was taken from.
SLOWER = 20


class Workload(NamedTuple):
    """What pgbench runs: a built-in script's name or a file in scripts/; hot: on the
    scale-1 database, where all clients want the same row; ceiling: worth knowing what heap
    reaches when it does not wait for the disk."""
    script: str
    hot: bool = False
    ceiling: bool = False


ALL = {
    "select-only": Workload("select-only"),
    "simple-update": Workload("simple-update"),
    "tpcb-like": Workload("tpcb-like", ceiling=True),
    "hot-row": Workload("tpcb-like", hot=True, ceiling=True),
    "hot-update": Workload("hot-update.sql", hot=True, ceiling=True),
    "tpcb-function": Workload("tpcb-function.sql", hot=True, ceiling=True),
    "insert": Workload("insert.sql"),
}
ON_REQUEST = ("insert",)      # measured only when named


class Outcome(NamedTuple):
    """One pgbench run: how many transactions, how fast, and how much WAL it wrote."""
    transactions: int
    tps: float
    wal_bytes: int

    @property
    def wal_per_transaction(self):
        return self.wal_bytes / self.transactions


class Database:
    """A pgbench database of one variant, and the account of what must be in it.

    pgbench_history is emptied before each run, as pgbench itself would do, so its
    contents are added up here (settle) and compared with the balances (check)."""

    def __init__(self, server, name, scale):
        self.server = server
        self.name = name
        self.scale = scale
        self.loaded = False
        self.imaged_at = None         # number of the checkpoint after which all pages changed

    def load(self):
        self.loaded = False
        self.imaged_at = None
        self.server.run("pgbench", self.name, ["-i", "-q", "-s", str(self.scale)], LOAD_SECONDS)
        with open(FUNCTIONS) as functions:
            self.server.sql(self.name, functions.read())
        self.server.sql(self.name, "VACUUM ANALYZE")
        self.start_account()
        self.loaded = True

    def balances(self):
        """Sums of the account, branch and teller balances."""
        row = self.server.sql(
            self.name, "SELECT (SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts),"
            " (SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches),"
            " (SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers)")[0]
        return [int(v) for v in row]

    def start_account(self):
        self.start = self.balances()
        self.transactions = self.history_rows = self.history_delta = 0

    def change_every_page(self):
        """Get the full-page images that follow a checkpoint over with: change some rows in
        every page of the large table and its index, unless that is done already."""
        if self.imaged_at == self.server.own_checkpoints:
            return
        self.server.sql(self.name, "UPDATE pgbench_accounts SET abalance = abalance"
                        " WHERE aid % 20 = 0; VACUUM pgbench_accounts;")
        self.imaged_at = self.server.own_checkpoints

    def prepare_run(self):
        """Every run starts alike; this is what pgbench does by itself without -n, except
        that here an error is an error."""
        self.server.sql(self.name, "VACUUM pgbench_branches; VACUUM pgbench_tellers;"
                        " TRUNCATE pgbench_history;")

    def history(self):
        """Number of rows and sum of delta in pgbench_history."""
        row = self.server.sql(
            self.name, "SELECT count(*), coalesce(sum(delta), 0) FROM pgbench_history")[0]
        return [int(v) for v in row]

    def settle(self, transactions):
        rows, delta = self.history()
        self.transactions += transactions
        self.history_rows += rows
        self.history_delta += delta

    def check(self, workload):
        """What is wrong with the data after the workload's runs: a list of sentences."""
        a, b, t = (now - then for now, then in zip(self.balances(), self.start))
        n, h = self.transactions, self.history_delta
        tpcb = (h, h, h, n)
        expected = {                     # accounts, branches, tellers, rows of history
            "select-only": (0, 0, 0, 0),
            "simple-update": (h, 0, 0, n),
            "tpcb-like": tpcb,
            "hot-row": tpcb,
            "hot-update": (0, n, 0, 0),
            "tpcb-function": tpcb,
            "insert": (0, 0, 0, n),
        }[workload]
        names = ("sum(abalance)", "sum(bbalance)", "sum(tbalance)", "rows of pgbench_history")
        return [f"{name} changed by {got}, expected {want} ({n} transactions,"
                f" sum(delta) {h})"
                for name, got, want in zip(names, (a, b, t, self.history_rows), expected)
                if got != want]


def arguments(workload, clients, scale, limit):
    """pgbench's arguments; LIMIT says when to stop: ["-T", seconds] or ["-t", per client]."""
    script = ALL[workload].script
    if script.endswith(".sql"):
        what = ["-f", os.path.join(SCRIPTS, script), "-D", f"scale={scale}"]
    else:
        what = ["-b", script]
    return ["-n", "-M", "prepared", "-c", str(clients), "-j", str(min(2, clients)),
            *limit, *what]


def processed(out):
    """The number of transactions in pgbench's summary: more than 0, and none failed."""
    failed = int(find(r"number of failed transactions: (\d+)", out))
    if failed:
        raise Failure(f"{failed} transactions failed with a serialization or deadlock error")
    done = int(find(r"number of transactions actually processed: (\d+)", out))
    if not done:
        raise Failure("no transaction was done within the time")
    return done


def pgbench(database, workload, clients, limit, seconds, options=""):
    """Run pgbench, settle the account, and return transactions and tps."""
    out = database.server.run(
        "pgbench", database.name, arguments(workload, clients, database.scale, limit),
        seconds + GRACE_SECONDS, options=options)
    transactions = processed(out)
    database.settle(transactions)
    return transactions, float(find(r"tps = ([\d.]+) \(without initial connection time\)", out))


def run_once(database, workload, clients, seconds, options=""):
    """One run over a time.  OPTIONS are settings of its sessions, as in PGOPTIONS."""
    database.prepare_run()
    before = database.server.wal_position()
    # settle() only reads, so it may come before the second look at the position.
    transactions, tps = pgbench(database, workload, clients, ["-T", str(seconds)], seconds,
                                options)
    return Outcome(transactions, tps, database.server.wal_position() - before)


def run_cycle(database, workload, clients, per_client, seconds):
    """One run over a number of transactions between two checkpoints, the second one
    included, expected to take about SECONDS."""
    database.prepare_run()
    database.server.checkpoint()
    before = database.server.wal_position()
    transactions, tps = pgbench(database, workload, clients, ["-t", str(per_client)],
                                seconds * SLOWER)
    database.server.checkpoint()
    return Outcome(transactions, tps, database.server.wal_position() - before)


def find(pattern, text):
    match = re.search(pattern, text)
    if match is None:
        raise Failure("pgbench printed something unexpected:\n" + text)
    return match.group(1)
