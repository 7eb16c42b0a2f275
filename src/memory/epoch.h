/*-------------------------------------------------------------------------
 *
 * epoch.h
 *	  Epoch-based reclamation of arena memory across processes.
 *
 * A process that follows pointers inside the arena does so between
 * ts_epoch_enter() and ts_epoch_leave().  Memory unlinked from every shared
 * structure is given to ts_retire(); it is reused only after every process
 * that was inside at that time has left.  (K. Fraser, Practical lock-freedom,
 * 2004, section 5.2.3.)
 *
 * The epoch must be left before any wait, and at block boundaries of long
 * loops: one process that stays inside keeps all retired memory from reuse.
 * Sections nest.  An error inside one is cleaned up by ts_epoch_reset(), which
 * transaction abort calls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_EPOCH_H
#define TS_EPOCH_H

#include "memory/process.h"

typedef struct TsEpochShared
{
	pg_atomic_uint64 global;	/* starts at 1; only ever advances */
	pg_atomic_uint64 leaked_bytes;	/* could not be retired: see ts_retire */
	TsBag	   *orphans;		/* of exited processes; under TsengineEpoch */
} TsEpochShared;

extern TsEpochShared *ts_epoch_shared;
extern int ts_epoch_depth;

static inline void
ts_epoch_enter(void)
{
	if (unlikely(ts_my_process == NULL))
		ts_process_attach();
	if (ts_epoch_depth++ == 0)
		/* exchange is a full barrier: announced before anything is read */
		(void) pg_atomic_exchange_u64(&ts_my_process->epoch,
									  pg_atomic_read_u64(&ts_epoch_shared->global));
}

static inline void
ts_epoch_leave(void)
{
	Assert(ts_epoch_depth > 0);
	if (--ts_epoch_depth == 0)
	{
		pg_read_barrier();
		pg_atomic_write_u64(&ts_my_process->epoch, 0);
	}
}

extern void ts_epoch_reset(void);
extern void ts_retire(void *ptr, Size size);
extern void ts_reclaim(void);
extern uint64 ts_epoch_now(void);
extern bool ts_epoch_passed(uint64 epoch);
extern void ts_epoch_wait_grace(void);
extern uint64 ts_epoch_retired_bytes(void);
extern void ts_epoch_exit_process(void);

#endif							/* TS_EPOCH_H */
