/*-------------------------------------------------------------------------
 *
 * writes.c
 *	  The write set: adding to it, undoing it, committing it, and handing it to
 *	  the WAL.
 *
 * The write set is this process's list of the versions it has put onto rows,
 * in order.  Abort undoes it backwards, commit stamps it with the outcome.
 * Subtransactions are marks in it.
 *
 * Writes of a mixed transaction are logged before its commit record, in chunks
 * when there are many.  What is logged is listed in the descriptor, where an
 * image finds it: ts_local.writes[0 .. nlogged) are the chunks' writes, in order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/log.h"
#include "transaction/private.h"
#include "transaction/txn.h"

#define MAX_LOOSE		4
#define PREFETCH_DISTANCE 8

typedef struct Loose
{
	void	   *memory;			/* or NULL: a reserved row */
	Size		size;
	TsRowRef	ref;
} Loose;

void		(*ts_version_undone_hook) (TsVersion *version) = NULL;

static Loose loose[MAX_LOOSE];
static int	nloose = 0;

/* Room for more items in an array of ts_local. */
void *
ts_local_grow(void *array, int64 *max, int64 needed, Size item)
{
	int64		n = Max(needed, Max(64, *max * 2));

	if (array == NULL)
		array = MemoryContextAllocHuge(ts_local.context, n * item);
	else
		array = repalloc_huge(array, n * item);
	*max = n;
	return array;
}

/* Make sure that the next n ts_txn_add_write() calls cannot fail. */
void
ts_txn_reserve_writes(int n)
{
	if (unlikely(ts_local.nwrites + n > ts_local.max_writes))
		ts_local.writes = ts_local_grow(ts_local.writes, &ts_local.max_writes,
										ts_local.nwrites + n, sizeof(TsWrite));
}

/* Note a version that has just become visible to others.  Cannot fail. */
void
ts_txn_add_write(TsRowRef ref, TsVersion *version, bool carried)
{
	TsWrite    *write = &ts_local.writes[ts_local.nwrites++];

	Assert(ts_local.nwrites <= ts_local.max_writes);
	write->block = ref.block;
	write->index = ref.index;
	write->carried = carried;
	write->version = version;
	if (ref.block->table->persistence == RELPERSISTENCE_PERMANENT)
		ts_local.unlogged_bytes += ts_version_size(version);
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
	else if (prev == NULL)
	{
		ts_block_changed(write->block); /* it was free; images must know */
		ts_table_row_died(write->block->table);
	}
	ts_retire(version, ts_version_size(version));
}

static void
undo_last(void)
{
	TsWrite    *write = &ts_local.writes[--ts_local.nwrites];

	if (write->version == NULL)
		return;
	if (ts_version_undone_hook != NULL)
		ts_version_undone_hook(write->version);
	ts_write_undo(write);
}

/* Undo what is in the WAL already: images may be looking at it. */
static void
undo_logged_to(int64 mark)
{
	TsTxn	   *txn = ts_local.txn;

	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	while (ts_local.nlogged > mark)
	{
		TsLogged   *chunk = txn->logged;

		while (chunk->n > 0 && ts_local.nlogged > mark)
		{
			chunk->n--;
			ts_local.nlogged--;
			undo_last();
		}
		if (chunk->n == 0)
		{
			txn->logged = chunk->next;
			ts_free(chunk, chunk->size);
		}
	}
	LWLockRelease(&txn->logged_lock);
}

/* Undo all writes from number `mark` on, the last one first.  Raises no error. */
void
ts_undo_to(int64 mark)
{
	if (ts_local.new_chunk != NULL)
		ts_free(ts_local.new_chunk, ts_local.new_chunk->size);
	ts_local.new_chunk = NULL;
	if (ts_local.txn != NULL)
		pg_atomic_write_u32(&ts_local.txn->logging, 0);
	while (ts_local.nwrites > Max(mark, ts_local.nlogged))
		undo_last();
	if (ts_local.nlogged > mark)
		undo_logged_to(mark);
}

