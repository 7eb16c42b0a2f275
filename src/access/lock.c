/*-------------------------------------------------------------------------
 *
 * lock.c
 *	  Row locks: SELECT ... FOR UPDATE and its weaker forms.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"

#include "access/access.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/rowlock.h"
#include "transaction/txn.h"

typedef struct LockRequest
{
	TsChange	change;
	TupleTableSlot *slot;
	uint8		flags;
	TM_FailureData *tmfd;
	TsVersion  *shown;			/* version to be returned */
	bool		dirty;			/* row found by ON CONFLICT */
} LockRequest;

/*
 * Do the versions from `head` down to `older` leave the key alone, so that a
 * KEY SHARE lock on the older one is as good as on the newest?
 */
static bool
key_unchanged_since(TsVersion *head, TsVersion *older)
{
	for (TsVersion *v = head; v != older; v = ts_version_prev(v))
		if (v == NULL || (v->flags & TS_V_MOVED_PARTITION) ||
			(v->flags & TS_V_KEYS_UPDATED))
			return false;
	return true;
}

/* The newest version that is committed or mine; NULL if there is none. */
static TsVersion *
newest_settled(TsVersion *head)
{
	TsVersion  *v = head;

	while (v != NULL && ts_version_status(v) == TS_CREATOR_RUNNING)
		v = ts_version_prev(v);
	return v;
}

/*
 * Get the lock, now that nothing but other row locks can be in the way.  In an
 * epoch section; leaves it.  False if the row changed or was waited for: look
 * again.
 */
static bool
acquire(LockRequest *r, TsVersion *head, TM_Result *result)
{
	TsLockHolder me = {ts_my_live_word, ts_txn_tag()};
	TsLockHolder blocker;
	TsRowLockResult got;

	got = ts_rowlock_acquire(r->change.ref, head, r->change.mode, me, &blocker);
	if (got == TS_ROWLOCK_OK)
		ts_txn_add_row_lock(r->change.ref);
	ts_epoch_leave();
	*result = TM_Ok;
	switch (got)
	{
		case TS_ROWLOCK_OK:
			return true;
		case TS_ROWLOCK_CHANGED:
			return false;
		case TS_ROWLOCK_CONFLICT:
			if (ts_change_wait(&r->change, blocker.txn, blocker.tag))
				return false;
			*result = TM_WouldBlock;
			return true;
		case TS_ROWLOCK_NO_MEMORY:
			ts_arena_out_of_memory(0);
	}
	return true;
}

/* Go on with the row at another TID.  False if it is not there. */
static bool
follow(LockRequest *r, ItemPointer successor)
{
	TsRowRef	ref;

	ts_change_end(&r->change);
	if (!ts_table_row(r->change.table, successor, &ref))
		return false;
	r->change.ref = ref;
	r->change.tid = *successor;
	r->change.newest = true;
	r->change.pinned = NULL;
	return true;
}

/*
 * KEY SHARE on a row that was or is being moved without a change of its key:
 * the lock must be on the new TID, too, as a delete will come there.
 */
static TM_Result
lock_successors(LockRequest *r, TsVersion *head)
{
	LockRequest next = *r;

	next.change.queued = false;
	while (head->flags & TS_V_MOVED)
	{
		TM_Result	result = TM_Ok;
		ItemPointerData successor = ts_version_moved(head)->successor;

		if (!follow(&next, &successor))
			break;
		for (;;)
		{
			TsVersion  *settled;

			ts_txn_lock_row_begin();
			ts_epoch_enter();
			head = ts_row_head(ts_ref_row(next.change.ref));
			if (head == NULL)
			{
				/* the mover rolled back: the row is where it was */
				ts_epoch_leave();
				return TM_Ok;
			}
			settled = newest_settled(head);
			if (settled != NULL && (settled->flags & TS_V_KEYS_UPDATED))
			{
				ts_epoch_leave();
				return TM_Deleted;
			}
			if (head != settled && (head->flags & TS_V_KEYS_UPDATED))
			{
				uint64		word = ts_version_creator(head);
				uint16		tag = head->aux;

				ts_epoch_leave();
				if (!ts_change_wait(&next.change, word, tag))
					return TM_WouldBlock;
				continue;
			}
			if (acquire(&next, head, &result))
				break;
		}
		ts_change_end(&next.change);
		if (result != TM_Ok)
			return result;
	}
	return TM_Ok;
}

/*
 * One look at the row.  Returns true when *result is final.
 *
 * `seen` is what the snapshot sees, `settled` the newest version that is
 * committed or mine, `head` whatever is newest.
 */
