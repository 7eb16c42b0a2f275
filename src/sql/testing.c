/*-------------------------------------------------------------------------
 *
 * testing.c
 *	  Functions of test builds; tests declare them themselves.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"
#include "memory/testing.h"

#ifdef TSENGINE_TEST
TS_FUNCTION_INFO_V1(tsengine_lwlock_count);
TS_FUNCTION_INFO_V1(tsengine_stop_point_arm);
TS_FUNCTION_INFO_V1(tsengine_stop_point_reached);

static TsStopPoint
stop_point_by_number(int number)
{
	if (number < 0 || number >= TS_NUM_STOP_POINTS)
		elog(ERROR, "no such stop point: %d", number);
	return (TsStopPoint) number;
}

/* (point int, mode int), see TsStopMode */
Datum
tsengine_stop_point_arm(PG_FUNCTION_ARGS)
{
	ts_stop_point_arm(stop_point_by_number(PG_GETARG_INT32(0)), (TsStopMode) PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

/* (point int): does a process stand there? */
Datum
tsengine_stop_point_reached(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(ts_stop_point_reached(stop_point_by_number(PG_GETARG_INT32(0))));
}

/* LWLocks this process has acquired in the library. */
Datum
tsengine_lwlock_count(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) ts_lwlock_count);
}
#endif
