/*-------------------------------------------------------------------------
 *
 * change.c
 *	  May this row be changed or locked?  Shared by update, delete and lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

#include "access/access.h"
#include "memory/epoch.h"
#include "storage/rowlock.h"
#include "transaction/txn.h"

/* the heavyweight lock that keeps waiters for a row in order, as heap's */
static const LOCKMODE queue_mode[] = {
	[LockTupleKeyShare] = AccessShareLock,
	[LockTupleShare] = RowShareLock,
	[LockTupleNoKeyExclusive] = ExclusiveLock,
	[LockTupleExclusive] = AccessExclusiveLock
};

void
ts_change_init(TsChange *change, Relation rel, TsRowRef ref, TsVersion *pinned,
			   Snapshot snapshot, CommandId cid, LockTupleMode mode, XLTW_Oper oper)
{
	change->rel = rel;
	change->table = ts_relation_table(rel);
	change->ref = ref;
	ts_ref_tid(ref, &change->tid);
	change->newest = snapshot == NULL || snapshot->snapshot_type != SNAPSHOT_MVCC;
	if (!change->newest)
		ts_read_view_init(&change->view, snapshot);
	change->pinned = pinned;
	change->crosscheck = InvalidSnapshot;
	change->queued = false;
	change->cid = cid;
	change->mode = mode;
	change->oper = oper;
	change->policy = LockWaitBlock;
}

/* Release what waiting took.  The epoch section is not ours to leave. */
void
ts_change_end(TsChange *change)
{
	if (change->queued)
		UnlockTuple(change->rel, &change->tid, queue_mode[change->mode]);
	change->queued = false;
}

/*
 * Wait for another transaction, in line with others who wait for the row.
 * Call it outside epoch sections.  False if the policy is not to wait and the
 * other one has not ended.
 */
bool
ts_change_wait(TsChange *change, uint64 live_word, uint16 tag)
{
	/* who has a lock on the row already must not queue behind those it blocks */
	if (change->policy == LockWaitBlock && !change->queued &&
		!ts_rowlock_holds(change->ref, ts_my_live_word, LockTupleKeyShare))
	{
		LockTuple(change->rel, &change->tid, queue_mode[change->mode]);
		change->queued = true;
	}
	return ts_txn_wait(live_word, tag, change->policy, change->rel, &change->tid, change->oper);
}

static void
fill_failure(TsChange *change, TM_FailureData *tmfd)
{
	tmfd->ctid = change->tid;
	tmfd->xmax = InvalidTransactionId;
	tmfd->cmax = InvalidCommandId;
}

/*
 * The head is mine.  TM_Ok if it was made by an earlier command; otherwise what
 * heap says of the version this command began with.
 */
TM_Result
ts_change_self(TsChange *change, TsVersion *head, TM_FailureData *tmfd)
{
	TsVersion  *v = head;
	TsVersion  *first = NULL;	/* oldest one made by this command or later */

	fill_failure(change, tmfd);
	while (v != NULL && ts_is_mine(ts_version_creator(v)) && v->cid >= change->cid)
	{
		first = v;
		v = ts_version_prev(v);
	}
	if (first == NULL)
		return (head->flags & TS_V_DELETED) ? TM_Invisible : TM_Ok;
	if (v == NULL || (v->flags & TS_V_DELETED))
		return TM_Invisible;
	if (change->newest ||
		(v != change->pinned &&
		 ts_row_visible(ts_ref_row(change->ref), &change->view) != v))
	{
		/*
		 * Others changed the row before I did.  Heap finds that first, goes
		 * on to the last version and judges by that one.
		 */
		if ((head->flags & (TS_V_DELETED | TS_V_MOVED)) == TS_V_DELETED)
			return TM_Deleted;
		first = head;
	}
	tmfd->cmax = first->cid;
	if (head->flags & TS_V_MOVED)
		tmfd->ctid = ts_version_moved(head)->successor;
	return TM_SelfModified;
}

/* A committed head is not what the view sees: say why it cannot be changed. */
TM_Result
ts_change_superseded(TsChange *change, TsVersion *head, TM_FailureData *tmfd)
{
	fill_failure(change, tmfd);
	if ((head->flags & TS_V_DELETED) == 0)
		return TM_Updated;
	if (head->flags & TS_V_MOVED_PARTITION)
	{
		ItemPointerSetMovedPartitions(&tmfd->ctid);
		return TM_Updated;
	}
	if (head->flags & TS_V_MOVED)
	{
		tmfd->ctid = ts_version_moved(head)->successor;
		return TM_Updated;
	}
	return TM_Deleted;
}

/*
 * Is the newest committed version the one to be changed: the one the view sees,
 * or the one this transaction has locked (its TID is then an alias)?
 */
static TM_Result
check_committed(TsChange *change, TsVersion *head, TM_FailureData *tmfd)
{
	TsRow	   *row = ts_ref_row(change->ref);

	if (change->newest)
	{
		if (head->flags & TS_V_DELETED)
			return ts_change_superseded(change, head, tmfd);
	}
	else if (head != change->pinned && ts_row_visible(row, &change->view) != head)
		return ts_change_superseded(change, head, tmfd);

	if (change->crosscheck != InvalidSnapshot)
	{
		TsReadView	view;

		ts_read_view_init(&view, change->crosscheck);
		if (ts_row_visible(row, &view) != head)
		{
			fill_failure(change, tmfd);
			return TM_Updated;
		}
	}
	return TM_Ok;
}

/*
 * Wait until the row's newest version is committed or mine, and check that it
 * is the one to be changed.  On TM_Ok, *head is that version and an epoch
 * section has been entered, which the caller leaves once it has put its
 * version on top; on other results, none has, and *tmfd is filled in.
 *
 * Raises errors (cancel, deadlock).  Call it outside epoch sections.
 */
TM_Result
ts_change_begin(TsChange *change, TsVersion **head, TM_FailureData *tmfd)
{
	TsRow	   *row = ts_ref_row(change->ref);

	for (;;)
	{
		TsVersion  *v;
		TM_Result	result;
		uint64		word;
		uint16		tag;

		ts_epoch_enter();
		v = *head = ts_row_head(row);
		if (v == NULL)
		{
			fill_failure(change, tmfd);
			ts_epoch_leave();
			return TM_Deleted;
		}
		word = ts_version_creator(v);
		if (ts_creator_is_live(word) && !ts_is_mine(word))
		{
			tag = v->aux;
			ts_epoch_leave();
			if (!ts_change_wait(change, word, tag))
			{
				fill_failure(change, tmfd);
				return TM_WouldBlock;
			}
			continue;
		}
		if (ts_is_mine(word))
			result = ts_change_self(change, v, tmfd);
		else
			result = check_committed(change, v, tmfd);
		if (result != TM_Ok)
			ts_epoch_leave();
		/* by this MERGE knows that it was me, so it must be valid */
		if (result == TM_SelfModified)
			tmfd->xmax = GetTopTransactionId();
		return result;
	}
}
