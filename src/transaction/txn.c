/*-------------------------------------------------------------------------
 *
 * txn.c
 *	  Transaction descriptors, the write set, savepoints, commit and abort.
 *
 * The write set is this process's list of the versions it has put onto rows,
 * in order.  Abort undoes it backwards, commit stamps it with the outcome.
 * Subtransactions are marks in it.
 *
 * The first write of a (sub)transaction takes a heavyweight lock whose tag
 * names descriptor, sequence and a number; who meets one of its versions or
 * row locks waits for that lock.  A committed subtransaction's writes are
 * given its parent's number, so there is at most one lock per nesting level.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/snapshot.h"
#include "transaction/txn.h"

/* a level of nesting: the top-level transaction is level 0 */
typedef struct Level
{
	int64		first_write;
	int64		first_lock;
	uint16		tag;			/* 0: none taken yet */
} Level;

typedef struct RowLockRef
{
	TsRowRef	ref;
	uint16		tag;
} RowLockRef;

typedef struct DescriptorPool
{
	int			first_free;		/* -1: none */
	int			nused;			/* descriptors ever handed out */
	int			size;

	/*
	 * While not 0, no transaction decides to commit without an xid.  Read
	 * after the phase DECIDED_PURE is published, with a full barrier between.
	 */
	pg_atomic_uint32 force_mixed;
} DescriptorPool;

TsTxn	   *ts_txns;
TsTxnProcess *ts_txn_processes;
TsTxnProcess *ts_my_txn_process = NULL;
uint64		ts_my_live_word = 0;
void		(*ts_version_undone_hook) (TsVersion *version) = NULL;
void		(*ts_txn_end_hook) (void) = NULL;

static DescriptorPool *pool;
static LWLock *pool_lock;

static TsTxn *my_txn = NULL;	/* kept between transactions */
static MemoryContext txn_context = NULL;
static TsWrite *writes = NULL;
static int64 nwrites = 0;
static int64 max_writes = 0;
static RowLockRef *row_locks = NULL;
static int64 nrow_locks = 0;
static int64 max_row_locks = 0;
static Level *levels = NULL;
static int	nlevels = 0;		/* 0: outside a transaction that used us */
static int	max_levels = 0;
static uint16 last_tag = 0;
static uint64 count_at_pre_commit = 0;
static bool published_xid = false;
static TsPrepared *prepared = NULL;

#define MAX_LOOSE		4
#define PREFETCH_DISTANCE 8

typedef struct Loose
{
	void	   *memory;			/* or NULL: a reserved row */
	Size		size;
	TsRowRef	ref;
} Loose;

static Loose loose[MAX_LOOSE];
static int	nloose = 0;
static bool forcing_mixed = false;

static int
pool_size(void)
{
	return ts_max_processes() + max_prepared_xacts;
}

void
ts_txn_request(void)
{
	RequestAddinShmemSpace(mul_size(pool_size(), sizeof(TsTxn)));
	RequestAddinShmemSpace(mul_size(ts_max_processes(), sizeof(TsTxnProcess)));
	RequestAddinShmemSpace(sizeof(DescriptorPool));
	RequestNamedLWLockTranche("TsengineTransaction", 2);
}

void
ts_txn_startup(void)
{
	bool		found;

	pool_lock = &GetNamedLWLockTranche("TsengineTransaction")[0].lock;
	pool = ShmemInitStruct("tsengine descriptor pool", sizeof(DescriptorPool), &found);
	ts_txns = ShmemInitStruct("tsengine transactions",
							  mul_size(pool_size(), sizeof(TsTxn)), &found);
	if (!found)
	{
		/*
		 * Start sequences at the time: lock tags of prepared transactions
		 * come back after a restart and must not meet new ones.
		 */
		uint64		seq = ((uint64) GetCurrentTimestamp() / 1000) & (TS_LIVE_SEQ_MASK >> 1);

		memset(ts_txns, 0, pool_size() * sizeof(TsTxn));
		for (int i = 0; i < pool_size(); i++)
			pg_atomic_init_u64(&ts_txns[i].state, (seq << 4) | TS_TXN_FREE);
		pool->first_free = -1;
		pool->nused = 0;
		pool->size = pool_size();
		pg_atomic_init_u32(&pool->force_mixed, 0);
	}
	ts_txn_processes = ShmemInitStruct("tsengine transaction processes",
									   mul_size(ts_max_processes(), sizeof(TsTxnProcess)),
									   &found);
	if (!found)
		memset(ts_txn_processes, 0, ts_max_processes() * sizeof(TsTxnProcess));
	ts_prepared_startup();
}

