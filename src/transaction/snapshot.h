/*-------------------------------------------------------------------------
 *
 * snapshot.h
 *	  Commit counts of PostgreSQL's snapshots, and publishing them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_SNAPSHOT_H
#define TS_SNAPSHOT_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "storage/horizon.h"

extern void ts_snapshot_request(void);
extern void ts_snapshot_startup(void);
extern void ts_snapshot_learn(void);

extern uint64 ts_snapshot_count(Snapshot snapshot);
extern void ts_snapshot_hold(const void *owner, Snapshot snapshot);
extern bool ts_snapshot_hold_active(const void *owner);
extern void ts_snapshot_unhold(const void *owner);
extern void ts_snapshot_end_transaction(void);
extern void ts_snapshot_abort_level(int nest_level);
extern void ts_snapshot_merge_level(int nest_level);
extern void ts_snapshot_begin_wait(const void *owner);
extern void ts_snapshot_end_wait(const void *owner);
extern void ts_snapshot_set_parallel(Snapshot snapshot);
extern void ts_snapshot_note_export(void);
extern void ts_snapshot_import(const char *id);

#endif							/* TS_SNAPSHOT_H */
