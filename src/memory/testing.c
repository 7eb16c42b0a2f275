/*-------------------------------------------------------------------------
 *
 * testing.c
 *	  Instruments of test builds: see testing.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "memory/testing.h"

#ifdef TSENGINE_TEST
typedef struct StopPoint
{
	pg_atomic_uint32 mode;		/* TsStopMode */
	pg_atomic_uint32 waiting;	/* processes that stand there */
} StopPoint;

uint64		ts_lwlock_count = 0;

static StopPoint *points;

void
ts_testing_request(void)
{
	RequestAddinShmemSpace(sizeof(StopPoint) * TS_NUM_STOP_POINTS);
}

void
ts_testing_startup(void)
{
	bool		found;

	points = ShmemInitStruct("tsengine stop points",
							 sizeof(StopPoint) * TS_NUM_STOP_POINTS, &found);
	if (!found)
		memset(points, 0, sizeof(StopPoint) * TS_NUM_STOP_POINTS);
}

/* Stand still if the point is armed and until it is off, deaf to interrupts. */
void
ts_stop_point(TsStopPoint point)
{
	if (pg_atomic_read_u32(&points[point].mode) != TS_STOP_ALL)
		return;
	pg_atomic_fetch_add_u32(&points[point].waiting, 1);
	while (pg_atomic_read_u32(&points[point].mode) != TS_STOP_OFF)
		pg_usleep(1000);
	pg_atomic_fetch_sub_u32(&points[point].waiting, 1);
}

void
ts_stop_point_arm(TsStopPoint point, TsStopMode mode)
{
	pg_atomic_write_u32(&points[point].mode, mode);
}

bool
ts_stop_point_reached(TsStopPoint point)
{
	return pg_atomic_read_u32(&points[point].waiting) > 0;
}
#endif
