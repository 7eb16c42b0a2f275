/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  Freeing the TIDs of dead rows without VACUUM.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_SWEEP_H
#define TS_SWEEP_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "storage/table.h"

/* a table is swept when so many rows are dead, and this part of the live ones */
#define TS_SWEEP_MIN		1024
#define TS_SWEEP_FRACTION	8

typedef bool (*TsSweepCallback) (ItemPointer tid, void *state);

/*
 * Removes the entries of dead rows from all indexes of a table that are in
 * memory.  False if that is not possible now.
 */
extern bool (*ts_clean_indexes_hook) (TsTable *table, RelFileNode rnode,
									  TsSweepCallback is_dead, void *state);

extern void ts_sweep_tables(void);

#endif							/* TS_SWEEP_H */
