/*-------------------------------------------------------------------------
 *
 * fetch.c
 *	  Rows by TID: for index scans, and for core, which knows versions by TID.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "access/access.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "storage/rowlock.h"
#include "transaction/txn.h"

typedef struct TsIndexFetch
{
	IndexFetchTableData base;
	Snapshot	snapshot;		/* the one `view` was made for */
	TsReadView	view;
} TsIndexFetch;

/*
 * The row that a SnapshotDirty fetch found last, for ON CONFLICT, which locks it
 * right away: any other access forgets it.
 */
TsRow	   *ts_last_dirty_row = NULL;

IndexFetchTableData *
ts_index_fetch_begin(Relation rel)
{
	TsIndexFetch *fetch = palloc0(sizeof(TsIndexFetch));

	fetch->base.rel = rel;
	(void) ts_relation(rel);
	return &fetch->base;
}

void
ts_index_fetch_reset(IndexFetchTableData *scan)
{
}

void
ts_index_fetch_end(IndexFetchTableData *scan)
{
	pfree(scan);
}

/* Did the last SnapshotDirty look-up find this row?  Answers once. */
bool
ts_was_fetched_dirty(TsRowRef ref)
{
	bool		yes = ts_last_dirty_row == ts_ref_row(ref);

	ts_last_dirty_row = NULL;
	return yes;
}

/*
 * Wait for another transaction, unless a page is locked: nbtree's own unique
 * check comes here so, and waits by itself.
 */
static bool
wait_for_rival(Relation rel, ItemPointer tid, const TsRival *rival)
{
	if (InterruptHoldoffCount > 0 || CritSectionCount > 0)
		return false;
	(void) ts_txn_wait(rival->word, rival->tag, LockWaitBlock, rel, tid, XLTW_InsertIndex);
	return true;
}

/* Is the row being updated in place by another transaction? */
static bool
is_being_updated(TsVersion *head, TsRival *rival)
{
	if (head == NULL || (head->flags & (TS_V_DELETED | TS_V_INSERTED)))
		return false;
	rival->word = ts_version_creator(head);
	rival->tag = head->aux;
	return ts_creator_is_live(rival->word) && !ts_is_mine(rival->word);
}

/*
 * What ON CONFLICT and exclusion constraints meet.  They wait for xids that they
 * are told; what has none is waited for here, and so is, as with heap, who
 * updates the row in place, although it is there in any case.
 */
static void
wait_for_dirty(Relation rel, TsRowRef ref, ItemPointer tid, Snapshot snapshot)
{
	for (;;)
	{
		TsRival		rival;
		bool		wait;

		ts_epoch_enter();
		wait = is_being_updated(ts_row_head(ts_ref_row(ref)), &rival);
		if (!wait)
			wait = ts_row_fetch_dirty(ts_ref_row(ref), snapshot, &rival) != NULL &&
				rival.word != 0 && !TransactionIdIsValid(snapshot->xmin) &&
				!TransactionIdIsValid(snapshot->xmax);
		ts_epoch_leave();
		if (!wait || !wait_for_rival(rel, tid, &rival))
			return;
	}
}

/*
 * The version under a TID from an index that the snapshot sees.  There is at
 * most one: all versions under a TID have the same index keys.
 */
bool
ts_index_fetch_tuple(IndexFetchTableData *scan, ItemPointer tid, Snapshot snapshot,
					 TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	TsIndexFetch *fetch = (TsIndexFetch *) scan;
	bool		mvcc = snapshot->snapshot_type == SNAPSHOT_MVCC;
	TsVersion  *v = NULL;
	TsRowRef	ref;

	*call_again = false;
	if (all_dead != NULL)
		*all_dead = false;
	if (mvcc && fetch->snapshot != snapshot)
	{
		ts_read_view_init(&fetch->view, snapshot);
		fetch->snapshot = snapshot;
	}
	if (!ts_table_row(ts_relation_table(scan->rel), tid, &ref))
		return false;
	if (snapshot->snapshot_type == SNAPSHOT_DIRTY)
		wait_for_dirty(scan->rel, ref, tid, snapshot);
	ts_epoch_enter();
	v = ts_row_fetch(ts_ref_row(ref), snapshot, &fetch->view);
	if (v != NULL && mvcc)
		ts_slot_store_row(slot, v, ref, scan->rel, false);
	else if (v != NULL)
		/* unique and exclusion checks compare with the TID in the index */
		ts_slot_store_copy(slot, v, tid, scan->rel);
	else if (all_dead != NULL)
		*all_dead = ts_row_is_dead(ref, ts_horizon(false));
	ts_epoch_leave();
	ts_last_dirty_row = v != NULL && snapshot->snapshot_type == SNAPSHOT_DIRTY ?
		ts_ref_row(ref) : NULL;
	return v != NULL;
}

