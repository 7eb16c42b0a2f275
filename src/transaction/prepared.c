/*-------------------------------------------------------------------------
 *
 * prepared.c
 *	  Two-phase commit: what PREPARE leaves behind, and its end.
 *
 * No callback reaches an extension at COMMIT PREPARED.  Readers follow the
 * descriptor to its xid, which decides; stamping or undoing the write set is
 * done by the session that ran the command, after it, or by whoever finds the
 * descriptor first.
 *
 * Transactions that recovery has not seen the end of look the same: see
 * undecided.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/storage.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"

#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/txn.h"

static LWLock *finish_lock;
static bool finishing = false;	/* this process holds it */

void
ts_prepared_startup(void)
{
	finish_lock = &GetNamedLWLockTranche("TsengineTransaction")[1].lock;

	/*
	 * COMMIT PREPARED releases the locks on relations before its session comes
	 * to finish in memory: a table may be dropped in between.
	 */
	ts_table_before_free_hook = ts_prepared_finish_all;
}

/*
 * Room for what PREPARE is to remember, in one piece of arena memory of `size`
 * bytes.  Raises 53200.
 */
TsPrepared *
ts_prepared_alloc(int64 nlocks, int ncommit_drops, int nabort_drops)
{
	Size		locks_at = MAXALIGN(sizeof(TsPrepared));
	Size		drops_at = locks_at + MAXALIGN(nlocks * sizeof(TsPreparedLock));
	Size		size = drops_at + (ncommit_drops + nabort_drops) * sizeof(RelFileNode);
	char	   *memory = ts_alloc_or_error(size, TS_ALLOC_RESERVE);
	TsPrepared *p = (TsPrepared *) memory;

	p->size = size;
	p->nlocks = nlocks;
	p->ncommit_drops = ncommit_drops;
	p->nabort_drops = nabort_drops;
	p->locks = (TsPreparedLock *) (memory + locks_at);
	p->commit_drops = (RelFileNode *) (memory + drops_at);
	p->abort_drops = p->commit_drops + ncommit_drops;
	return p;
}

/*
 * After a restart: the transaction was prepared, and holds these row locks.
 * Raises 53200.
 */
void
ts_prepared_restore(TsTxn *txn, TsPrepared *prepared)
{
	uint64		word = ts_live_word((uint64) (txn - ts_txns),
									ts_txn_seq(pg_atomic_read_u64(&txn->state)));

	for (int64 i = 0; i < prepared->nlocks; i++)
	{
		TsPreparedLock *lock = &prepared->locks[i];
		TsLockHolder holder = {word, lock->tag};
		TsLockHolder blocker;
		Size		size;
		void	   *memory = ts_rowlock_alloc(&size);

		if (memory == NULL)
			ts_arena_out_of_memory(size);
		/* nobody is there to contest it; HELD: stated twice */
		if (ts_rowlock_acquire(lock->ref, ts_row_head(ts_ref_row(lock->ref)), lock->mode,
							   holder, memory, &blocker) != TS_ROWLOCK_OK)
			ts_free(memory, size);
	}
	if (txn->prepared != NULL)
		ts_free(txn->prepared, txn->prepared->size);
	txn->prepared = prepared;
}

/*
 * The image may have found a subtransaction whose rollback was logged before its
 * redo pointer, and not carried out: clog does not know it as committed.  What
 * lies below a later version may stay, nobody sees it.
 */
static void
undo_subs_not_committed(TsTxn *txn, TransactionId top)
{
	for (TsLogged *chunk = txn->logged; chunk != NULL; chunk = chunk->next)
	{
		if (chunk->xid == top || TransactionIdDidCommit(chunk->xid))
			continue;
		for (int i = chunk->n - 1; i >= 0; i--)
		{
			TsWrite    *write = &chunk->writes[i];

			if (write->version == NULL ||
				ts_row_head(&write->block->rows[write->index]) != write->version)
				continue;
			ts_write_undo(write);
			write->version = NULL;
		}
	}
}

