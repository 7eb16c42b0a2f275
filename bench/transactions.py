"""pgbench workloads: loading, single runs, and the check that the data is still right."""

import os
import re

from server import Failure

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts")
GRACE_SECONDS = 60            # beyond the run time, before pgbench counts as hanging
LOAD_SECONDS = 1800

# The workloads: what pgbench runs, and whether on the scale-1 database, where all
# clients want the same row.
BUILTIN = {
    "select-only": ("select-only", False),
    "simple-update": ("simple-update", False),
    "tpcb-like": ("tpcb-like", False),
    "hot-row": ("tpcb-like", True),
}
SCRIPTED = {
    "hot-update": ("hot-update.sql", True),
    "insert": ("insert.sql", False),
}
ALL = {**BUILTIN, **SCRIPTED}


class Database:
    """A pgbench database of one variant, and the account of what must be in it.

    pgbench_history is emptied before each run, as pgbench itself would do, so its
    contents are added up here (settle) and compared with the balances (check)."""

    def __init__(self, server, name, scale):
        self.server = server
        self.name = name
        self.scale = scale
        self.loaded = False

    def load(self):
        self.loaded = False
        self.server.run("pgbench", self.name, ["-i", "-q", "-s", str(self.scale)], LOAD_SECONDS)
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

    def prepare_run(self):
        """Every run starts alike; this is what pgbench does by itself without -n, except
        that here an error is an error."""
        self.server.sql(self.name, "VACUUM pgbench_branches; VACUUM pgbench_tellers;"
                        " TRUNCATE pgbench_history;")

    def settle(self, transactions):
        rows, delta = self.server.sql(
            self.name, "SELECT count(*), coalesce(sum(delta), 0) FROM pgbench_history")[0]
        self.transactions += transactions
        self.history_rows += int(rows)
        self.history_delta += int(delta)

    def check(self, workload):
        """What is wrong with the data after the workload's runs: a list of sentences."""
        a, b, t = (now - then for now, then in zip(self.balances(), self.start))
        n, h = self.transactions, self.history_delta
        expected = {                     # accounts, branches, tellers, rows of history
            "select-only": (0, 0, 0, 0),
            "simple-update": (h, 0, 0, n),
            "tpcb-like": (h, h, h, n),
            "hot-row": (h, h, h, n),
            "hot-update": (0, n, 0, 0),
            "insert": (0, 0, 0, n),
        }[workload]
        names = ("sum(abalance)", "sum(bbalance)", "sum(tbalance)", "rows of pgbench_history")
        return [f"{name} changed by {got}, expected {want} ({n} transactions,"
                f" sum(delta) {h})"
                for name, got, want in zip(names, (a, b, t, self.history_rows), expected)
                if got != want]


def pgbench_arguments(workload, clients, seconds, scale):
    script = ALL[workload][0]
    if workload in BUILTIN:
        what = ["-b", script]
    else:
        what = ["-f", os.path.join(SCRIPTS, script), "-D", f"scale={scale}"]
    return ["-n", "-M", "prepared", "-c", str(clients), "-j", str(min(2, clients)),
            "-T", str(seconds), *what]


def run_once(database, workload, clients, seconds):
    """One pgbench run; returns its transactions per second."""
    database.prepare_run()
    out = database.server.run(
        "pgbench", database.name,
        pgbench_arguments(workload, clients, seconds, database.scale), seconds + GRACE_SECONDS)
    failed = int(find(r"number of failed transactions: (\d+)", out))
    if failed:
        raise Failure(f"{failed} transactions failed with a serialization or deadlock error")
    database.settle(int(find(r"number of transactions actually processed: (\d+)", out)))
    return float(find(r"tps = ([\d.]+) \(without initial connection time\)", out))


def find(pattern, text):
    match = re.search(pattern, text)
    if match is None:
        raise Failure("pgbench printed something unexpected:\n" + text)
    return match.group(1)
