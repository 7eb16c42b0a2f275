/*-------------------------------------------------------------------------
 *
 * txn.c
 *	  Transaction descriptors, savepoints, and the locks that stand for them.
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
#include "transaction/log.h"
#include "transaction/private.h"
#include "transaction/snapshot.h"

typedef struct DescriptorPool
{
	int			first_free;		/* -1: none */
	int			nused;			/* descriptors ever handed out */
	int			size;
	int			tranche;

	/*
	 * While not 0, no transaction decides to commit without an xid.  Read
	 * after the phase DECIDED_PURE is published, with a full barrier between.
	 */
	pg_atomic_uint32 force_mixed;

	/*
	 * Shown xmins of pure versions: see ts_shown_xmin().  Written by recovery
	 * before others use it.
	 */
	pg_atomic_uint32 xmin_offset;

	/* when the last transaction record was written as a time mark */
	pg_atomic_uint64 last_marker;
} DescriptorPool;

TsTxn	   *ts_txns;
TsTxnProcess *ts_txn_processes;
TsTxnProcess *ts_my_txn_process = NULL;
uint64		ts_my_live_word = 0;
int			ts_commit_marker_interval = 100;
TsLocal		ts_local;

static DescriptorPool *pool;
static LWLock *pool_lock;

static uint16 last_tag = 0;
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
		pool->tranche = LWLockNewTrancheId();
		for (int i = 0; i < pool_size(); i++)
		{
			pg_atomic_init_u64(&ts_txns[i].state, (seq << 4) | TS_TXN_FREE);
			LWLockInitialize(&ts_txns[i].logged_lock, pool->tranche);
		}
		pool->first_free = -1;
		pool->nused = 0;
		pool->size = pool_size();
		pg_atomic_init_u32(&pool->force_mixed, 0);
		pg_atomic_init_u32(&pool->xmin_offset, 0);
		pg_atomic_init_u64(&pool->last_marker, 0);
	}
	LWLockRegisterTranche(pool->tranche, "TsengineLogged");
	ts_txn_processes = ShmemInitStruct("tsengine transaction processes",
									   mul_size(ts_max_processes(), sizeof(TsTxnProcess)),
									   &found);
	if (!found)
		memset(ts_txn_processes, 0, ts_max_processes() * sizeof(TsTxnProcess));
	ts_prepared_startup();
}

/* Descriptors with numbers below this may have been used. */
int
ts_txn_count(void)
{
	return *(volatile int *) &pool->nused;
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
	if (ts_local.txn != NULL)
		ts_txn_free_descriptor(ts_local.txn);
	ts_local.txn = NULL;
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

	if (ts_local.nlevels >= depth)
		return;
	ts_txn_attach();
	if (ts_local.context == NULL)
		ts_local.context = AllocSetContextCreate(TopMemoryContext, "tsengine write set",
											ALLOCSET_DEFAULT_SIZES);
	if (ts_local.max_levels < depth)
	{
		int			n = Max(16, depth * 2);

		if (ts_local.levels == NULL)
			ts_local.levels = MemoryContextAlloc(ts_local.context, n * sizeof(TsLevel));
		else
			ts_local.levels = repalloc(ts_local.levels, n * sizeof(TsLevel));
		ts_local.max_levels = n;
	}
	while (ts_local.nlevels < depth)
	{
		ts_local.levels[ts_local.nlevels].first_write = ts_local.nwrites;
		ts_local.levels[ts_local.nlevels].first_lock = ts_local.nrow_locks;
		ts_local.levels[ts_local.nlevels].tag = 0;
		ts_local.nlevels++;
	}
}

