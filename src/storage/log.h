/*-------------------------------------------------------------------------
 *
 * log.h
 *	  What storage asks of the durability layer: records about tables.
 *
 * All insert a WAL record and raise an error if that is not possible now (no
 * guard, single-user mode).  Tables that are not permanent are not logged.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_STORAGE_LOG_H
#define TS_STORAGE_LOG_H

#include "postgres.h"

#include "storage/block.h"
#include "storage/relfilenode.h"

#include "storage/table.h"

/*
 * A table begins to exist, empty.  Undone by the fate of its relation file, and
 * by recovery if `creator_xid` has not committed.
 */
extern void ts_log_create(RelFileNode rnode, TransactionId creator_xid);

/* A table made in this very (sub)transaction is emptied in place. */
extern void ts_log_empty(RelFileNode rnode, TransactionId creator_xid);

/*
 * TIDs of blocks below `nblocks` may be used from now on: entries for them in
 * indexes of other access methods are logged before our rows are.  Raises no
 * error but for the reasons above.
 */
extern void ts_log_extend(RelFileNode rnode, BlockNumber nblocks);

/*
 * Entries in indexes that VACUUM cleans may lead to the table's TIDs, if the
 * table says so (TsTable.indexed; set it first).
 */
extern void ts_log_indexed(TsTable *table);

/*
 * Committed rows copied into a table made by this transaction (SET TABLESPACE,
 * CLUSTER): begin; note a row, after it has been stored and its block marked as
 * changed; write what has been noted.
 */
extern void ts_log_copied_begin(void);
extern void ts_log_copied_row(TsRowRef ref, TsVersion *version);
extern void ts_log_copied_flush(void);

#endif							/* TS_STORAGE_LOG_H */
