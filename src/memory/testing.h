/*-------------------------------------------------------------------------
 *
 * testing.h
 *	  Instruments of test builds (make TSENGINE_TEST=1).
 *
 * The LWLock acquisitions of this library are counted per process, so that a
 * test can show that common paths take none per row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_TESTING_H
#define TS_TESTING_H

#include "postgres.h"

#include "storage/lwlock.h"

#ifdef TSENGINE_TEST
extern uint64 ts_lwlock_count;

#define LWLockAcquire(lock, mode)	(ts_lwlock_count++, LWLockAcquire(lock, mode))
#endif

#endif							/* TS_TESTING_H */