/* A descriptor nobody uses.  Raises an error only if the pool is exhausted. */
TsTxn *
ts_txn_take_descriptor(void)
{
	int			slot = -1;

	LWLockAcquire(pool_lock, LW_EXCLUSIVE);
	if (pool->first_free >= 0)
	{
		slot = pool->first_free;
		pool->first_free = ts_txns[slot].next_free;
	}
	else if (pool->nused < pool->size)
		slot = pool->nused++;
	LWLockRelease(pool_lock);
	if (slot < 0)
		elog(ERROR, "out of tsengine transaction descriptors");
	return &ts_txns[slot];
}

void
ts_txn_free_descriptor(TsTxn *txn)
{
	LWLockAcquire(pool_lock, LW_EXCLUSIVE);
	txn->next_free = pool->first_free;
	pool->first_free = (int) (txn - ts_txns);
	LWLockRelease(pool_lock);
}

static void
txn_process_exit(int code, Datum arg)
{
	ts_txn_force_mixed(false);
	ts_table_release_blocks();
	ts_garbage_exit_process();
	if (my_txn != NULL)
		ts_txn_free_descriptor(my_txn);
	my_txn = NULL;
}

/*
 * Prepare this process for using tables.  Registered after the memory layer's
 * exit callback, hence run before it.
 */
void
ts_txn_attach(void)
{
	if (ts_my_txn_process != NULL)
		return;
	ts_process_attach();
	ts_my_txn_process = &ts_txn_processes[MyProc->pgprocno];
	on_shmem_exit(txn_process_exit, 0);
}

/* Set up the bookkeeping of the transaction and of its open savepoints. */
static void
ensure_levels(void)
{
	int			depth = GetCurrentTransactionNestLevel();

	if (nlevels >= depth)
		return;
	ts_txn_attach();
	if (txn_context == NULL)
		txn_context = AllocSetContextCreate(TopMemoryContext, "tsengine write set",
											ALLOCSET_DEFAULT_SIZES);
	if (max_levels < depth)
	{
		int			n = Max(16, depth * 2);

		if (levels == NULL)
			levels = MemoryContextAlloc(txn_context, n * sizeof(Level));
		else
			levels = repalloc(levels, n * sizeof(Level));
		max_levels = n;
	}
	while (nlevels < depth)
	{
		levels[nlevels].first_write = nwrites;
		levels[nlevels].first_lock = nrow_locks;
		levels[nlevels].tag = 0;
		nlevels++;
	}
}

static inline Level *
current_level(void)
{
	return &levels[nlevels - 1];
}

static void
set_phase(TsTxn *txn, TsTxnState phase)
{
	uint64		state = pg_atomic_read_u64(&txn->state);

	/* release: what the phase promises is visible before it */
	pg_write_barrier();
	pg_atomic_write_u64(&txn->state, (state & ~UINT64CONST(15)) | phase);
}

/* The descriptor stands for nobody; the next sequence is for the next one. */
void
ts_txn_reset_descriptor(TsTxn *txn)
{
	uint64		seq = ts_txn_seq(pg_atomic_read_u64(&txn->state));

	pg_atomic_write_u32(&txn->spec_token, 0);
	for (int i = 0; i < TS_TAG_XIDS; i++)
		pg_atomic_write_u64(&txn->tag_xid[i], 0);
	/* release: stamps and undoing are visible before the new sequence */
	pg_write_barrier();
	pg_atomic_write_u64(&txn->state, (((seq + 1) & TS_LIVE_SEQ_MASK) << 4) | TS_TXN_FREE);
	pg_write_barrier();
	pg_atomic_write_u32(&txn->xid, InvalidTransactionId);
}

