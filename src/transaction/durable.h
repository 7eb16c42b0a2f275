/*-------------------------------------------------------------------------
 *
 * durable.h
 *	  Read durability: nothing that rests on an unflushed commit is reported.
 *
 * Pure commits are visible before they are flushed.  So whoever has read one of
 * their versions waits, at the end of its transaction or statement, until that
 * is on disk.  Versions committed with synchronous_commit = off are exempt.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_DURABLE_H
#define TS_DURABLE_H

#include "postgres.h"

#include "access/xlogdefs.h"

#include "storage/version.h"

/* GUC tsengine.read_durability */
typedef enum TsReadDurability
{
	TS_READ_DURABLE_TRANSACTION,
	TS_READ_DURABLE_STATEMENT
} TsReadDurability;

extern int ts_read_durability;

extern void ts_durable_request(void);
extern void ts_durable_startup(void);

/*
 * All pure commits up to this csn are on disk, or need not be.  Atomic, only
 * ever grows; a stale value costs a look-up.
 */
extern uint64 ts_durable_csn(void);

/* Move that mark on, if it can be.  For a process that looks now and then. */
extern void ts_durable_advance(void);

/*
 * A pure transaction's record ends at `end` (invalid: none).  To be called
 * before its versions become visible.
 */
extern void ts_durable_note_commit(uint64 csn, XLogRecPtr end);

/* A version of a pure transaction past the mark has been read. */
extern void ts_durable_note_read(TsVersion *version, uint64 csn);

/* Wait until all that has been read is on disk.  Raises no error but PANIC. */
extern void ts_durable_wait(void);

/* The WAL's end as far as it can be flushed.  Not for recovery. */
extern XLogRecPtr ts_wal_inserted(void);

/* The transaction reports nothing. */
extern void ts_durable_forget(void);

#endif							/* TS_DURABLE_H */
