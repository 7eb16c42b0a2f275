"""How long a server takes until it answers again, after a clean stop and after kill -9.

Each variant has a server of its own, so that it loads and replays its own data only.
"""

import re
import time

import statements
import transactions
from server import Failure

WORKLOAD = "tpcb-like"
CLIENTS = 16
DATABASE = "bench"

# The two measurements, with what each gives per variant: clients and unit.
RESTART, RECOVERY = "restart", "recovery"
FIGURES = {
    RESTART: {
        "restart-count": (1, "s"),
        "restart-rows": (1, "rows/s"),
    },
    RECOVERY: {
        "recovery-first-row": (CLIENTS, "s"),
        "recovery-sum": (CLIENTS, "s"),
        "recovery-replayed": (CLIENTS, "MB"),
        "recovery-transactions": (CLIENTS, "number"),
    },
}

FIRST_ROW = "SELECT abalance FROM pgbench_accounts WHERE aid = 1"
SUM = "SELECT sum(abalance) FROM pgbench_accounts"


def measure_restart(server, rows, rounds, record, wrong):
    """Clean stops and starts with ROWS narrow rows; calls RECORD(figure, value), and
    WRONG(sentence) for wrong data."""
    # VACUUM sets heap's hint bits, so that both just read.
    fill = statements.FILL.replace("{rows}", str(rows))
    server.sql(DATABASE, statements.PLAIN + fill + statements.VACUUM, transactions.LOAD_SECONDS)
    for _ in range(rounds):
        seconds, got = restart(server)
        if got != rows:
            wrong(f"{got} rows after a clean restart, expected {rows}")
            return
        record("restart-count", seconds)
        record("restart-rows", rows / seconds)


def restart(server):
    """Seconds from starting the server after a clean stop to the answer of count(*), and
    that answer."""
    server.shut_down()
    begin = time.monotonic()
    server.start()
    got = int(server.sql(DATABASE, "SELECT count(*) FROM narrow")[0][0])
    return time.monotonic() - begin, got


def measure_recovery(server, scale, seconds, rounds, record, wrong):
    """Crashes after SECONDS of load; calls RECORD(figure, value), and WRONG(sentence) for
    wrong data."""
    database = transactions.Database(server, DATABASE, scale)
    database.load()
    for _ in range(rounds):
        committed = crash(database, seconds)
        first, total = recover(server)
        record("recovery-first-row", first)
        record("recovery-sum", total)
        record("recovery-replayed", replayed_megabytes(server))
        record("recovery-transactions", committed)
        for sentence in check(database, committed):
            wrong(sentence)


def crash(database, seconds):
    """Kill the server in the middle of a load that began just after a checkpoint; returns
    how many transactions pgbench saw committed."""
    server = database.server
    database.start_account()
    database.prepare_run()
    server.checkpoint()
    # It would run on for long: it must end by the crash, not by itself.
    arguments = transactions.arguments(
        WORKLOAD, CLIENTS, database.scale, ["-T", str(10 * seconds + transactions.GRACE_SECONDS)])
    with server.background("pgbench", database.name, arguments) as pgbench:
        time.sleep(seconds)
        ended = pgbench.poll()
        server.kill()
        out, errors = pgbench.communicate(timeout=transactions.GRACE_SECONDS)
    if ended is not None:
        raise Failure(f"pgbench ended before the crash:\n{errors.strip()}")
    return transactions.processed(out)


def recover(server):
    """Seconds from the start to the first row and to the sum over all accounts."""
    begin = time.monotonic()
    server.start()
    server.sql(DATABASE, FIRST_ROW)
    first = time.monotonic() - begin
    server.sql(DATABASE, SUM)
    return first, time.monotonic() - begin


def replayed_megabytes(server):
    """How much WAL the last start replayed, from the server's log."""
    starts = re.findall(r"redo starts at (\w+)/(\w+)", server.log())
    ends = re.findall(r"redo done at (\w+)/(\w+)", server.log())
    if not starts or len(starts) != len(ends):
        raise Failure("the log does not show a recovery; its end:\n" + server.log_tail())
    begin, end = (int(high, 16) << 32 | int(low, 16) for high, low in (starts[-1], ends[-1]))
    return (end - begin) / 1e6


def check(database, committed):
    """What is wrong after the recovery: sentences.  Nothing acknowledged may be missing,
    unless commits did not wait for the disk; a transaction per client may have committed
    without its answer arriving."""
    rows, delta = database.history()
    wrong = []
    least = 0 if database.server.settings["synchronous_commit"] == "off" else committed
    if not least <= rows <= committed + CLIENTS:
        wrong.append(f"{rows} transactions are there after the crash, but {committed} were"
                     f" acknowledged by {CLIENTS} clients")
    for name, now, then in zip(("accounts", "branches", "tellers"), database.balances(),
                               database.start):
        if now - then != delta:
            wrong.append(f"the balance of all {name} changed by {now - then}, but the sum of"
                         f" pgbench_history.delta is {delta}")
    return wrong
