/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Figures of a tsindex.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/rel.h"

#include "index/index.h"
#include "index/stats.h"

/*
 * Fills in an index's figures, which are approximate while it is changed.
 * False if it is no tsindex, or has no tree, because nobody has needed it since
 * the server was started.
 */
bool
ts_index_get_stats(Relation rel, TsIndexStats *stats)
{
	TsIndex    *index;
	TsNode	   *root;

	if (rel->rd_rel->relam != ts_index_am_oid())
		return false;
	index = ts_index_find(rel->rd_node, rel->rd_backend);
	if (index == NULL)
		return false;
	root = (TsNode *) (uintptr_t) pg_atomic_read_u64(&index->root);
	stats->entries = pg_atomic_read_u64(&index->entries);
	stats->height = root->level + 1;
	stats->leaves = pg_atomic_read_u64(&index->leaves);
	stats->inner_nodes = pg_atomic_read_u64(&index->inners);
	stats->fill_percent = 100 * stats->entries / Max(1, stats->leaves * index->leaf_max);
	stats->bytes = sizeof(TsIndex) + pg_atomic_read_u64(&index->bytes);
	stats->splits = pg_atomic_read_u64(&index->splits);
	stats->restarts = pg_atomic_read_u64(&index->restarts);
	return true;
}