/* Undo one write at once: a speculative insertion that lost. */
void
ts_txn_undo_write(TsVersion *version)
{
	int64		i = ts_local.nwrites - 1;

	while (i >= ts_local.nlogged && ts_local.writes[i].version != version)
		i--;
	if (i < ts_local.nlogged)
		elog(ERROR, "speculative tsengine row is not in the write set");
	ts_write_undo(&ts_local.writes[i]);
	ts_local.writes[i].version = NULL;
}

/* A table made in this transaction is emptied: its writes are taken back. */
void
ts_forget_writes(TsTable *table)
{
	TsTxn	   *txn = ts_local.txn;

	for (int64 i = 0; i < ts_local.nwrites; i++)
	{
		TsWrite    *write = &ts_local.writes[i];

		if (write->version == NULL || write->block->table != table)
			continue;
		if (ts_version_undone_hook != NULL)
			ts_version_undone_hook(write->version);
		write->version = NULL;
	}
	if (txn == NULL || txn->logged == NULL)
		return;
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	for (TsLogged *chunk = txn->logged; chunk != NULL; chunk = chunk->next)
		for (int i = 0; i < chunk->n; i++)
			if (chunk->writes[i].block->table == table)
				chunk->writes[i].version = NULL;
	LWLockRelease(&txn->logged_lock);
}

/* ---- logging ---- */

/* A chunk for the list of what is logged, or NULL if there is no memory for it. */
static TsLogged *
make_chunk(int64 from, int64 n, TransactionId xid)
{
	Size		size = offsetof(TsLogged, writes) + n * sizeof(TsWrite);
	TsLogged   *chunk = ts_alloc(size, TS_ALLOC_RESERVE);

	if (chunk == NULL)
		return NULL;
	chunk->size = size;
	chunk->xid = xid;
	chunk->n = (int) n;
	chunk->first_end = InvalidXLogRecPtr;
	memcpy(chunk->writes, &ts_local.writes[from], n * sizeof(TsWrite));
	return chunk;
}

/*
 * Log writes[from .. to), which one (sub)transaction has made.  If they cannot
 * be listed in a full arena, nothing is done, or, at the end of the transaction,
 * images are kept waiting until it is over.
 */
static void
log_range(int64 from, int64 to, TransactionId xid, bool at_end)
{
	TsTxn	   *txn = ts_local.txn;
	TsLogged   *chunk = NULL;
	XLogRecPtr	first_end;

	if (!ts_local.no_memory_for_list)
		chunk = make_chunk(from, to - from, xid);
	ts_local.no_memory_for_list = chunk == NULL;
	if (chunk == NULL && !at_end)
		return;
	/* that wait may be long, and no checkpoint may be held up by it */
	if (chunk == NULL && ts_waits_for_standbys())
		ts_arena_out_of_memory((to - from) * sizeof(TsWrite));
	ts_local.new_chunk = chunk;

	/* full barrier: an image that finds our record in the WAL waits for us */
	pg_atomic_write_u32(&txn->logging, 1);
	pg_memory_barrier();
	first_end = ts_log_mixed(&ts_local.writes[from], to - from, xid, GetTopTransactionId());
	ts_stop_point(TS_STOP_LOGGED);
	if (chunk == NULL)
		return;
	chunk->first_end = first_end;
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	chunk->next = txn->logged;
	txn->logged = chunk;
	LWLockRelease(&txn->logged_lock);
	ts_local.new_chunk = NULL;
	ts_local.nlogged = to;
	pg_write_barrier();
	pg_atomic_write_u32(&txn->logging, 0);
}

/* Number of the first write not to be logged yet: an insertion undecided. */
static int64
end_of_decided(void)
{
	for (int64 i = ts_local.nlogged; i < ts_local.nwrites; i++)
		if (ts_local.writes[i].version != NULL &&
			(ts_local.writes[i].version->flags & TS_V_SPECULATIVE))
			return i;
	return ts_local.nwrites;
}

