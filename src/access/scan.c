/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Sequential, parallel, TID range, bitmap, sample and ANALYZE scans.
 *
 * A scan looks at a block at a time: in one epoch section it collects the
 * versions that its snapshot sees, which then stay valid without one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/tsmapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "utils/snapmgr.h"

#include "access/access.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/snapshot.h"

#define PREFETCH_DISTANCE	8
#define PREFETCH_TUPLE		(TS_VERSION_HEADER + SizeofMinimalTupleHeader)

/* shared state of a parallel scan */
typedef struct TsParallelScan
{
	ParallelBlockTableScanDescData base;
	uint64		count;			/* of the scan's snapshot; 0: not an MVCC one */
} TsParallelScan;

typedef struct TsScan
{
	TableScanDescData rs_base;
	TsTable    *table;
	TsReadView	view;
	bool		mvcc;
	BlockNumber nblocks;		/* when the scan began, block 0 included */

	BlockNumber blkno;			/* current block; 0: none */
	TsBlock    *block;
	int			position;		/* in visible[], or row index if not mvcc */
	int			nvisible;

	ParallelBlockTableScanWorkerData worker;
	BlockNumber first_block;	/* limits of a TID range scan, */
	BlockNumber last_block;		/* or of the whole table */

	struct
	{
		TsVersion  *version;
		uint32		index;
	}			visible[TS_ROWS_PER_BLOCK];
} TsScan;

Size
ts_parallelscan_estimate(Relation rel)
{
	return sizeof(TsParallelScan);
}

/*
 * Core serializes the snapshot by itself, without the count; in a query it is
 * the active snapshot, and in an index build one not older.
 */
Size
ts_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan)
{
	TsParallelScan *shared = (TsParallelScan *) pscan;

	(void) table_block_parallelscan_initialize(rel, pscan);
	shared->count = 0;
	if (ActiveSnapshotSet() && GetActiveSnapshot()->snapshot_type == SNAPSHOT_MVCC)
		shared->count = ts_snapshot_count(GetActiveSnapshot());
	return sizeof(TsParallelScan);
}

void
ts_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan)
{
	table_block_parallelscan_reinitialize(rel, pscan);
}