/* Acquire or release with the lock owned by the (sub)transaction. */
static void
own_tag_lock(uint16 number, bool acquire)
{
	ResourceOwner save = CurrentResourceOwner;
	LOCKTAG		tag;

	ts_txn_lock_tag(&tag, ts_my_live_word, number);
	CurrentResourceOwner = CurTransactionResourceOwner;
	if (acquire)
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
	else
		(void) LockRelease(&tag, ExclusiveLock, false);
	CurrentResourceOwner = save;
}

/* After 65,535 savepoints the numbers come round again. */
static bool
tag_in_use(uint16 number)
{
	for (int i = 0; i < nlevels; i++)
		if (levels[i].tag == number)
			return true;
	return false;
}

/* First write or row lock of the transaction or savepoint. */
static void
begin_level(void)
{
	Level	   *level = current_level();
	uint16		number;

	if (my_txn == NULL)
		my_txn = ts_txn_take_descriptor();
	if (ts_my_live_word == 0)
	{
		uint64		seq = ts_txn_seq(pg_atomic_read_u64(&my_txn->state));

		ts_my_live_word = ts_live_word((uint64) (my_txn - ts_txns), seq);
		last_tag = 0;
		published_xid = false;
		set_phase(my_txn, TS_TXN_ACTIVE);
		pg_atomic_write_u64(&ts_my_txn_process->live_word, ts_my_live_word);
	}
	do
		number = ++last_tag;
	while (number == 0 || tag_in_use(number));
	own_tag_lock(number, true);
	level->tag = number;
}

/*
 * To be called before the (sub)transaction's first write or row lock, cheap
 * later on.  With need_xid, the transaction is mixed from now on.  Raises
 * errors (out of locks, parallel mode).
 */
void
ts_txn_begin_write(bool need_xid)
{
	if (unlikely(IsParallelWorker()))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot change rows of tsengine tables in a parallel worker")));
	ensure_levels();
	if (unlikely(current_level()->tag == 0))
		begin_level();
	if (need_xid)
	{
		TransactionId xid = GetCurrentTransactionId();
		uint16		tag = current_level()->tag;
		uint64		entry = ((uint64) tag << 32) | xid;

		if (pg_atomic_read_u64(&my_txn->tag_xid[tag % TS_TAG_XIDS]) != entry)
			pg_atomic_write_u64(&my_txn->tag_xid[tag % TS_TAG_XIDS], entry);
		(void) ts_txn_publish_xid();
	}
}

/* Note the top-level xid, if there is one, in the descriptor. */
TransactionId
ts_txn_publish_xid(void)
{
	TransactionId xid = GetTopTransactionIdIfAny();

	if (my_txn != NULL && ts_my_live_word != 0 && !published_xid && TransactionIdIsValid(xid))
	{
		pg_atomic_write_u32(&my_txn->xid, xid);
		published_xid = true;
	}
	return xid;
}

uint16
ts_txn_tag(void)
{
	return current_level()->tag;
}

static void *
grow(void *array, int64 *max, int64 needed, Size item)
{
	int64		n = Max(needed, Max(64, *max * 2));

	if (array == NULL)
		array = MemoryContextAllocHuge(txn_context, n * item);
	else
		array = repalloc_huge(array, n * item);
	*max = n;
	return array;
}

/* Make sure that the next n ts_txn_add_write() calls cannot fail. */
void
ts_txn_reserve_writes(int n)
{
	if (unlikely(nwrites + n > max_writes))
		writes = grow(writes, &max_writes, nwrites + n, sizeof(TsWrite));
}

/* Note a version that has just become visible to others.  Cannot fail. */
void
ts_txn_add_write(TsRowRef ref, TsVersion *version, bool carried)
{
	TsWrite    *write = &writes[nwrites++];

	Assert(nwrites <= max_writes);
	write->block = ref.block;
	write->index = ref.index;
	write->carried = carried;
	write->version = version;
}

