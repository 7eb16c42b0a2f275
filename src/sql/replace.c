/*-------------------------------------------------------------------------
 *
 * replace.c
 *	  Calls of built-in functions that are replaced by calls of ours.
 *
 * No hook reaches a built-in function, so before a query is planned some calls
 * are replaced by calls of functions of ours, which do their part and call
 * core's:
 *
 *	- pg_relation_size() and its relatives: core adds up the lengths of files,
 *	  and ours are empty, so the blocks in memory are added;
 *	- pg_export_snapshot(): the commit count of the snapshot is noted for those
 *	  who import it;
 *	- pg_notify(): a transaction that notifies gets an xid at its end, too late
 *	  for us, so it gets it here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "commands/async.h"
#include "parser/parse_func.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "access/access.h"
#include "compat.h"
#include "sql/replace.h"
#include "transaction/snapshot.h"

TS_FUNCTION_INFO_V1(tsengine_relation_size);
TS_FUNCTION_INFO_V1(tsengine_table_size);
TS_FUNCTION_INFO_V1(tsengine_total_relation_size);
TS_FUNCTION_INFO_V1(tsengine_notify);
TS_FUNCTION_INFO_V1(tsengine_export_snapshot);

/* Bytes in memory of a relation, 0 if it is not one of ours. */
static int64
memory_size(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	int64		size = 0;

	if (rel == NULL)
		return 0;
	if (rel->rd_tableam == ts_table_am_routine() &&
		ts_table_find(rel->rd_node, rel->rd_backend) != NULL)
		size = (int64) (ts_table_nblocks(ts_relation_table(rel)) - TS_FIRST_BLOCK) * BLCKSZ;
	relation_close(rel, AccessShareLock);
	return size;
}

static Datum
add_memory_size(FunctionCallInfo fcinfo, PGFunction core)
{
	Datum		size = core(fcinfo);

	if (fcinfo->isnull)
		return size;
	return Int64GetDatum(DatumGetInt64(size) + memory_size(PG_GETARG_OID(0)));
}

Datum
tsengine_relation_size(PG_FUNCTION_ARGS)
{
	if (strcmp(text_to_cstring(PG_GETARG_TEXT_PP(1)), "main") != 0)
		return pg_relation_size(fcinfo);
	return add_memory_size(fcinfo, pg_relation_size);
}

Datum
tsengine_table_size(PG_FUNCTION_ARGS)
{
	return add_memory_size(fcinfo, pg_table_size);
}

Datum
tsengine_total_relation_size(PG_FUNCTION_ARGS)
{
	return add_memory_size(fcinfo, pg_total_relation_size);
}

Datum
tsengine_notify(PG_FUNCTION_ARGS)
{
	(void) GetTopTransactionId();
	return pg_notify(fcinfo);
}

Datum
tsengine_export_snapshot(PG_FUNCTION_ARGS)
{
	ts_snapshot_note_export();
	return pg_export_snapshot(fcinfo);
}

/* Our function by name, or InvalidOid where the extension is not installed. */
static Oid
our_function(const char *name, int nargs, Oid first_argument)
{
	Oid			argtypes[] = {first_argument, TEXTOID};

	return LookupFuncName(list_make2(makeString("tsengine"), makeString(pstrdup(name))),
						  nargs, argtypes, true);
}

static Node *
replace_calls(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
		return (Node *) query_tree_mutator((Query *) node, replace_calls, context, 0);
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *f = (FuncExpr *) expression_tree_mutator(node, replace_calls, context);
		Oid			ours = InvalidOid;

		switch (f->funcid)
		{
			case F_PG_RELATION_SIZE_REGCLASS:
				ours = our_function("relation_size", 2, REGCLASSOID);
				if (OidIsValid(ours))
					f->args = lappend(f->args,
									  makeConst(TEXTOID, -1, f->inputcollid, -1,
												CStringGetTextDatum("main"), false, false));
				break;
			case F_PG_RELATION_SIZE_REGCLASS_TEXT:
				ours = our_function("relation_size", 2, REGCLASSOID);
				break;
			case F_PG_TABLE_SIZE:
				ours = our_function("table_size", 1, REGCLASSOID);
				break;
			case F_PG_TOTAL_RELATION_SIZE:
				ours = our_function("total_relation_size", 1, REGCLASSOID);
				break;
			case F_PG_EXPORT_SNAPSHOT:
				ours = our_function("export_snapshot", 0, InvalidOid);
				break;
			case F_PG_NOTIFY:
				ours = our_function("notify", 2, TEXTOID);
				break;
			default:
				break;
		}
		if (OidIsValid(ours))
			f->funcid = ours;
		return (Node *) f;
	}
	return expression_tree_mutator(node, replace_calls, context);
}

/* A quick look that tells most queries not to be concerned. */
bool
ts_may_call_replaced(const char *query_string)
{
	return query_string != NULL &&
		(strcasestr(query_string, "_size") != NULL ||
		 strcasestr(query_string, "pg_notify") != NULL ||
		 strcasestr(query_string, "pg_export_snapshot") != NULL);
}

/* The query with the calls replaced. */
Query *
ts_replace_functions(Query *query)
{
	return query_tree_mutator(query, replace_calls, NULL, 0);
}
