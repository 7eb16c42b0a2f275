/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The index access method tsindex.
 *
 * It has btree's strategies and support functions, because indexes made as
 * btree and switched keep btree's operator classes (switch.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/amapi.h"
#include "access/nbtree.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "utils/index_selfuncs.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "index/index.h"

TS_FUNCTION_INFO_V1(tsindex_handler);

/* what a page of a btree holds, and what its tuples and TIDs take */
#define PAGE_BYTES			((BLCKSZ - SizeOfPageHeaderData) * 0.9)
#define TUPLE_OVERHEAD		(sizeof(IndexTupleData) + sizeof(ItemIdData))
#define TID_BYTES			sizeof(ItemPointerData)
#define PAGE_FANOUT			300

/*
 * The part of the entries that have a key of their own: btrees keep equal keys
 * once.
 */
static double
distinct_keys(PlannerInfo *root, IndexOptInfo *info, double entries)
{
	TargetEntry *target = linitial_node(TargetEntry, info->indextlist);
	VariableStatData stats;
	bool		is_default;
	double		n;

	if (info->unique || info->ncolumns > 1)
		return entries;
	examine_variable(root, (Node *) target->expr, 0, &stats);
	n = get_variable_numdistinct(&stats, &is_default);
	ReleaseVariableStats(stats);
	return is_default ? entries : Min(n, entries);
}

/* Pages of a btree with as many entries. */
static double
btree_pages(PlannerInfo *root, IndexOptInfo *info, double entries)
{
	double		distinct = distinct_keys(root, info, entries);
	double		width = 0;
	ListCell   *cell;

	foreach(cell, info->indextlist)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, cell)->expr;

		width += get_typavgwidth(exprType(expr), exprTypmod(expr));
	}
	width = MAXALIGN((int) width) + TUPLE_OVERHEAD;
	return Max(1, ceil((distinct * width + (entries - distinct) * TID_BYTES) / PAGE_BYTES));
}

/*
 * Costs as of a btree with as many entries: core's estimate of the size comes
 * from the relation's file, which is empty.
 */
static void
cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost,
			  Cost *total_cost, Selectivity *selectivity, double *correlation, double *pages)
{
	IndexOptInfo *info = path->indexinfo;
	Relation	index = index_open(info->indexoid, NoLock);
	double		entries = (double) pg_atomic_read_u64(&ts_index_tree(index).index->entries);
	double		leaves = btree_pages(root, info, entries);

	index_close(index, NoLock);
	if (info->indpred != NIL)
		info->tuples = Min(Max(entries, 1), Max(info->rel->tuples, 1));
	info->pages = (BlockNumber) leaves + 1;	/* and a meta page */
	info->tree_height = 0;
	for (double n = leaves; n > 1; n /= PAGE_FANOUT)
		info->tree_height++;
	btcostestimate(root, path, loop_count, startup_cost, total_cost, selectivity,
				   correlation, pages);
}

/* Is the column's value in the entries, exactly? */
static bool
can_return(Relation index, int attno)
{
	return ts_column_is_exact(ts_index_tree(index).info, attno - 1);
}

/* Operator classes are btree's, and validated there. */
static bool
validate(Oid opclass)
{
	return btvalidate(opclass);
}

Datum
tsindex_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	am->amstrategies = BTMaxStrategyNumber;
	am->amsupport = BTNProcs;
	am->amoptsprocnum = BTOPTIONS_PROC;
	am->amcanorder = true;
	am->amcanbackward = true;
	am->amcanunique = true;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearcharray = true;
	am->amsearchnulls = true;
	am->amclusterable = true;
	am->amcaninclude = true;
	am->amkeytype = InvalidOid;

	am->ambuild = ts_index_build;
	am->ambuildempty = ts_index_buildempty;
	am->aminsert = ts_index_aminsert;
	am->ambulkdelete = ts_index_bulkdelete;
	am->amvacuumcleanup = ts_index_vacuumcleanup;
	am->amcanreturn = can_return;
	am->amcostestimate = cost_estimate;
	am->amoptions = btoptions;
	am->amvalidate = validate;
	am->amadjustmembers = btadjustmembers;
	am->ambeginscan = ts_index_beginscan;
	am->amrescan = ts_index_rescan;
	am->amgettuple = ts_index_gettuple;
	am->amgetbitmap = ts_index_getbitmap;
	am->amendscan = ts_index_endscan;
	am->amcanparallel = true;
	am->amestimateparallelscan = ts_index_estimateparallelscan;
	am->aminitparallelscan = ts_index_initparallelscan;
	am->amparallelrescan = ts_index_parallelrescan;
	am->ammarkpos = ts_index_markpos;
	am->amrestrpos = ts_index_restrpos;
	PG_RETURN_POINTER(am);
}
