/*-------------------------------------------------------------------------
 *
 * undecided.c
 *	  Recovery's side of transactions: pure ones are replayed as they were
 *	  committed, mixed ones stay undecided until their end is replayed.
 *
 * An undecided transaction has a descriptor in state PREPARED: its xid decides,
 * for readers on a standby as for whoever comes to finish it.  Those whose end
 * recovery does not meet are resolved by clog when it is over, unless they are
 * prepared (prepared.c, ts_prepared_finish_all).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "storage/lwlock.h"

#include "memory/arena.h"
#include "storage/garbage.h"
#include "transaction/txn.h"

#define FIRST_CHUNK_WRITES	16
#define MAX_CHUNK_WRITES	4096

/* this process's descriptor for pure transactions */
static TsTxn *pure_txn = NULL;

/*
 * The undecided transaction with this top-level xid.  If there is none it is
 * made, or NULL is returned.  Raises an error if descriptors run out.
 */
TsTxn *
ts_undecided_txn(TransactionId xid, bool make)
{
	TsTxn	   *txn;

	for (int i = 0; i < ts_txn_count(); i++)
		if (pg_atomic_read_u32(&ts_txns[i].xid) == xid &&
			ts_txn_phase(pg_atomic_read_u64(&ts_txns[i].state)) == TS_TXN_PREPARED)
			return &ts_txns[i];
	if (!make)
		return NULL;
	txn = ts_txn_take_descriptor();
	txn->prepared = NULL;
	txn->logged = NULL;
	pg_atomic_write_u64(&txn->floor, ts_current_count());
	pg_atomic_write_u32(&txn->xid, xid);
	/* release: readers go by the xid from here on */
	pg_write_barrier();
	pg_atomic_write_u64(&txn->state,
						(pg_atomic_read_u64(&txn->state) & ~UINT64CONST(15)) | TS_TXN_PREPARED);
	return txn;
}

/* The undecided transaction whose version this is, or NULL if it has ended. */
TsTxn *
ts_undecided_txn_of_word(uint64 live_word)
{
	TsTxn	   *txn = ts_txn_of_word(live_word);
	uint64		state = pg_atomic_read_u64(&txn->state);

	return ts_txn_seq(state) == ts_live_seq(live_word) &&
		ts_txn_phase(state) == TS_TXN_PREPARED ? txn : NULL;
}

/* Store a version on top of a row, which may never have held one. */
static void
push_version(TsRowRef ref, TsVersion *version, uint64 creator)
{
	TsRow	   *row = ts_ref_row(ref);
	uint64		word = pg_atomic_read_u64(row);

	pg_atomic_init_u64(&version->creator, creator);
	if (ref.index >= pg_atomic_read_u32(&ref.block->limit))
		pg_atomic_write_u32(&ref.block->limit, ref.index + 1);
	if ((word & ~TS_ROW_BITS) == TS_ROW_FREE)
		pg_atomic_fetch_sub_u32(&ref.block->nfree, 1);
	do
		pg_atomic_write_u64(&version->prev, (uint64) (uintptr_t) ts_row_word_version(word));
	/* full barrier: the version is complete before it can be reached */
	while (!pg_atomic_compare_exchange_u64(row, &word, (uint64) (uintptr_t) version |
										   (word & TS_ROW_BITS)));
}

/* The live creator word of its versions. */
uint64
ts_undecided_word(TsTxn *txn)
{
	return ts_live_word((uint64) (txn - ts_txns), ts_txn_seq(pg_atomic_read_u64(&txn->state)));
}

/* A chunk with room for one more write of the (sub)transaction.  Raises 53200. */
static TsLogged *
chunk_with_room(TsTxn *txn, TransactionId xid)
{
	TsLogged   *last = txn->logged;
	TsLogged   *chunk;
	int			room = FIRST_CHUNK_WRITES;
	Size		size;

	if (last != NULL)
	{
		room = (int) ((last->size - offsetof(TsLogged, writes)) / sizeof(TsWrite));
		if (last->xid == xid && last->n < room)
			return last;
		room = Min(room * 2, MAX_CHUNK_WRITES);
	}
	size = offsetof(TsLogged, writes) + room * sizeof(TsWrite);
	chunk = ts_alloc_or_error(size, TS_ALLOC_RESERVE);
	chunk->size = size;
	chunk->xid = xid;
	chunk->n = 0;
	chunk->first_end = InvalidXLogRecPtr;
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	chunk->next = txn->logged;
	txn->logged = chunk;
	LWLockRelease(&txn->logged_lock);
	return chunk;
}