static void
start_scan(TsScan *scan)
{
	scan->nblocks = ts_table_nblocks(scan->table);
	scan->blkno = 0;
	scan->block = NULL;
	scan->position = -1;
	scan->nvisible = 0;
	scan->first_block = TS_FIRST_BLOCK;
	scan->last_block = scan->nblocks - 1;
	if (scan->rs_base.rs_parallel != NULL)
		table_block_parallelscan_startblock_init(scan->rs_base.rs_rd, &scan->worker,
												 (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel);
}

TableScanDesc
ts_scan_begin(Relation rel, Snapshot snapshot, int nkeys, ScanKeyData *key,
			  ParallelTableScanDesc pscan, uint32 flags)
{
	TsScan	   *scan = palloc(sizeof(TsScan));

	memset(scan, 0, offsetof(TsScan, visible));
	scan->table = ts_relation_table(rel);
	scan->mvcc = snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC;
	ts_adopt_leader_writes();
	if (scan->mvcc && pscan != NULL && ((TsParallelScan *) pscan)->count != 0)
	{
		/* the snapshot was restored from a form without its count */
		ts_read_view_init(&scan->view, GetActiveSnapshot());
		scan->view.snapshot = snapshot;
		scan->view.curcid = snapshot->curcid;
		scan->view.count = ((TsParallelScan *) pscan)->count;
	}
	else if (scan->mvcc)
		ts_read_view_init(&scan->view, snapshot);

	RelationIncrementReferenceCount(rel);
	scan->rs_base.rs_rd = rel;
	scan->rs_base.rs_snapshot = snapshot;
	scan->rs_base.rs_nkeys = nkeys;
	scan->rs_base.rs_flags = flags;
	scan->rs_base.rs_parallel = pscan;
	if (nkeys > 0)
	{
		scan->rs_base.rs_key = palloc(sizeof(ScanKeyData) * nkeys);
		if (key != NULL)
			memcpy(scan->rs_base.rs_key, key, sizeof(ScanKeyData) * nkeys);
	}
	start_scan(scan);
	if (flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(rel);
	return &scan->rs_base;
}

void
ts_scan_end(TableScanDesc sscan)
{
	RelationDecrementReferenceCount(sscan->rs_rd);
	if (sscan->rs_key != NULL)
		pfree(sscan->rs_key);
	if (sscan->rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(sscan->rs_snapshot);
	pfree(sscan);
}

void
ts_scan_rescan(TableScanDesc sscan, ScanKeyData *key, bool set_params,
			   bool allow_strat, bool allow_sync, bool allow_pagemode)
{
	TsScan	   *scan = (TsScan *) sscan;

	if (key != NULL && sscan->rs_nkeys > 0)
		memcpy(sscan->rs_key, key, sizeof(ScanKeyData) * sscan->rs_nkeys);
	start_scan(scan);
	if (sscan->rs_flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(sscan->rs_rd);
}

/* Collect what the snapshot sees of a block. */
static void
collect_visible(TsScan *scan, TsBlock *block)
{
	int			n = 0;
	uint32		limit = pg_atomic_read_u32(&block->limit);

	/* rows that the snapshot sees were stored before it was taken */
	pg_read_barrier();
	ts_epoch_enter();
	for (uint32 i = 0; i < limit; i++)
	{
		TsVersion  *v;

		if (i + PREFETCH_DISTANCE < limit)
		{
			const char *ahead = (const char *) ts_row_head(&block->rows[i + PREFETCH_DISTANCE]);

			/* the header, and the tuple's beginning, which may be in the next line */
			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + PREFETCH_TUPLE);
		}
		v = ts_row_visible(&block->rows[i], &scan->view);
		if (v != NULL)
		{
			scan->visible[n].version = v;
			scan->visible[n].index = i;
			n++;
		}
	}
	ts_epoch_leave();
	scan->nvisible = n;
}

static void
load_block(TsScan *scan, BlockNumber blkno, bool backward)
{
	CHECK_FOR_INTERRUPTS();
	scan->blkno = blkno;
	scan->block = ts_table_block(scan->table, blkno);
	scan->nvisible = 0;
	if (scan->block != NULL)
	{
		if (scan->mvcc)
			collect_visible(scan, scan->block);
		else
			scan->nvisible = TS_ROWS_PER_BLOCK;
	}
	scan->position = backward ? scan->nvisible : -1;
}

/* The block that follows the current one; 0 if there is none. */
static BlockNumber
next_block(TsScan *scan, bool backward)
{
	if (scan->rs_base.rs_parallel != NULL)
	{
		BlockNumber blkno;

		do
			blkno = table_block_parallelscan_nextpage(scan->rs_base.rs_rd, &scan->worker,
													  (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel);
		while (blkno < TS_FIRST_BLOCK);
		return blkno == InvalidBlockNumber ? 0 : blkno;
	}
	if (scan->last_block < scan->first_block)
		return 0;
	if (scan->blkno == 0)
		return backward ? scan->last_block : scan->first_block;
	if (backward)
		return scan->blkno > scan->first_block ? scan->blkno - 1 : 0;
	return scan->blkno < scan->last_block ? scan->blkno + 1 : 0;
}

/*
 * For index builds, which look at rows in their own way: the next block of the
 * scan, or NULL at its end.
 */
TsBlock *
ts_scan_next_block(TableScanDesc sscan)
{
	TsScan	   *scan = (TsScan *) sscan;

	for (;;)
	{
		BlockNumber blkno = next_block(scan, false);

		if (blkno == 0)
			return NULL;
		CHECK_FOR_INTERRUPTS();
		scan->blkno = blkno;
		scan->block = ts_table_block(scan->table, blkno);
		if (scan->block != NULL)
			return scan->block;
	}
}

/* Limit a scan to blocks from `first` on, `count` of them or all. */
void
ts_scan_set_blocks(TableScanDesc sscan, BlockNumber first, BlockNumber count)
{
	TsScan	   *scan = (TsScan *) sscan;

	scan->first_block = Max(TS_FIRST_BLOCK, first);
	if (count != InvalidBlockNumber)
		scan->last_block = Min((uint64) scan->last_block, (uint64) first + count - 1);
}

const TsReadView *
ts_scan_view(TableScanDesc sscan)
{
	return &((TsScan *) sscan)->view;
}

/* Rows under a snapshot that is not MVCC are looked at one by one. */
static bool
store_if_seen(TsScan *scan, uint32 index, TupleTableSlot *slot)
{
	TsRowRef	ref = {scan->block, index};
	TsVersion  *v;

	ts_epoch_enter();
	v = ts_row_fetch(ts_ref_row(ref), scan->rs_base.rs_snapshot, &scan->view);
	if (v != NULL)
		ts_slot_store_row(slot, v, ref, scan->rs_base.rs_rd, true);
	ts_epoch_leave();
	return v != NULL;
}

static inline void
store_visible(TsScan *scan, TupleTableSlot *slot)
{
	TsRowRef	ref = {scan->block, scan->visible[scan->position].index};

	ts_slot_store_row(slot, scan->visible[scan->position].version, ref,
					  scan->rs_base.rs_rd, false);
}

static bool
keys_match(TsScan *scan, TupleTableSlot *slot)
{
	for (int i = 0; i < scan->rs_base.rs_nkeys; i++)
	{
		ScanKey		key = &scan->rs_base.rs_key[i];
		bool		isnull;
		Datum		value;

		if (key->sk_flags & SK_ISNULL)
			return false;
		value = slot_getattr(slot, key->sk_attno, &isnull);
		if (isnull || !DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation,
													  value, key->sk_argument)))
			return false;
	}
	return true;
}

bool
ts_scan_getnextslot(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	TsScan	   *scan = (TsScan *) sscan;
	bool		backward = ScanDirectionIsBackward(direction);
	int			step = backward ? -1 : 1;

	ts_forget_fetched_dirty();
	/* the next row of the block, which is what almost all calls are for */
	if (likely(!backward && scan->mvcc && sscan->rs_nkeys == 0 &&
			   scan->position + 1 < scan->nvisible && scan->block != NULL &&
			   !ScanDirectionIsNoMovement(direction)))
	{
		scan->position++;
		store_visible(scan, slot);
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
	if (ScanDirectionIsNoMovement(direction))
		return false;
	for (;;)
	{
		scan->position += step;
		while (scan->block == NULL ||
			   scan->position < 0 || scan->position >= scan->nvisible)
		{
			BlockNumber blkno = next_block(scan, backward);

			if (blkno == 0)
			{
				ExecClearTuple(slot);
				/* a scan that turns round starts from this end */
				scan->blkno = 0;
				scan->block = NULL;
				return false;
			}
			load_block(scan, blkno, backward);
			scan->position += step;
		}
		if (scan->mvcc)
			store_visible(scan, slot);
		else if (!store_if_seen(scan, (uint32) scan->position, slot))
			continue;
		if (sscan->rs_nkeys > 0 && !keys_match(scan, slot))
			continue;
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
}

void
ts_scan_set_tidrange(TableScanDesc sscan, ItemPointer mintid, ItemPointer maxtid)
{
	TsScan	   *scan = (TsScan *) sscan;

	scan->first_block = Max(TS_FIRST_BLOCK, ItemPointerGetBlockNumberNoCheck(mintid));
	scan->last_block = Min(scan->nblocks - 1, ItemPointerGetBlockNumberNoCheck(maxtid));
	scan->blkno = 0;
	scan->block = NULL;
	ItemPointerCopy(mintid, &sscan->rs_mintid);
	ItemPointerCopy(maxtid, &sscan->rs_maxtid);
}

bool
ts_scan_getnextslot_tidrange(TableScanDesc sscan, ScanDirection direction,
							 TupleTableSlot *slot)
{
	TsScan	   *scan = (TsScan *) sscan;

	while (ts_scan_getnextslot(sscan, direction, slot))
	{
		TsRowRef	ref = {scan->block, scan->mvcc ? scan->visible[scan->position].index :
		(uint32) scan->position};
		ItemPointerData tid;

		ts_ref_tid(ref, &tid);
		if (ItemPointerCompare(&tid, &sscan->rs_mintid) >= 0 &&
			ItemPointerCompare(&tid, &sscan->rs_maxtid) <= 0)
			return true;
	}
	return false;
}

/* ---- bitmap scans ---- */

bool
ts_scan_bitmap_next_block(TableScanDesc sscan, TBMIterateResult *tbmres)
{
	TsScan	   *scan = (TsScan *) sscan;
	TsBlock    *block = ts_table_block(scan->table, tbmres->blockno);
	int			n = 0;

	scan->block = block;
	scan->blkno = tbmres->blockno;
	scan->position = -1;
	scan->nvisible = 0;
	if (block == NULL)
		return false;
	if (tbmres->ntuples < 0)
	{
		collect_visible(scan, block);
		return scan->nvisible > 0;
	}
	ts_epoch_enter();
	for (int i = 0; i < tbmres->ntuples; i++)
	{
		uint32		index = (uint32) tbmres->offsets[i] - 1;
		TsVersion  *v;

		if (index >= TS_ROWS_PER_BLOCK)
			continue;
		v = ts_row_visible(&block->rows[index], &scan->view);
		if (v != NULL)
		{
			scan->visible[n].version = v;
			scan->visible[n].index = index;
			n++;
		}
	}
	ts_epoch_leave();
	scan->nvisible = n;
	return n > 0;
}

bool
ts_scan_bitmap_next_tuple(TableScanDesc sscan, TBMIterateResult *tbmres, TupleTableSlot *slot)
{
	TsScan	   *scan = (TsScan *) sscan;

	ts_forget_fetched_dirty();
	if (++scan->position >= scan->nvisible)
		return false;
	store_visible(scan, slot);
	pgstat_count_heap_fetch(sscan->rs_rd);
	return true;
}

/* ---- TABLESAMPLE ---- */

bool
ts_scan_sample_next_block(TableScanDesc sscan, SampleScanState *state)
{
	TsScan	   *scan = (TsScan *) sscan;
	TsmRoutine *tsm = state->tsmroutine;
	BlockNumber blkno;

	if (tsm->NextSampleBlock != NULL)
		blkno = tsm->NextSampleBlock(state, scan->nblocks);
	else
	{
		blkno = next_block(scan, false);
		if (blkno == 0)
			blkno = InvalidBlockNumber;
	}
	if (!BlockNumberIsValid(blkno))
	{
		scan->block = NULL;
		return false;
	}
	CHECK_FOR_INTERRUPTS();
	scan->blkno = blkno;
	scan->block = ts_table_block(scan->table, blkno);
	return true;
}

bool
ts_scan_sample_next_tuple(TableScanDesc sscan, SampleScanState *state, TupleTableSlot *slot)
{
	TsScan	   *scan = (TsScan *) sscan;

	for (;;)
	{
		OffsetNumber offset = state->tsmroutine->NextSampleTuple(state, scan->blkno,
																 scan->block == NULL ? 0 : TS_ROWS_PER_BLOCK);
		TsRowRef	ref;
		TsVersion  *v;

		if (!OffsetNumberIsValid(offset))
		{
			ExecClearTuple(slot);
			return false;
		}
		if (scan->block == NULL || offset > TS_ROWS_PER_BLOCK)
			continue;
		ref.block = scan->block;
		ref.index = (uint32) offset - 1;
		ts_epoch_enter();
		v = ts_row_visible(ts_ref_row(ref), &scan->view);
		ts_epoch_leave();
		if (v == NULL)
			continue;
		ts_slot_store_row(slot, v, ref, sscan->rs_rd, false);
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
}

/* ---- ANALYZE ---- */

bool
ts_scan_analyze_next_block(TableScanDesc sscan, BlockNumber blockno,
						   BufferAccessStrategy bstrategy)
{
	TsScan	   *scan = (TsScan *) sscan;

	scan->blkno = blockno;
	scan->block = ts_table_block(scan->table, blockno);
	scan->position = -1;
	return scan->block != NULL;
}

bool
ts_scan_analyze_next_tuple(TableScanDesc sscan, TransactionId OldestXmin,
						   double *liverows, double *deadrows, TupleTableSlot *slot)
{
	TsScan	   *scan = (TsScan *) sscan;

	while (++scan->position < TS_ROWS_PER_BLOCK)
	{
		TsRowRef	ref = {scan->block, (uint32) scan->position};
		bool		live;
		TsVersion  *v;

		ts_epoch_enter();
		v = ts_newest_settled(ts_row_head(ts_ref_row(ref)));
		live = v != NULL && (v->flags & TS_V_DELETED) == 0;
		if (live)
			ts_slot_store_row(slot, v, ref, sscan->rs_rd, true);
		else if (v != NULL)
			*deadrows += 1;
		ts_epoch_leave();
		if (live)
		{
			*liverows += 1;
			return true;
		}
	}
	ExecClearTuple(slot);
	return false;
}