/* Call before ts_rowlock_acquire(): makes ts_txn_add_row_lock() infallible. */
void
ts_txn_lock_row_begin(void)
{
	ts_txn_begin_write(false);
	if (nrow_locks + 1 > max_row_locks)
		row_locks = grow(row_locks, &max_row_locks, nrow_locks + 1, sizeof(RowLockRef));
}

void
ts_txn_add_row_lock(TsRowRef ref)
{
	row_locks[nrow_locks].ref = ref;
	row_locks[nrow_locks].tag = current_level()->tag;
	nrow_locks++;
}

void
ts_txn_add_loose(void *memory, Size size)
{
	Assert(nloose < MAX_LOOSE);
	loose[nloose].memory = memory;
	loose[nloose].size = size;
	nloose++;
}

void
ts_txn_add_loose_row(TsRowRef ref)
{
	Assert(nloose < MAX_LOOSE);
	loose[nloose].memory = NULL;
	loose[nloose].ref = ref;
	nloose++;
}

/*
 * The first n of those noted have found their place; nothing came of the
 * others.
 */
void
ts_txn_keep_loose(int n)
{
	while (nloose > n)
	{
		nloose--;
		if (loose[nloose].memory != NULL)
			ts_free(loose[nloose].memory, loose[nloose].size);
		else
			ts_table_rows_freed(loose[nloose].ref.block, 1);
	}
	nloose = 0;
}

/*
 * Take a version off its row, whose head it must be.  Frees it when its grace
 * period is over.
 */
void
ts_write_undo(const TsWrite *write)
{
	TsVersion  *version = write->version;
	TsRowRef	ref = {write->block, write->index};
	TsRow	   *row = ts_ref_row(ref);
	TsVersion  *prev = ts_version_prev(version);
	uint64		gone = pg_atomic_read_u32(&write->block->table->indexed) ? TS_ROW_DEAD : TS_ROW_FREE;
	uint64		target = prev != NULL ? (uint64) (uintptr_t) prev : gone;
	uint64		word = pg_atomic_read_u64(row);

	if (write->carried)
	{
		TsRowRef	to;

		if (ts_table_row(write->block->table, &ts_version_moved(version)->successor, &to))
			ts_rowlock_uncarry(ref, to);
	}
	Assert(ts_row_word_version(word) == version);
	while (!pg_atomic_compare_exchange_u64(row, &word, target | (word & TS_ROW_BITS)))
		;
	if (prev == NULL && gone == TS_ROW_FREE)
		ts_table_rows_freed(write->block, 1);
	ts_retire(version, ts_version_size(version));
}

static void
undo_to(int64 mark)
{
	while (nwrites > mark)
	{
		nwrites--;
		if (ts_version_undone_hook != NULL)
			ts_version_undone_hook(writes[nwrites].version);
		ts_write_undo(&writes[nwrites]);
	}
}

/* Undo one write at once: a speculative insertion that lost. */
void
ts_txn_undo_write(TsVersion *version)
{
	int64		i = nwrites - 1;

	while (i >= 0 && writes[i].version != version)
		i--;
	if (i < 0)
		elog(ERROR, "speculative tsengine row is not in the write set");
	ts_write_undo(&writes[i]);
	memmove(&writes[i], &writes[i + 1], (nwrites - i - 1) * sizeof(TsWrite));
	nwrites--;
}

static void
release_row_locks_to(int64 mark)
{
	while (nrow_locks > mark)
	{
		TsLockHolder holder = {ts_my_live_word, row_locks[--nrow_locks].tag};

		ts_rowlock_release(row_locks[nrow_locks].ref, holder);
	}
}

