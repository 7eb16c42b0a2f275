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
	bool		stored;			/* it is in the slot, as a copy */
	bool		dirty;			/* row found by ON CONFLICT */
	void	   *memory;			/* for an entry in the row lock table */
} LockRequest;

/* What one look at a row came to. */
typedef enum Look
{
	LOOK_DONE,					/* the result is final */
	LOOK_AGAIN,					/* somebody was waited for, or the row moved */
	LOOK_LOCK					/* nothing but row locks can be in the way */
} Look;

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

/* Memory for a lock entry, before an epoch section is entered. */
static void
prepare_entry(LockRequest *r)
{
	Size		size;

	ts_txn_lock_row_begin();
	if (r->memory != NULL)
		return;
	r->memory = ts_rowlock_alloc(&size);
	ts_txn_add_loose(r->memory, size);
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

	got = ts_rowlock_acquire(r->change.ref, head, r->change.mode, me, r->memory, &blocker);
	if (got == TS_ROWLOCK_OK)
	{
		r->memory = NULL;
		ts_txn_keep_loose(1);
		ts_txn_add_row_lock(r->change.ref, r->change.mode);
	}

	/*
	 * KEY SHARE lets others update the row in place: then nothing but the
	 * epoch keeps a version that no snapshot of ours sees.
	 */
	if ((got == TS_ROWLOCK_OK || got == TS_ROWLOCK_HELD) && r->shown != NULL &&
		r->change.mode == LockTupleKeyShare)
	{
		ItemPointerData tid;

		ts_shown_tid(r->change.rel, r->change.ref, r->shown, &tid);
		ts_slot_store_copy(r->slot, r->shown, &tid, r->change.rel);
		r->stored = true;
	}
	ts_epoch_leave();
	*result = TM_Ok;
	if (got == TS_ROWLOCK_CONFLICT)
	{
		if (ts_change_wait(&r->change, blocker.txn, blocker.tag))
			return false;
		*result = TM_WouldBlock;
	}
	return got != TS_ROWLOCK_CHANGED;
}

/* Go on with the row at another TID.  False if it is not there. */
static bool
follow(LockRequest *r, ItemPointer successor)
{
	TsRowRef	ref;

	ts_change_end(&r->change);
	if (!ItemPointerIsValid(successor) ||
		!ts_table_row(r->change.table, successor, &ref))
		return false;
	r->change.ref = ref;
	r->change.tid = *successor;
	r->change.newest = true;
	r->change.pinned = NULL;
	return true;
}

/*
 * One step of lock_successors(): lock the row `r` is at.  Sets *successor if it
 * goes on elsewhere, else makes it invalid.
 */
static TM_Result
lock_successor(LockRequest *r, ItemPointer successor)
{
	for (;;)
	{
		TsVersion  *head;
		TsVersion  *settled;
		TM_Result	result;

		prepare_entry(r);
		ts_epoch_enter();
		head = ts_row_head(ts_ref_row(r->change.ref));
		settled = ts_newest_settled(head);
		ItemPointerSetInvalid(successor);
		if (head == NULL)
		{
			/* the mover rolled back: the row is where it was */
			ts_epoch_leave();
			return TM_Ok;
		}
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
			if (!ts_change_wait(&r->change, word, tag))
				return TM_WouldBlock;
			continue;
		}
		if (head->flags & TS_V_MOVED)
			*successor = ts_version_moved(head)->successor;
		if (acquire(r, head, &result))
			return result;
	}
}

/*
 * KEY SHARE on a row that was or is being moved without a change of its key:
 * the lock must be on the new TID, too, as a delete will come there.
 */
static TM_Result
lock_successors(LockRequest *r, ItemPointerData successor)
{
	LockRequest next = *r;
	TM_Result	result = TM_Ok;

	next.change.queued = false;
	next.shown = NULL;
	while (result == TM_Ok && ItemPointerIsValid(&successor))
	{
		if (!follow(&next, &successor))
			result = TM_Deleted;
		else
			result = lock_successor(&next, &successor);
	}
	ts_change_end(&next.change);
	r->memory = next.memory;
	return result;
}

static void
fill_failure(LockRequest *r)
{
	r->tmfd->ctid = r->change.tid;
	r->tmfd->xmax = InvalidTransactionId;
	r->tmfd->cmax = InvalidCommandId;
}

/* The newest version is mine. */
static Look
look_at_mine(LockRequest *r, TsVersion *head, TM_Result *result)
{
	TsChange   *c = &r->change;

	r->shown = head;
	*result = ts_change_self(c, head, r->tmfd);
	if (*result != TM_Ok && r->dirty)
		*result = TM_Invisible;

	/*
	 * An update in place is as strong as NO KEY UPDATE by itself.  (After ON
	 * CONFLICT, xmax shall tell that the row was there.)
	 */
	if (*result != TM_Ok ||
		(!r->dirty && ((head->flags & TS_V_INSERTED) || c->mode < LockTupleExclusive)))
		return LOOK_DONE;
	return LOOK_LOCK;
}

