"""Measurements on one connection: statements over a table of narrow rows, and memory.

A narrow row is two bigints (a, b) with a = 1..ROWS, so every sum has a known value and
each statement is checked after it was timed.
"""

from server import Failure

CREATE = "DROP TABLE IF EXISTS narrow;\nCREATE TABLE narrow (a bigint{key}, b bigint);\n"
FILL = "INSERT INTO narrow SELECT g, g FROM generate_series(1, {rows}) g;\n"
VACUUM = "VACUUM ANALYZE narrow;\n"
EMPTY = "TRUNCATE narrow;\n"
UPDATE = "UPDATE narrow SET b = b + 1"


class Statement:
    """setup runs once per variant, before runs untimed in front of each timed run.

    Every timed run of an UPDATE adds 1 to each b: grows says so to the check."""

    def __init__(self, timed, setup, before="", grows=False):
        self.timed = timed
        self.setup = setup
        self.before = before
        self.grows = grows


def update_of(key):
    # The UPDATE and VACUUM in the setup let heap reach its steady state, a table twice
    # the size with one half free; the VACUUM before each run brings it back there.
    return Statement(UPDATE, CREATE.replace("{key}", key) + FILL + UPDATE + ";\n" + VACUUM,
                     before=VACUUM, grows=True)


PLAIN = CREATE.replace("{key}", "")

STATEMENTS = {
    "update": update_of(""),
    "update-pk": update_of(" PRIMARY KEY"),
    "count": Statement("SELECT count(*) FROM narrow", PLAIN + FILL + VACUUM),
    "sum": Statement("SELECT sum(b) FROM narrow", PLAIN + FILL + VACUUM),
    "insert-select": Statement(FILL.rstrip(";\n"), PLAIN, before=EMPTY),
    "copy": Statement("COPY narrow FROM '{file}'", PLAIN, before=EMPTY),
}
MEMORY = "memory-per-row"


def write_copy_file(server, rows):
    """The input of the copy measurement, written by the server so that it may read it."""
    path = server.dir + "/narrow.txt"
    server.sql("postgres", f"COPY (SELECT g, g FROM generate_series(1, {rows}) g) TO '{path}'")
    return path


class Bench:
    """One statement on one variant's database."""

    def __init__(self, server, database, name, rows, file):
        self.server = server
        self.database = database
        self.statement = STATEMENTS[name]
        self.rows = rows
        self.file = file
        self.updates = 0

    def sql(self, text):
        return text.replace("{rows}", str(self.rows)).replace("{file}", self.file)

    def setup(self):
        self.server.sql(self.database, self.sql(self.statement.setup))
        self.updates = 1 if self.statement.grows else 0

    def time(self):
        if self.statement.before:
            self.server.sql(self.database, self.statement.before)
        seconds, _ = self.server.timed(self.database, self.sql(self.statement.timed))
        self.updates += 1 if self.statement.grows else 0
        return seconds

    def check(self):
        """What is wrong with the table now, or None."""
        got = self.server.sql(self.database, "SELECT count(*), sum(a), sum(b) FROM narrow")[0]
        a = self.rows * (self.rows + 1) // 2
        want = [str(v) for v in (self.rows, a, a + self.rows * self.updates)]
        return None if got == want else f"count, sum(a), sum(b) are {got}, expected {want}"

    def drop(self):
        self.server.sql(self.database, "DROP TABLE IF EXISTS narrow")


def memory_used(server, database, access_method):
    """Bytes in use: of the engine's arena, or of the table for what lives in files."""
    if access_method == "tsengine":
        query = "SELECT used_bytes FROM tsengine.stat_memory"
    else:
        query = "SELECT pg_table_size('narrow')"
    return int(server.sql(database, query)[0][0])


def memory_per_row(server, database, access_method, rows):
    """Bytes per narrow row without an index, or None where the engine cannot tell yet."""
    server.sql(database, PLAIN)
    try:
        before = memory_used(server, database, access_method)
    except Failure as failure:
        if "stat_memory" in str(failure) or "used_bytes" in str(failure):
            return None
        raise
    server.sql(database, FILL.replace("{rows}", str(rows)) + VACUUM)
    after = memory_used(server, database, access_method)
    server.sql(database, "DROP TABLE narrow")
    return (after - before) / rows