/* All rows of a table are about to vanish without a trace. */
void
ts_txn_forget_table(TsTable *table)
{
	int64		kept = 0;

	for (int64 i = 0; i < nrow_locks; i++)
	{
		if (row_locks[i].ref.block->table == table)
		{
			TsLockHolder holder = {ts_my_live_word, row_locks[i].tag};

			ts_rowlock_release(row_locks[i].ref, holder);
		}
		else
			row_locks[kept++] = row_locks[i];
		for (int l = 0; l < nlevels; l++)
			if (levels[l].first_lock == i + 1)
				levels[l].first_lock = kept;
	}
	nrow_locks = kept;
	kept = 0;
	for (int64 i = 0; i < nwrites; i++)
	{
		if (writes[i].block->table != table)
			writes[kept++] = writes[i];
		else if (ts_version_undone_hook != NULL)
			ts_version_undone_hook(writes[i].version);
		for (int l = 0; l < nlevels; l++)
			if (levels[l].first_write == i + 1)
				levels[l].first_write = kept;
	}
	nwrites = kept;
}

/* Tell readers directly what became of a version. */
static inline void
stamp(TsVersion *version, uint64 csn, TransactionId xid, uint16 aux)
{
	if (!TransactionIdIsValid(xid))
	{
		pg_atomic_write_u64(&version->creator, csn);
		return;
	}
	version->cid = xid;
	version->aux = aux;
	pg_write_barrier();
	pg_atomic_write_u64(&version->creator, TS_CREATOR_MIXED | csn);
}

/*
 * A write set has committed at `csn` (csn_upper if an xid is given): stamp its
 * versions, count the rows that came and went, and note those that have
 * versions to be collected.  A row is noted after its version is stamped: the
 * collector would find nothing to do otherwise.  Raises no error.
 */
void
ts_writes_commit(const TsWrite *set, int64 n, uint64 csn, TransactionId xid, uint16 aux)
{
	TsTable    *table = NULL;
	int64		rows = 0;

	for (int64 i = 0; i < n; i++)
	{
		TsVersion  *version = set[i].version;
		TsRowRef	ref = {set[i].block, set[i].index};
		uint16		flags = version->flags;

		if (i + PREFETCH_DISTANCE < n)
		{
			const TsWrite *ahead = &set[i + PREFETCH_DISTANCE];

			__builtin_prefetch(ahead->version, 1);
			__builtin_prefetch(&ahead->block->rows[ahead->index], 1);
		}
		stamp(version, csn, xid, aux);
		if (ref.block->table != table)
		{
			if (rows != 0)
				ts_table_add_rows(table, rows);
			table = ref.block->table;
			rows = 0;
		}
		if (flags & TS_V_INSERTED)
			rows++;
		if (flags & TS_V_DELETED)
			rows--;
		if (ts_version_prev(version) != NULL || (flags & TS_V_DELETED))
			ts_garbage_add(ref, csn);
	}
	if (rows != 0)
		ts_table_add_rows(table, rows);
}

static void
finish_transaction(void)
{
	if (ts_txn_end_hook != NULL)
		ts_txn_end_hook();
	if (my_txn != NULL && ts_my_live_word != 0)
		ts_txn_reset_descriptor(my_txn);
	ts_my_live_word = 0;
	nwrites = 0;
	nrow_locks = 0;
	nlevels = 0;
	prepared = NULL;
	ts_table_end_transaction();
	if (ts_my_txn_process != NULL)
		pg_atomic_write_u64(&ts_my_txn_process->live_word, 0);
	if (max_writes > 4096 || max_row_locks > 4096 || max_levels > 64)
	{
		MemoryContextReset(txn_context);
		writes = NULL;
		row_locks = NULL;
		levels = NULL;
		max_writes = max_row_locks = 0;
		max_levels = 0;
	}
	if (unlikely(ts_arena_is_tight()))
	{
		ts_reclaim();
		ts_arena_flush_magazines();
	}
	ts_snapshot_end_transaction();
}

/*
 * Tables whose files go at this end of the (sub)transaction.  The list does not
 * name temporary ones; those are found out later (ts_table_drop_stale_temp).
 */
static void
drop_tables(bool commit)
{
	RelFileNode *nodes;
	int			n = smgrGetPendingDeletes(commit, &nodes);

	for (int i = 0; i < n; i++)
		ts_table_drop(nodes[i], InvalidBackendId);
	if (n > 0)
		pfree(nodes);
}

