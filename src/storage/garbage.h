/*-------------------------------------------------------------------------
 *
 * garbage.h
 *	  Collection of versions that no snapshot needs any more.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_GARBAGE_H
#define TS_GARBAGE_H

#include "postgres.h"

#include "compat.h"
#include "memory/arena.h"
#include "storage/horizon.h"
#include "storage/table.h"

/* Frees one thing that another layer has dropped; true if there was one. */
extern bool (*ts_free_dropped_hook) (void);

extern void ts_garbage_request(void);
extern void ts_garbage_startup(void);

extern bool ts_row_prune(TsRowRef ref, const TsHorizon *horizon);
extern bool ts_row_is_dead(TsRowRef ref, const TsHorizon *horizon);
extern bool ts_version_needed(TsVersion *version, TsVersion *newer,
							  const TsHorizon *horizon);

extern void ts_garbage_add(TsRowRef ref, uint64 count);
extern int	ts_garbage_collect(int max_chunks);
extern TsPressure ts_garbage_under_pressure(void);
extern void ts_garbage_exit_process(void);
extern uint64 ts_garbage_queued_rows(void);

/* What layers above have the garbage collector do each round: see durable.c. */
extern void (*ts_garbage_round_hook) (void);

extern TS_EXPORTED void ts_garbage_worker_main(Datum arg) pg_attribute_noreturn();

#endif							/* TS_GARBAGE_H */
