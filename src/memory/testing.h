/*-------------------------------------------------------------------------
 *
 * testing.h
 *	  Instruments of test builds (make TSENGINE_TEST=1).
 *
 * The LWLock acquisitions of this library are counted per process, so that a
 * test can show that common paths take none per row.
 *
 * Stop points are places in the code where a process stands still while a test
 * has armed them, so that an interleaving is not left to chance.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_TESTING_H
#define TS_TESTING_H

#include "postgres.h"

#include "storage/lwlock.h"

typedef enum TsStopPoint
{
	TS_STOP_PREPARING,			/* pure commit: before its csn is taken */
	TS_STOP_CSN_TAKEN,			/* pure commit: csn taken, not decided yet */
	TS_STOP_COMMITTED,			/* decided, versions not stamped yet */
	TS_STOP_MIXED_ENDED,		/* mixed commit: visible by its xid only */
	TS_STOP_PURE_ENDED,			/* pure commit: ended for core, no sign of it yet */
	TS_STOP_IMAGE_LSN,			/* image: its LSN is taken, nothing is written */
	TS_STOP_IMAGE_SCAN,			/* image: before the first block */
	TS_STOP_IMAGE_MANIFEST,		/* image: files durable, no manifest yet */
	TS_STOP_IMAGE_DONE,			/* image: durable, nothing removed yet */
	TS_STOP_LOGGED,				/* mixed: logged, not in the descriptor's list yet */
	TS_STOP_BEFORE_FLUSH,		/* pure commit: before it waits for the disk */
	TS_STOP_READER_FLUSH,		/* reader of a commit not known to be durable: the same */
	TS_STOP_IMAGE_TABLE,		/* image: one table is done */
	TS_NUM_STOP_POINTS
} TsStopPoint;

typedef enum TsStopMode
{
	TS_STOP_OFF,				/* who stands there goes on */
	TS_STOP_ALL,				/* who comes there stands still */
	TS_STOP_NO_MORE				/* who stands there stays, others pass */
} TsStopMode;

#ifdef TSENGINE_TEST
extern uint64 ts_lwlock_count;

#define LWLockAcquire(lock, mode)	(ts_lwlock_count++, LWLockAcquire(lock, mode))

extern void ts_testing_request(void);
extern void ts_testing_startup(void);
extern void ts_stop_point(TsStopPoint point);
extern void ts_stop_point_arm(TsStopPoint point, TsStopMode mode);
extern bool ts_stop_point_reached(TsStopPoint point);
#else
#define ts_testing_request()	((void) 0)
#define ts_testing_startup()	((void) 0)
#define ts_stop_point(point)	((void) 0)
#endif

#endif							/* TS_TESTING_H */
