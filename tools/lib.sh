# shellcheck shell=bash
# Functions shared by tools/test and tools/check-core; to be sourced.
#
# Nothing of the machine's own PostgreSQL is touched. The server under test runs
# from a private installation, a copy of the server's programs with links to its
# libraries, because the server finds its libraries relative to where its program
# lies. The test build of tsengine is installed there and only there. The server
# runs as an unprivileged user on a socket in the work directory.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Debian keeps a pg_config per major version; the one in PATH may be of any.
if [[ -z ${PG_CONFIG:-} ]]; then
	PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config
	[[ -x $PG_CONFIG ]] || PG_CONFIG=pg_config
fi

# Settings of the caller's shell must reach neither psql nor the server.
for v in ${!PG@}; do
	case $v in PG_CONFIG | PG_TEST_*) ;; *) unset "$v" ;; esac
done
unset LANGUAGE MAKEFLAGS MAKELEVEL MFLAGS
export LC_ALL=C

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 2; }

# make_workdir NAME: the work directory WORK, removed by cleanup; becomes the current
# directory, since the caller's may be closed to the server's user.
make_workdir() {
	CHILD=
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/tsengine-$1.XXXXXX")
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	chmod 755 "$WORK"
	cd "$WORK" || exit
	mkdir home out pg sock tmp ports
	if [[ $EUID == 0 ]]; then
		RUN_USER=postgres
		getent passwd $RUN_USER >/dev/null || RUN_USER=nobody
		chown "$RUN_USER" home out pg sock tmp ports
	fi
}

cleanup() {
	local status=$? pidfile
	trap - EXIT INT TERM HUP
	if [[ -n $CHILD ]]; then
		kill -TERM "$CHILD" 2>/dev/null || true
		wait "$CHILD" 2>/dev/null || true
	fi
	# Whatever was started below the work directory is ours, TAP tests' servers too.
	while read -r pidfile; do
		as_user pg_ctl -D "${pidfile%/*}" -m immediate -w -t 30 stop >/dev/null 2>&1 || true
	done < <(find "$WORK" -name postmaster.pid 2>/dev/null)
	cd /
	rm -rf "$WORK"
	if declare -F on_exit >/dev/null; then on_exit; fi
	exit $status
}

# Run a command as the server's user, with home and temporary directory of its own.
as_user() { "${RUN[@]}" "$@"; }

# The same for something long: it gets a time limit, and a signal to this script ends
# it with all it started (timeout leads a process group and passes signals on).
as_user_limited() {
	local status=0
	"${RUN[@]}" timeout -k 10 "${TSENGINE_TEST_TIMEOUT:-3600}" "$@" </dev/null &
	CHILD=$!
	wait $CHILD || status=$?
	CHILD=
	[[ $status != 124 ]] || say 'time limit reached'
	return $status
}

