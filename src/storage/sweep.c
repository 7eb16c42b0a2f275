/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  Freeing the TIDs of dead rows without VACUUM.
 *
 * The TID of a dead row may be used again when no index leads to it.  Where all
 * of a table's indexes are in memory, the garbage collector can see to that: it
 * notes the dead rows (TS_ROW_SWEEP), lets the layer that has the indexes remove
 * their entries, and frees what it has noted.
 *
 * What is being built of an index is not known to that layer yet, so nothing is
 * freed as long as a build that began before the rows were noted goes on.  One
 * that begins later does not meet them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "memory/epoch.h"
#include "storage/sweep.h"

bool		(*ts_clean_indexes_hook) (TsTable *table, RelFileNode rnode, TsSweepCallback is_dead,
									  void *state) = NULL;

/* Is it worth it?  A table that is used as a queue has few live rows. */
static bool
has_many_dead(TsTable *table)
{
	uint32		ndead = pg_atomic_read_u32(&table->ndead);

	return ndead >= TS_SWEEP_MIN &&
		(uint64) ndead >= pg_atomic_read_u64(&table->rows) / TS_SWEEP_FRACTION;
}

static bool
can_sweep(TsTable *table)
{
	return pg_atomic_read_u32(&table->indexes) == TS_INDEXES_MEMORY &&
		pg_atomic_read_u32(&table->index_builds) == 0;
}

/*
 * A block of the table as it was listed, in an epoch section that the caller
 * leaves; NULL, outside of one, if there is none or the table has gone.
 */
static TsBlock *
enter_block(const TsTableRef *ref, BlockNumber blkno)
{
	TsBlock    *block = NULL;

	ts_epoch_enter();
	if (pg_atomic_read_u64(&ref->table->generation) == ref->generation)
		block = ts_table_block(ref->table, blkno);
	if (block == NULL)
		ts_epoch_leave();
	return block;
}

/* Note the dead rows; returns how many, those of an unfinished sweep included. */
static int64
note_dead(const TsTableRef *ref)
{
	int64		noted = 0;

	pg_atomic_write_u32(&ref->table->ndead, 0);
	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < ref->nblocks; blkno++)
	{
		TsBlock    *block = enter_block(ref, blkno);

		if (block == NULL)
			return 0;
		for (int i = 0; i < TS_ROWS_PER_BLOCK; i++)
		{
			uint64		word = TS_ROW_DEAD;

			if (pg_atomic_read_u64(&block->rows[i]) == TS_ROW_SWEEP ||
				(pg_atomic_read_u64(&block->rows[i]) == TS_ROW_DEAD &&
				 pg_atomic_compare_exchange_u64(&block->rows[i], &word, TS_ROW_SWEEP)))
				noted++;
		}
		ts_epoch_leave();
	}
	return noted;
}

/* No index leads to the noted rows any more. */
static void
free_noted(const TsTableRef *ref)
{
	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < ref->nblocks; blkno++)
	{
		TsBlock    *block = enter_block(ref, blkno);
		uint32		freed = 0;

		if (block == NULL)
			return;
		for (int i = 0; i < TS_ROWS_PER_BLOCK; i++)
		{
			uint64		word = TS_ROW_SWEEP;

			if (pg_atomic_read_u64(&block->rows[i]) == TS_ROW_SWEEP &&
				pg_atomic_compare_exchange_u64(&block->rows[i], &word, TS_ROW_FREE))
				freed++;
		}
		if (freed > 0)
		{
			ts_table_rows_freed(block, freed);
			ts_block_changed(block);
		}
		ts_epoch_leave();
	}
}

static bool
is_noted(ItemPointer tid, void *state)
{
	TsBlock    *block = enter_block(state, ItemPointerGetBlockNumberNoCheck(tid));
	uint32		index = ItemPointerGetOffsetNumberNoCheck(tid) - 1;
	bool		noted;

	if (block == NULL)
		return false;
	noted = index < TS_ROWS_PER_BLOCK &&
		(pg_atomic_read_u64(&block->rows[index]) & ~TS_ROW_BITS) == TS_ROW_SWEEP;
	ts_epoch_leave();
	return noted;
}

static void
sweep_table(TsTableRef *ref)
{
	if (!can_sweep(ref->table) || note_dead(ref) == 0)
		return;
	pg_memory_barrier();		/* noted before the look at builds */
	if (can_sweep(ref->table) &&
		ts_clean_indexes_hook(ref->table, ref->rnode, is_noted, ref))
		free_noted(ref);
}

/*
 * Sweep the tables that have many dead rows.  Called by the garbage collector.
 */
void
ts_sweep_tables(void)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "tsengine sweep",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int			n;
	TsTableRef *refs = ts_table_list(&n);

	for (int i = 0; i < n; i++)
		if ((refs[i].generation & 1) && has_many_dead(refs[i].table))
			sweep_table(&refs[i]);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
