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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/storage.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"

#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/txn.h"

static LWLock *finish_lock;

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
 * Copy a write set into the arena, as it must outlive the session.  Raises
 * 53200.  The result is one piece of memory of `size` bytes.
 */
TsPrepared *
ts_prepared_build(const TsWrite *writes, int64 nwrites,
				  const TsPreparedLock *locks, int64 nlocks)
{
	RelFileNode *commit_drops;
	RelFileNode *abort_drops;
	int			ncommit = smgrGetPendingDeletes(true, &commit_drops);
	int			nabort = smgrGetPendingDeletes(false, &abort_drops);
	Size		size = MAXALIGN(sizeof(TsPrepared)) +
		nwrites * MAXALIGN(sizeof(TsWrite)) + nlocks * MAXALIGN(sizeof(TsPreparedLock)) +
		(ncommit + nabort) * MAXALIGN(sizeof(RelFileNode));
	char	   *memory = ts_alloc_or_error(size, TS_ALLOC_NORMAL);
	TsPrepared *p = (TsPrepared *) memory;

	p->size = size;
	p->nwrites = nwrites;
	p->nlocks = nlocks;
	p->ncommit_drops = ncommit;
	p->nabort_drops = nabort;
	memory += MAXALIGN(sizeof(TsPrepared));
	p->writes = (TsWrite *) memory;
	memcpy(p->writes, writes, nwrites * sizeof(TsWrite));
	memory += nwrites * MAXALIGN(sizeof(TsWrite));
	p->locks = (TsPreparedLock *) memory;
	memcpy(p->locks, locks, nlocks * sizeof(TsPreparedLock));
	memory += nlocks * MAXALIGN(sizeof(TsPreparedLock));
	p->commit_drops = (RelFileNode *) memory;
	memcpy(p->commit_drops, commit_drops, ncommit * sizeof(RelFileNode));
	p->abort_drops = p->commit_drops + ncommit;
	memcpy(p->abort_drops, abort_drops, nabort * sizeof(RelFileNode));
	return p;
}

static void
finish_writes(TsTxn *txn, bool committed)
{
	TsPrepared *p = txn->prepared;
	TransactionId xid = pg_atomic_read_u32(&txn->xid);
	uint64		word = ts_live_word((uint64) (txn - ts_txns),
									ts_txn_seq(pg_atomic_read_u64(&txn->state)));
	uint64		csn = ts_current_count();

	if (committed)
		ts_writes_commit(p->writes, p->nwrites, csn, xid, TS_AUX_FAR);
	for (int64 i = 0; i < p->nlocks; i++)
	{
		TsLockHolder holder = {word, p->locks[i].tag};

		ts_rowlock_release(p->locks[i].ref, holder);
	}
	if (!committed)
		for (int64 i = p->nwrites - 1; i >= 0; i--)
			ts_write_undo(&p->writes[i]);
}

/*
 * Bring a prepared transaction whose xid has ended to its end in memory, if
 * nobody has yet.  Takes the finish lock; raises no error but for clog reads.
 */
void
ts_prepared_finish(TsTxn *txn, uint64 seq)
{
	TransactionId xid = pg_atomic_read_u32(&txn->xid);
	bool		committed = TransactionIdDidCommit(xid);
	uint64		state;

	LWLockAcquire(finish_lock, LW_EXCLUSIVE);
	state = pg_atomic_read_u64(&txn->state);
	if (ts_txn_seq(state) == seq && ts_txn_phase(state) == TS_TXN_PREPARED)
	{
		TsPrepared *p = txn->prepared;

		finish_writes(txn, committed);
		for (int i = 0; i < (committed ? p->ncommit_drops : p->nabort_drops); i++)
			ts_table_drop(committed ? p->commit_drops[i] : p->abort_drops[i], InvalidBackendId);
		txn->prepared = NULL;
		ts_free(p, p->size);
		ts_txn_reset_descriptor(txn);
		ts_txn_free_descriptor(txn);
	}
	LWLockRelease(finish_lock);
}

/* After COMMIT PREPARED or ROLLBACK PREPARED: finish what has ended. */
void
ts_prepared_finish_all(void)
{
	int			n = ts_max_processes() + max_prepared_xacts;

	ts_txn_attach();
	for (int i = 0; i < n; i++)
	{
		uint64		state = pg_atomic_read_u64(&ts_txns[i].state);

		if (ts_txn_phase(state) == TS_TXN_PREPARED &&
			!TransactionIdIsInProgress(pg_atomic_read_u32(&ts_txns[i].xid)))
			ts_prepared_finish(&ts_txns[i], ts_txn_seq(state));
	}
}
