/*-------------------------------------------------------------------------
 *
 * views.c
 *	  The functions behind the views tsengine.stat_*.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/acl.h"
#include "utils/rel.h"

#include "access/access.h"
#include "compat.h"
#include "index/stats.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/txn.h"

TS_FUNCTION_INFO_V1(tsengine_memory_stats);
TS_FUNCTION_INFO_V1(tsengine_table_stats);
TS_FUNCTION_INFO_V1(tsengine_transaction_stats);
TS_FUNCTION_INFO_V1(tsengine_index_stats);

static Datum
make_row(FunctionCallInfo fcinfo, const int64 *figures, int n)
{
	Datum		values[16];
	bool		nulls[16] = {false};
	TupleDesc	desc;

	Assert(n <= 16);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE || desc->natts != n)
		elog(ERROR, "return type must be a row type of %d columns", n);
	for (int i = 0; i < n; i++)
		values[i] = Int64GetDatum(figures[i]);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

Datum
tsengine_memory_stats(PG_FUNCTION_ARGS)
{
	TsArenaStats stats;

	ts_txn_attach();
	ts_arena_get_stats(&stats);
	return make_row(fcinfo, (int64[]) {
						stats.arena_bytes, stats.used_bytes, stats.free_bytes,
						stats.reserve_bytes, stats.retired_bytes,
						ts_garbage_queued_rows(),
						pg_atomic_read_u64(&ts_epoch_shared->leaked_bytes)
					}, 7);
}

/* Figures of one table; NULL if it is not a tsengine table or cannot be read. */
Datum
tsengine_table_stats(PG_FUNCTION_ARGS)
{
	Relation	rel = try_table_open(PG_GETARG_OID(0), AccessShareLock);
	TsTable    *table;
	TsTableStats stats;

	if (rel == NULL)
		PG_RETURN_NULL();
	if (rel->rd_tableam != ts_table_am_routine() ||
		(table = ts_table_find(rel->rd_node, rel->rd_backend)) == NULL)
	{
		table_close(rel, AccessShareLock);
		PG_RETURN_NULL();
	}
	ts_txn_attach();
	ts_table_get_stats(table, &stats);
	table_close(rel, AccessShareLock);
	return make_row(fcinfo, (int64[]) {
						stats.blocks, stats.live_rows, stats.dead_rows,
						stats.versions, stats.bytes
					}, 5);
}

/* Figures of one index; NULL if it is not a tsindex. */
Datum
tsengine_index_stats(PG_FUNCTION_ARGS)
{
	Relation	rel = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	TsIndexStats stats;
	bool		found;

	if (rel == NULL)
		PG_RETURN_NULL();
	found = rel->rd_rel->relkind == RELKIND_INDEX && ts_index_get_stats(rel, &stats);
	relation_close(rel, AccessShareLock);
	if (!found)
		PG_RETURN_NULL();
	return make_row(fcinfo, (int64[]) {
						stats.entries, stats.height, stats.leaves, stats.inner_nodes,
						stats.fill_percent, stats.bytes, stats.splits, stats.restarts
					}, 8);
}

Datum
tsengine_transaction_stats(PG_FUNCTION_ARGS)
{
	TsTxnCounters sum = {0};

	ts_txn_attach();
	for (int i = 0; i < ts_num_processes; i++)
	{
		const TsTxnCounters *c = &ts_txn_processes[i].counters;

		sum.commits_pure += c->commits_pure;
		sum.commits_mixed += c->commits_mixed;
		sum.aborts += c->aborts;
		sum.waits += c->waits;
		sum.late_xid += c->late_xid;
		sum.snapshot_missing += c->snapshot_missing;
	}
	return make_row(fcinfo, (int64[]) {
						sum.commits_pure, sum.commits_mixed, sum.aborts,
						sum.waits, sum.late_xid, sum.snapshot_missing
					}, 6);
}