/*
 * Stamp the writes, the oldest first: once a row's newer version is stamped, an
 * older one that is not yet might be taken for garbage, freed, and then stamped.
 * An image, which must not see the list turned round, waits meanwhile.
 */
static void
commit_writes(TsTxn *txn)
{
	TsOutcome	outcome = {.mixed = true,.aux = TS_AUX_FAR};
	TsLogged   *oldest = NULL;

	outcome.xid = pg_atomic_read_u32(&txn->xid);
	outcome.csn = ts_current_count();
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	undo_subs_not_committed(txn, outcome.xid);
	while (txn->logged != NULL)
	{
		TsLogged   *chunk = txn->logged;

		txn->logged = chunk->next;
		chunk->next = oldest;
		oldest = chunk;
	}
	while (oldest != NULL)
	{
		TsLogged   *next = oldest->next;

		ts_writes_commit(oldest->writes, oldest->n, &outcome);
		ts_free(oldest, oldest->size);
		oldest = next;
	}
	LWLockRelease(&txn->logged_lock);
}

static void
undo_writes(TsTxn *txn)
{
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	while (txn->logged != NULL)
		ts_undo_newest_chunk(txn);
	LWLockRelease(&txn->logged_lock);
}

static void
finish_prepared(TsTxn *txn, bool committed)
{
	TsPrepared *p = txn->prepared;
	uint64		word = ts_live_word((uint64) (txn - ts_txns),
									ts_txn_seq(pg_atomic_read_u64(&txn->state)));

	if (committed)
		commit_writes(txn);
	for (int64 i = 0; p != NULL && i < p->nlocks; i++)
	{
		TsLockHolder holder = {word, p->locks[i].tag};

		ts_rowlock_release(p->locks[i].ref, holder);
	}
	if (!committed)
		undo_writes(txn);
	if (p == NULL)
		return;
	for (int i = 0; i < (committed ? p->ncommit_drops : p->nabort_drops); i++)
		ts_table_drop(committed ? p->commit_drops[i] : p->abort_drops[i], InvalidBackendId);
	/* an image may be looking at it */
	LWLockAcquire(&txn->logged_lock, LW_EXCLUSIVE);
	txn->prepared = NULL;
	LWLockRelease(&txn->logged_lock);
	ts_free(p, p->size);
}

/*
 * Bring a prepared transaction whose xid has ended to its end in memory, if
 * nobody has yet.  Takes the finish lock; raises no error but for clog reads.
 */
void
ts_prepared_finish(TsTxn *txn, uint64 seq)
{
	ts_undecided_end(txn, seq, TransactionIdDidCommit(pg_atomic_read_u32(&txn->xid)));
}

/*
 * The same for who knows what became of it.  Takes the finish lock; raises no
 * error.
 */
void
ts_undecided_end(TsTxn *txn, uint64 seq, bool committed)
{
	uint64		state;

	finishing = true;
	LWLockAcquire(finish_lock, LW_EXCLUSIVE);
	state = pg_atomic_read_u64(&txn->state);
	if (ts_txn_seq(state) == seq && ts_txn_phase(state) == TS_TXN_PREPARED)
	{
		finish_prepared(txn, committed);
		ts_txn_reset_descriptor(txn);
		ts_txn_free_descriptor(txn);
	}
	LWLockRelease(finish_lock);
	finishing = false;
}

/* After COMMIT PREPARED or ROLLBACK PREPARED: finish what has ended. */
void
ts_prepared_finish_all(void)
{
	if (finishing)
		return;					/* called to make room for what we are at */
	if (RecoveryInProgress())
		return;					/* their ends may still be replayed */
	ts_txn_attach();
	for (int i = 0; i < ts_txn_count(); i++)
	{
		uint64		state = pg_atomic_read_u64(&ts_txns[i].state);

		if (ts_txn_phase(state) == TS_TXN_PREPARED &&
			!TransactionIdIsInProgress(pg_atomic_read_u32(&ts_txns[i].xid)))
			ts_prepared_finish(&ts_txns[i], ts_txn_seq(state));
	}
}
