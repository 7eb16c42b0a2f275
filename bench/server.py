"""A private PostgreSQL server for one benchmark, and the programs that talk to it.

Everything lives in one temporary directory: data, socket, log.  The server listens on
a unix socket only and is a direct child of this process, so nothing else on the
machine is touched and nothing is left behind.
"""

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

DEBIAN_PG_CONFIG = "/usr/lib/postgresql/15/bin/pg_config"
SERVER_USER = "postgres"      # who runs the server when we are root
PORT = "5432"                 # only part of the socket's name
STOP_SECONDS = 60
CLEAN_STOP_SECONDS = 600      # with a checkpoint of everything in memory

BASE_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "1GB",
    "fsync": "on",
    "synchronous_commit": "on",
    # No checkpoint may fall into a run; keep_wal_small() takes them between runs.
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    # One process per statement on both sides, and no compiler in the way of the engine.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}

# The server starts a checkpoint by itself at max_wal_size / 1.9; stay well below.
WAL_BYTES_BEFORE_CHECKPOINT = 2 * 1024 ** 3


class Failure(Exception):
    """Something did not run; the text is meant for the person at the terminal."""


def client_environment():
    """The caller's environment without what would redirect or translate a client."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    env["LC_ALL"] = "C"
    return env


def pg_config(option):
    """What pg_config says, or None when PostgreSQL is not installed.

    The same installation that tools/setup installs into: of $PG_CONFIG, else Debian's
    15, else of whatever comes first in PATH."""
    program = os.environ.get("PG_CONFIG") or DEBIAN_PG_CONFIG
    if not os.path.exists(program):
        program = "pg_config"
    try:
        done = subprocess.run([program, option], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def extension_installed():
    """Whether this machine's PostgreSQL has the tsengine library."""
    libdir = pg_config("--pkglibdir")
    return libdir is not None and os.path.exists(os.path.join(libdir, "tsengine.so"))


def settings_for(access_methods, memory):
    """The settings the access methods need beyond the base ones."""
    if "tsengine" not in access_methods:
        return {}
    return {"shared_preload_libraries": "tsengine", "tsengine.memory": memory}