/*
 * The version core means by a real TID and SnapshotAny; DESIGN.md section 3
 * has the rule.  *copy is set if nothing keeps the version from going away.
 */
static TsVersion *
version_meant(Relation rel, TsRowRef ref, bool *copy)
{
	TsRow	   *row = ts_ref_row(ref);
	TsVersion  *head = ts_row_head(row);
	TsVersion  *v = head;
	TsVersion  *first_mine = NULL;
	TsVersion  *last_tuple_mine = NULL;
	Snapshot	active;

	*copy = false;
	for (; v != NULL && ts_is_mine(ts_version_creator(v)); v = ts_version_prev(v))
	{
		first_mine = v;
		if (last_tuple_mine == NULL && (v->flags & TS_V_DELETED) == 0)
			last_tuple_mine = v;
	}
	if (first_mine != NULL)
	{
		/* v is what I superseded: nobody prunes it while I am live */
		if (!ts_aliasing(rel))
			return last_tuple_mine != NULL ? last_tuple_mine : v;
		return (first_mine->flags & TS_V_INSERTED) ? first_mine : v;
	}
	active = ActiveSnapshotSet() ? GetActiveSnapshot() : NULL;
	if (active != NULL && active->snapshot_type == SNAPSHOT_MVCC)
	{
		TsReadView	view;

		ts_read_view_init(&view, active);
		v = ts_row_visible(row, &view);
		if (v != NULL)
			return v;
	}
	/* the newest committed one */
	for (v = head; v != NULL; v = ts_version_prev(v))
		if (ts_version_status(v) == TS_CREATOR_COMMITTED && (v->flags & TS_V_DELETED) == 0)
			break;
	*copy = true;
	return v;
}

/* The newest version that is mine or committed; not a delete. */
static TsVersion *
newest_version(TsRowRef ref)
{
	TsVersion  *v = ts_newest_settled(ts_row_head(ts_ref_row(ref)));

	while (v != NULL && (v->flags & TS_V_DELETED))
		v = ts_version_prev(v);
	return v;
}

static bool
is_deleted_by_me(TsRowRef ref)
{
	TsVersion  *head = ts_row_head(ts_ref_row(ref));

	return head != NULL && (head->flags & TS_V_DELETED) && ts_is_mine(ts_version_creator(head));
}

