/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Waiting for other transactions, through PostgreSQL's lock manager.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/procarray.h"
#include "storage/s_lock.h"
#include "utils/rel.h"

#include "memory/epoch.h"
#include "transaction/snapshot.h"
#include "transaction/txn.h"

typedef struct WaitContext
{
	Relation	rel;
	ItemPointer tid;
	XLTW_Oper	oper;
} WaitContext;

static const char *const wait_messages[] = {
	[XLTW_Update] = gettext_noop("while updating tuple (%u,%u) in relation \"%s\""),
	[XLTW_Delete] = gettext_noop("while deleting tuple (%u,%u) in relation \"%s\""),
	[XLTW_Lock] = gettext_noop("while locking tuple (%u,%u) in relation \"%s\""),
	[XLTW_InsertIndex] = gettext_noop("while inserting index tuple (%u,%u) in relation \"%s\""),
	[XLTW_LockUpdated] = gettext_noop("while locking updated version (%u,%u) of tuple in relation \"%s\""),
};

static void
wait_error_context(void *arg)
{
	WaitContext *context = arg;

	if (context->oper < (int) lengthof(wait_messages) && wait_messages[context->oper] != NULL)
		errcontext(wait_messages[context->oper],
				   ItemPointerGetBlockNumberNoCheck(context->tid),
				   ItemPointerGetOffsetNumberNoCheck(context->tid),
				   RelationGetRelationName(context->rel));
}

/*
 * The xid to wait for on behalf of core: that of the subtransaction with this
 * tag if it is known, else the top-level one.  Invalid if there is none.
 */
TransactionId
ts_txn_xid_of(uint64 live_word, uint16 tag)
{
	TsTxn	   *txn = ts_txn_of_word(live_word);
	uint64		entry = pg_atomic_read_u64(&txn->tag_xid[tag % TS_TAG_XIDS]);
	TransactionId xid = pg_atomic_read_u32(&txn->xid);

	if ((uint16) (entry >> 32) == tag && tag != 0)
		xid = (TransactionId) entry;
	pg_read_barrier();
	if (ts_txn_seq(pg_atomic_read_u64(&txn->state)) != ts_live_seq(live_word))
		return InvalidTransactionId;
	return xid;
}

/* Tag of the lock that a (sub)transaction holds while it may undo its writes. */
void
ts_txn_lock_tag(LOCKTAG *tag, uint64 live_word, uint16 number)
{
	tag->locktag_field1 = 0;
	tag->locktag_field2 = (uint32) ts_live_slot(live_word);
	tag->locktag_field3 = (uint32) ts_live_seq(live_word);
	tag->locktag_field4 = number;
	tag->locktag_type = LOCKTAG_USERLOCK;
	tag->locktag_lockmethodid = DEFAULT_LOCKMETHOD;
}

static void
wait_for_tag(uint64 live_word, uint16 number)
{
	LOCKTAG		tag;

	ts_txn_lock_tag(&tag, live_word, number);
	(void) LockAcquire(&tag, ShareLock, false, false);
	LockRelease(&tag, ShareLock, false);
}

/*
 * Wait while the descriptor stays in `state`, which is a matter of moments: its
 * transaction has decided and has to tell.
 */
void
ts_txn_await_change(TsTxn *txn, uint64 state)
{
	for (int spins = 0; pg_atomic_read_u64(&txn->state) == state; spins++)
	{
		if (spins < 1000)
			pg_spin_delay();
		else
			pg_usleep(spins < 2000 ? 50 : 1000);
	}
}

/*
 * Wait until the transaction with this live creator word, or at least its
 * subtransaction `tag`, has ended or moved on; the caller looks again then.
 * Returns false at once, if the policy is not to wait.
 *
 * Call it outside epoch sections.  Raises errors (cancel, deadlock, timeout).
 */
bool
ts_txn_wait(uint64 live_word, uint16 tag, LockWaitPolicy policy,
			Relation rel, ItemPointer tid, XLTW_Oper oper)
{
	TsTxn	   *txn = ts_txn_of_word(live_word);
	uint64		state = pg_atomic_read_u64(&txn->state);
	ErrorContextCallback callback;
	WaitContext context = {rel, tid, oper};
	bool		wait_for_xid = false;
	TransactionId xid = InvalidTransactionId;

	Assert(ts_epoch_depth == 0);
	if (ts_txn_seq(state) != ts_live_seq(live_word))
		return true;
	switch (ts_txn_phase(state))
	{
		case TS_TXN_PREPARED:
			if (!TransactionIdIsInProgress(pg_atomic_read_u32(&txn->xid)))
			{
				ts_prepared_finish(txn, ts_live_seq(live_word));
				return true;
			}
			/* after a restart nobody holds its tag lock; its xid is always locked */
			wait_for_xid = true;
			xid = pg_atomic_read_u32(&txn->xid);
			break;
		case TS_TXN_PREPARING:
		case TS_TXN_COMMITTED:
			/* decided; its versions say so in a moment */
			ts_txn_await_change(txn, state);
			return true;
		default:
			break;
	}
	if (policy != LockWaitBlock)
		return false;

	context.oper = oper;
	callback.callback = wait_error_context;
	callback.arg = &context;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	ts_my_txn_process->counters.waits++;
	ts_snapshot_begin_wait(&context);
	if (wait_for_xid)
		XactLockTableWait(xid, NULL, NULL, XLTW_None);
	else
		wait_for_tag(live_word, tag);
	ts_snapshot_end_wait(&context);
	error_context_stack = callback.previous;
	return true;
}
