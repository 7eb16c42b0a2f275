/*-------------------------------------------------------------------------
 *
 * txn.h
 *	  Transaction descriptors, the write set, commit and abort.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_TXN_H
#define TS_TXN_H

#include "postgres.h"

#include "nodes/lockoptions.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/relcache.h"

#include "storage/rowlock.h"
#include "storage/table.h"
#include "storage/version.h"

typedef enum TsTxnState
{
	TS_TXN_FREE = 0,			/* no transaction, or one without writes */
	TS_TXN_ACTIVE,
	TS_TXN_DECIDED_PURE,		/* in PRE_COMMIT: will commit without an xid */
	TS_TXN_PREPARING,			/* takes its csn; soon COMMITTED for certain */
	TS_TXN_COMMITTED,			/* csn is set; versions are being stamped */
	TS_TXN_PREPARED				/* PREPARE TRANSACTION; its xid decides */
} TsTxnState;

#define TS_TAG_XIDS		16
#define TS_MAX_EXPORTED	16

/*
 * A transaction that writes, as others see it.  Live creator words lead here.
 */
typedef struct TsTxn
{
	/*
	 * Sequence << 4 | TsTxnState.  The sequence is the one in the creator
	 * words; it moves on when the descriptor becomes free, which happens only
	 * after all versions have been stamped or undone.  So a reader that finds
	 * another sequence finds the fate of the version in its creator word.
	 * Written by the owner with release semantics.
	 */
	pg_atomic_uint64 state;

	/* count when PREPARING was published: the csn will be larger */
	pg_atomic_uint64 floor;

	/* COMMITTED: csn (pure) or csn_upper (mixed); set before the state */
	pg_atomic_uint64 csn;

	/*
	 * Top-level xid if the transaction is mixed.  Set before that xid can be
	 * seen as committed; read between two reads of `state`.
	 */
	pg_atomic_uint32 xid;

	/* token of the speculative insertion under way */
	pg_atomic_uint32 spec_token;

	/* tag << 32 | xid of subtransactions that have an xid, by tag modulo */
	pg_atomic_uint64 tag_xid[TS_TAG_XIDS];

	struct TsPrepared *prepared;	/* state PREPARED only */
	int			next_free;		/* under the descriptor lock */
	char		pad[32];
} TsTxn;

#define ts_txn_seq(state)		((state) >> 4)
#define ts_txn_phase(state)		((TsTxnState) ((state) & 15))

/* Counters for tsengine.stat_transactions; a set per process, added up. */
typedef struct TsTxnCounters
{
	uint64		commits_pure;
	uint64		commits_mixed;
	uint64		aborts;			/* of transactions that wrote */
	uint64		late_xid;		/* xid assigned after PRE_COMMIT: must be 0 */
	uint64		snapshot_missing;	/* count could not be had: must be 0 */
	uint64		waits;			/* for another transaction's write or lock */
} TsTxnCounters;

/* What a process publishes for others. */
typedef struct TsTxnProcess
{
	/*
	 * Snapshots, for the horizon (see snapshot.c).  Stores are ordered: held
	 * before base.
	 */
	pg_atomic_uint64 base;
	pg_atomic_uint64 held[8];
	pg_atomic_uint64 held_min;	/* when held[] overflows: from here on */
	pg_atomic_uint32 quiet;		/* waits; has no snapshot but the held ones */

	/* for parallel workers of this leader */
	pg_atomic_uint64 live_word;
	pg_atomic_uint64 parallel_count;

	/*
	 * Counts of the last snapshots exported by the transaction exported_lxid,
	 * by export number modulo; the number is checked.  Written in this order.
	 */
	pg_atomic_uint64 exported[TS_MAX_EXPORTED];
	pg_atomic_uint32 exported_number[TS_MAX_EXPORTED];
	pg_atomic_uint32 exported_lxid;

	/* count of the transaction's snapshot in REPEATABLE READ, else 0 */
	pg_atomic_uint64 xact_count;

	TsTxnCounters counters;		/* written by the owner */
} TsTxnProcess;

extern TsTxn *ts_txns;
extern TsTxnProcess *ts_txn_processes;
extern TsTxnProcess *ts_my_txn_process;

/* Live creator word of this transaction, 0 if it has not written. */
extern uint64 ts_my_live_word;

#define ts_is_mine(word)	((word) == ts_my_live_word)

static inline TsTxn *
ts_txn_of_word(uint64 live_word)
{
	return &ts_txns[ts_live_slot(live_word)];
}

/* One entry of the write set. */
typedef struct TsWrite
{
	TsBlock    *block;
	uint32		index;
	uint32		carried;		/* marker of a move that carried row locks */
	TsVersion  *version;
} TsWrite;

extern void ts_txn_request(void);
extern void ts_txn_startup(void);
extern void ts_txn_attach(void);
extern void ts_txn_init_callbacks(void);
extern void ts_txn_force_mixed(bool on);

extern void ts_txn_begin_write(bool need_xid);
extern TransactionId ts_txn_publish_xid(void);
extern uint16 ts_txn_tag(void);
extern void ts_txn_reserve_writes(int n);
extern void ts_txn_add_write(TsRowRef ref, TsVersion *version, bool carried);
extern void ts_txn_undo_write(TsVersion *version);
extern void ts_txn_forget_table(TsTable *table);
extern void ts_txn_lock_row_begin(void);
extern void ts_txn_add_row_lock(TsRowRef ref);

/*
 * Things allocated for a change that is not in the write set yet; an abort
 * gives them back.  At most a handful at a time.
 */
extern void ts_txn_add_loose(void *memory, Size size);
extern void ts_txn_add_loose_row(TsRowRef ref);
extern void ts_txn_keep_loose(int n);

/* undoing and finishing, shared with prepared.c */
extern void ts_write_undo(const TsWrite *write);
extern void ts_writes_commit(const TsWrite *set, int64 n, uint64 csn, TransactionId xid,
							 uint16 aux);
extern TsTxn *ts_txn_take_descriptor(void);
extern void ts_txn_reset_descriptor(TsTxn *txn);
extern void ts_txn_free_descriptor(TsTxn *txn);

/* set by the access layer: a version of mine is undone (aliases) */
extern void (*ts_version_undone_hook) (TsVersion *version);
extern void (*ts_txn_end_hook) (void);

/* wait.c */
extern TransactionId ts_txn_xid_of(uint64 live_word, uint16 tag);
extern void ts_txn_lock_tag(LOCKTAG *tag, uint64 live_word, uint16 number);
extern void ts_txn_await_change(TsTxn *txn, uint64 state);
extern bool ts_txn_wait(uint64 live_word, uint16 tag, LockWaitPolicy policy,
						Relation rel, ItemPointer tid, XLTW_Oper oper);

/* prepared.c */
typedef struct TsPreparedLock
{
	TsRowRef	ref;
	uint16		tag;
} TsPreparedLock;

typedef struct TsPrepared
{
	Size		size;
	int64		nwrites;
	int64		nlocks;
	int			ncommit_drops;
	int			nabort_drops;
	TsWrite    *writes;
	TsPreparedLock *locks;
	RelFileNode *commit_drops;
	RelFileNode *abort_drops;
} TsPrepared;

extern TsPrepared *ts_prepared_build(const TsWrite *writes, int64 nwrites,
									 const TsPreparedLock *locks, int64 nlocks);
extern void ts_prepared_finish(TsTxn *txn, uint64 seq);
extern void ts_prepared_finish_all(void);
extern void ts_prepared_startup(void);

#endif							/* TS_TXN_H */
