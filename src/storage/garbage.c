/*-------------------------------------------------------------------------
 *
 * garbage.c
 *	  Pruning of version chains, and the queue of rows that have garbage.
 *
 * A version is needed by a snapshot at count s if its csn <= s and the csn of
 * the next newer version > s.  Pruning unlinks every committed version but the
 * newest that no snapshot of the horizon needs, wherever in the chain it is;
 * when a committed delete is all that is left, the row's TID becomes free (or
 * dead, if index entries may lead to it).
 *
 * A row is pruned by the next writer that comes to it, and by way of the queue:
 * a committing transaction adds the rows it changed (flag TS_ROW_QUEUED keeps a
 * row from being added twice), and committers and the worker take chunks off
 * the queue when the horizon has passed them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "storage/sweep.h"

#define CHUNK_ROWS			41
#define WORKER_DELAY_MS		50
#define SWEEP_ROUNDS		4	/* look for tables to be swept so often */
#define BLOCKED_RETRY_ROUNDS	20	/* try blocked rows again at least so often */
#define FILLING_MAX_BYTES	(64 * 1024) /* hand a chunk over early */

typedef struct Chunk
{
	struct Chunk *next;
	uint64		count;			/* ready when the horizon has reached this */
	int			nrows;
	struct
	{
		TsTable    *table;
		uint64		generation;
		BlockNumber blkno;
		uint32		index;
	}			rows[CHUNK_ROWS];
} Chunk;

typedef struct GarbageShared
{
	/* under the lock */
	Chunk	   *head;
	Chunk	   *tail;
	pg_atomic_uint64 chunks;
	/* rows that an old snapshot kept from being pruned, to be tried again */
	Chunk	   *blocked;
	uint64		blocked_chunks;
} GarbageShared;

void		(*ts_garbage_round_hook) (void) = NULL;
bool		(*ts_free_dropped_hook) (void) = NULL;

static GarbageShared *shared;
static LWLock *lock;
static Chunk *filling = NULL;	/* this process's chunk */
static Size filling_bytes = 0;	/* about what its rows hold */

void
ts_garbage_request(void)
{
	RequestAddinShmemSpace(sizeof(GarbageShared));
	RequestNamedLWLockTranche("TsengineGarbage", 1);
}

void
ts_garbage_startup(void)
{
	bool		found;

	lock = &GetNamedLWLockTranche("TsengineGarbage")->lock;
	shared = ShmemInitStruct("tsengine garbage", sizeof(GarbageShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(GarbageShared));
		pg_atomic_init_u64(&shared->chunks, 0);
	}
	ts_arena_pressure_hook = ts_garbage_under_pressure;
}

/* Lowest count at which the committed version may be visible. */
static uint64
version_lower(TsVersion *v, uint64 word)
{
	if (ts_creator_is_csn(word))
		return word;
	return v->aux == TS_AUX_FAR ? 0 : ts_creator_upper(word) - v->aux;
}

static bool
held_between(const TsHorizon *h, uint64 from, uint64 to)
{
	int			low = 0;
	int			high = h->nheld;

	while (low < high)			/* first held count >= from */
	{
		int			mid = (low + high) / 2;

		if (h->held[mid] < from)
			low = mid + 1;
		else
			high = mid;
	}
	return low < h->nheld && h->held[low] < to;
}

/*
 * May a snapshot still need a committed version, given the committed version
 * that superseded it?
 */
bool
ts_version_needed(TsVersion *version, TsVersion *newer, const TsHorizon *horizon)
{
	uint64		superseded = ts_creator_upper(ts_version_creator(newer));

	return superseded > horizon->all_before ||
		held_between(horizon, version_lower(version, ts_version_creator(version)), superseded);
}

/*
 * With TS_ROW_PRUNING held and inside an epoch: unlink what is not needed
 * below `newest`, the newest committed version.  True if nothing is left.
 */
