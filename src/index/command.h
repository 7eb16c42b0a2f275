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
/* Whether new btrees on our tables become tsindexes, whatever the setting is. */
typedef enum TsSwitchMode
{
	TS_SWITCH_BY_SETTING,
	TS_SWITCH_NAMED,			/* the command says tsindex: error if it cannot */
	TS_SWITCH_ALL
} TsSwitchMode;

extern TsSwitchMode ts_index_set_switch(TsSwitchMode mode);

/* What ALTER TABLE makes of indexes, see alter.c. */
typedef struct TsIndexAlter
{
	Oid			am;				/* tsindex */
	List	   *tables;
	List	   *foreign_tables; /* those that were not ours */
	List	   *hidden;			/* tsindexes that are btrees for now */
	bool		other_indexes;	/* there were btrees, too */
} TsIndexAlter;

/* A utility command that may make indexes. */
typedef struct TsIndexCommand
{
	TsSwitchMode previous_mode;
	List	   *disguised;
	bool		alters;
	TsIndexAlter alter;
} TsIndexCommand;

extern bool ts_index_command_begin(PlannedStmt **pstmt, bool subcommand,
								   TsIndexCommand *command);
extern void ts_index_command_end(TsIndexCommand *command, bool error);
extern bool ts_index_alter_begin(Node *stmt, TsIndexAlter *alter);
extern void ts_index_alter_end(TsIndexAlter *alter);

extern List *ts_index_disguise(List *oids);
extern void ts_index_undisguise(List *disguised, bool error);
extern void ts_index_open_for_conflicts(QueryDesc *query, int eflags);
extern List *ts_index_in_partitions(QueryDesc *query);

#endif							/* TS_INDEX_COMMAND_H */