/*
 * Log what has not been logged, each (sub)transaction's writes under its own
 * xid, as one may be rolled back without the others.  The current one has an
 * xid, and so have those around it.  With `all`, at the end of the transaction,
 * chunks take up whatever there is, unlogged tables' writes too.  Raises
 * errors (memory); what has been logged stays so.
 */
void
ts_log_writes(bool all)
{
	int64		end = all ? ts_local.nwrites : end_of_decided();
	TransactionId *xids = palloc(ts_local.nlevels * sizeof(TransactionId));

	xids[ts_local.nlevels - 1] = GetCurrentTransactionId();
	for (int i = ts_local.nlevels - 2; i >= 0; i--)
		xids[i] = SubTransGetParent(xids[i + 1]);
	(void) ts_txn_publish_xid();
	for (int i = 0; i < ts_local.nlevels; i++)
	{
		int64		from = Max(ts_local.levels[i].first_write, ts_local.nlogged);
		int64		to = i + 1 < ts_local.nlevels ? ts_local.levels[i + 1].first_write : end;

		if (from < Min(to, end))
			log_range(from, Min(to, end), xids[i], all);
	}
	pfree(xids);
	ts_local.unlogged_bytes = 0;
}

/* Undo the writes of the newest chunk of another's list, whose lock is held exclusively. */
void
ts_undo_newest_chunk(TsTxn *txn)
{
	TsLogged   *chunk = txn->logged;

	while (chunk->n > 0)
	{
		chunk->n--;
		if (chunk->writes[chunk->n].version != NULL)
			ts_write_undo(&chunk->writes[chunk->n]);
	}
	txn->logged = chunk->next;
	ts_free(chunk, chunk->size);
}

/* The transaction is over: nobody needs the list of what it had logged. */
void
ts_forget_logged(TsTxn *txn)
{
	TsLogged   *chunk;

	if (txn->logged == NULL)
		return;
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	chunk = txn->logged;
	txn->logged = NULL;
	LWLockRelease(&txn->logged_lock);
	while (chunk != NULL)
	{
		TsLogged   *next = chunk->next;

		ts_free(chunk, chunk->size);
		chunk = next;
	}
}

/* ---- commit ---- */

/* Tell readers directly what became of a version. */
static inline void
stamp(TsVersion *version, const TsOutcome *outcome)
{
	if (TransactionIdIsValid(outcome->xid))
		version->cid = outcome->xid;
	if (outcome->mixed)
		version->aux = outcome->aux;
	if (outcome->async)
		version->flags |= TS_V_ASYNC;
	/* who sees the word sees the fields that go with it */
	pg_write_barrier();
	pg_atomic_write_u64(&version->creator,
						outcome->mixed ? TS_CREATOR_MIXED | outcome->csn : outcome->csn);
}

/*
 * A write set has committed: stamp its versions, count the rows that came and
 * went, and note those that have versions to be collected, and the blocks as
 * changed.  A row is noted after its version is stamped: the collector would
 * find nothing to do otherwise.  Raises no error.
 */
void
ts_writes_commit(const TsWrite *set, int64 n, const TsOutcome *outcome)
{
	TsTable    *table = NULL;
	TsBlock    *block = NULL;
	int64		rows = 0;

	for (int64 i = 0; i < n; i++)
	{
		TsVersion  *version = set[i].version;
		TsRowRef	ref = {set[i].block, set[i].index};
		uint16		flags;

		if (i + PREFETCH_DISTANCE < n)
		{
			const TsWrite *ahead = &set[i + PREFETCH_DISTANCE];

			__builtin_prefetch(ahead->version, 1);
			__builtin_prefetch(&ahead->block->rows[ahead->index], 1);
		}
		if (version == NULL)
			continue;
		flags = version->flags;
		stamp(version, outcome);
		if (ref.block != block)
		{
			if (block != NULL)
				ts_block_changed(block);
			block = ref.block;
		}
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
			ts_garbage_add(ref, outcome->csn);
	}
	if (block != NULL)
		ts_block_changed(block);
	if (rows != 0)
		ts_table_add_rows(table, rows);
}
