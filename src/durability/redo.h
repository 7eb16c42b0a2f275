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
 * Has anything been replayed in this start, i.e. may index entries lead to rows
 * that were never logged?  Valid once recovery is over.
 */
extern bool ts_recovery_happened(void);

#endif							/* TS_REDO_H */
