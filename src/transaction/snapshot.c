/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *	  Which count of finished transactions a snapshot stands for.
 *
 * PostgreSQL notes the count in the snapshot it takes, but zeroes it in copies,
 * and all snapshots an executor gets are copies.  We find it out again while
 * the static snapshot that was copied still has it, and stamp it into the
 * copy's `vistest` field, which MVCC snapshots do not use and which later
 * copies inherit.  DESIGN.md section 4 has the reasoning.
 *
 * So that garbage collection knows which counts are in use, a process
 * publishes (TsTxnProcess):
 *
 *	held	counts of snapshots in use: one for each executor between its start
 *			and end, each utility command, each planner call; in REPEATABLE READ
 *			that of the transaction
 *	base	every other snapshot of this process has a count >= base
 *
 * base moves on at the first event of a new client message, when no snapshot
 * of earlier messages is left but the held ones.  While a process waits for its
 * client, or in our own waits, it has none but the held ones (horizon.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "transaction/snapshot.h"
#include "transaction/txn.h"

#define MAX_PUBLISHED	8

typedef struct Hold
{
	const void *owner;
	uint64		count;
	int			nest_level;
} Hold;

/* addresses of snapmgr.c's static snapshots: the same in all processes */
typedef struct Learned
{
	Snapshot	current;
	Snapshot	secondary;
} Learned;

static Learned *learned;
static Hold *holds = NULL;
static int	nholds = 0;
static int	max_holds = 0;
static bool xact_stamped = false;
static bool import_unknown = false;	/* an imported snapshot without a count */
static TimestampTz last_message = 0;
static uint32 nexported = 0;

#define stamp_of(s)		((uint64) (uintptr_t) (s)->vistest)
#define set_stamp(s, c)	((s)->vistest = (struct GlobalVisState *) (uintptr_t) (c))

void
ts_snapshot_request(void)
{
	RequestAddinShmemSpace(sizeof(Learned));
}

void
ts_snapshot_startup(void)
{
	bool		found;

	learned = ShmemInitStruct("tsengine snapshot addresses", sizeof(Learned), &found);
	if (!found)
		memset(learned, 0, sizeof(Learned));
}

/*
 * Learn the addresses of the static snapshots.  To be called in a READ
 * COMMITTED transaction whose first snapshot has been taken.
 */
void
ts_snapshot_learn(void)
{
	Snapshot	current;
	Snapshot	secondary;

	if (learned == NULL || (learned->current != NULL && learned->secondary != NULL) ||
		IsolationUsesXactSnapshot() || IsInParallelMode())
		return;
	current = GetTransactionSnapshot();
	secondary = GetLatestSnapshot();
	if (!current->copied && !secondary->copied && current != secondary)
	{
		learned->current = current;
		learned->secondary = secondary;
	}
}

/* Do two snapshots agree on what heap shows? */
static bool
same_contents(Snapshot a, Snapshot b)
{
	return a->xmin == b->xmin && a->xmax == b->xmax && a->xcnt == b->xcnt &&
		a->subxcnt == b->subxcnt && a->suboverflowed == b->suboverflowed &&
		a->takenDuringRecovery == b->takenDuringRecovery;
}

static bool
is_held(uint64 count)
{
	for (int i = 0; i < nholds; i++)
		if (holds[i].count == count)
			return true;
	return false;
}

/*
 * Bring what is published into line with holds[].  A count stays in its place
 * while it is held, and what is new is stored before anything is taken away: so
 * whoever reads the places one after the other misses nothing.
 */
static void
publish_holds(void)
{
	TsTxnProcess *my = ts_my_txn_process;
	uint64		overflow = 0;

	for (int i = 0; i < nholds; i++)
	{
		uint64		count = holds[i].count;
		int			place = -1;

		for (int j = 0; j < MAX_PUBLISHED; j++)
		{
			uint64		published = pg_atomic_read_u64(&my->held[j]);

			if (published == count)
			{
				place = j;
				break;
			}
			if (published == 0 && place < 0)
				place = j;
		}
		if (place < 0)
			overflow = overflow == 0 ? count : Min(overflow, count);
		else if (pg_atomic_read_u64(&my->held[place]) == 0)
			pg_atomic_write_u64(&my->held[place], count);
	}
	if (overflow != 0)
		pg_atomic_write_u64(&my->held_min, overflow);
	pg_write_barrier();
	for (int j = 0; j < MAX_PUBLISHED; j++)
		if (pg_atomic_read_u64(&my->held[j]) != 0 && !is_held(pg_atomic_read_u64(&my->held[j])))
			pg_atomic_write_u64(&my->held[j], 0);
	if (overflow == 0 && pg_atomic_read_u64(&my->held_min) != 0)
		pg_atomic_write_u64(&my->held_min, 0);
}

static void
add_hold(const void *owner, uint64 count)
{
	if (nholds == max_holds)
	{
		int			n = Max(32, max_holds * 2);

		if (holds == NULL)
			holds = MemoryContextAlloc(TopMemoryContext, n * sizeof(Hold));
		else
			holds = repalloc(holds, n * sizeof(Hold));
		max_holds = n;
	}
	holds[nholds].owner = owner;
	holds[nholds].count = count;
	holds[nholds].nest_level = GetCurrentTransactionNestLevel();
	nholds++;
	publish_holds();
}

/* The count of a static snapshot if it agrees with `snapshot`, else 0. */
static uint64
count_of_static(Snapshot fixed, Snapshot snapshot)
{
	if (fixed == NULL || !same_contents(fixed, snapshot))
		return 0;
	return fixed->snapXactCompletionCount;
}

/* A snapshot taken right now agrees with `snapshot`: then its count will do. */
static uint64
count_of_fresh(Snapshot snapshot)
{
	static SnapshotData fresh = {SNAPSHOT_MVCC};

	(void) GetSnapshotData(&fresh);
	return same_contents(&fresh, snapshot) ? fresh.snapXactCompletionCount : 0;
}

/* Contents of a snapshot, for an internal error. */
static char *
describe(Snapshot s)
{
	if (s == NULL)
		return "unknown";
	return psprintf("%u:%u:%u/%u%s count " UINT64_FORMAT, s->xmin, s->xmax, s->xcnt,
					s->subxcnt, s->suboverflowed ? "+" : "", s->snapXactCompletionCount);
}

static void
count_missing(Snapshot snapshot)
{
	ts_my_txn_process->counters.snapshot_missing++;
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("could not determine the commit count of a snapshot"),
			 errdetail_internal("Snapshot %s; current %s; latest %s.", describe(snapshot),
								describe(learned->current), describe(learned->secondary)),
			 errhint("Repeat the statement. If this persists, please report it.")));
}

