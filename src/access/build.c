/*-------------------------------------------------------------------------
 *
 * build.c
 *	  What index builds read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "access/access.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "storage/log.h"
#include "transaction/txn.h"

/* Evaluation of an index's columns over a slot. */
typedef struct Evaluation
{
	Relation	rel;
	Relation	index;
	IndexInfo  *info;
	EState	   *estate;
	ExprContext *econtext;
	TupleTableSlot *slot;
	ExprState  *predicate;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
} Evaluation;

static void
evaluation_begin(Evaluation *e, Relation rel, Relation index, IndexInfo *info)
{
	e->rel = rel;
	e->index = index;
	e->info = info;
	e->estate = CreateExecutorState();
	e->econtext = GetPerTupleExprContext(e->estate);
	e->slot = table_slot_create(rel, NULL);
	e->econtext->ecxt_scantuple = e->slot;
	e->predicate = ExecPrepareQual(info->ii_Predicate, e->estate);
}

static void
evaluation_end(Evaluation *e)
{
	ExecDropSingleTupleTableSlot(e->slot);
	FreeExecutorState(e->estate);
	/* these may have pointed into the executor state */
	e->info->ii_ExpressionsState = NIL;
	e->info->ii_PredicateState = NULL;
}

/* Compute the index columns of the slot's row; false if it is not indexed. */
static bool
evaluate(Evaluation *e)
{
	MemoryContextReset(e->econtext->ecxt_per_tuple_memory);
	if (e->predicate != NULL && !ExecQual(e->predicate, e->econtext))
		return false;
	FormIndexDatum(e->info, e->slot, e->estate, e->values, e->isnull);
	return true;
}

/*
 * The version of a row that goes into a new index, or NULL.  As heap does, rows
 * deleted but still seen by some snapshot are indexed as not alive, and chains
 * with a second version that is still needed make the index unsafe for old
 * snapshots.  Sets *wait_for if the row's fate is about to be decided.
 */
static TsVersion *
version_to_index(TsRowRef ref, const TsHorizon *horizon, bool anyvisible,
				 bool *alive, bool *broken, TsVersion **wait_for)
{
	TsVersion  *head = ts_row_head(ts_ref_row(ref));
	TsVersion  *newer = head;
	TsVersion  *v;
	bool		running;

	if (head == NULL)
		return NULL;
	running = ts_version_status(head) == TS_CREATOR_RUNNING;
	if (running && !anyvisible)
	{
		*wait_for = head;
		return NULL;
	}
	*alive = (head->flags & TS_V_DELETED) == 0;
	for (v = head; v != NULL && (v->flags & TS_V_DELETED); v = ts_version_prev(v))
		newer = v;
	if (v == NULL || (!*alive && ts_row_is_dead(ref, horizon)))
		return NULL;
	/* is anything below it still needed? */
	newer = v;
	for (TsVersion *older = ts_version_prev(v); older != NULL; older = ts_version_prev(older))
	{
		if (!ts_creator_is_live(ts_version_creator(older)) &&
			(ts_creator_is_live(ts_version_creator(newer)) ||
			 ts_version_needed(older, newer, horizon)))
			*broken = true;
		newer = older;
	}
	return v;
}

/* Find the row's version and put it into the slot; waits where it has to. */
static bool
fetch_row_to_index(Evaluation *e, TsRowRef ref, const TsReadView *view,
				   bool anyvisible, bool *alive)
{
	for (;;)
	{
		TsVersion  *wait_for = NULL;
		TsVersion  *v;
		ItemPointerData tid;
		uint64		word = 0;
		uint16		tag = 0;

		ts_ref_tid(ref, &tid);
		ts_epoch_enter();
		if (view != NULL)
		{
			*alive = true;
			v = ts_row_visible(ts_ref_row(ref), view);
		}
		else
			v = version_to_index(ref, ts_horizon(false), anyvisible, alive,
								 &e->info->ii_BrokenHotChain, &wait_for);
		if (v != NULL && view != NULL)
			ts_slot_store(e->slot, v, &tid, e->rel);
		else if (v != NULL)
			ts_slot_store_copy(e->slot, v, &tid, e->rel);
		if (wait_for != NULL)
		{
			word = ts_version_creator(wait_for);
			tag = wait_for->aux;
		}
		ts_epoch_leave();
		if (wait_for == NULL)
			return v != NULL;
		if (ts_creator_is_live(word))
			(void) ts_txn_wait(word, tag, LockWaitBlock, e->rel, &tid, XLTW_None);
	}
}

/*
 * From now on rows that die may have index entries: wherever a process is
 * about to free a TID without regard to that, let it finish first.
 */
