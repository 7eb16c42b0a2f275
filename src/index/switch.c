/*-------------------------------------------------------------------------
 *
 * switch.c
 *	  How an index declared as btree becomes a tsindex.
 *
 * The parse tree says btree, and so do the operator classes in pg_index: so the
 * planner, foreign keys, inference of ON CONFLICT and much else work as they are
 * written for btree.  Only pg_class.relam is changed, when the index has been
 * created and before it is built.
 *
 * Where core compares relam itself, this file does its part.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "index/command.h"
#include "index/index.h"

int			ts_index_default = TS_INDEX_BTREE;

static object_access_hook_type prev_object_access = NULL;
static TsSwitchMode switch_mode = TS_SWITCH_BY_SETTING;

/* The access method's OID, or InvalidOid where the extension is not installed. */
Oid
ts_index_am_oid(void)
{
	return get_am_oid("tsindex", true);
}

/* A catalog row by its OID column, as it is now, before it is visible to others. */
static HeapTuple
catalog_row(Relation catalog, Oid index, AttrNumber attno, Oid oid)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, attno, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	scan = systable_beginscan(catalog, index, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	return tuple;
}

static Oid
table_of_index(Oid index)
{
	Relation	catalog = table_open(IndexRelationId, AccessShareLock);
	HeapTuple	tuple = catalog_row(catalog, IndexRelidIndexId, Anum_pg_index_indexrelid, index);
	Oid			table = InvalidOid;

	if (HeapTupleIsValid(tuple))
		table = ((Form_pg_index) GETSTRUCT(tuple))->indrelid;
	table_close(catalog, AccessShareLock);
	return table;
}

bool
ts_index_is_our_table(Oid table)
{
	Oid			am = get_table_am_oid("tsengine", true);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	bool		ours;

	if (!HeapTupleIsValid(tuple))
		return false;
	ours = OidIsValid(am) && ((Form_pg_class) GETSTRUCT(tuple))->relam == am;
	ReleaseSysCache(tuple);
	return ours;
}

/*
 * The relation cache may have an entry for the index already, with btree's
 * functions, which it keeps as long as the index is open.
 */
static void
correct_cached_entry(Oid oid, Oid am)
{
	Relation	index = RelationIdGetRelation(oid);
	HeapTuple	tuple = SearchSysCache1(AMOID, ObjectIdGetDatum(am));
	Oid			handler;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for access method %u", am);
	handler = ((Form_pg_am) GETSTRUCT(tuple))->amhandler;
	ReleaseSysCache(tuple);
	if (!RelationIsValid(index))
		return;
	if (index->rd_indexcxt != NULL && index->rd_amhandler != handler)
	{
		IndexAmRoutine *routine = GetIndexAmRoutine(handler);

		index->rd_amhandler = handler;
		index->rd_indam = MemoryContextAlloc(index->rd_indexcxt, sizeof(IndexAmRoutine));
		memcpy(index->rd_indam, routine, sizeof(IndexAmRoutine));
		pfree(routine);
	}
	RelationClose(index);
}

/* DROP EXTENSION without CASCADE refuses while there is such an index. */
void
ts_index_depend_on_am(Oid index, Oid am)
{
	ObjectAddress depender = {RelationRelationId, index, 0};
	ObjectAddress method = {AccessMethodRelationId, am, 0};

	recordDependencyOn(&depender, &method, DEPENDENCY_NORMAL);
}

/*
 * Is it wanted that this btree becomes a tsindex?  If it takes over the file of
 * one, it must.
 */
static bool
is_switch_wanted(Form_pg_class form)
{
	RelFileNode rnode = {0, MyDatabaseId, form->relfilenode};

	return switch_mode != TS_SWITCH_BY_SETTING || ts_index_default == TS_INDEX_MEMORY ||
		ts_index_find(rnode, InvalidBackendId) != NULL;
}

/* A new index: if it is a btree on one of our tables, make it a tsindex. */
static void
switch_new_index(Oid oid)
{
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = catalog_row(catalog, ClassOidIndexId, Anum_pg_class_oid, oid);
	Form_pg_class form;
	Oid			am = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		form = (Form_pg_class) GETSTRUCT(tuple);
		if (form->relkind == RELKIND_INDEX && form->relpersistence != RELPERSISTENCE_TEMP &&
			form->relam == BTREE_AM_OID && is_switch_wanted(form) &&
			ts_index_is_our_table(table_of_index(oid)))
			am = ts_index_am_oid();
		if (switch_mode == TS_SWITCH_NAMED && !OidIsValid(am) && form->relkind == RELKIND_INDEX)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("access method \"tsindex\" supports only permanent and unlogged tables of access method \"tsengine\"")));
		if (OidIsValid(am))
		{
			form->relam = am;
			heap_inplace_update(catalog, tuple);
			ts_index_depend_on_am(oid, am);
		}
	}
	table_close(catalog, RowExclusiveLock);
	if (OidIsValid(am))
	{
		CommandCounterIncrement();
		correct_cached_entry(oid, am);
	}
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_POST_CREATE && class_id == RelationRelationId && sub_id == 0 &&
		OidIsValid(ts_index_am_oid()))
		switch_new_index(object_id);
}

/* For the length of a command.  Returns what it was. */
TsSwitchMode
ts_index_set_switch(TsSwitchMode mode)
{
	TsSwitchMode previous = switch_mode;

	switch_mode = mode;
	return previous;
}

void
ts_index_install_hooks(void)
{
	prev_object_access = object_access_hook;
	object_access_hook = object_access;
}