/*
 * REPEATABLE READ and SERIALIZABLE: stamp the transaction's snapshot object,
 * once; it is held until the transaction ends.
 */
static Snapshot
stamp_transaction_snapshot(void)
{
	Snapshot	snapshot = GetTransactionSnapshot();

	if (!xact_stamped)
	{
		uint64		count = stamp_of(snapshot);

		if (count == 0 && import_unknown)
			count_missing(snapshot);
		if (count == 0)
			count = count_of_static(learned->current, snapshot);
		if (count == 0)
			count = count_of_fresh(snapshot);
		if (count == 0)
			count_missing(snapshot);
		set_stamp(snapshot, count);
		xact_stamped = true;
		add_hold(&xact_stamped, count);
		pg_atomic_write_u64(&ts_my_txn_process->xact_count, count);
	}
	return snapshot;
}

/* The count of a snapshot not seen before, 0 if it cannot be had. */
static uint64
find_count(Snapshot snapshot)
{
	uint64		count;

	if (IsolationUsesXactSnapshot() && FirstSnapshotSet && !xact_stamped)
	{
		Snapshot	xact = stamp_transaction_snapshot();

		/* a copy made before its original was stamped */
		if (snapshot == xact || same_contents(snapshot, xact))
			return stamp_of(xact);
	}
	/* copies made later are stamped; in READ COMMITTED any may be the source */
	count = count_of_static(learned->secondary, snapshot);
	if (!IsolationUsesXactSnapshot())
		count = Max(count, count_of_static(learned->current, snapshot));
	if (count == 0)
		count = count_of_fresh(snapshot);
	return count;
}

/* Publish what this process may still use, at the start of something new. */
static void
move_base(uint64 count)
{
	TimestampTz message = GetCurrentStatementStartTimestamp();
	uint64		base = pg_atomic_read_u64(&ts_my_txn_process->base);

	if (base == 0 || message != last_message)
	{
		last_message = message;
		/* release: holds are visible before */
		pg_write_barrier();
		pg_atomic_write_u64(&ts_my_txn_process->base, count);
	}
	else if (count < base)
		ereport(ERROR,
				(errcode(ERRCODE_SNAPSHOT_TOO_OLD),
				 errmsg("snapshot too old"),
				 errdetail("A snapshot taken before others of the same statement was first used after them.")));
}

