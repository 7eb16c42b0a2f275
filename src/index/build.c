/*-------------------------------------------------------------------------
 *
 * build.c
 *	  Making trees from tables: CREATE INDEX, and after a restart.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "index/index.h"
#include "storage/table.h"
#include "transaction/txn.h"

/* a rebuild that takes longer is mentioned in the server log */
#define REBUILD_LOG_MS	1000.0

/* A key that waits until all that count for uniqueness are in the tree. */
typedef struct LateKey
{
	struct LateKey *next;
	TsKey		key;
} LateKey;

typedef struct Build
{
	TsTree		tree;
	Relation	table;
	TsTable    *rows;
	bool		unique;
	bool		nulls_distinct;
	LateKey    *late;
	MemoryContext late_context;
	MemoryContext key_context;	/* reset for each row */
} Build;

static void
duplicate_in_build(const Build *build, Relation index, Datum *values, bool *isnull)
{
	char	   *description = BuildIndexValueDescription(index, values, isnull);

	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"", RelationGetRelationName(index)),
			 description ? errdetail("Key %s is duplicated.", description) :
			 errdetail("Duplicate keys exist."),
			 errtableconstraint(build->table, RelationGetRelationName(index))));
}

/* A deleted row that old snapshots still see does not count for uniqueness. */
static void
remember_late(Build *build, Datum *values, bool *isnull, ItemPointer tid)
{
	MemoryContext old = MemoryContextSwitchTo(build->late_context);
	LateKey    *late = palloc(sizeof(LateKey));

	ts_key_form(build->tree.info, values, isnull, tid, &late->key);
	late->next = build->late;
	build->late = late;
	MemoryContextSwitchTo(old);
}

static void
add_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	Build	   *build = state;
	MemoryContext old;
	TsKey		key;

	CHECK_FOR_INTERRUPTS();
	if (build->unique && !alive)
	{
		remember_late(build, values, isnull, tid);
		return;
	}
	old = MemoryContextSwitchTo(build->key_context);
	ts_key_form(build->tree.info, values, isnull, tid, &key);
	if (build->unique &&
		!(build->nulls_distinct && ts_key_has_null(build->tree.info, isnull)) &&
		ts_index_has_equal(&build->tree, &key))
		duplicate_in_build(build, index, values, isnull);
	(void) ts_index_insert_entry(&build->tree, &key);
	MemoryContextSwitchTo(old);
	MemoryContextReset(build->key_context);
}

static void
end_build(const Build *build)
{
	pg_memory_barrier();
	pg_atomic_fetch_sub_u32(&build->rows->index_builds, 1);
}

static void
free_unfinished(int code, Datum arg)
{
	Build	   *build = (Build *) DatumGetPointer(arg);

	end_build(build);
	ts_index_free(build->tree.index);
}

/*
 * Make the tree of an index from what is in its table, and publish it.  With
 * `rebuild`, uniqueness is taken for granted and nobody is waited for: the rows
 * of running transactions get entries, too.  Returns the live rows.
 */
static double
build_tree(Relation table, Relation index, IndexInfo *info, bool rebuild)
{
	Build		build = {.table = table};
	TsIndex    *tree;
	double		rows;

	build.rows = ts_table_find(table->rd_node, table->rd_backend);
	if (build.rows == NULL)
		(void) table->rd_tableam->relation_size(table, MAIN_FORKNUM);	/* makes it known */
	build.rows = ts_table_find(table->rd_node, table->rd_backend);
	build.tree.info = palloc(ts_key_info_size(index));
	ts_key_info_init(build.tree.info, index, CurrentMemoryContext);
	build.unique = info->ii_Unique && !rebuild;
	build.nulls_distinct = !info->ii_NullsNotDistinct;
	build.key_context = AllocSetContextCreate(CurrentMemoryContext, "tsindex build",
											  ALLOCSET_DEFAULT_SIZES);
	build.late_context = AllocSetContextCreate(CurrentMemoryContext, "tsindex build, late",
											   ALLOCSET_DEFAULT_SIZES);
	tree = ts_index_new(index->rd_node, index->rd_backend, table->rd_node,
						build.tree.info->kind != TS_KEY_SHORT);
	build.tree.index = tree;
	/* entries of a tree that is not published yet are unknown to sweeps */
	pg_atomic_fetch_add_u32(&build.rows->index_builds, 1);
	PG_ENSURE_ERROR_CLEANUP(free_unfinished, PointerGetDatum(&build));
	{
		rows = table->rd_tableam->index_build_range_scan(table, index, info, true, rebuild,
														 !rebuild, 0, InvalidBlockNumber,
														 add_row, &build, NULL);
		for (LateKey *late = build.late; late != NULL; late = late->next)
			(void) ts_index_insert_entry(&build.tree, &late->key);
	}
	PG_END_ENSURE_ERROR_CLEANUP(free_unfinished, PointerGetDatum(&build));
	ts_index_publish(tree);
	end_build(&build);
	MemoryContextDelete(build.key_context);
	MemoryContextDelete(build.late_context);
	return rows;
}

/* ambuild */
IndexBuildResult *
ts_index_build(Relation table, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));

	if (table->rd_rel->relam != get_table_am_oid("tsengine", false) ||
		RelationUsesLocalBuffers(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"tsindex\" supports only permanent and unlogged tables of access method \"tsengine\"")));
	ts_txn_attach();
	result->heap_tuples = build_tree(table, index, info, false);
	/* a table emptied in place gets a new tree for the old file */
	if (index->rd_amcache != NULL)
		pfree(index->rd_amcache);
	index->rd_amcache = NULL;
	result->index_tuples =
		(double) pg_atomic_read_u64(&ts_index_tree(index).index->entries);
	return result;
}

/* ambuildempty: there is nothing on disk, so nothing is to be done. */
void
ts_index_buildempty(Relation index)
{
}

/*
 * Build the tree of an index that has none, as its table's owner.  The caller
 * keeps others from doing the same.
 */
void
ts_index_rebuild(Relation index)
{
	Relation	table = table_open(index->rd_index->indrelid, AccessShareLock);
	IndexInfo  *info = BuildIndexInfo(index);
	bool		push = !ActiveSnapshotSet();
	instr_time	start;
	instr_time	duration;
	Oid			save_userid;
	int			save_sec_context;
	int			nest_level;

	INSTR_TIME_SET_CURRENT(start);
	GetUserIdAndSecContext(&save_userid, &save_sec_context);
	SetUserIdAndSecContext(table->rd_rel->relowner,
						   save_sec_context | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	if (push)
		PushActiveSnapshot(GetTransactionSnapshot());
	info->ii_Concurrent = false;
	(void) build_tree(table, index, info, true);
	if (push)
		PopActiveSnapshot();
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(save_userid, save_sec_context);
	table_close(table, NoLock);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	if (INSTR_TIME_GET_MILLISEC(duration) > REBUILD_LOG_MS)
		ereport(LOG,
				(errmsg("index \"%s\" was built in memory again in %.1f s",
						RelationGetRelationName(index),
						INSTR_TIME_GET_MILLISEC(duration) / 1000.0)));
}
