/*-------------------------------------------------------------------------
 *
 * rowlock.c
 *	  The row lock table: a hash table of row locks in the arena.
 *
 * Invariants:
 *	- TS_ROW_LOCKED is set in a row word if, and but for instants only if, the
 *	  table has an entry for the row.  It is set and cleared with the row's
 *	  partition lock held exclusively.
 *	- A writer puts a version onto a row whose word has TS_ROW_LOCKED set only
 *	  with the partition lock held, after it has looked for conflicts; onto
 *	  other rows by compare-and-exchange alone, which fails when the flag
 *	  appears.  So a lock and a conflicting write never both succeed.
 *	- When an UPDATE moves a row to a new TID without changing its key, the
 *	  KEY SHARE locks of others are carried to the new TID, as heap copies them
 *	  to the new tuple: entry->carried_to leads there, and whoever releases or
 *	  changes a lock follows it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"

#include "common/hashfn.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/rowlock.h"

#define NUM_PARTITIONS	128
#define MIN_BUCKETS		16384

typedef struct RowLock
{
	struct RowLock *next;
	TsRow	   *row;
	TsLockHolder holder;
	uint8		mode;			/* LockTupleMode */
	TsRowRef	carried_to;		/* block is NULL if it was not carried */
} RowLock;

static RowLock **buckets;
static uint32 num_buckets;
static LWLockPadded *partitions;

/* by LockTupleMode of the holder and the wanted mode */
static const bool conflicts[4][4] = {
	/* KeyShare, Share, NoKeyExclusive, Exclusive */
	{false, false, false, true},
	{false, false, true, true},
	{false, true, true, true},
	{true, true, true, true}
};

static uint32
bucket_count(void)
{
	uint32		n = MIN_BUCKETS;

	/* one bucket for each 16 kB of the arena */
	while (n < (uint32) ts_memory_kb / 16)
		n *= 2;
	return n;
}

void
ts_rowlock_request(void)
{
	RequestAddinShmemSpace(mul_size(bucket_count(), sizeof(RowLock *)));
	RequestNamedLWLockTranche("TsengineRowLock", NUM_PARTITIONS);
}

void
ts_rowlock_startup(void)
{
	bool		found;

	num_buckets = bucket_count();
	partitions = GetNamedLWLockTranche("TsengineRowLock");
	buckets = ShmemInitStruct("tsengine row locks",
							  mul_size(num_buckets, sizeof(RowLock *)), &found);
	if (!found)
		memset(buckets, 0, num_buckets * sizeof(RowLock *));
}

static inline uint32
bucket_number(TsRow *row)
{
	return (uint32) (hash_bytes_uint32((uint32) ((uintptr_t) row >> 3)) & (num_buckets - 1));
}

static inline LWLock *
partition_lock(TsRow *row)
{
	return &partitions[bucket_number(row) % NUM_PARTITIONS].lock;
}

/* Lock the partitions of two rows; in address order, so no deadlock. */
static void
lock_partitions(TsRow *a, TsRow *b)
{
	LWLock	   *first = partition_lock(a);
	LWLock	   *second = b == NULL ? first : partition_lock(b);

	LWLockAcquire(Min(first, second), LW_EXCLUSIVE);
	if (first != second)
		LWLockAcquire(Max(first, second), LW_EXCLUSIVE);
}

static void
unlock_partitions(TsRow *a, TsRow *b)
{
	LWLock	   *first = partition_lock(a);
	LWLock	   *second = b == NULL ? first : partition_lock(b);

	if (first != second)
		LWLockRelease(second);
	LWLockRelease(first);
}

/* With the partition lock: a lock of another transaction in the way of `mode`. */
static RowLock *
find_conflict(TsRow *row, LockTupleMode mode, uint64 txn)
{
	for (RowLock *e = buckets[bucket_number(row)]; e != NULL; e = e->next)
		if (e->row == row && e->holder.txn != txn && conflicts[e->mode][mode])
			return e;
	return NULL;
}

static bool
has_entry(TsRow *row)
{
	for (RowLock *e = buckets[bucket_number(row)]; e != NULL; e = e->next)
		if (e->row == row)
			return true;
	return false;
}

/* With the partition lock: does the transaction hold as strong a lock? */
static bool
holds_entry(TsRow *row, uint64 txn, LockTupleMode mode)
{
	for (RowLock *e = buckets[bucket_number(row)]; e != NULL; e = e->next)
		if (e->row == row && e->holder.txn == txn && e->mode >= mode)
			return true;
	return false;
}

/* With the partition lock held exclusively, as for all changes of a bucket. */
static void
push_entry(RowLock *entry, TsRow *row, TsLockHolder holder, uint8 mode)
{
	RowLock   **bucket = &buckets[bucket_number(row)];

	entry->row = row;
	entry->holder = holder;
	entry->mode = mode;
	entry->carried_to.block = NULL;
	entry->next = *bucket;
	*bucket = entry;
}