static bool
cut_chain(TsVersion *newest, const TsHorizon *horizon)
{
	TsVersion  *kept = newest;
	TsVersion  *newer = newest;
	TsVersion  *v = ts_version_prev(newest);

	while (v != NULL)
	{
		TsVersion  *prev = ts_version_prev(v);

		if (ts_version_needed(v, newer, horizon))
			kept = v;
		else
		{
			/*
			 * Readers on v go on to what it points to.  v's own fields stay
			 * as they are until the grace period is over, so `newer` may
			 * still be read below.
			 */
			pg_atomic_write_u64(&kept->prev, (uint64) (uintptr_t) prev);
			ts_retire(v, ts_version_size(v));
		}
		newer = v;
		v = prev;
	}
	return kept == newest;
}

/* The row is a committed delete that everyone sees: free or bury its TID. */
static bool
bury_row(TsRowRef ref, TsVersion *marker)
{
	TsRow	   *row = ts_ref_row(ref);
	TsTable    *table = ref.block->table;
	uint64		word = (uint64) (uintptr_t) marker | TS_ROW_PRUNING;
	uint64		indexed = pg_atomic_read_u32(&table->indexed);

	/* the flag TS_ROW_QUEUED may or may not be set; TS_ROW_LOCKED must not */
	word |= pg_atomic_read_u64(row) & TS_ROW_QUEUED;
	if (!pg_atomic_compare_exchange_u64(row, &word, indexed ? TS_ROW_DEAD : TS_ROW_FREE))
		return false;
	ts_retire(marker, ts_version_size(marker));
	if (!indexed)
		ts_table_rows_freed(ref.block, 1);
	else
		ts_table_row_died(table);
	return true;
}

/*
 * Prune one row.  Returns true if garbage is left that may go later.  Call it
 * inside an epoch section.  Takes no lock but the row's own flag; raises no
 * error.
 */
bool
ts_row_prune(TsRowRef ref, const TsHorizon *horizon)
{
	TsRow	   *row = ts_ref_row(ref);
	uint64		word = pg_atomic_read_u64(row);
	TsVersion  *head = ts_row_word_version(word);
	TsVersion  *newest;
	bool		clean;

	if (head == NULL)
		return false;
	if ((word & TS_ROW_PRUNING) ||
		(pg_atomic_fetch_or_u64(row, TS_ROW_PRUNING) & TS_ROW_PRUNING))
		return true;
	newest = head = ts_row_head(row);
	while (newest != NULL && ts_creator_is_live(ts_version_creator(newest)))
		newest = ts_version_prev(newest);
	clean = newest == NULL || cut_chain(newest, horizon);
	if (clean && newest != NULL && newest == head && (newest->flags & TS_V_DELETED))
	{
		clean = ts_creator_upper(ts_version_creator(newest)) <= horizon->all_before;
		if (clean && bury_row(ref, newest))
			return false;		/* the flags went with the row word */
		clean = false;
	}
	pg_atomic_fetch_and_u64(row, ~TS_ROW_PRUNING);
	return !clean;
}

/* No snapshot, present or future, sees anything under this TID. */
bool
ts_row_is_dead(TsRowRef ref, const TsHorizon *horizon)
{
	uint64		word = pg_atomic_read_u64(ts_ref_row(ref));
	TsVersion  *head = ts_row_word_version(word);
	TsVersion  *newer;

	if (head == NULL)
		return (word & ~TS_ROW_BITS) != TS_ROW_FREE;
	if ((head->flags & TS_V_DELETED) == 0 || ts_creator_is_live(ts_version_creator(head)))
		return false;
	newer = head;
	for (TsVersion *v = ts_version_prev(head); v != NULL; v = ts_version_prev(v))
	{
		if (ts_version_needed(v, newer, horizon))
			return false;
		newer = v;
	}
	return ts_creator_upper(ts_version_creator(head)) <= horizon->all_before;
}

static void
push_chunk(Chunk *chunk)
{
	chunk->next = NULL;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (shared->tail != NULL)
		shared->tail->next = chunk;
	else
		shared->head = chunk;
	shared->tail = chunk;
	pg_atomic_fetch_add_u64(&shared->chunks, 1);
	LWLockRelease(lock);
}

