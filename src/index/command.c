/*-------------------------------------------------------------------------
 *
 * command.c
 *	  Commands in which core asks whether an index is a btree.
 *
 * - CREATE INDEX ... USING tsindex becomes one USING btree that is switched.
 * - ON CONFLICT: core prepares unique indexes for it only if they are btrees, so
 *	 we open those of the target table before it does.
 * - ON CONFLICT on a partitioned table opens the partitions' indexes as it goes;
 *	 ALTER TABLE ... ADD CONSTRAINT, ATTACH PARTITION, CREATE INDEX on partitioned
 *	 tables and REFRESH MATERIALIZED VIEW CONCURRENTLY look at the relation cache,
 *	 too: as long as such a command runs, the entries there say btree.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index/command.h"
#include "index/index.h"

/* ---- CREATE INDEX, ALTER TABLE ---- */

/* Does the command say "USING tsindex"?  Then *pstmt becomes a copy with btree. */
static bool
accept_name(PlannedStmt **pstmt)
{
	IndexStmt  *stmt = (IndexStmt *) (*pstmt)->utilityStmt;

	if (!IsA(stmt, IndexStmt) || stmt->accessMethod == NULL ||
		strcmp(stmt->accessMethod, "tsindex") != 0)
		return false;
	*pstmt = copyObject(*pstmt);
	((IndexStmt *) (*pstmt)->utilityStmt)->accessMethod = pstrdup("btree");
	return true;
}

/* The indexes of a table and of all its partitions, which are locked. */
static List *
indexes_of_tree(Oid root, LOCKMODE lockmode)
{
	List	   *oids = NIL;
	ListCell   *cell;

	foreach(cell, find_all_inheritors(root, lockmode, NULL))
	{
		Relation	table = table_open(lfirst_oid(cell), NoLock);

		oids = list_concat(oids, RelationGetIndexList(table));
		table_close(table, NoLock);
	}
	return oids;
}

static Oid
lock_table(RangeVar *name, LOCKMODE lockmode)
{
	return RangeVarGetRelidExtended(name, lockmode, RVR_MISSING_OK,
									RangeVarCallbackOwnsRelation, NULL);
}

/*
 * ADD CONSTRAINT ... USING INDEX, and constraints of a partitioned table, for
 * which core looks for indexes that partitions have already.
 */
static List *
indexes_for_constraint(AlterTableStmt *stmt, Constraint *constraint)
{
	Oid			table;

	if (constraint->indexname == NULL && constraint->contype != CONSTR_PRIMARY &&
		constraint->contype != CONSTR_UNIQUE)
		return NIL;
	table = lock_table(stmt->relation, AccessExclusiveLock);
	if (!OidIsValid(table))
		return NIL;
	if (constraint->indexname != NULL)
		/* as core looks for it: in the table's schema */
		return list_make1_oid(get_relname_relid(constraint->indexname,
												get_rel_namespace(table)));
	return get_rel_relkind(table) == RELKIND_PARTITIONED_TABLE ?
		indexes_of_tree(table, AccessExclusiveLock) : NIL;
}

static List *
indexes_for_alter(AlterTableStmt *stmt)
{
	List	   *oids = NIL;
	ListCell   *cell;

	foreach(cell, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype == AT_AddConstraint && IsA(cmd->def, Constraint))
			oids = list_concat(oids, indexes_for_constraint(stmt, (Constraint *) cmd->def));
		else if (cmd->subtype == AT_AttachPartition && stmt->objtype == OBJECT_TABLE)
		{
			/* in core's order */
			Oid			parent = lock_table(stmt->relation, ShareUpdateExclusiveLock);
			Oid			child = OidIsValid(parent) ?
			lock_table(((PartitionCmd *) cmd->def)->name, AccessExclusiveLock) : InvalidOid;

			if (OidIsValid(child))
				oids = list_concat(oids, indexes_of_tree(child, AccessExclusiveLock));
		}
		else if (cmd->subtype == AT_AttachPartition)
			oids = lappend_oid(oids, lock_table(((PartitionCmd *) cmd->def)->name,
												AccessExclusiveLock));
	}
	return oids;
}

