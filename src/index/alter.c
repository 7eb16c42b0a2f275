/*-------------------------------------------------------------------------
 *
 * alter.c
 *	  ALTER TABLE commands that make indexes again.
 *
 * ALTER COLUMN TYPE makes indexes from their definitions, which core reads again
 * with "USING tsindex" in them, out of reach of our hooks; SET ACCESS METHOD
 * rebuilds them as what they are.  So before these commands tsindexes are made
 * btrees in the catalog, and afterwards what belongs to one of our tables is
 * made a tsindex again.  Its tree is there still, or is built at its first use.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "index/command.h"
#include "index/index.h"

/* Change an index's access method in the catalog. */
static void
set_access_method(Oid index, Oid am)
{
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(index));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	((Form_pg_class) GETSTRUCT(tuple))->relam = am;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
	deleteDependencyRecordsForClass(RelationRelationId, index, AccessMethodRelationId,
									DEPENDENCY_NORMAL);
	if (am != BTREE_AM_OID)
		ts_index_depend_on_am(index, am);
}

static Oid
access_method_of(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	Oid			am = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		am = ((Form_pg_class) GETSTRUCT(tuple))->relam;
		ReleaseSysCache(tuple);
	}
	return am;
}

static List *
indexes_of(Oid oid)
{
	Relation	table = table_open(oid, NoLock);
	List	   *indexes = RelationGetIndexList(table);

	table_close(table, NoLock);
	return indexes;
}

/* Make the table's tsindexes btrees, and note them. */
static void
hide_indexes(Oid table, TsIndexAlter *alter)
{
	ListCell   *cell;

	foreach(cell, indexes_of(table))
	{
		Oid			oid = lfirst_oid(cell);
		Oid			am = access_method_of(oid);

		if (am == BTREE_AM_OID)
			alter->other_indexes = true;
		if (am != alter->am)
			continue;
		/* an index made on the same file is known by the tree there is */
		index_close(ts_index_load(oid), NoLock);
		set_access_method(oid, BTREE_AM_OID);
		alter->hidden = lappend_oid(alter->hidden, oid);
	}
}

static bool
rebuilds_indexes(AlterTableStmt *stmt, bool *all_children)
{
	ListCell   *cell;
	bool		result = false;

	*all_children = false;
	if (!IsA(stmt, AlterTableStmt) ||
		(stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_MATVIEW))
		return false;
	foreach(cell, stmt->cmds)
	{
		AlterTableType type = lfirst_node(AlterTableCmd, cell)->subtype;

		result |= type == AT_AlterColumnType || type == AT_SetAccessMethod;
		*all_children |= type == AT_AlterColumnType && stmt->relation->inh;
	}
	return result;
}

/*
 * Before a utility command.  True if there is something to be done after it,
 * with ts_index_alter_end().  Takes the locks the command will take.
 */
bool
ts_index_alter_begin(Node *node, TsIndexAlter *alter)
{
	AlterTableStmt *stmt = (AlterTableStmt *) node;
	bool		all_children;
	Oid			oid;
	ListCell   *cell;

	memset(alter, 0, sizeof(*alter));
	if (!rebuilds_indexes(stmt, &all_children))
		return false;
	alter->am = ts_index_am_oid();
	if (!OidIsValid(alter->am))
		return false;
	oid = RangeVarGetRelidExtended(stmt->relation, AccessExclusiveLock,
								   stmt->missing_ok ? RVR_MISSING_OK : 0,
								   RangeVarCallbackOwnsRelation, NULL);
	if (!OidIsValid(oid))
		return false;
	alter->tables = all_children ? find_all_inheritors(oid, AccessExclusiveLock, NULL) :
		list_make1_oid(oid);
	foreach(cell, alter->tables)
	{
		if (ts_index_is_our_table(lfirst_oid(cell)))
			hide_indexes(lfirst_oid(cell), alter);
		else
			alter->foreign_tables = lappend_oid(alter->foreign_tables, lfirst_oid(cell));
	}
	CommandCounterIncrement();
	return true;
}

/* After it has succeeded. */
void
ts_index_alter_end(TsIndexAlter *alter)
{
	ListCell   *cell;
	ListCell   *index;

	CommandCounterIncrement();
	foreach(cell, alter->tables)
	{
		Oid			table = lfirst_oid(cell);
		bool		moved_in = list_member_oid(alter->foreign_tables, table);

		if (!ts_index_is_our_table(table))
			continue;
		foreach(index, indexes_of(table))
			if (access_method_of(lfirst_oid(index)) == BTREE_AM_OID &&
				(list_member_oid(alter->hidden, lfirst_oid(index)) ||
				 (moved_in && ts_index_default == TS_INDEX_MEMORY)))
				set_access_method(lfirst_oid(index), alter->am);
	}
	CommandCounterIncrement();
}
