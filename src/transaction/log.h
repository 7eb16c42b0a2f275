/*-------------------------------------------------------------------------
 *
 * log.h
 *	  What the transaction layer asks of the durability layer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_TXN_LOG_H
#define TS_TXN_LOG_H

#include "postgres.h"

#include "access/xlogdefs.h"

#include "transaction/txn.h"

/* bytes of changes after which a transaction logs what it has: it is mixed then */
#define TS_LOG_CHUNK_BYTES	(1024 * 1024)

/*
 * May rows be changed now?  Raises an error if not: the guard does not run,
 * single-user mode, recovery, the server shuts down, no usable image.
 */
extern void ts_log_check_writable(void);

/*
 * PRE_COMMIT of a pure transaction: build its record.  Of a row written more
 * than once only the newest version goes in.  Raises errors (memory).
 */
extern void ts_log_build_pure(const TsWrite *set, int64 n);

/*
 * COMMIT: insert the record that was built.  To be called in a critical section
 * with the phase PREPARING published.  Returns the record's end, invalid if
 * there was nothing to be logged (no permanent table).  Cannot fail.
 */
extern XLogRecPtr ts_log_insert_pure(uint32 xmin);

/*
 * Log writes of a (sub)transaction that has an xid, in records of bounded size.
 * To be called with txn->logging set.  Returns the end of the first record,
 * invalid if there was nothing to be logged.  Raises errors (memory).
 */
extern XLogRecPtr ts_log_mixed(const TsWrite *set, int64 n, TransactionId xid, TransactionId top_xid);

/* Log the row locks of a transaction that is about to be prepared. */
extern void ts_log_prepare(TransactionId xid, const TsPrepared *prepared);

#endif							/* TS_TXN_LOG_H */