/* With the partition lock: set TS_ROW_LOCKED if the head still is `head`. */
static bool
set_locked_flag(TsRow *row, TsVersion *head)
{
	uint64		word = pg_atomic_read_u64(row);

	do
	{
		if (ts_row_word_version(word) != head)
			return false;
	} while (!pg_atomic_compare_exchange_u64(row, &word, word | TS_ROW_LOCKED));
	return true;
}

/*
 * Lock a row for `holder`, provided that its newest version is `head`, whose
 * compatibility with the lock the caller has checked.  A weaker lock that the
 * holder's transaction has already is kept beside the new one, so that a rolled
 * back savepoint takes back only its own; if it has one as strong (it belongs
 * to this or an outer level), HELD is the answer.
 *
 * `memory` comes from ts_rowlock_alloc() and is used up if the result is OK.
 * Call it inside an epoch section.  Raises no error.
 */
TsRowLockResult
ts_rowlock_acquire(TsRowRef ref, TsVersion *head, LockTupleMode mode,
				   TsLockHolder holder, void *memory, TsLockHolder *blocker)
{
	TsRow	   *row = ts_ref_row(ref);
	RowLock    *rival;
	TsRowLockResult result = TS_ROWLOCK_OK;

	LWLockAcquire(partition_lock(row), LW_EXCLUSIVE);
	rival = find_conflict(row, mode, holder.txn);
	if (rival != NULL)
	{
		*blocker = rival->holder;
		result = TS_ROWLOCK_CONFLICT;
	}
	else if (!set_locked_flag(row, head))
		result = TS_ROWLOCK_CHANGED;
	else if (holds_entry(row, holder.txn, mode))
		result = TS_ROWLOCK_HELD;
	else
		push_entry(memory, row, holder, (uint8) mode);
	LWLockRelease(partition_lock(row));
	return result;
}

/* Memory for ts_rowlock_acquire(), and its size.  Raises 53200. */
void *
ts_rowlock_alloc(Size *size)
{
	*size = sizeof(RowLock);
	return ts_alloc_or_error(*size, RecoveryInProgress() ? TS_ALLOC_RESERVE : TS_ALLOC_NORMAL);
}

static void
clear_flag_if_unused(TsRow *row)
{
	if (!has_entry(row))
		pg_atomic_fetch_and_u64(row, ~TS_ROW_LOCKED);
}

/* With the partition lock: drop entries of a row that `txn`/`tag` match. */
static void
remove_entries(TsRow *row, TsLockHolder holder, TsRowRef *carried_to)
{
	RowLock   **link = &buckets[bucket_number(row)];

	while (*link != NULL)
	{
		RowLock    *e = *link;

		if (e->row == row && e->holder.txn == holder.txn && e->holder.tag == holder.tag)
		{
			if (e->carried_to.block != NULL)
				*carried_to = e->carried_to;
			*link = e->next;
			ts_free(e, sizeof(RowLock));
		}
		else
			link = &e->next;
	}
	clear_flag_if_unused(row);
}

/* Release what `holder` has on a row and on the rows it was carried to. */
void
ts_rowlock_release(TsRowRef ref, TsLockHolder holder)
{
	while (ref.block != NULL)
	{
		TsRow	   *row = ts_ref_row(ref);

		ref.block = NULL;
		LWLockAcquire(partition_lock(row), LW_EXCLUSIVE);
		remove_entries(row, holder, &ref);
		LWLockRelease(partition_lock(row));
	}
}

/* A released savepoint's lock becomes its parent's. */
void
ts_rowlock_retag(TsRowRef ref, TsLockHolder holder, uint16 new_tag)
{
	while (ref.block != NULL)
	{
		TsRow	   *row = ts_ref_row(ref);

		ref.block = NULL;
		LWLockAcquire(partition_lock(row), LW_EXCLUSIVE);
		for (RowLock *e = buckets[bucket_number(row)]; e != NULL; e = e->next)
		{
			if (e->row == row && e->holder.txn == holder.txn && e->holder.tag == holder.tag)
			{
				e->holder.tag = new_tag;
				ref = e->carried_to;
			}
		}
		LWLockRelease(partition_lock(row));
	}
}

/* Does the transaction hold a lock at least as strong on the row? */
bool
ts_rowlock_holds(TsRowRef ref, uint64 txn, LockTupleMode mode)
{
	TsRow	   *row = ts_ref_row(ref);
	bool		holds;

	if (txn == 0 || (pg_atomic_read_u64(row) & TS_ROW_LOCKED) == 0)
		return false;
	LWLockAcquire(partition_lock(row), LW_SHARED);
	holds = holds_entry(row, txn, mode);
	LWLockRelease(partition_lock(row));
	return holds;
}

