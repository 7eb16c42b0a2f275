"""What a running checkpoint costs the transactions beside it.

pgbench logs the end of each transaction; a side connection takes checkpoints and notes
when each began and ended by the same clock.  Nothing is averaged over fixed intervals, so
that a checkpoint of a tenth of a second counts as what it is.
"""

import glob
import os
import time
from typing import NamedTuple

import transactions
from server import Failure

NAME = "checkpoint"
WORKLOAD = "tpcb-like"
CLIENTS = 8
GAPS = 5                      # the run lasts this many times the pause between checkpoints
STARTUP_SECONDS = 1           # of the run, that count for nothing

# What the measurement gives per variant: clients and unit.
FIGURES = {
    "checkpoint-outside": (CLIENTS, "tps"),
    "checkpoint-during": (CLIENTS, "tps"),
    "checkpoint-kept": (CLIENTS, "fraction"),
    "checkpoint-kept-1s": (CLIENTS, "fraction"),
    "checkpoint-time": (CLIENTS, "s"),
    "checkpoint-written": (CLIENTS, "MB"),
}

BUFFER_BYTES = "SELECT buffers_checkpoint * 8192 FROM pg_stat_bgwriter"
IMAGE_VIEW = "SELECT to_regclass('tsengine.stat_checkpoint') IS NOT NULL"
IMAGE_BYTES = "SELECT total_bytes FROM tsengine.stat_checkpoint"


class Window(NamedTuple):
    """A stretch of time, in seconds since 1970."""
    begin: float
    end: float

    @property
    def seconds(self):
        return self.end - self.begin

    def at_least(self, seconds):
        """The same, made longer at its end if it is shorter."""
        return Window(self.begin, max(self.end, self.begin + seconds))

    def count(self, times):
        return sum(self.begin <= t < self.end for t in times)


def written(server, database):
    """Bytes that checkpoints wrote so far: buffers, and images where the engine tells."""
    total = int(server.sql(database, BUFFER_BYTES)[0][0])
    if server.sql(database, IMAGE_VIEW)[0][0] == "t":
        total += int(server.sql(database, IMAGE_BYTES)[0][0])
    return total


def timed_checkpoint(server):
    rows = server.sql("postgres", "SELECT extract(epoch FROM clock_timestamp());\nCHECKPOINT;\n"
                      "SELECT extract(epoch FROM clock_timestamp());\n")
    server.own_checkpoints += 1
    return Window(float(rows[0][0]), float(rows[1][0]))


def take_checkpoints(database, seconds, pause):
    """Checkpoints with a pause before and after each, for about SECONDS, with the bytes each
    wrote: a list of (window, bytes)."""
    server = database.server
    taken = []
    end = time.monotonic() + seconds
    while time.monotonic() + 2 * pause < end:
        time.sleep(pause)
        before = written(server, database.name)
        window = timed_checkpoint(server)
        taken.append((window, written(server, database.name) - before))
    return taken


def read_log(directory):
    """The times at which transactions ended, from pgbench's log files, which are removed."""
    times = []
    for path in glob.glob(os.path.join(directory, "transactions.*")):
        with open(path) as log:
            for line in log:
                fields = line.split()
                times.append(int(fields[4]) + int(fields[5]) / 1e6)
        os.unlink(path)
    return times


def measure(database, pause):
    """Values for each of FIGURES: throughput outside as one value, the others per
    checkpoint."""
    server = database.server
    seconds = GAPS * pause
    database.prepare_run()
    server.checkpoint()               # nothing of other runs is left to write
    arguments = transactions.arguments(WORKLOAD, CLIENTS, database.scale, ["-T", str(seconds)])
    prefix = os.path.join(server.dir, "transactions")
    with server.background("pgbench", database.name,
                           [*arguments, "-l", "--log-prefix", prefix]) as pgbench:
        taken = take_checkpoints(database, seconds, pause)
        out, errors = pgbench.communicate(timeout=seconds + transactions.GRACE_SECONDS)
    times = read_log(server.dir)
    if pgbench.returncode != 0:
        raise Failure(f"pgbench exited with {pgbench.returncode}:\n{errors.strip()}")
    database.settle(transactions.processed(out))
    return figures(times, taken)


def figures(times, taken):
    """The figures from the transactions' end times and the checkpoints taken."""
    run = Window(min(times) + STARTUP_SECONDS, max(times))
    # One that outlasted the run has no throughput beside it.
    taken = [(w, size) for w, size in taken if w.at_least(1).end <= run.end]
    if not taken:
        raise Failure("no checkpoint ended within the run")
    inside = [w.count(times) for w, _ in taken]
    outside = ((run.count(times) - sum(inside))
               / (run.seconds - sum(w.seconds for w, _ in taken)))
    during = [n / w.seconds for n, (w, _) in zip(inside, taken)]
    seconds = [w.at_least(1) for w, _ in taken]
    return {
        "checkpoint-outside": [outside],
        "checkpoint-during": during,
        "checkpoint-kept": [tps / outside for tps in during],
        "checkpoint-kept-1s": [w.count(times) / w.seconds / outside for w in seconds],
        "checkpoint-time": [w.seconds for w, _ in taken],
        "checkpoint-written": [size / 1e6 for _, size in taken],
    }