/*
 * PRE_COMMIT: what may fail.  An xid that exists is published before it can be
 * seen as committed.
 */
static void
pre_commit(void)
{
	if (ts_my_live_word == 0)
		return;

	/* on-commit actions of temporary tables run after us and need an xid */
	if (MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE)
		(void) GetTopTransactionId();
	if (!TransactionIdIsValid(ts_txn_publish_xid()))
	{
		set_phase(my_txn, TS_TXN_DECIDED_PURE);
		pg_memory_barrier();
		if (pg_atomic_read_u32(&pool->force_mixed) != 0)
		{
			set_phase(my_txn, TS_TXN_ACTIVE);
			(void) GetTopTransactionId();
			(void) ts_txn_publish_xid();
		}
	}
	count_at_pre_commit = ts_current_count();
}

/*
 * For CREATE INDEX CONCURRENTLY and its like: they wait for lock holders by
 * virtual transaction id, which a pure transaction has lost before it takes
 * its csn.  From here on until it is switched off, all commits are mixed, and
 * no pure one is under way.
 */
void
ts_txn_force_mixed(bool on)
{
	if (on == forcing_mixed)
		return;
	ts_txn_attach();
	forcing_mixed = on;
	if (!on)
	{
		pg_atomic_fetch_sub_u32(&pool->force_mixed, 1);
		return;
	}
	pg_atomic_fetch_add_u32(&pool->force_mixed, 1);
	for (int i = 0; i < pool->size; i++)
	{
		uint64		state = pg_atomic_read_u64(&ts_txns[i].state);
		TsTxnState	phase = ts_txn_phase(state);

		while ((phase == TS_TXN_DECIDED_PURE || phase == TS_TXN_PREPARING ||
				phase == TS_TXN_COMMITTED) &&
			   ts_txn_seq(pg_atomic_read_u64(&ts_txns[i].state)) == ts_txn_seq(state))
		{
			CHECK_FOR_INTERRUPTS();
			pg_usleep(50);
		}
	}
}

/* Take a commit sequence number: the next count of finished transactions. */
static uint64
take_csn(void)
{
	uint64		csn;

	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	csn = ++ts_transam_variables->xactCompletionCount;
	LWLockRelease(ProcArrayLock);
	return csn;
}

/*
 * COMMIT: ProcArrayEndTransaction has run, so a mixed transaction is visible
 * by its xid already; a pure one becomes so here.  Nothing may fail.
 */
static void
commit(void)
{
	TransactionId xid = GetTopTransactionIdIfAny();
	uint64		csn;
	uint16		aux = 0;

	if (nwrites == 0)
	{
		release_row_locks_to(0);
		return;
	}
	if (TransactionIdIsValid(xid) && !published_xid)
	{
		/*
		 * Too late to be mixed: snapshots that count the xid as committed may
		 * have been taken already, and have not seen our rows.
		 */
		ts_my_txn_process->counters.late_xid++;
		xid = InvalidTransactionId;
	}
	if (TransactionIdIsValid(xid))
	{
		ts_stop_point(TS_STOP_MIXED_ENDED);
		csn = ts_current_count();
		aux = (uint16) Min(csn - count_at_pre_commit, TS_AUX_FAR);
		ts_my_txn_process->counters.commits_mixed++;
	}
	else
	{
		ts_stop_point(TS_STOP_PURE_ENDED);
		pg_atomic_write_u64(&my_txn->floor, ts_current_count());
		set_phase(my_txn, TS_TXN_PREPARING);
		ts_stop_point(TS_STOP_PREPARING);
		csn = take_csn();
		ts_stop_point(TS_STOP_CSN_TAKEN);
		ts_my_txn_process->counters.commits_pure++;
	}
	pg_atomic_write_u64(&my_txn->csn, csn);
	set_phase(my_txn, TS_TXN_COMMITTED);
	ts_stop_point(TS_STOP_COMMITTED);

	ts_writes_commit(writes, nwrites, csn, xid, aux);
	release_row_locks_to(0);
}

