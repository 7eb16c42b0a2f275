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

/* LWLocks this process has acquired in the library. */
Datum
tsengine_lwlock_count(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) ts_lwlock_count);
}
#endif
