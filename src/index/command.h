/*-------------------------------------------------------------------------
 *
 * command.h
 *	  Commands in which core asks whether an index is a btree.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_INDEX_COMMAND_H
#define TS_INDEX_COMMAND_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* GUC tsengine.index: what indexes declared as btree become */
typedef enum TsIndexDefault
{
	TS_INDEX_BTREE,
	TS_INDEX_MEMORY
} TsIndexDefault;

extern int ts_index_default;

extern void ts_index_install_hooks(void);
extern void ts_index_force(bool on);

extern PlannedStmt *ts_index_accept_name(PlannedStmt *pstmt, bool *forced);
extern List *ts_index_named_for_constraints(Node *stmt);
extern List *ts_index_disguise(List *oids);
extern void ts_index_undisguise(List *disguised, bool error);
extern void ts_index_open_for_conflicts(QueryDesc *query, int eflags);
extern List *ts_index_in_partitions(QueryDesc *query);

#endif							/* TS_INDEX_COMMAND_H */
