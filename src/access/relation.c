/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  What the engine knows of an open relation, cached in its relcache entry.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "postmaster/autovacuum.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "access/access.h"
#include "memory/epoch.h"
#include "storage/load.h"
#include "transaction/txn.h"

bool		ts_warned_serializable = false;

/* SERIALIZABLE is not validated yet: say so once a session. */
void
ts_warn_serializable(void)
{
	ts_warned_serializable = true;
	if (IsParallelWorker())
		return;					/* the leader says it */
	ereport(WARNING,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("tsengine tables behave as under REPEATABLE READ in SERIALIZABLE transactions"),
			 errdetail("Serializable validation of tsengine tables is not implemented yet.")));
}

/* Indexes of this access method wait for transactions without an xid, too. */
bool
ts_is_memory_index(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_class) GETSTRUCT(tuple))->relam == get_am_oid("tsindex", true);
	ReleaseSysCache(tuple);
	return result;
}

/* Core waits for the xid of who inserts into these, so there must be one. */
static bool
has_unique_index(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	bool		found = false;
	ListCell   *cell;

	foreach(cell, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_index index;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		found |= index->indisexclusion ||
			(index->indisunique && !ts_is_memory_index(index->indexrelid));
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	return found;
}

/*
 * Note for the garbage collector whether the table's indexes are all in memory.
 * The caller holds a lock that keeps others from making or dropping some.
 */
void
ts_note_indexes(Relation rel, TsTable *table)
{
	List	   *indexes = RelationGetIndexList(rel);
	TsTableIndexes kind = TS_INDEXES_MEMORY;
	ListCell   *cell;

	foreach(cell, indexes)
		if (!ts_is_memory_index(lfirst_oid(cell)))
			kind = TS_INDEXES_OTHERS;
	list_free(indexes);
	if (pg_atomic_read_u32(&table->indexes) != TS_INDEXES_MOVED)
		pg_atomic_write_u32(&table->indexes, kind);
}

/*
 * It is not known yet what indexes the table has: look, if nobody is about to
 * make or drop one.  What this transaction has dropped may come back.
 */
static void
look_at_indexes(Relation rel, TsTable *table)
{
	if (CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true) ||
		!ConditionalLockRelation(rel, ShareUpdateExclusiveLock))
		return;
	ts_note_indexes(rel, table);
	UnlockRelation(rel, ShareUpdateExclusiveLock);
}

static bool
has_after_row_triggers(Relation rel)
{
	TriggerDesc *t = rel->trigdesc;

	return t != NULL &&
		(t->trig_insert_after_row || t->trig_update_after_row || t->trig_delete_after_row ||
		 t->trig_insert_new_table || t->trig_update_old_table ||
		 t->trig_update_new_table || t->trig_delete_old_table);
}

/* Is the relation's table missing from memory where it should be there? */
bool
ts_relation_is_lost(Relation rel)
{
	if (rel->rd_backend == InvalidBackendId)
		ts_load_check();
	return ts_table_find(rel->rd_node, rel->rd_backend) == NULL &&
		(rel->rd_rel->relpersistence != RELPERSISTENCE_UNLOGGED ||
		 ts_started_after_shutdown());
}

/*
 * A relation file without a table.  After a crash, unlogged tables begin empty,
 * as core has made their indexes; what else is not in the checkpoint image and
 * not in the WAL is lost, and must not look like an empty table.
 */
static TsTable *
missing_table(Relation rel)
{
	if (!ts_relation_is_lost(rel))
	{
		TsTable    *table = ts_table_create(rel->rd_node, rel->rd_backend,
											rel->rd_rel->relpersistence);

		/* the indexes are there, and will not be built in our sight */
		pg_atomic_write_u32(&table->indexed, 2);
		return table;
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("rows of tsengine table \"%s\" are missing", RelationGetRelationName(rel)),
			 errdetail("Neither the checkpoint image in directory \"%s\" nor the WAL knows relation file %u/%u.",
					   TS_IMAGE_DIR, rel->rd_node.dbNode, rel->rd_node.relNode),
			 errhint("Restore the directory from a backup, or TRUNCATE or DROP the table.")));
	return NULL;
}

TsRelation *
ts_relation_build(Relation rel)
{
	TsRelation *info;
	TsRelation	built;

	ts_txn_attach();
	if (IsAutoVacuumWorkerProcess())
		ts_stop_prefetch_in_analyze();
	/* a table that is found while the manifest is being read is not what it seems */
	if (rel->rd_backend == InvalidBackendId)
		ts_load_check();
	built.table = ts_table_find(rel->rd_node, rel->rd_backend);
	if (built.table == NULL)
		built.table = missing_table(rel);
	if (pg_atomic_read_u32(&built.table->load) != TS_TABLE_READY)
		ts_load_wait(built.table, RelationGetRelationName(rel));
	pg_read_barrier();			/* what was loaded was loaded before that */
	built.needs_xid = has_unique_index(rel);
	built.aliasing = has_after_row_triggers(rel);
	if (pg_atomic_read_u32(&built.table->indexes) == TS_INDEXES_UNKNOWN &&
		!IsInParallelMode() && !RecoveryInProgress())
		look_at_indexes(rel, built.table);

	/* the look-ups above may have made core forget an older entry */
	info = MemoryContextAlloc(CacheMemoryContext, sizeof(TsRelation));
	*info = built;
	if (rel->rd_amcache != NULL)
		pfree(rel->rd_amcache);
	rel->rd_amcache = info;
	return info;
}