static Chunk *
new_chunk(void)
{
	Chunk	   *chunk = ts_alloc(sizeof(Chunk), TS_ALLOC_RESERVE);

	if (chunk != NULL)
	{
		chunk->next = NULL;
		chunk->nrows = 0;
		chunk->count = 0;
	}
	return chunk;
}

static void
chunk_add(Chunk *chunk, TsRowRef ref, uint64 count)
{
	chunk->rows[chunk->nrows].table = ref.block->table;
	chunk->rows[chunk->nrows].generation = pg_atomic_read_u64(&ref.block->table->generation);
	chunk->rows[chunk->nrows].blkno = ref.block->blkno;
	chunk->rows[chunk->nrows].index = ref.index;
	chunk->nrows++;
	chunk->count = Max(chunk->count, count);
}

/*
 * Note that a row has garbage since `count`.  Raises no error: if there is no
 * memory for the note, the row is left to its next writer and to VACUUM.
 */
void
ts_garbage_add(TsRowRef ref, uint64 count)
{
	TsRow	   *row = ts_ref_row(ref);

	if (ts_row_head(row) == NULL ||
		(pg_atomic_read_u64(row) & TS_ROW_QUEUED) ||
		(pg_atomic_fetch_or_u64(row, TS_ROW_QUEUED) & TS_ROW_QUEUED))
		return;
	if (filling == NULL && (filling = new_chunk()) == NULL)
	{
		pg_atomic_fetch_and_u64(row, ~TS_ROW_QUEUED);
		return;
	}
	chunk_add(filling, ref, count);
	filling_bytes += ts_version_size(ts_row_head(row));
	if (filling->nrows == CHUNK_ROWS || filling_bytes > FILLING_MAX_BYTES)
	{
		push_chunk(filling);
		filling = NULL;
		filling_bytes = 0;
	}
}

/* Prune a chunk's rows; those that keep garbage go into `left`. */
static void
process_chunk(Chunk *chunk, Chunk *left, const TsHorizon *horizon)
{
	left->nrows = 0;
	left->count = 0;
	ts_epoch_enter();
	for (int i = 0; i < chunk->nrows; i++)
	{
		TsTable    *table = chunk->rows[i].table;
		TsRowRef	ref;

		/* inside the epoch the block stays, if its table was there */
		if (pg_atomic_read_u64(&table->generation) != chunk->rows[i].generation)
			continue;
		ref.block = ts_table_block(table, chunk->rows[i].blkno);
		ref.index = chunk->rows[i].index;
		if (ref.block == NULL)
			continue;
		/* first: whoever leaves new garbage from now on queues the row anew */
		pg_atomic_fetch_and_u64(ts_ref_row(ref), ~TS_ROW_QUEUED);
		if (ts_row_prune(ref, horizon) &&
			!(pg_atomic_fetch_or_u64(ts_ref_row(ref), TS_ROW_QUEUED) & TS_ROW_QUEUED))
			left->rows[left->nrows++] = chunk->rows[i];
	}
	ts_epoch_leave();
}

static Chunk *
pop_chunk(uint64 all_before)
{
	Chunk	   *chunk;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	chunk = shared->head;
	if (chunk != NULL && chunk->count <= all_before)
	{
		shared->head = chunk->next;
		if (shared->head == NULL)
			shared->tail = NULL;
		pg_atomic_fetch_sub_u64(&shared->chunks, 1);
	}
	else
		chunk = NULL;
	LWLockRelease(lock);
	return chunk;
}

static void
push_blocked(Chunk *chunk)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	chunk->next = shared->blocked;
	shared->blocked = chunk;
	shared->blocked_chunks++;
	LWLockRelease(lock);
}

/*
 * Process up to `max_chunks` chunks of the queue.  Returns how many.  Raises
 * no error; call it outside epoch sections, with nothing held.
 */
