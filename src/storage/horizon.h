/*-------------------------------------------------------------------------
 *
 * horizon.h
 *	  What storage asks of the transaction layer: which versions are needed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_HORIZON_H
#define TS_HORIZON_H

#include "postgres.h"

#define TS_MAX_HELD		256

/*
 * Counts at which snapshots may look at rows: the ones in held[] (ascending),
 * and any count from all_before on.
 */
typedef struct TsHorizon
{
	uint64		all_before;
	int			nheld;
	uint64		held[TS_MAX_HELD];
} TsHorizon;

/*
 * This process's view of the horizon.  It may be out of date, which is safe:
 * what was not needed then is not needed now.  With `refresh` it is taken
 * anew (takes ProcArrayLock shared).  Raises no error.
 */
extern const TsHorizon *ts_horizon(bool refresh);

/* Count of finished transactions now: PostgreSQL's xactCompletionCount. */
extern uint64 ts_current_count(void);

#endif							/* TS_HORIZON_H */
