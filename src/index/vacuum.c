/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  VACUUM's part: removal of entries whose rows are dead.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/vacuum.h"
#include "storage/ipc.h"

#include "index/index.h"

typedef struct BulkDelete
{
	IndexBulkDeleteCallback callback;
	void	   *state;
} BulkDelete;

static bool
is_dead(ItemPointer tid, void *arg)
{
	BulkDelete *bulk = arg;

	return bulk->callback(tid, bulk->state);
}

static void
end_walk(int code, Datum arg)
{
	ts_index_walk_end((TsIndex *) DatumGetPointer(arg));
}

static void
fill_stats(const TsIndex *index, IndexBulkDeleteResult *stats)
{
	stats->num_pages = (BlockNumber) (pg_atomic_read_u64((pg_atomic_uint64 *) &index->bytes) / BLCKSZ);
	stats->estimated_count = false;
}

/* Walk the index, waiting for whoever else does. */
static int64
walk(TsIndex *index, BulkDelete *bulk, int64 *entries)
{
	int64		removed;

	(void) ts_index_walk_begin(index, true);
	PG_ENSURE_ERROR_CLEANUP(end_walk, PointerGetDatum(index));
	{
		removed = ts_index_walk(index, is_dead, bulk, entries);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_walk, PointerGetDatum(index));
	ts_index_walk_end(index);
	return removed;
}

/* Trees being swept. */
typedef struct Sweep
{
	TsIndex   **trees;
	int			n;
} Sweep;

static void
end_sweep(int code, Datum arg)
{
	Sweep	   *sweep = (Sweep *) DatumGetPointer(arg);

	while (sweep->n > 0)
		ts_index_walk_end(sweep->trees[--sweep->n]);
}

/*
 * For the garbage collector: remove the entries of dead rows from all trees of
 * a table.  False if somebody else walks one.
 */
bool
ts_index_clean(TsTable *table, RelFileNode rnode, TsSweepCallback is_dead_row, void *state)
{
	Sweep		sweep;

	sweep.n = ts_index_claim_all(rnode, &sweep.trees);
	if (sweep.n < 0)
		return false;
	PG_ENSURE_ERROR_CLEANUP(end_sweep, PointerGetDatum(&sweep));
	{
		for (int i = 0; i < sweep.n; i++)
			(void) ts_index_walk(sweep.trees[i], is_dead_row, state, NULL);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_sweep, PointerGetDatum(&sweep));
	end_sweep(0, PointerGetDatum(&sweep));
	return true;
}

/* ambulkdelete; also how CREATE INDEX CONCURRENTLY learns what is in the index. */
IndexBulkDeleteResult *
ts_index_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					IndexBulkDeleteCallback callback, void *state)
{
	TsIndex    *index = ts_index_tree(info->index).index;
	BulkDelete	bulk = {callback, state};
	int64		entries;
	int64		removed = walk(index, &bulk, &entries);

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	stats->tuples_removed += removed;
	stats->num_index_tuples = (double) entries;
	fill_stats(index, stats);
	return stats;
}

/* amvacuumcleanup */
IndexBulkDeleteResult *
ts_index_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	TsIndex    *index;

	if (info->analyze_only)
		return stats;
	index = ts_index_tree(info->index).index;
	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	stats->num_index_tuples = (double) pg_atomic_read_u64(&index->entries);
	fill_stats(index, stats);
	return stats;
}