bool
ts_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
						   TupleTableSlot *slot)
{
	TsRowRef	ref;
	TsVersion  *v;
	TsReadView	view;
	bool		copy = snapshot->snapshot_type != SNAPSHOT_MVCC;

	bool		dirty;

	if (!ts_resolve_tid(rel, tid, &ref, &v))
	{
		ts_forget_fetched_dirty();
		return false;
	}
	dirty = ts_was_fetched_dirty(ref);
	if (!copy)
		ts_read_view_init(&view, snapshot);
	ts_epoch_enter();
	if (v != NULL)
	{
		/* an alias names one version, mine or locked, which stays until I end */
		copy = false;
		if (snapshot->snapshot_type == SNAPSHOT_MVCC &&
			ts_row_visible(ts_ref_row(ref), &view) != v)
			v = NULL;
		if (v != NULL)
			ts_slot_store(slot, v, tid, rel);
	}
	else
	{
		if (snapshot->snapshot_type == SNAPSHOT_ANY)
		{
			/* ON CONFLICT DO NOTHING asks for what it has just met */
			if (dirty)
				v = newest_version(ref);
			else
				v = version_meant(rel, ref, &copy);
			if (v != NULL && copy)
				ts_slot_store_copy(slot, v, tid, rel);
			else if (v != NULL)
				ts_slot_store(slot, v, tid, rel);
		}
		else
		{
			v = ts_row_fetch(ts_ref_row(ref), snapshot, &view);
			if (v != NULL)
				ts_slot_store_row(slot, v, ref, rel, copy);
		}
	}
	if (v != NULL && snapshot->snapshot_type == SNAPSHOT_ANY && is_deleted_by_me(ref))
		ts_slot_set_deleted(slot);	/* DELETE ... RETURNING */
	ts_epoch_leave();

	/*
	 * The row that ON CONFLICT has just met was deleted, and as no snapshot
	 * needs it, collected.  Ours did not see it: core would say this next.
	 */
	if (v == NULL && dirty && snapshot->snapshot_type == SNAPSHOT_ANY &&
		IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update")));
	return v != NULL;
}

bool
ts_tuple_tid_valid(TableScanDesc scan, ItemPointer tid)
{
	if (ts_is_alias(tid))
		return true;
	return ItemPointerIsValid(tid) &&
		ItemPointerGetBlockNumber(tid) < ts_table_nblocks(ts_relation_table(scan->rs_rd));
}

/* A row has one TID for all its versions, unless it moved. */
void
ts_tuple_get_latest_tid(TableScanDesc scan, ItemPointer tid)
{
	TsTable    *table = ts_relation_table(scan->rs_rd);
	TsReadView	view;
	TsRowRef	ref;
	ItemPointerData next = *tid;

	if (ts_is_alias(tid))
		return;
	ts_read_view_init(&view, scan->rs_snapshot);
	for (;;)
	{
		TsVersion  *head;
		bool		visible;

		if (!ts_table_row(table, &next, &ref))
			return;
		ts_epoch_enter();
		head = ts_row_head(ts_ref_row(ref));
		visible = ts_row_visible(ts_ref_row(ref), &view) != NULL;
		if (visible)
			*tid = next;
		if (!visible && head != NULL && (head->flags & TS_V_MOVED) &&
			ts_version_visible(head, &view))
			next = ts_version_moved(head)->successor;
		else
			head = NULL;
		ts_epoch_leave();
		if (head == NULL)
			return;
	}
}

/* Is the version the slot shows the one that the snapshot sees of its row? */
bool
ts_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	TsVersion  *shown = ((TsSlot *) slot)->version;
	TsVersion  *alias;
	TsReadView	view;
	TsRowRef	ref;
	bool		seen;

	Assert(ts_is_slot(slot));
	if (shown == NULL || !ts_resolve_tid(rel, &slot->tts_tid, &ref, &alias))
		return false;
	if (snapshot->snapshot_type == SNAPSHOT_MVCC)
		ts_read_view_init(&view, snapshot);
	ts_epoch_enter();
	seen = ts_row_fetch(ts_ref_row(ref), snapshot, &view) == shown;
	ts_epoch_leave();
	return seen;
}

/*
 * Which index entries lead to rows that are dead to all?  Updates in place make
 * no entries, so there is little to gain from bottom-up deletion beyond that.
 */
TransactionId
ts_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	const TsHorizon *horizon = ts_horizon(true);
	TsTable    *table = ts_relation_table(rel);
	int			deletable = 0;

	ts_epoch_enter();
	for (int i = 0; i < delstate->ndeltids; i++)
	{
		TM_IndexStatus *status = &delstate->status[delstate->deltids[i].id];
		TsRowRef	ref;

		if (!status->knowndeletable &&
			ts_table_row(table, &delstate->deltids[i].tid, &ref))
			status->knowndeletable = ts_row_is_dead(ref, horizon);
		if (status->knowndeletable)
			deletable = i + 1;
	}
	ts_epoch_leave();
	/* what follows the last deletable entry need not be looked at */
	delstate->ndeltids = deletable;
	return InvalidTransactionId;
}