/*
 * The newest version that counts, `settled`, is committed.  Which version is to
 * be returned, or what stands against the lock?
 */
static Look
look_at_committed(LockRequest *r, TsVersion *settled, TM_Result *result)
{
	TsChange   *c = &r->change;
	bool		find_last = (r->flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) != 0;
	TsVersion  *seen = settled;

	if (!c->newest && settled != c->pinned)
		seen = ts_row_visible(ts_ref_row(c->ref), &c->view);
	if (seen == NULL && find_last)
		seen = settled;			/* whatever is there now */

	if (seen == settled && (settled->flags & TS_V_DELETED) == 0)
		r->shown = settled;
	else if (seen != NULL && seen != settled && c->mode == LockTupleKeyShare &&
			 key_unchanged_since(settled, seen))
		r->shown = seen;
	else if (find_last && (settled->flags & TS_V_DELETED) == 0)
	{
		r->shown = settled;
		r->tmfd->traversed = true;
	}
	else
	{
		*result = ts_change_superseded(c, settled, r->tmfd);
		return LOOK_DONE;
	}
	return LOOK_LOCK;
}

/*
 * The row was changed; if the caller wants its last version and it has moved,
 * go there.
 */
static Look
follow_if_moved(LockRequest *r, TM_Result *result)
{
	ItemPointerData successor = r->tmfd->ctid;

	if (*result != TM_Updated || (r->flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) == 0)
		return LOOK_DONE;
	if (ItemPointerIndicatesMovedPartitions(&successor))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));
	if (!follow(r, &successor))
	{
		*result = TM_Deleted;
		return LOOK_DONE;
	}
	r->tmfd->traversed = true;
	return LOOK_AGAIN;
}

/* One look at the row.  Returns true when *result is final. */
static bool
try_lock(LockRequest *r, TM_Result *result)
{
	TsChange   *c = &r->change;
	TsVersion  *head;
	TsVersion  *settled;
	ItemPointerData successor;
	Look		look;

	prepare_entry(r);
	r->shown = NULL;
	ts_epoch_enter();
	head = ts_row_head(ts_ref_row(c->ref));
	settled = ts_newest_settled(head);
	if (head == NULL)
	{
		ts_epoch_leave();
		fill_failure(r);
		*result = TM_Deleted;
		return true;
	}
	if (settled != head &&
		!(c->mode == LockTupleKeyShare && settled != NULL &&
		  key_unchanged_since(head, settled)))
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
		look = look_at_mine(r, settled, result);
	else
		look = look_at_committed(r, settled, result);
	if (look == LOOK_DONE)
	{
		ts_epoch_leave();
		/* as in ts_change_begin(); other callers do not ask whose it is */
		if (*result == TM_SelfModified && r->tmfd->traversed)
			r->tmfd->xmax = GetTopTransactionId();
		return follow_if_moved(r, result) == LOOK_DONE;
	}
	ItemPointerSetInvalid(&successor);
	if (c->mode == LockTupleKeyShare && (head->flags & TS_V_MOVED))
	{
		successor = ts_version_moved(head)->successor;
		if (!ItemPointerIsValid(&successor))
		{
			ts_epoch_leave();
			fill_failure(r);
			*result = TM_Deleted;
			return true;
		}
	}
	if (!acquire(r, head, result))
		return false;
	if (*result == TM_Ok && ItemPointerIsValid(&successor))
		*result = lock_successors(r, successor);
	return true;
}

/* Put the version that was locked, or is in the way, into the slot. */
static void
show_version(LockRequest *r, TM_Result result, ItemPointer tid)
{
	if (r->shown == NULL || (r->shown->flags & TS_V_DELETED) ||
		(result != TM_Ok && result != TM_Invisible && result != TM_SelfModified))
		return;
	/* a lock stronger than KEY SHARE, or its being mine, keeps it there */
	ts_slot_store_row(r->slot, r->shown, r->change.ref, r->change.rel, false);

	/*
	 * The caller goes on with this version under its TID, which by itself
	 * would mean what the snapshot sees of the row.
	 */
	if (result == TM_Ok && (r->dirty || r->tmfd->traversed))
		ts_alias_of_version(r->change.ref, r->shown, tid);
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
	ts_txn_keep_loose(0);

	if (result == TM_WouldBlock && wait_policy == LockWaitError)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on row in relation \"%s\"",
						RelationGetRelationName(rel))));
	if (!r.stored)
		show_version(&r, result, tid);
	return result;
}