# Build the test build with warnings as errors in build/test, which is kept so that
# the next build is short. The sources are linked: objects of a developer's own
# build in the tree stay as they are.
build_test() {
	local dir=$TOP/build/test f
	mkdir -p "$dir"
	(
		flock 9
		find "$dir" -type l -delete
		cd "$TOP"
		for f in Makefile tsengine.control tsengine--*.sql $(find src -name '*.[ch]'); do
			mkdir -p "$dir/${f%"${f##*/}"}"
			ln -s "$TOP/$f" "$dir/$f"
		done
		cd "$dir"
		make -s -j"$(nproc)" PG_CONFIG="$PG_CONFIG" TSENGINE_TEST=1 COPT=-Werror
		make -s PG_CONFIG="$PG_CONFIG" TSENGINE_TEST=1 COPT=-Werror DESTDIR="$1" install >/dev/null
	) 9>"$TOP/build/lock"
}

# Private installation in $WORK/inst. Sets BIN, PGXS_TEST, PG_MAJOR and RUN, the prefix
# of commands run as the server's user.
private_install() {
	local bindir libdir sharedir d
	bindir=$("$PG_CONFIG" --bindir) libdir=$("$PG_CONFIG" --pkglibdir) sharedir=$("$PG_CONFIG" --sharedir)
	INST=$WORK/inst
	BIN=$INST$bindir
	PGXS_TEST=$(cd "$(dirname "$("$PG_CONFIG" --pgxs)")/../test" && pwd)
	PG_MAJOR=$("$PG_CONFIG" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
	for d in "$bindir" "$libdir" "$sharedir"; do mkdir -p "$INST$d"; done
	cp -a "$bindir/." "$INST$bindir/"
	cp -as "$libdir/." "$INST$libdir/"
	cp -as "$sharedir/." "$INST$sharedir/"
	rm -f "$INST$libdir"/tsengine.so "$INST$sharedir"/extension/tsengine*
	build_test "$INST"
	RUN=(env HOME="$WORK/home" TMPDIR="$WORK/tmp" PATH="$BIN:$PATH")
	[[ $EUID != 0 ]] ||
		RUN+=(setpriv --reuid="$RUN_USER" --regid="$(id -g "$RUN_USER")" --clear-groups)
}

# start_server NAME: a fresh cluster with the extension in every database that others
# are made from, so that default_table_access_method = tsengine is valid in all. The
# socket is in $WORK/sock.
start_server() {
	local data=$WORK/pg/$1 db
	as_user initdb -D "$data" -U postgres -A trust --no-locale -E UTF8 --no-sync >"$WORK/initdb.log" 2>&1 ||
		{ cat "$WORK/initdb.log"; return 1; }
	as_user tee -a "$data/postgresql.conf" >/dev/null <<-END
		shared_preload_libraries = 'tsengine'
		tsengine.memory = '512MB'
		listen_addresses = ''
		unix_socket_directories = '$WORK/sock'
		port = $PORT
		fsync = off
		max_prepared_transactions = 20
		log_line_prefix = '%m [%p] %q%a '
		${TS_INDEX:+tsengine.index = '$TS_INDEX'}
	END
	as_user pg_ctl -D "$data" -l "$WORK/pg/$1.log" -w -t 120 start >/dev/null || {
		tail -n 50 "$WORK/pg/$1.log"
		return 1
	}
	sql postgres 'ALTER DATABASE template0 ALLOW_CONNECTIONS true'
	for db in template0 template1 postgres; do sql $db 'CREATE EXTENSION tsengine'; done
	sql postgres 'ALTER DATABASE template0 ALLOW_CONNECTIONS false'
}
PORT=54329

stop_server() {
	as_user pg_ctl -D "$WORK/pg/$1" -m fast -w -t 120 stop >/dev/null
}

# A server that crashed and came back may leave no trace in the tests' output.
server_crashes() {
	grep -aE 'PANIC:|TRAP:|was terminated by signal' "$WORK/pg/$1.log" | head -n 20 || true
}

sql() {
	as_user psql -X -q -v ON_ERROR_STOP=1 -h "$WORK/sock" -p $PORT -U postgres -d "$1" -c "$2"
}

# pg_regress_run DRIVER AM OUTDIR ARG...: pg_regress or pg_isolation_regress with the
# given access method as the default; what it prints is in OUTDIR/log. PSQL_DIR may name
# another psql than the server's.
pg_regress_run() {
	local driver=$1 am=$2 out=$3
	shift 3
	as_user mkdir -p "$out"
	as_user_limited env -C "$out" PGOPTIONS="-c default_table_access_method=$am" \
		"$PGXS_TEST/$driver" --bindir="${PSQL_DIR:-$BIN}" --host="$WORK/sock" --port=$PORT --user=postgres \
		--outputdir="$out" "$@" >"$out/log" 2>&1
}

# Names of the tests that passed, from the log of pg_regress: "test x ... ok 1 ms" up to
# 15, TAP from 16 on. An ignored failure is no failure.
regress_passed() {
	sed -nE -e 's/^(test)? +([^ ]+) +\.\.\. (ok|failed \(ignored\)).*/\2/p' \
		-e 's/^ok [0-9]+ +[-+] ([^ ]+) .*/\1/p' "$1/log"
}
