"""Measurements on one connection: statements over a table of narrow rows, and memory.

A narrow row is two bigints (a, b) with b = 1..ROWS and a the same or a hash of it, so every
sum has a known value and each statement is checked after it was timed.
"""

from server import Failure

CREATE = "DROP TABLE IF EXISTS narrow;\nCREATE TABLE narrow (a bigint{key}, b bigint);\n"
FILL = "INSERT INTO narrow SELECT g, g FROM generate_series(1, {rows}) g;\n"
VACUUM = "VACUUM ANALYZE narrow;\n"
EMPTY = "TRUNCATE narrow;\n"
UPDATE = "UPDATE narrow SET b = b + 1"

# Keys spread over all bigints, in an order that has nothing to do with theirs.
RANDOM = "hashint8extended(g, 1)"
FILL_RANDOM = FILL.replace("SELECT g,", f"SELECT {RANDOM},")
# The same keys in another order that is as random; in heap, so that reading them costs all
# variants the same.
KEYS = ("DROP TABLE IF EXISTS keys;\nCREATE TABLE keys (a bigint) USING heap;\n"
        f"INSERT INTO keys SELECT {RANDOM} FROM generate_series(1, {{rows}}, {{step}}) g"
        " ORDER BY hashint8extended(g, 2);\nVACUUM ANALYZE keys;\n")
# One look-up in the index of narrow for each key.
LOOK_UP_EACH = ("SET enable_hashjoin = off;\nSET enable_mergejoin = off;\n"
                "SET enable_bitmapscan = off;\nSET enable_memoize = off;\n")
RANGE = 100                            # rows of a range scan


class Statement:
    """setup runs once per variant, before runs untimed in front of each timed run, settings
    in its session; its plan must contain plan.

    key is what column a is made of, g being the row's number. Every timed run of an UPDATE
    adds 1 to each b: grows says so to the check. answer is a query that finds in another way
    what the timed one returns."""

    def __init__(self, timed, setup, before="", settings="", plan="", key="g", grows=False,
                 answer=""):
        self.timed = timed
        self.setup = setup
        self.before = before
        self.settings = settings
        self.plan = plan
        self.key = key
        self.grows = grows
        self.answer = answer


def update_of(key):
    # The UPDATE and VACUUM in the setup let heap reach its steady state, a table twice
    # the size with one half free; the VACUUM before each run brings it back there.
    return Statement(UPDATE, CREATE.replace("{key}", key) + FILL + UPDATE + ";\n" + VACUUM,
                     before=VACUUM, grows=True)


def scan_of(timed, answer, step):
    """A query that asks the index of random keys once for every STEPth key."""
    setup = WITH_KEY + FILL_RANDOM + VACUUM + KEYS.replace("{step}", str(step))
    return Statement(timed, setup, settings=LOOK_UP_EACH, key=RANDOM,
                     plan="Index Scan using narrow_pkey", answer=answer)


PLAIN = CREATE.replace("{key}", "")
WITH_KEY = CREATE.replace("{key}", " PRIMARY KEY")

STATEMENTS = {
    "update": update_of(""),
    "update-pk": update_of(" PRIMARY KEY"),
    "count": Statement("SELECT count(*) FROM narrow", PLAIN + FILL + VACUUM),
    "sum": Statement("SELECT sum(b) FROM narrow", PLAIN + FILL + VACUUM),
    "insert-select": Statement(FILL.rstrip(";\n"), PLAIN, before=EMPTY),
    "copy": Statement("COPY narrow FROM '{file}'", PLAIN, before=EMPTY),
    "insert-random-pk": Statement(FILL_RANDOM.rstrip(";\n"), WITH_KEY, before=EMPTY, key=RANDOM),
    "lookup-random": scan_of(
        "SELECT count(*), sum(b) FROM keys JOIN narrow USING (a)",
        "SELECT count(*), sum(b) FROM narrow", 1),
    "range-random": scan_of(
        "SELECT count(*), sum(s) FROM keys k, LATERAL (SELECT sum(b) AS s FROM"
        f" (SELECT b FROM narrow n WHERE n.a >= k.a ORDER BY n.a LIMIT {RANGE}) r) l",
        "SELECT count(*), sum(s) FROM keys JOIN (SELECT a, sum(b) OVER (ORDER BY a ROWS"
        f" BETWEEN CURRENT ROW AND {RANGE - 1} FOLLOWING) AS s FROM narrow) n USING (a)", RANGE),
}
MEMORY = {"memory-per-row": "", "memory-per-key": " PRIMARY KEY"}


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
        self.answers = set()

    def sql(self, text):
        return text.replace("{rows}", str(self.rows)).replace("{file}", self.file)

    def setup(self):
        self.server.sql(self.database, self.sql(self.statement.setup))
        self.updates = 1 if self.statement.grows else 0
        if self.statement.plan:
            lines = self.server.sql(self.database, self.statement.settings + "EXPLAIN (COSTS OFF) "
                                    + self.sql(self.statement.timed))
            plan = "\n".join(line[0] for line in lines)
            if self.statement.plan not in plan:
                raise Failure("the plan is not " + self.statement.plan + ":\n" + plan)

    def time(self):
        if self.statement.before:
            self.server.sql(self.database, self.statement.before)
        seconds, rows = self.server.timed(self.database, self.sql(self.statement.timed),
                                          self.statement.settings)
        self.updates += 1 if self.statement.grows else 0
        if self.statement.answer:
            self.answers.add(tuple(rows[0]))
        return seconds

    def check(self):
        """What is wrong with the table or the answers, or None."""
        got = self.server.sql(self.database, "SELECT count(*), sum(a), sum(b) FROM narrow")[0]
        want = self.server.sql(self.database, self.sql(
            f"SELECT count(*), sum({self.statement.key}), sum(g + {self.updates})"
            " FROM generate_series(1, {rows}) g"))[0]
        if got != want:
            return f"count, sum(a), sum(b) are {got}, expected {want}"
        if self.answers:
            want = {tuple(self.server.sql(self.database, self.statement.answer)[0])}
            if self.answers != want:
                return f"the answers were {self.answers}, expected {want}"
        return None

    def drop(self):
        self.server.sql(self.database, "DROP TABLE IF EXISTS narrow, keys")


def memory_used(server, database, access_method):
    """Bytes in use: of the engine's arena, or of the table for what lives in files; and of
    indexes that live in files."""
    if access_method == "tsengine":
        query = "SELECT used_bytes FROM tsengine.stat_memory"
    else:
        query = "SELECT pg_table_size('narrow')"
    return (int(server.sql(database, query)[0][0])
            + int(server.sql(database, "SELECT pg_indexes_size('narrow')")[0][0]))


def bytes_per_row(server, database, access_method, rows, key):
    """Bytes per narrow row, inserted in random order of a, with KEY after a's type; None
    where the engine cannot tell yet."""
    server.sql(database, CREATE.replace("{key}", key))
    try:
        before = memory_used(server, database, access_method)
    except Failure as failure:
        if "stat_memory" in str(failure) or "used_bytes" in str(failure):
            return None
        raise
    server.sql(database, FILL_RANDOM.replace("{rows}", str(rows)) + VACUUM)
    after = memory_used(server, database, access_method)
    server.sql(database, "DROP TABLE narrow")
    return (after - before) / rows


def memory(server, database, access_method, rows, name):
    """A figure of MEMORY: bytes per row without an index, or what a primary key adds."""
    plain = bytes_per_row(server, database, access_method, rows, "")
    if plain is None or not MEMORY[name]:
        return plain
    return bytes_per_row(server, database, access_method, rows, MEMORY[name]) - plain
