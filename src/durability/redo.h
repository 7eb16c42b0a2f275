/*-------------------------------------------------------------------------
 *
 * redo.h
 *	  Replay of tsengine's WAL records.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_REDO_H
#define TS_REDO_H

#include "postgres.h"

extern void ts_redo_register(void);
extern void ts_redo_request(void);
extern void ts_redo_startup(void);

/*
 * No record will be replayed any more in this start of the server: loaders may
 * bring tables to their final state (durability/load.c).  Tables made by redo
 * are TS_TABLE_LOADING with nothing left to load until then.
 */
extern bool ts_recovery_over(void);

/*
 * Has anything been replayed in this start, i.e. may index entries lead to rows
 * that were never logged?  Valid once ts_recovery_over().
 */
extern bool ts_recovery_happened(void);

#endif							/* TS_REDO_H */