static uint64
leader_count(void)
{
	PGPROC	   *leader = MyProc->lockGroupLeader;

	if (leader == NULL)
		elog(ERROR, "parallel worker without a leader");
	return pg_atomic_read_u64(&ts_txn_processes[leader->pgprocno].parallel_count);
}

/* As ts_snapshot_count, but 0 if the count cannot be had. */
static uint64
snapshot_count_if_known(Snapshot snapshot)
{
	uint64		count;

	if (unlikely(ts_my_txn_process == NULL))
		ts_txn_attach();
	if (likely(!IsInParallelMode()))
	{
		count = stamp_of(snapshot);
		if (likely(count != 0))
			return count;
	}
	else if (IsParallelWorker())
		return leader_count();
	else if (ActiveSnapshotSet())
	{
		Snapshot	active = GetActiveSnapshot();

		/* restored from its serialized form: the stamp field is garbage */
		if (snapshot != active && same_contents(snapshot, active) &&
			snapshot->curcid == active->curcid)
			snapshot = active;
	}
	if (!snapshot->copied)
	{
		count = snapshot->snapXactCompletionCount;
		if (count != 0)
			return count;
	}
	count = stamp_of(snapshot);
	if (count != 0)
		return count;
	count = find_count(snapshot);
	if (count != 0)
	{
		move_base(count);
		set_stamp(snapshot, count);
	}
	return count;
}

/*
 * The count an MVCC snapshot stands for; a tsengine version committed at csn c
 * is visible to it if c <= count.  Cheap for snapshots seen before.  Raises an
 * error if it cannot be had.
 */
uint64
ts_snapshot_count(Snapshot snapshot)
{
	uint64		count = snapshot_count_if_known(snapshot);

	if (unlikely(count == 0))
		count_missing(snapshot);
	return count;
}

/*
 * Something may run under the active snapshot that takes others: find out its
 * count while that can be done, and publish it until ts_snapshot_unhold(owner).
 *
 * The active snapshot may be one that was pushed for an expression in PL/pgSQL
 * and is used for planning only; that its count cannot be had then matters to
 * nobody.  False in this case.
 */
bool
ts_snapshot_hold_active(const void *owner)
{
	uint64		count;

	if (!ActiveSnapshotSet() || IsParallelWorker() ||
		GetActiveSnapshot()->snapshot_type != SNAPSHOT_MVCC)
		return false;
	count = snapshot_count_if_known(GetActiveSnapshot());
	if (count != 0)
		add_hold(owner, count);
	return count != 0;
}

/* Publish that a snapshot is in use, until ts_snapshot_unhold(owner). */
void
ts_snapshot_hold(const void *owner, Snapshot snapshot)
{
	uint64		count = ts_snapshot_count(snapshot);

	add_hold(owner, count);
	if (GetCurrentStatementStartTimestamp() != last_message ||
		pg_atomic_read_u64(&ts_my_txn_process->base) == 0)
		move_base(count);
}

/* Does nothing if `owner` holds nothing: its transaction may have ended. */
void
ts_snapshot_unhold(const void *owner)
{
	for (int i = nholds - 1; i >= 0; i--)
	{
		if (holds[i].owner == owner)
		{
			memmove(&holds[i], &holds[i + 1], (nholds - i - 1) * sizeof(Hold));
			nholds--;
			publish_holds();
			return;
		}
	}
}

/* A subtransaction aborted: what it held is gone, its executors did not end. */
void
ts_snapshot_abort_level(int nest_level)
{
	int			kept = 0;

	if (ts_my_txn_process == NULL)
		return;
	pg_atomic_write_u32(&ts_my_txn_process->quiet, 0);
	for (int i = 0; i < nholds; i++)
		if (holds[i].nest_level < nest_level || holds[i].owner == &xact_stamped)
			holds[kept++] = holds[i];
	nholds = kept;
	publish_holds();
}

/* A savepoint is released: what it held goes on at the level above. */
void
ts_snapshot_merge_level(int nest_level)
{
	for (int i = 0; i < nholds; i++)
		holds[i].nest_level = Min(holds[i].nest_level, nest_level - 1);
}

/*
 * Around a wait in this library: while it lasts, this process uses no snapshots
 * but those it holds.
 */
