/*-------------------------------------------------------------------------
 *
 * image.h
 *	  The checkpoint image: what is shared, and writing one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_DURABILITY_IMAGE_H
#define TS_DURABILITY_IMAGE_H

#include "postgres.h"

#include <signal.h>

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

#include "durability/imagefile.h"

typedef enum TsImageState
{
	TS_IMAGE_NOT_LOADED = 0,	/* the manifest has not been read yet */
	TS_IMAGE_USABLE,
	TS_IMAGE_BROKEN				/* see broken_file, broken_reason; for good */
} TsImageState;

/* For tsengine.stat_checkpoint; under TS_LOCK_STATS. */
typedef struct TsImageStats
{
	int64		images;			/* written since the server started */
	uint64		generation;		/* of the newest manifest, */
	XLogRecPtr	redo;			/* the redo pointer it was written for, */
	XLogRecPtr	lsn;			/* and its LSN */
	int64		blocks_last;
	int64		bytes_last;
	int64		blocks_total;
	int64		bytes_total;
	int64		scan_ms_last;	/* serializing and writing */
	int64		sync_ms_last;	/* the rest, until the manifest was durable */
	TimestampTz last_time;
	int64		files;			/* image files in use */
	int64		disk_bytes;		/* their size */
	int64		live_bytes;		/* of that, what is still needed */
	int64		failures;
	char		last_error[256];
} TsImageStats;

typedef struct TsImageShared
{
	pg_atomic_uint32 state;		/* TsImageState; set (release) once */
	char		broken_file[64];
	char		broken_reason[256];

	XLogRecPtr	control_redo;	/* redo pointer when the postmaster started */
	XLogRecPtr	loaded_lsn;		/* LSN of the image that was loaded */

	/* under TS_LOCK_IMAGE: */
	uint64		generation;		/* of the newest manifest */
	uint32		next_file;

	/* guard.c */
	pg_atomic_uint32 guard_ready;
	pg_atomic_uint32 guard_expected;	/* it has been started */
	TimestampTz start_time;		/* of shared memory */

	/* load.c; under TS_LOCK_LOAD where it says so */
	pg_atomic_uint32 recovered; /* orphans are gone; set under the lock */
	pg_atomic_uint32 wanted;	/* counts tables that became wanted */
	pg_atomic_uint64 blocks_to_load;
	pg_atomic_uint64 bytes_to_load;
	pg_atomic_uint64 blocks_loaded;
	pg_atomic_uint64 bytes_loaded;
	pg_atomic_uint64 rows_loaded;
	TimestampTz load_start;
	pg_atomic_uint64 load_report;	/* time of the last progress message */
	ConditionVariable load_done;	/* some table has become ready or damaged */

	TsImageStats stats;
} TsImageShared;

typedef enum TsImageLock
{
	TS_LOCK_IMAGE,				/* one image is written at a time */
	TS_LOCK_LOAD,				/* the manifest is read once */
	TS_LOCK_STATS,
	TS_NUM_IMAGE_LOCKS
} TsImageLock;

extern TsImageShared *ts_image_shared;

extern LWLock *ts_image_lock(TsImageLock lock);
extern void ts_image_request(void);
extern void ts_image_startup(void);

static inline TsImageState
ts_image_state(void)
{
	TsImageState state = (TsImageState) pg_atomic_read_u32(&ts_image_shared->state);

	pg_read_barrier();
	return state;
}

/*
 * Make an image durable that holds the effect of every record up to `redo` at
 * least.  `final`: nobody writes any more, and nobody will before the next
 * manifest; unlogged tables go in as well.  Does nothing while there is no
 * usable image to go on from.
 *
 * Waits for transactions in their commit phase, for I/O, and for another
 * image.  Raises errors of the file system; nothing is lost then, and it may be
 * called again.  Leaves no LWLock and no epoch section behind.
 */
extern void ts_image_write(XLogRecPtr redo, bool final);

/* Set from a signal handler of this process: write images without pauses. */
extern volatile sig_atomic_t ts_image_hurry;

#endif							/* TS_DURABILITY_IMAGE_H */
