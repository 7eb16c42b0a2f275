/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The table access method's handler function.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "fmgr.h"

#include "access/access.h"
#include "compat.h"

TS_FUNCTION_INFO_V1(tsengine_handler);

static const TupleTableSlotOps *
slot_callbacks(Relation rel)
{
	return &ts_slot_ops;
}

/* Values are stored inline, whatever their size. */
static bool
needs_toast_table(Relation rel)
{
	return false;
}

static void
finish_bulk_insert(Relation rel, int options)
{
}

static const TableAmRoutine routine = {
	.type = T_TableAmRoutine,

	.slot_callbacks = slot_callbacks,

	.scan_begin = ts_scan_begin,
	.scan_end = ts_scan_end,
	.scan_rescan = ts_scan_rescan,
	.scan_getnextslot = ts_scan_getnextslot,
	.scan_set_tidrange = ts_scan_set_tidrange,
	.scan_getnextslot_tidrange = ts_scan_getnextslot_tidrange,

	.parallelscan_estimate = ts_parallelscan_estimate,
	.parallelscan_initialize = ts_parallelscan_initialize,
	.parallelscan_reinitialize = ts_parallelscan_reinitialize,

	.index_fetch_begin = ts_index_fetch_begin,
	.index_fetch_reset = ts_index_fetch_reset,
	.index_fetch_end = ts_index_fetch_end,
	.index_fetch_tuple = ts_index_fetch_tuple,

	.tuple_fetch_row_version = ts_tuple_fetch_row_version,
	.tuple_tid_valid = ts_tuple_tid_valid,
	.tuple_get_latest_tid = ts_tuple_get_latest_tid,
	.tuple_satisfies_snapshot = ts_tuple_satisfies_snapshot,
	.index_delete_tuples = ts_index_delete_tuples,

	.tuple_insert = ts_tuple_insert,
	.tuple_insert_speculative = ts_tuple_insert_speculative,
	.tuple_complete_speculative = ts_tuple_complete_speculative,
	.multi_insert = ts_multi_insert,
	.tuple_delete = ts_tuple_delete,
	.tuple_update = ts_tuple_update,
	.tuple_lock = ts_tuple_lock,
	.finish_bulk_insert = finish_bulk_insert,

	.relation_set_new_filenode = ts_relation_set_new_filenode,
	.relation_nontransactional_truncate = ts_relation_nontransactional_truncate,
	.relation_copy_data = ts_relation_copy_data,
	.relation_copy_for_cluster = ts_relation_copy_for_cluster,
	.relation_vacuum = ts_relation_vacuum,
	.scan_analyze_next_block = ts_scan_analyze_next_block,
	.scan_analyze_next_tuple = ts_scan_analyze_next_tuple,
	.index_build_range_scan = ts_index_build_range_scan,
	.index_validate_scan = ts_index_validate_scan,

	.relation_size = ts_relation_size,
	.relation_needs_toast_table = needs_toast_table,
	.relation_estimate_size = ts_relation_estimate_size,

	.scan_bitmap_next_block = ts_scan_bitmap_next_block,
	.scan_bitmap_next_tuple = ts_scan_bitmap_next_tuple,
	.scan_sample_next_block = ts_scan_sample_next_block,
	.scan_sample_next_tuple = ts_scan_sample_next_tuple
};

const TableAmRoutine *
ts_table_am_routine(void)
{
	return &routine;
}

Datum
tsengine_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&routine);
}