/* CREATE INDEX on a partitioned table looks for what partitions have already. */
static List *
indexes_for_index(IndexStmt *stmt)
{
	Oid			table = RangeVarGetRelid(stmt->relation, NoLock, true);

	if (!OidIsValid(table) || get_rel_relkind(table) != RELKIND_PARTITIONED_TABLE)
		return NIL;
	table = lock_table(stmt->relation, ShareLock);
	return OidIsValid(table) ? indexes_of_tree(table, ShareLock) : NIL;
}

/* REFRESH MATERIALIZED VIEW CONCURRENTLY wants a unique btree. */
static List *
indexes_for_refresh(RefreshMatViewStmt *stmt)
{
	Oid			oid;
	Relation	view;
	List	   *oids;

	if (!stmt->concurrent)
		return NIL;
	oid = RangeVarGetRelidExtended(stmt->relation, ExclusiveLock, RVR_MISSING_OK,
								   RangeVarCallbackOwnsTable, NULL);
	if (!OidIsValid(oid))
		return NIL;
	view = table_open(oid, NoLock);
	oids = RelationGetIndexList(view);
	table_close(view, NoLock);
	return oids;
}

/* Indexes that must look like btrees for the command; takes its locks. */
static List *
indexes_to_disguise(Node *stmt)
{
	if (!OidIsValid(ts_index_am_oid()))
		return NIL;
	if (IsA(stmt, AlterTableStmt))
		return indexes_for_alter((AlterTableStmt *) stmt);
	if (IsA(stmt, IndexStmt))
		return indexes_for_index((IndexStmt *) stmt);
	if (IsA(stmt, RefreshMatViewStmt))
		return indexes_for_refresh((RefreshMatViewStmt *) stmt);
	return NIL;
}

/* ---- disguise ---- */

static Oid disguised_am = InvalidOid;	/* tsindex */

/*
 * Let the relation cache say btree of those of the indexes that are tsindexes.
 * Returns the open relations, for ts_index_undisguise().
 */
List *
ts_index_disguise(List *oids)
{
	List	   *disguised = NIL;
	Oid			am = ts_index_am_oid();
	ListCell   *cell;

	foreach(cell, oids)
	{
		Relation	index;

		if (!OidIsValid(lfirst_oid(cell)) ||
			get_rel_relkind(lfirst_oid(cell)) != RELKIND_INDEX)
			continue;
		index = index_open(lfirst_oid(cell), AccessShareLock);
		if (index->rd_rel->relam != am)
		{
			index_close(index, NoLock);
			continue;
		}
		/* core takes what is cached of a btree for its meta page, see open.c */
		(void) ts_index_tree(index);
		disguised = lappend(disguised, index);
	}
	/* nothing fails from here on */
	disguised_am = am;
	foreach(cell, disguised)
		((Relation) lfirst(cell))->rd_rel->relam = BTREE_AM_OID;
	return disguised;
}

/* With `error`, an abort follows, which closes the relations. */
void
ts_index_undisguise(List *disguised, bool error)
{
	ListCell   *cell;

	foreach(cell, disguised)
	{
		Relation	index = lfirst(cell);

		index->rd_rel->relam = disguised_am;
		if (!error)
			index_close(index, NoLock);
	}
}

/* ---- utility commands ---- */

/*
 * Before a utility command: true if ts_index_command_end() is to be called, on
 * errors, too.  *pstmt is what is to be run.
 */
bool
ts_index_command_begin(PlannedStmt **pstmt, bool subcommand, TsIndexCommand *command)
{
	TsSwitchMode mode = TS_SWITCH_BY_SETTING;
	List	   *named = indexes_to_disguise((*pstmt)->utilityStmt);

	memset(command, 0, sizeof(*command));
	command->alters = ts_index_alter_begin((*pstmt)->utilityStmt, &command->alter);
	/* CREATE TABLE LIKE names the access method of the index it copies */
	if (accept_name(pstmt))
		mode = subcommand ? TS_SWITCH_ALL : TS_SWITCH_NAMED;
	else if (command->alter.hidden != NIL && !command->alter.other_indexes)
		mode = TS_SWITCH_ALL;	/* new ones become what the old ones were */
	if (mode == TS_SWITCH_BY_SETTING && named == NIL && !command->alters)
		return false;
	command->disguised = ts_index_disguise(named);
	command->previous_mode = ts_index_set_switch(mode);
	return true;
}

