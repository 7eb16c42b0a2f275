/*-------------------------------------------------------------------------
 *
 * private.h
 *	  State of this process's transaction, shared by txn.c, writes.c and
 *	  commit.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_TXN_PRIVATE_H
#define TS_TXN_PRIVATE_H

#include "access/xact.h"

#include "transaction/txn.h"

/* a level of nesting: the top-level transaction is level 0 */
typedef struct TsLevel
{
	int64		first_write;
	int64		first_lock;
	uint16		tag;			/* 0: none taken yet */
} TsLevel;

typedef struct TsRowLockRef
{
	TsRowRef	ref;
	uint16		tag;
	uint16		mode;
} TsRowLockRef;

typedef struct TsLocal
{
	TsTxn	   *txn;			/* kept between transactions, or NULL */
	MemoryContext context;		/* of the arrays below */

	TsWrite    *writes;
	int64		nwrites;
	int64		max_writes;
	int64		nlogged;		/* so many of them are in txn->logged */
	Size		unlogged_bytes; /* of the others, in permanent tables */
	bool		no_memory_for_list; /* so nothing is logged before the end */
	TsLogged   *new_chunk;		/* not linked yet; an abort frees it */

	TsRowLockRef *row_locks;
	int64		nrow_locks;
	int64		max_row_locks;

	TsLevel    *levels;
	int			nlevels;		/* 0: outside a transaction that used us */
	int			max_levels;

	bool		published_xid;
	TsPrepared *prepared;		/* between PRE_PREPARE and PREPARE */
} TsLocal;

extern TsLocal ts_local;

static inline void
ts_set_phase(TsTxn *txn, TsTxnState phase)
{
	uint64		state = pg_atomic_read_u64(&txn->state);

	/* release: what the phase promises is visible before it */
	pg_write_barrier();
	pg_atomic_write_u64(&txn->state, (state & ~UINT64CONST(15)) | phase);
}

/* txn.c */
extern void ts_own_tag_lock(uint16 number, bool acquire);
extern void ts_free_tag_lock(uint64 live_word, uint16 number);
extern void ts_release_row_locks_to(int64 mark);
extern bool ts_txn_mixed_forced(void);
extern bool ts_marker_due(void);

/* writes.c */
extern void *ts_local_grow(void *array, int64 *max, int64 needed, Size item);
extern void ts_undo_to(int64 mark);
extern void ts_log_writes(bool all);
extern void ts_forget_writes(TsTable *table);

/* commit.c */
extern bool ts_waits_for_standbys(void);
extern void ts_xact_callback(XactEvent event, void *arg);
extern void ts_drop_tables(bool commit);

#endif							/* TS_TXN_PRIVATE_H */