static bool
try_lock(LockRequest *r, TM_Result *result)
{
	TsChange   *c = &r->change;
	TsRow	   *row = ts_ref_row(c->ref);
	TsVersion  *head;
	TsVersion  *settled;
	TsVersion  *seen;
	bool		key_share = c->mode == LockTupleKeyShare;

	ts_txn_lock_row_begin();
	ts_epoch_enter();
	head = ts_row_head(row);
	if (head == NULL)
	{
		ts_epoch_leave();
		*result = TM_Deleted;
		r->tmfd->ctid = c->tid;
		r->tmfd->cmax = InvalidCommandId;
		return true;
	}
	settled = newest_settled(head);
	if (settled != head &&
		!(key_share && settled != NULL && key_unchanged_since(head, settled)))
	{
		uint64		word = ts_version_creator(head);
		uint16		tag = head->aux;

		ts_epoch_leave();
		if (ts_change_wait(c, word, tag))
			return false;
		*result = TM_WouldBlock;
		return true;
	}

	if (ts_is_mine(ts_version_creator(settled)))
	{
		r->shown = settled;
		*result = ts_change_self(c, settled, r->tmfd);
		if (*result != TM_Ok && c->newest)
			*result = TM_Invisible;

		/*
		 * An update in place is as strong as NO KEY UPDATE by itself.  (After
		 * ON CONFLICT, xmax shall tell that the row was there.)
		 */
		if (*result != TM_Ok ||
			(!r->dirty && ((settled->flags & TS_V_INSERTED) || c->mode < LockTupleExclusive)))
		{
			ts_epoch_leave();
			return true;
		}
		return acquire(r, head, result);
	}

	if (c->newest || settled == c->pinned)
		seen = settled;
	else
		seen = ts_row_visible(row, &c->view);
	if (seen == NULL && !(r->flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION))
	{
		/* not for this snapshot: it came, or went, otherwise */
		*result = ts_change_superseded(c, settled, r->tmfd);
		ts_epoch_leave();
		return true;
	}
	if (seen == NULL || (seen->flags & TS_V_DELETED))
		seen = settled;
	if (seen != settled && key_share && key_unchanged_since(settled, seen))
		r->shown = seen;
	else if (seen == settled && (settled->flags & TS_V_DELETED) == 0)
		r->shown = settled;
	else if (!(r->flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION))
	{
		*result = ts_change_superseded(c, settled, r->tmfd);
		ts_epoch_leave();
		return true;
	}
	else if (settled->flags & TS_V_DELETED)
	{
		ItemPointerData successor = ts_version_moved(settled)->successor;
		bool		moved = (settled->flags & TS_V_MOVED) != 0;

		*result = ts_change_superseded(c, settled, r->tmfd);
		ts_epoch_leave();
		if (ItemPointerIndicatesMovedPartitions(&r->tmfd->ctid))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));
		if (!moved || !follow(r, &successor))
			return true;
		r->tmfd->traversed = true;
		return false;
	}
	else
	{
		r->shown = settled;
		r->tmfd->traversed = true;
	}
	if (key_share && (head->flags & TS_V_MOVED))
	{
		if (!acquire(r, head, result))
			return false;
		if (*result == TM_Ok)
			*result = lock_successors(r, head);
		return true;
	}
	return acquire(r, head, result);
}

TM_Result
ts_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
			  CommandId cid, LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags,
			  TM_FailureData *tmfd)
{
	LockRequest r = {.slot = slot,.flags = flags,.tmfd = tmfd};
	TsVersion  *alias;
	TsRowRef	ref;
	TM_Result	result;

	tmfd->traversed = false;
	tmfd->xmax = InvalidTransactionId;
	tmfd->cmax = InvalidCommandId;
	tmfd->ctid = *tid;
	if (!ts_resolve_tid(rel, tid, &ref, &alias))
		elog(ERROR, "tsengine row to be locked does not exist");
	ts_change_init(&r.change, rel, ref, alias, snapshot, cid, mode, XLTW_Lock);
	r.change.policy = wait_policy;

	/* ON CONFLICT names the row it has just found, whatever the snapshot sees */
	r.dirty = flags == 0 && ts_was_fetched_dirty(ref);
	if (r.dirty)
		r.change.newest = true;

	while (!try_lock(&r, &result))
		CHECK_FOR_INTERRUPTS();
	ts_change_end(&r.change);

	if (result == TM_WouldBlock && wait_policy == LockWaitError)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on row in relation \"%s\"",
						RelationGetRelationName(rel))));
	if (r.shown != NULL && (result == TM_Ok || result == TM_Invisible || result == TM_SelfModified))
	{
		if ((r.shown->flags & TS_V_DELETED) == 0)
			ts_slot_store_row(slot, r.shown, r.change.ref, rel, false);

		/*
		 * The caller goes on with this version under its TID, which by itself
		 * would mean what the snapshot sees of the row.
		 */
		if (result == TM_Ok && (r.dirty || tmfd->traversed))
			ts_alias_of_version(r.change.ref, r.shown, tid);
	}
	return result;
}