static inline TsLevel *
current_level(void)
{
	return &ts_local.levels[ts_local.nlevels - 1];
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
void
ts_own_tag_lock(uint16 number, bool acquire)
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

/*
 * A committed transaction's lock, before core releases it with all others:
 * whoever waits for it goes on while we wait for the disk.  Raises no error.
 */
void
ts_free_tag_lock(uint64 live_word, uint16 number)
{
	LOCKTAG		tag;
	ResourceOwner save = CurrentResourceOwner;

	ts_txn_lock_tag(&tag, live_word, number);
	CurrentResourceOwner = CurTransactionResourceOwner;
	(void) LockRelease(&tag, ExclusiveLock, false);
	CurrentResourceOwner = save;
}

/* After 65,535 savepoints the numbers come round again. */
static bool
tag_in_use(uint16 number)
{
	for (int i = 0; i < ts_local.nlevels; i++)
		if (ts_local.levels[i].tag == number)
			return true;
	return false;
}

/* First write or row lock of the transaction or savepoint. */
static void
begin_level(void)
{
	TsLevel    *level = current_level();
	uint16		number;

	if (ts_local.txn == NULL)
		ts_local.txn = ts_txn_take_descriptor();
	if (ts_my_live_word == 0)
	{
		uint64		seq = ts_txn_seq(pg_atomic_read_u64(&ts_local.txn->state));

		ts_my_live_word = ts_live_word((uint64) (ts_local.txn - ts_txns), seq);
		last_tag = 0;
		ts_local.published_xid = false;
		ts_set_phase(ts_local.txn, TS_TXN_ACTIVE);
		pg_atomic_write_u64(&ts_my_txn_process->live_word, ts_my_live_word);
		/* full barrier: the guard that withdraws its permission sees us */
		pg_memory_barrier();
	}
	ts_log_check_writable();
	do
		number = ++last_tag;
	while (number == 0 || tag_in_use(number));
	ts_own_tag_lock(number, true);
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
	if (unlikely(ts_local.unlogged_bytes > TS_LOG_CHUNK_BYTES) && !ts_local.no_memory_for_list)
	{
		(void) GetCurrentTransactionId();
		ts_log_writes(false);
		need_xid = true;
	}
	if (need_xid)
	{
		TransactionId xid = GetCurrentTransactionId();
		uint16		tag = current_level()->tag;
		uint64		entry = ((uint64) tag << 32) | xid;

		if (pg_atomic_read_u64(&ts_local.txn->tag_xid[tag % TS_TAG_XIDS]) != entry)
			pg_atomic_write_u64(&ts_local.txn->tag_xid[tag % TS_TAG_XIDS], entry);
		(void) ts_txn_publish_xid();
	}
}

/* Note the top-level xid, if there is one, in the descriptor. */
TransactionId
ts_txn_publish_xid(void)
{
	TransactionId xid = GetTopTransactionIdIfAny();

	if (ts_my_live_word != 0 && !ts_local.published_xid && TransactionIdIsValid(xid))
	{
		pg_atomic_write_u32(&ts_local.txn->xid, xid);
		ts_local.published_xid = true;
	}
	return xid;
}

uint16
ts_txn_tag(void)
{
	return current_level()->tag;
}

/* Call before ts_rowlock_acquire(): makes ts_txn_add_row_lock() infallible. */
void
ts_txn_lock_row_begin(void)
{
	ts_txn_begin_write(false);
	if (ts_local.nrow_locks + 1 > ts_local.max_row_locks)
		ts_local.row_locks = ts_local_grow(ts_local.row_locks, &ts_local.max_row_locks,
										   ts_local.nrow_locks + 1, sizeof(TsRowLockRef));
}

void
ts_txn_add_row_lock(TsRowRef ref, LockTupleMode mode)
{
	TsRowLockRef *lock = &ts_local.row_locks[ts_local.nrow_locks++];

	lock->ref = ref;
	lock->tag = current_level()->tag;
	lock->mode = mode;
}

void
ts_release_row_locks_to(int64 mark)
{
	while (ts_local.nrow_locks > mark)
	{
		TsLockHolder holder = {ts_my_live_word, ts_local.row_locks[--ts_local.nrow_locks].tag};

		ts_rowlock_release(ts_local.row_locks[ts_local.nrow_locks].ref, holder);
	}
}

/* All rows of a table are about to vanish without a trace. */
void
ts_txn_forget_table(TsTable *table)
{
	int64		kept = 0;

	for (int64 i = 0; i < ts_local.nrow_locks; i++)
	{
		if (ts_local.row_locks[i].ref.block->table == table)
		{
			TsLockHolder holder = {ts_my_live_word, ts_local.row_locks[i].tag};

			ts_rowlock_release(ts_local.row_locks[i].ref, holder);
		}
		else
			ts_local.row_locks[kept++] = ts_local.row_locks[i];
		for (int l = 0; l < ts_local.nlevels; l++)
			if (ts_local.levels[l].first_lock == i + 1)
				ts_local.levels[l].first_lock = kept;
	}
	ts_local.nrow_locks = kept;
	ts_forget_writes(table);
}

/* A savepoint is released: its writes become those of the level above. */
static void
merge_level(void)
{
	TsLevel	   *child = &ts_local.levels[ts_local.nlevels - 1];
	TsLevel	   *parent = &ts_local.levels[ts_local.nlevels - 2];

	if (child->tag != 0 && parent->tag == 0)
		parent->tag = child->tag;
	else if (child->tag != 0)
	{
		TsLockHolder holder = {ts_my_live_word, child->tag};

		for (int64 i = child->first_write; i < ts_local.nwrites; i++)
			if (ts_local.writes[i].version != NULL)
				ts_local.writes[i].version->aux = parent->tag;
		for (int64 i = child->first_lock; i < ts_local.nrow_locks; i++)
		{
			if (ts_local.row_locks[i].tag != child->tag)
				continue;
			ts_rowlock_retag(ts_local.row_locks[i].ref, holder, parent->tag);
			ts_local.row_locks[i].tag = parent->tag;
		}
		ts_own_tag_lock(child->tag, false);
	}
	ts_local.nlevels--;
}

static void
abort_level(void)
{
	TsLevel	   *level = current_level();

	if (ts_my_live_word != 0)
	{
		ts_release_row_locks_to(level->first_lock);
		ts_undo_to(level->first_write);
	}
	ts_local.nlevels--;
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
		if (ts_local.nlevels >= depth)
			abort_level();
		ts_drop_tables(false);
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		ts_snapshot_merge_level(depth);
		if (ts_local.nlevels >= depth)
			merge_level();
	}
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

/* Does somebody want all commits to be mixed? */
bool
ts_txn_mixed_forced(void)
{
	return pg_atomic_read_u32(&pool->force_mixed) != 0;
}

/*
 * Recovery to a point in time, and recovery_min_apply_delay, look at the times
 * in core's commit records only.  True if the last mixed commit of ours is too
 * long ago: then this one is to be mixed, for its record.
 */
bool
ts_marker_due(void)
{
	uint64		last;
	TimestampTz now;

	if (ts_commit_marker_interval <= 0)
		return false;
	last = pg_atomic_read_u64(&pool->last_marker);
	now = GetCurrentTimestamp();
	/* of several committers one finds the old value */
	return now - (int64) last > ts_commit_marker_interval * INT64CONST(1000) &&
		pg_atomic_compare_exchange_u64(&pool->last_marker, &last, (uint64) now);
}

/* ---- the system column xmin ---- */

/*
 * The xmin that a pure version shows: its csn plus an offset that lets the
 * values of all runs of the server go on where the last one ended, reduced to a
 * quarter of the xid space which is at least a quarter away from xids in use.
 */
uint32
ts_shown_xmin(uint64 csn)
{
	uint32		next_xid = XidFromFullTransactionId(ts_transam_variables->nextXid);
	uint32		low = ((uint32) csn + pg_atomic_read_u32(&pool->xmin_offset)) & TS_XMIN_MASK;
	uint32		xmin = (((next_xid >> 30) + 2) << 30) | low;

	return TransactionIdIsNormal(xmin) ? xmin : xmin + FirstNormalTransactionId;
}

/* The value that images keep. */
uint32
ts_xmin_counter(void)
{
	return ((uint32) ts_current_count() + pg_atomic_read_u32(&pool->xmin_offset)) & TS_XMIN_MASK;
}

/*
 * Values up to this one have been shown (an xmin or what ts_xmin_counter() gave):
 * go on after it.  For loading and recovery, before there are new commits.
 */
void
ts_xmin_counter_restore(uint32 shown)
{
	uint32		counter = ts_xmin_counter();

	/* how far it is ahead, in 30 bits with a sign */
	if ((int32) ((shown - counter) << 2) >= 0)
		pg_atomic_fetch_add_u32(&pool->xmin_offset, ((shown - counter) & TS_XMIN_MASK) + 1);
}

void
ts_txn_init_callbacks(void)
{
	RegisterXactCallback(ts_xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
