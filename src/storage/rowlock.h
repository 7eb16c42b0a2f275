/*-------------------------------------------------------------------------
 *
 * rowlock.h
 *	  Row locks: who holds FOR KEY SHARE .. FOR UPDATE on which row.
 *
 * A write intent (a live version at the head of a chain) is the lock of an
 * UPDATE or DELETE and is not repeated here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_ROWLOCK_H
#define TS_ROWLOCK_H

#include "postgres.h"

#include "nodes/lockoptions.h"

#include "storage/table.h"

/*
 * One holder's lock on one row: the holder is a transaction (its live creator
 * word) and, within it, the number of the subtransaction's lock tag.
 */
typedef struct TsLockHolder
{
	uint64		txn;
	uint16		tag;
} TsLockHolder;

typedef enum TsRowLockResult
{
	TS_ROWLOCK_OK,
	TS_ROWLOCK_HELD,			/* nothing to do: held already */
	TS_ROWLOCK_CHANGED,			/* the row's head is not what was expected */
	TS_ROWLOCK_CONFLICT,		/* *blocker tells who is in the way */
	TS_ROWLOCK_NO_MEMORY
} TsRowLockResult;

extern void ts_rowlock_request(void);
extern void ts_rowlock_startup(void);

extern TsRowLockResult ts_rowlock_acquire(TsRowRef ref, TsVersion *head,
										  LockTupleMode mode, TsLockHolder holder,
										  void *memory, TsLockHolder *blocker);
extern void *ts_rowlock_alloc(Size *size);
extern TsRowLockResult ts_rowlock_install(TsRowRef ref, TsVersion *head,
										  TsVersion *version, LockTupleMode mode,
										  uint64 txn, TsRowRef *moved_to,
										  TsLockHolder *blocker);
extern void ts_rowlock_release(TsRowRef ref, TsLockHolder holder);
extern void ts_rowlock_retag(TsRowRef ref, TsLockHolder holder, uint16 new_tag);
extern void ts_rowlock_uncarry(TsRowRef from, TsRowRef to);
extern bool ts_rowlock_holds(TsRowRef ref, uint64 txn, LockTupleMode mode);

#endif							/* TS_ROWLOCK_H */