int
ts_garbage_collect(int max_chunks)
{
	int			done = 0;
	Chunk		left;

	while (done < max_chunks && pg_atomic_read_u64(&shared->chunks) > 0)
	{
		const TsHorizon *horizon = ts_horizon(false);
		Chunk	   *chunk = pop_chunk(horizon->all_before);

		if (chunk == NULL)
		{
			horizon = ts_horizon(true);
			chunk = pop_chunk(horizon->all_before);
			if (chunk == NULL)
				break;
		}
		process_chunk(chunk, &left, horizon);
		if (left.nrows > 0)
		{
			memcpy(chunk->rows, left.rows, sizeof(left.rows[0]) * left.nrows);
			chunk->nrows = left.nrows;
			push_blocked(chunk);
		}
		else
			ts_free(chunk, sizeof(Chunk));
		done++;
	}
	return done;
}

/* Put the rows that an old snapshot held back into the queue once more. */
static void
requeue_blocked(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (shared->blocked != NULL)
	{
		Chunk	   *last = shared->blocked;

		while (last->next != NULL)
			last = last->next;
		last->next = shared->head;
		shared->head = shared->blocked;
		if (shared->tail == NULL)
			shared->tail = last;
		pg_atomic_fetch_add_u64(&shared->chunks, shared->blocked_chunks);
		shared->blocked = NULL;
		shared->blocked_chunks = 0;
	}
	LWLockRelease(lock);
}

/* For an allocation that is about to fail: collect what there is. */
TsPressure
ts_garbage_under_pressure(void)
{
	bool		freed = false;

	while (ts_table_free_dropped() || ts_free_dropped_hook())
		freed = true;
	(void) ts_horizon(true);
	requeue_blocked();
	/* what was blocked and still is comes back as such: no progress */
	if (ts_garbage_collect(1024) > (int) Min(shared->blocked_chunks, 1024))
		freed = true;
	ts_reclaim();
	if (freed)
		return TS_PRESSURE_FREED;
	return ts_table_any_dropped() || ts_my_process->limbo_head != NULL ?
		TS_PRESSURE_PENDING : TS_PRESSURE_NOTHING;
}

void
ts_garbage_exit_process(void)
{
	if (filling != NULL)
		push_chunk(filling);
	filling = NULL;
}

uint64
ts_garbage_queued_rows(void)
{
	return (pg_atomic_read_u64(&shared->chunks) + shared->blocked_chunks) * CHUNK_ROWS;
}

/*
 * Main loop of the garbage collector, a background worker without a database.
 * Its death restarts the server, as it may hold a row's flag.
 */
void
ts_garbage_worker_main(Datum arg)
{
	uint64		last_blocked_horizon = 0;
	int			rounds = 0;
	int			sweep_rounds = 0;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	ts_process_attach();
	while (!ShutdownRequestPending)
	{
		const TsHorizon *horizon;
		uint64		oldest;
		int			done;

		/* prepared transactions whose session did not come to finish them */
		if (ts_table_before_free_hook != NULL)
			ts_table_before_free_hook();
		if (ts_garbage_round_hook != NULL)
			ts_garbage_round_hook();
		while (ts_table_free_dropped() || ts_free_dropped_hook())
			;
		horizon = ts_horizon(true);
		oldest = horizon->nheld > 0 ? Min(horizon->held[0], horizon->all_before) : horizon->all_before;
		if (oldest != last_blocked_horizon || ++rounds >= BLOCKED_RETRY_ROUNDS)
		{
			requeue_blocked();	/* some snapshot has gone */
			rounds = 0;
		}
		last_blocked_horizon = oldest;
		done = ts_garbage_collect(256);
		if (++sweep_rounds >= SWEEP_ROUNDS)
		{
			ts_sweep_tables();
			sweep_rounds = 0;
		}
		ts_reclaim();
		if (done == 256)
			continue;
		if (done == 0)
			ts_arena_flush_magazines();	/* idle: keep no spans from being whole */
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 WORKER_DELAY_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	proc_exit(0);
}