/*
 * With both partition locks: copy the KEY SHARE locks on `from` to `to`, where
 * the row goes on.  False if there is no memory; what was copied then is
 * harmless and goes with ts_rowlock_uncarry().
 */
static bool
carry_entries(TsRowRef from, TsRowRef to)
{
	TsRow	   *source = ts_ref_row(from);
	TsRow	   *target = ts_ref_row(to);
	bool		carried = false;

	for (RowLock *e = buckets[bucket_number(source)]; e != NULL; e = e->next)
	{
		RowLock    *copy;

		if (e->row != source)
			continue;
		copy = ts_alloc(sizeof(RowLock), TS_ALLOC_RESERVE);
		if (copy == NULL)
			return false;
		push_entry(copy, target, e->holder, e->mode);
		e->carried_to = to;
		carried = true;
	}
	if (carried)
		pg_atomic_fetch_or_u64(target, TS_ROW_LOCKED);
	return true;
}

/* Put `version` onto the row if its newest one still is `head`. */
static bool
exchange_head(TsRow *row, TsVersion *head, TsVersion *version)
{
	uint64		word = pg_atomic_read_u64(row);

	do
	{
		if (ts_row_word_version(word) != head)
			return false;
	} while (!pg_atomic_compare_exchange_u64(row, &word,
											 (uint64) (uintptr_t) version | (word & TS_ROW_BITS)));
	return true;
}

static TsRowLockResult
install_locked(TsRowRef ref, TsVersion *head, TsVersion *version,
			   LockTupleMode mode, uint64 txn, TsRowRef *moved_to,
			   TsLockHolder *blocker)
{
	TsRow	   *row = ts_ref_row(ref);
	TsRow	   *target = moved_to == NULL ? NULL : ts_ref_row(*moved_to);
	TsRowLockResult result = TS_ROWLOCK_OK;
	RowLock    *rival;

	lock_partitions(row, target);
	rival = find_conflict(row, mode, txn);
	if (rival != NULL)
	{
		*blocker = rival->holder;
		result = TS_ROWLOCK_CONFLICT;
	}
	else if (ts_row_head(row) != head)
		result = TS_ROWLOCK_CHANGED;
	else if (moved_to != NULL && !carry_entries(ref, *moved_to))
		result = TS_ROWLOCK_NO_MEMORY;
	else if (!exchange_head(row, head, version))
		result = TS_ROWLOCK_CHANGED;
	unlock_partitions(row, target);
	if (result != TS_ROWLOCK_OK && moved_to != NULL)
		ts_rowlock_uncarry(ref, *moved_to);
	return result;
}

/*
 * Put `version` on top of `head`, if that still is the row's newest version
 * and no row lock of another transaction conflicts with `mode`.  version->prev
 * must have been set.  With `moved_to`, the row's locks are carried there.
 *
 * Call it inside an epoch section, which keeps `head` from being reused for
 * another version at the same address.  Raises no error.  Takes a lock only
 * if the row has row locks.
 */
TsRowLockResult
ts_rowlock_install(TsRowRef ref, TsVersion *head, TsVersion *version,
				   LockTupleMode mode, uint64 txn, TsRowRef *moved_to,
				   TsLockHolder *blocker)
{
	TsRow	   *row = ts_ref_row(ref);
	uint64		word = pg_atomic_read_u64(row);

	for (;;)
	{
		if (word & TS_ROW_LOCKED)
			return install_locked(ref, head, version, mode, txn, moved_to, blocker);
		if (ts_row_word_version(word) != head)
			return TS_ROWLOCK_CHANGED;
		if (pg_atomic_compare_exchange_u64(row, &word,
										   (uint64) (uintptr_t) version | (word & TS_ROW_BITS)))
			return TS_ROWLOCK_OK;
	}
}

/* The move of a row is undone: take back the locks that were carried. */
void
ts_rowlock_uncarry(TsRowRef from, TsRowRef to)
{
	TsRow	   *source = ts_ref_row(from);
	TsRow	   *target = ts_ref_row(to);
	RowLock   **link;

	lock_partitions(source, target);
	for (RowLock *e = buckets[bucket_number(source)]; e != NULL; e = e->next)
		if (e->row == source && e->carried_to.block == to.block &&
			e->carried_to.index == to.index)
			e->carried_to.block = NULL;
	link = &buckets[bucket_number(target)];
	while (*link != NULL)
	{
		RowLock    *e = *link;

		if (e->row == target)
		{
			*link = e->next;
			ts_free(e, sizeof(RowLock));
		}
		else
			link = &e->next;
	}
	clear_flag_if_unused(target);
	unlock_partitions(source, target);
}