static void
mark_indexed(TsTable *table)
{
	if (pg_atomic_read_u32(&table->indexed) == 2)
		return;
	/* before the record: an image must not be behind its LSN */
	pg_atomic_write_u32(&table->indexed, 1);
	ts_log_indexed(table);
	ts_epoch_wait_grace();
	pg_atomic_write_u32(&table->indexed, 2);
}

/* From now on only VACUUM frees the TIDs of dead rows. */
static void
mark_other_index(TsTable *table)
{
	if (pg_atomic_read_u32(&table->indexes) != TS_INDEXES_MOVED)
		pg_atomic_write_u32(&table->indexes, TS_INDEXES_OTHERS);
	pg_memory_barrier();		/* before rows are read: see sweep.c */
}

double
ts_index_build_range_scan(Relation rel, Relation index_rel, IndexInfo *index_info,
						  bool allow_sync, bool anyvisible, bool progress,
						  BlockNumber start_blockno, BlockNumber numblocks,
						  IndexBuildCallback callback, void *callback_state,
						  TableScanDesc scan)
{
	Evaluation	e;
	Snapshot	snapshot = SnapshotAny;
	bool		own_snapshot = false;
	double		reltuples = 0;
	int64		blocks_done = 0;
	TsBlock    *block;
	const TsReadView *view = NULL;

	if (!ts_is_memory_index(RelationGetRelid(index_rel)))
		mark_other_index(ts_relation_table(rel));
	mark_indexed(ts_relation_table(rel));
	if (scan == NULL)
	{
		if (index_info->ii_Concurrent)
		{
			snapshot = RegisterSnapshot(GetTransactionSnapshot());
			own_snapshot = true;
		}
		scan = table_beginscan_strat(rel, snapshot, 0, NULL, true, allow_sync);
		if (start_blockno != 0 || numblocks != InvalidBlockNumber)
			ts_scan_set_blocks(scan, start_blockno, numblocks);
	}
	else
		snapshot = scan->rs_snapshot;
	if (snapshot->snapshot_type == SNAPSHOT_MVCC)
		view = ts_scan_view(scan);
	(void) ts_horizon(true);
	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, RelationGetNumberOfBlocks(rel));

	evaluation_begin(&e, rel, index_rel, index_info);
	while ((block = ts_scan_next_block(scan)) != NULL)
	{
		for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
		{
			TsRowRef	ref = {block, i};
			ItemPointerData tid;
			bool		alive;

			if (!fetch_row_to_index(&e, ref, view, anyvisible, &alive))
				continue;
			if (alive)
				reltuples += 1;
			if (!evaluate(&e))
				continue;
			ts_ref_tid(ref, &tid);
			callback(index_rel, &tid, e.values, e.isnull, alive, callback_state);
		}
		if (progress)
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, ++blocks_done);
	}
	table_endscan(scan);
	if (own_snapshot)
		UnregisterSnapshot(snapshot);
	evaluation_end(&e);
	return reltuples;
}

/* Next TID of those the index had before the validation, in order. */
static bool
next_index_tid(ValidateIndexState *state, ItemPointer tid)
{
	Datum		value;
	bool		isnull;
	int64		encoded;

	if (!tuplesort_getdatum(state->tuplesort, true, &value, &isnull, NULL))
		return false;
	/* as index.c encodes it: block number above 16 bits of offset */
	encoded = DatumGetInt64(value);
	ItemPointerSet(tid, (BlockNumber) (encoded >> 16), (OffsetNumber) (encoded & 0xFFFF));
	return true;
}

/*
 * CREATE INDEX CONCURRENTLY, last phase: add what the snapshot sees and the
 * index does not have yet.  Both come in TID order.
 */
void
ts_index_validate_scan(Relation rel, Relation index_rel, IndexInfo *index_info,
					   Snapshot snapshot, ValidateIndexState *state)
{
	Evaluation	e;
	TableScanDesc scan = table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	ItemPointerData in_index;
	bool		have_index_tid = next_index_tid(state, &in_index);
	TsBlock    *block;

	evaluation_begin(&e, rel, index_rel, index_info);
	while ((block = ts_scan_next_block(scan)) != NULL)
	{
		for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
		{
			TsRowRef	ref = {block, i};
			ItemPointerData tid;
			bool		alive;

			if (!fetch_row_to_index(&e, ref, ts_scan_view(scan), false, &alive))
				continue;
			state->htups += 1;
			ts_ref_tid(ref, &tid);
			while (have_index_tid && ItemPointerCompare(&in_index, &tid) < 0)
				have_index_tid = next_index_tid(state, &in_index);
			if (have_index_tid && ItemPointerEquals(&in_index, &tid))
				continue;
			if (!evaluate(&e))
				continue;
			index_insert(index_rel, e.values, e.isnull, &tid, rel,
						 index_info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
						 false, index_info);
			state->tups_inserted += 1;
		}
	}
	table_endscan(scan);
	evaluation_end(&e);
}
