/*-------------------------------------------------------------------------
 *
 * pending.h
 *	  The section of an image for transactions that are not decided.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_PENDING_H
#define TS_PENDING_H

#include "postgres.h"

#include "access/xlogdefs.h"

#include "durability/output.h"

extern void ts_pending_write(TsImageOutput *out, XLogRecPtr lsn, bool unlogged,
							 TsImagePlace *place, uint64 *bytes);
extern void ts_pending_read(TsImagePlace place, uint64 bytes);

#endif							/* TS_PENDING_H */