static void
abort_transaction(void)
{
	ts_epoch_reset();
	ts_txn_keep_loose(0);
	ts_txn_force_mixed(false);
	if (ts_my_live_word != 0)
	{
		ts_my_txn_process->counters.aborts++;
		release_row_locks_to(0);
		undo_to(0);
	}
	if (prepared != NULL)
		ts_free(prepared, prepared->size);
	prepared = NULL;
}

static void
pre_prepare(void)
{
	TsPreparedLock *locks;
	RelFileNode *nodes;

	/* files to be dropped at the end need a descriptor to remember them */
	if (ts_my_live_word == 0 && (smgrGetPendingDeletes(true, &nodes) > 0 ||
								 smgrGetPendingDeletes(false, &nodes) > 0))
		ts_txn_begin_write(true);
	if (ts_my_live_word == 0)
		return;
	(void) GetTopTransactionId();
	(void) ts_txn_publish_xid();
	locks = palloc_extended(Max(1, nrow_locks) * sizeof(TsPreparedLock), MCXT_ALLOC_HUGE);
	for (int64 i = 0; i < nrow_locks; i++)
	{
		locks[i].ref = row_locks[i].ref;
		locks[i].tag = row_locks[i].tag;
	}
	prepared = ts_prepared_build(writes, nwrites, locks, nrow_locks);
	pfree(locks);
}

/* PREPARE is done: the descriptor goes its own way. */
static void
post_prepare(void)
{
	if (ts_my_live_word == 0)
		return;
	my_txn->prepared = prepared;
	pg_atomic_write_u64(&my_txn->floor, count_at_pre_commit);
	set_phase(my_txn, TS_TXN_PREPARED);
	my_txn = NULL;
	ts_my_live_word = 0;
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (ts_processes == NULL)
		return;
	if (ts_my_process == NULL)
	{
		/* this process has not used us, but it may drop our tables */
		if (event == XACT_EVENT_COMMIT)
			drop_tables(true);
		if (event != XACT_EVENT_PRE_PREPARE)
			return;
		ts_txn_attach();
	}
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			pre_commit();
			break;
		case XACT_EVENT_COMMIT:
			commit();
			drop_tables(true);
			finish_transaction();
			(void) ts_garbage_collect(4);
			break;
		case XACT_EVENT_ABORT:
			abort_transaction();
			drop_tables(false);
			finish_transaction();
			break;
		case XACT_EVENT_PRE_PREPARE:
			pre_prepare();
			break;
		case XACT_EVENT_PREPARE:
			post_prepare();
			finish_transaction();
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			ts_epoch_reset();
			ts_my_live_word = 0;
			finish_transaction();
			break;
		default:
			break;
	}
}

/* A savepoint is released: its writes become those of the level above. */
static void
merge_level(void)
{
	Level	   *child = &levels[nlevels - 1];
	Level	   *parent = &levels[nlevels - 2];

	if (child->tag != 0 && parent->tag == 0)
		parent->tag = child->tag;
	else if (child->tag != 0)
	{
		TsLockHolder holder = {ts_my_live_word, child->tag};

		for (int64 i = child->first_write; i < nwrites; i++)
			writes[i].version->aux = parent->tag;
		for (int64 i = child->first_lock; i < nrow_locks; i++)
		{
			if (row_locks[i].tag != child->tag)
				continue;
			ts_rowlock_retag(row_locks[i].ref, holder, parent->tag);
			row_locks[i].tag = parent->tag;
		}
		own_tag_lock(child->tag, false);
	}
	nlevels--;
}

static void
abort_level(void)
{
	Level	   *level = current_level();

	if (ts_my_live_word != 0)
	{
		release_row_locks_to(level->first_lock);
		undo_to(level->first_write);
	}
	nlevels--;
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	int			depth = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB && ts_processes != NULL)
	{
		ts_epoch_reset();
		ts_txn_keep_loose(0);
		ts_snapshot_abort_level(depth);
		if (nlevels >= depth)
			abort_level();
		drop_tables(false);
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		ts_snapshot_merge_level(depth);
		if (nlevels >= depth)
			merge_level();
	}
}

void
ts_txn_init_callbacks(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