/* With `error`, an abort follows. */
void
ts_index_command_end(TsIndexCommand *command, bool error)
{
	(void) ts_index_set_switch(command->previous_mode);
	ts_index_undisguise(command->disguised, error);
	if (command->alters && !error)
		ts_index_alter_end(&command->alter);
}

/* ---- ON CONFLICT ---- */

/* As core's BuildSpeculativeIndexInfo(), for indexes it does not know. */
static void
prepare_unique_index(Relation index, IndexInfo *info)
{
	int			n = IndexRelationGetNumberOfKeyAttributes(index);

	info->ii_UniqueOps = palloc(n * sizeof(Oid));
	info->ii_UniqueProcs = palloc(n * sizeof(Oid));
	info->ii_UniqueStrats = palloc(n * sizeof(uint16));
	for (int i = 0; i < n; i++)
	{
		Oid			type = index->rd_opcintype[i];
		Oid			equal = get_opfamily_member(index->rd_opfamily[i], type, type,
												BTEqualStrategyNumber);

		if (!OidIsValid(equal))
			elog(ERROR, "missing operator %d(%u,%u) in opfamily %u",
				 BTEqualStrategyNumber, type, type, index->rd_opfamily[i]);
		info->ii_UniqueStrats[i] = BTEqualStrategyNumber;
		info->ii_UniqueOps[i] = equal;
		info->ii_UniqueProcs[i] = get_opcode(equal);
	}
}

static void
open_indexes(ResultRelInfo *target, Oid am)
{
	ExecOpenIndices(target, false);
	for (int i = 0; i < target->ri_NumIndices; i++)
	{
		Relation	index = target->ri_IndexRelationDescs[i];
		IndexInfo  *info = target->ri_IndexRelationInfo[i];

		if (!info->ii_Unique)
			continue;
		if (index->rd_rel->relam == am)
			prepare_unique_index(index, info);
		else
			BuildSpeculativeIndexInfo(index, info);
	}
}

/* The target of INSERT ... ON CONFLICT, or NULL. */
static ResultRelInfo *
conflict_target(PlanState *state)
{
	ModifyTableState *modify = (ModifyTableState *) state;

	if (state == NULL || !IsA(state, ModifyTableState) ||
		((ModifyTable *) state->plan)->onConflictAction == ONCONFLICT_NONE)
		return NULL;
	return &modify->resultRelInfo[0];
}

static void
open_for_conflict(ResultRelInfo *target, Oid am)
{
	if (target == NULL || target->ri_RelationDesc->rd_rel->relkind != RELKIND_RELATION ||
		target->ri_IndexRelationDescs != NULL)
		return;
	open_indexes(target, am);
}

/* All targets of ON CONFLICT in a query. */
static List *
conflict_targets(QueryDesc *query)
{
	List	   *targets = NIL;
	ListCell   *cell;

	targets = lappend(targets, conflict_target(query->planstate));
	foreach(cell, query->estate->es_auxmodifytables)
		targets = list_append_unique_ptr(targets, conflict_target(lfirst(cell)));
	foreach(cell, query->estate->es_subplanstates)
		targets = list_append_unique_ptr(targets, conflict_target(lfirst(cell)));
	return list_delete_ptr(targets, NULL);
}

/*
 * After ExecutorStart: open the indexes of tables that ON CONFLICT inserts into.
 */
void
ts_index_open_for_conflicts(QueryDesc *query, int eflags)
{
	Oid			am;
	MemoryContext old;
	ListCell   *cell;

	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) || query->planstate == NULL)
		return;
	am = ts_index_am_oid();
	if (!OidIsValid(am))
		return;
	old = MemoryContextSwitchTo(query->estate->es_query_cxt);
	foreach(cell, conflict_targets(query))
		open_for_conflict(lfirst(cell), am);
	MemoryContextSwitchTo(old);
}

/* Indexes that ON CONFLICT in this query may meet in partitions. */
List *
ts_index_in_partitions(QueryDesc *query)
{
	List	   *oids = NIL;
	ListCell   *cell;

	if (query->planstate == NULL || !OidIsValid(ts_index_am_oid()))
		return NIL;
	foreach(cell, conflict_targets(query))
	{
		Relation	root = ((ResultRelInfo *) lfirst(cell))->ri_RelationDesc;

		if (root->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
			oids = list_concat(oids, indexes_of_tree(RelationGetRelid(root), RowExclusiveLock));
	}
	return oids;
}