/*
 * Put a version made by an undecided (sub)transaction onto its row; `version`
 * has its flags and body, the rest is filled in.  The row's head must not
 * belong to another undecided transaction.  Raises 53200, the reserve included.
 */
void
ts_undecided_write(TsTxn *txn, TransactionId xid, TsRowRef ref, TsVersion *version)
{
	TsLogged   *chunk = chunk_with_room(txn, xid);

	version->cid = FirstCommandId;
	version->aux = 0;
	push_version(ref, version, ts_undecided_word(txn));
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	chunk->writes[chunk->n++] = (TsWrite) {ref.block, ref.index, false, version};
	LWLockRelease(&txn->logged_lock);
}

static bool
is_one_of(TransactionId xid, TransactionId top, int n, const TransactionId *children)
{
	if (xid == top)
		return true;
	for (int i = 0; i < n; i++)
		if (children[i] == xid)
			return true;
	return false;
}

/*
 * A subtransaction has been rolled back, with those inside it: undo its writes.
 * They are the last ones of their transaction.  Raises no error.
 */
static void
undo_sub(TsTxn *txn, TransactionId xid, int nchildren, const TransactionId *children)
{
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	while (txn->logged != NULL && is_one_of(txn->logged->xid, xid, nchildren, children))
		ts_undo_newest_chunk(txn);
	LWLockRelease(&txn->logged_lock);
}

void
ts_undecided_abort_sub(TransactionId xid, int nchildren, const TransactionId *children)
{
	for (int i = 0; i < ts_txn_count(); i++)
		if (ts_txn_phase(pg_atomic_read_u64(&ts_txns[i].state)) == TS_TXN_PREPARED)
			undo_sub(&ts_txns[i], xid, nchildren, children);
}

/* A table is emptied in place: nothing is left to be decided about its rows. */
void
ts_undecided_forget_table(TsTable *table)
{
	for (int i = 0; i < ts_txn_count(); i++)
	{
		TsTxn	   *txn = &ts_txns[i];

		if (ts_txn_phase(pg_atomic_read_u64(&txn->state)) != TS_TXN_PREPARED)
			continue;
		LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
		for (TsLogged *chunk = txn->logged; chunk != NULL; chunk = chunk->next)
			for (int w = 0; w < chunk->n; w++)
				if (chunk->writes[w].block->table == table)
					chunk->writes[w].version = NULL;
		LWLockRelease(&txn->logged_lock);
	}
}

/*
 * Replay a pure transaction, whose versions have flags, body and, if xmin is 0,
 * what they show as xmin.  Goes through the phases of a commit, so that readers
 * on a standby see all of it or nothing.  Raises errors of descriptors only.
 */
void
ts_recovered_commit(const TsRowRef *refs, TsVersion **versions, int n, uint32 xmin)
{
	TsOutcome	outcome = {.xid = xmin};
	uint64		seq;

	if (pure_txn == NULL)
		pure_txn = ts_txn_take_descriptor();
	seq = ts_txn_seq(pg_atomic_read_u64(&pure_txn->state)) << 4;
	pg_atomic_write_u64(&pure_txn->floor, ts_current_count());
	pg_write_barrier();
	pg_atomic_write_u64(&pure_txn->state, seq | TS_TXN_ACTIVE);
	for (int i = 0; i < n; i++)
	{
		versions[i]->aux = 0;
		push_version(refs[i], versions[i], ts_undecided_word(pure_txn));
	}
	pg_write_barrier();
	pg_atomic_write_u64(&pure_txn->state, seq | TS_TXN_PREPARING);
	pg_memory_barrier();
	outcome.csn = ts_take_csn();
	pg_atomic_write_u64(&pure_txn->csn, outcome.csn);
	pg_write_barrier();
	pg_atomic_write_u64(&pure_txn->state, seq | TS_TXN_COMMITTED);
	for (int i = 0; i < n; i++)
	{
		TsWrite		write = {refs[i].block, refs[i].index, false, versions[i]};

		ts_writes_commit(&write, 1, &outcome);
	}
	ts_txn_reset_descriptor(pure_txn);
}