class Server:
    """Use as a context manager: the server exists inside the with block only."""

    def __init__(self, settings):
        self.settings = {**BASE_SETTINGS, **settings}
        self.dir = None
        self.process = None
        self.own_checkpoints = 0
        bindir = pg_config("--bindir")
        if bindir is None:
            raise Failure("pg_config not found: PostgreSQL is not installed; try --setup")
        self.bindir = bindir

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="tsengine-bench-")
        try:
            self._initdb()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *exc):
        self._remove()

    def program(self, name):
        return os.path.join(self.bindir, name)

    @property
    def data(self):
        return os.path.join(self.dir, "data")

    @property
    def log_path(self):
        return os.path.join(self.dir, "server.log")

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def log_tail(self, lines=20):
        return "".join(self.log().splitlines(keepends=True)[-lines:])

    # Life of the server.

    def _unprivileged(self, command):
        """The command as the server's user: PostgreSQL refuses to run as root.

        pdeathsig makes the kernel stop the server when we are killed without a chance
        to clean up."""
        prefix = ["setpriv", "--pdeathsig", "QUIT"]
        if os.geteuid() == 0:
            prefix += ["--reuid", SERVER_USER, "--regid", SERVER_USER, "--init-groups"]
        return prefix + command

    def _initdb(self):
        if os.geteuid() == 0:
            try:
                user = pwd.getpwnam(SERVER_USER)
            except KeyError:
                raise Failure(f"run as root, but there is no user {SERVER_USER!r} for the server")
            os.chown(self.dir, user.pw_uid, user.pw_gid)
        command = [self.program("initdb"), "-D", self.data, "-A", "trust", "-U", "postgres",
                   "--no-locale", "-E", "UTF8", "--no-sync", "--no-instructions"]
        done = subprocess.run(self._unprivileged(command), capture_output=True, text=True,
                              env=client_environment(), cwd=self.dir)
        if done.returncode != 0:
            raise Failure("initdb failed:\n" + done.stderr)
        with open(os.path.join(self.data, "postgresql.conf"), "a") as conf:
            for name, value in self.settings.items():
                conf.write(f"{name} = '{value}'\n")

    def start(self):
        """Start the server (again, on the same data) and wait until it answers."""
        command = [self.program("postgres"), "-D", self.data, "-k", self.dir, "-p", PORT]
        with open(self.log_path, "a") as log:
            # An own session: Ctrl-C must reach us first, not the server.
            self.process = subprocess.Popen(
                self._unprivileged(command), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, env=client_environment(), cwd=self.dir,
                start_new_session=True)
        self.wait_ready()

    def wait_ready(self, seconds=300):
        """Wait until the server takes connections (again, after a crash of a backend)."""
        deadline = time.monotonic() + seconds
        command = [self.program("pg_isready"), "-q", "-h", self.dir, "-p", PORT]
        while subprocess.run(command, env=client_environment()).returncode != 0:
            if self.process.poll() is not None:
                raise Failure("the server is gone; end of its log:\n" + self.log_tail())
            if time.monotonic() > deadline:
                raise Failure("the server does not answer; end of its log:\n" + self.log_tail())
            time.sleep(0.02)

    def crashes(self):
        """How often a backend's crash made the server start over."""
        return self.log().count("all server processes terminated; reinitializing")

    def shut_down(self):
        """Stop cleanly: a fast shutdown, whose last step is a checkpoint."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(CLEAN_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure("the server does not stop; end of its log:\n" + self.log_tail())
        if self.process.returncode != 0:
            raise Failure(f"the server stopped with {self.process.returncode};"
                          " end of its log:\n" + self.log_tail())

    def kill(self):
        """kill -9 of the postmaster.  The other processes see that it is gone and leave;
        when this returns they have, for none may still use the shared memory or the data."""
        self.process.kill()
        self.process.wait()
        deadline = time.monotonic() + STOP_SECONDS
        while self._processes():
            if time.monotonic() > deadline:
                left = self._processes()
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                raise Failure(f"{len(left)} processes outlived the postmaster by"
                              f" {STOP_SECONDS} s")
            time.sleep(0.02)

    def _processes(self):
        """The server's processes, known by their working directory, with or without a
        postmaster."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):       # it ended while we looked
                    if os.readlink(f"/proc/{entry}/cwd") == os.path.realpath(self.data):
                        found.append(int(entry))
        return found

    def _remove(self):
        """Stop and delete everything; a second Ctrl-C must not interrupt this."""
        handlers = {s: signal.signal(s, signal.SIG_IGN)
                    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            if self.process is not None:
                self._stop()
            shutil.rmtree(self.dir, ignore_errors=True)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _stop(self):
        """Immediate shutdown: the data is thrown away, so nothing need be written."""
        for number in (signal.SIGQUIT, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(number)
            try:
                self.process.wait(STOP_SECONDS)
                return
            except subprocess.TimeoutExpired:
                continue

    # Clients.

    def _client(self, program, database, arguments):
        return [self.program(program), "-h", self.dir, "-p", PORT, "-U", "postgres",
                *arguments, database]

    def run(self, program, database, arguments, seconds, text=None, options=""):
        """Run a client program; returns its stdout, raises Failure with its stderr.
        OPTIONS are settings of its sessions, as in PGOPTIONS."""
        try:
            done = subprocess.run(
                self._client(program, database, arguments), input=text, capture_output=True,
                text=True, env={**client_environment(), "PGOPTIONS": options}, timeout=seconds)
        except subprocess.TimeoutExpired:
            self._end_backends()
            raise Failure(f"{program} did not end within {seconds} s")
        if done.returncode != 0:
            raise Failure(f"{program} exited with {done.returncode}:\n{done.stderr.strip()}")
        return done.stdout

    @contextlib.contextmanager
    def background(self, program, database, arguments):
        """A client program that runs beside the with block and is gone after it."""
        with subprocess.Popen(
                self._client(program, database, arguments), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=client_environment()) as process:
            try:
                yield process
            finally:
                process.kill()

    def sql(self, database, text, seconds=600):
        """Run SQL through psql (each statement its own transaction); rows as lists."""
        out = self.run("psql", database,
                       ["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"],
                       seconds, text)
        return [line.split("\t") for line in out.splitlines()]

    def timed(self, database, statement, settings=""):
        """Seconds one statement took as psql's \\timing sees it, and its rows. SETTINGS are
        statements that run before it."""
        rows = self.sql(database, f"{settings}\\timing on\n{statement};\n")
        took = re.match(r"Time: ([\d.]+) ms", rows.pop()[0])
        return float(took.group(1)) / 1000, rows

    def create_database(self, name, access_method):
        """A database in which every new table uses the access method."""
        self.sql("postgres", f'CREATE DATABASE "{name}"')
        if access_method == "tsengine":
            self.sql(name, "CREATE EXTENSION tsengine")
        self.sql("postgres", f'ALTER DATABASE "{name}"'
                 f" SET default_table_access_method = '{access_method}'")
        # An unknown access method is only a warning at login, and heap is used instead.
        if self.sql(name, "SHOW default_table_access_method")[0][0] != access_method:
            raise Failure(f"there is no access method {access_method!r}")

    def _end_backends(self):
        """After a time-out: what the client left running must not disturb the next run."""
        try:
            self.sql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                     " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
                     seconds=30)
        except Failure:
            pass              # the next step will meet the same trouble and report it

    # WAL and checkpoints.

    def wal_position(self):
        """Bytes of WAL since the cluster was made."""
        return int(self.sql("postgres", "SELECT pg_current_wal_insert_lsn() - '0/0'")[0][0])

    def keep_wal_small(self):
        """Take a checkpoint now if one could fall into the next runs.

        Not more often: after a checkpoint heap logs whole pages again."""
        grown = self.sql("postgres", "SELECT pg_current_wal_insert_lsn() - redo_lsn"
                         " FROM pg_control_checkpoint()")
        if float(grown[0][0]) > WAL_BYTES_BEFORE_CHECKPOINT:
            self.checkpoint()

    def checkpoint(self):
        self.sql("postgres", "CHECKPOINT")
        self.own_checkpoints += 1

    def other_checkpoints(self):
        """How many checkpoints the server began by itself, that is: maybe within a run."""
        rows = self.sql("postgres",
                        "SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter")
        return max(0, int(rows[0][0]) - self.own_checkpoints)
