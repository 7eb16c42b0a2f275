/*-------------------------------------------------------------------------
 *
 * prefetch.c
 *	  Keep core from prefetching blocks of large tables.
 *
 * Core asks the operating system for blocks of a table's main fork ahead of
 * bitmap scans and of ANALYZE.  Our main forks are empty; for block numbers in
 * the first segment the request is merely without effect, beyond it is an
 * error.  So once a table has grown that far, prefetching is switched off where
 * core would do it for us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "storage/bufmgr.h"

#include "access/access.h"

static int	saved_concurrency;
static bool stopped = false;

static bool
stop_bitmap_prefetch(PlanState *state, void *context)
{
	if (IsA(state, BitmapHeapScanState))
	{
		BitmapHeapScanState *scan = (BitmapHeapScanState *) state;

		if (scan->ss.ss_currentRelation != NULL &&
			scan->ss.ss_currentRelation->rd_tableam == ts_table_am_routine())
			scan->prefetch_maximum = 0;
	}
	return planstate_tree_walker(state, stop_bitmap_prefetch, context);
}

/* To be called when a plan has been made ready for execution. */
void
ts_stop_prefetch_in_plan(PlanState *state)
{
	if (likely(!ts_large_table_exists()) || state == NULL)
		return;
	(void) stop_bitmap_prefetch(state, NULL);
}

/*
 * Before VACUUM and ANALYZE.  (A worker of autovacuum goes without for the rest
 * of its short life: no hook tells when it is done.)
 */
void
ts_stop_prefetch_in_analyze(void)
{
	if (!ts_large_table_exists() || stopped)
		return;
	saved_concurrency = maintenance_io_concurrency;
	maintenance_io_concurrency = 0;
	stopped = true;
}

/* After it, or before the next command if it ended with an error. */
void
ts_resume_prefetch(void)
{
	if (likely(!stopped))
		return;
	maintenance_io_concurrency = saved_concurrency;
	stopped = false;
}