void
ts_snapshot_begin_wait(const void *owner)
{
	(void) ts_snapshot_hold_active(owner);
	pg_write_barrier();
	pg_atomic_write_u32(&ts_my_txn_process->quiet, 1);
}

void
ts_snapshot_end_wait(const void *owner)
{
	pg_atomic_write_u32(&ts_my_txn_process->quiet, 0);
	pg_memory_barrier();
	ts_snapshot_unhold(owner);
}

void
ts_snapshot_end_transaction(void)
{
	xact_stamped = false;
	import_unknown = false;
	nexported = 0;
	if (ts_my_txn_process == NULL)
		return;
	pg_atomic_write_u32(&ts_my_txn_process->quiet, 0);
	if (nholds > 0)
	{
		nholds = 0;
		publish_holds();
	}
	pg_atomic_write_u64(&ts_my_txn_process->base, 0);
	pg_atomic_write_u64(&ts_my_txn_process->xact_count, 0);
}

/* The leader is about to run a parallel plan under this snapshot. */
void
ts_snapshot_set_parallel(Snapshot snapshot)
{
	uint64		count = ts_snapshot_count(snapshot);

	pg_atomic_write_u64(&ts_my_txn_process->parallel_count, count);
}

/* Does core have an exported snapshot of this transaction under this number? */
static bool
export_exists(uint32 number)
{
	char		path[MAXPGPATH];
	struct stat st;

	snprintf(path, sizeof(path), "pg_snapshots/%08X-%08X-%d",
			 MyProc->backendId, ts_proc_lxid(MyProc), number);
	return stat(path, &st) == 0;
}

/*
 * The active snapshot is about to be exported: note its count for those who
 * import it, under the number core will give it.  (Exports we have not seen
 * have taken numbers, too.)  It is held until the transaction ends.
 */
void
ts_snapshot_note_export(void)
{
	uint64		count = ts_snapshot_count(GetActiveSnapshot());
	uint32		place;

	while (export_exists(nexported + 1))
		nexported++;
	nexported++;
	place = nexported % TS_MAX_EXPORTED;
	add_hold(&nexported, count);
	pg_atomic_write_u32(&ts_my_txn_process->exported_number[place], 0);
	pg_write_barrier();
	pg_atomic_write_u64(&ts_my_txn_process->exported[place], count);
	pg_write_barrier();
	pg_atomic_write_u32(&ts_my_txn_process->exported_number[place], nexported);
	pg_atomic_write_u32(&ts_my_txn_process->exported_lxid, ts_proc_lxid(MyProc));
}

/*
 * SET TRANSACTION SNAPSHOT has taken over the snapshot `id`: give it the count
 * the exporter has for it.  Raises an error if the exporter has ended.
 */
void
ts_snapshot_import(const char *id)
{
	unsigned int backend;
	unsigned int lxid;
	unsigned int number;
	PGPROC	   *proc = NULL;
	TsTxnProcess *exporter;
	uint64		count = 0;

	ts_txn_attach();
	if (sscanf(id, "%8X-%8X-%u", &backend, &lxid, &number) == 3 &&
		(proc = BackendIdGetProc((BackendId) backend)) != NULL)
	{
		exporter = &ts_txn_processes[proc->pgprocno];
		if (pg_atomic_read_u32(&exporter->exported_lxid) == lxid &&
			pg_atomic_read_u32(&exporter->exported_number[number % TS_MAX_EXPORTED]) == number)
		{
			pg_read_barrier();
			count = pg_atomic_read_u64(&exporter->exported[number % TS_MAX_EXPORTED]);
			pg_read_barrier();
			if (pg_atomic_read_u32(&exporter->exported_number[number % TS_MAX_EXPORTED]) != number)
				count = 0;
		}
		/* an export we have not seen: in REPEATABLE READ there is one count */
		if (count == 0)
			count = pg_atomic_read_u64(&exporter->xact_count);
	}
	if (count == 0)
	{
		/* exported in a way we have not seen: an error if it comes to matter */
		import_unknown = true;
		return;
	}
	set_stamp(GetTransactionSnapshot(), count);
	xact_stamped = true;
	add_hold(&xact_stamped, count);
	pg_atomic_write_u64(&ts_my_txn_process->xact_count, count);
	move_base(count);

	/* what the snapshot needs was kept by the exporter: is it still there? */
	pg_memory_barrier();
	if (ts_proc_lxid(proc) != lxid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not import the requested snapshot"),
				 errdetail("The source transaction is not running anymore.")));
}
