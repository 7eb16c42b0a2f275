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

#include "access/xlogdefs.h"
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

/* One entry of the write set. */
typedef struct TsWrite
{
	TsBlock    *block;
	uint32		index;
	uint32		carried;		/* marker of a move that carried row locks */
	TsVersion  *version;		/* NULL: taken back */
} TsWrite;

/*
 * Writes of an undecided transaction with an xid that are in the WAL already,
 * or have outlived their session (PREPARE), in the order in which they were
 * made; the chunks are linked from the newest to the oldest.  In the arena.
 */
typedef struct TsLogged
{
	struct TsLogged *next;
	Size		size;			/* of this chunk, for ts_free */
	TransactionId xid;			/* of the (sub)transaction that wrote */
	int			n;

	/*
	 * End of the first of its records (0: none): an image whose LSN lies before
	 * has nothing of it, as redo will meet all of it.
	 */
	XLogRecPtr	first_end;
	TsWrite		writes[FLEXIBLE_ARRAY_MEMBER];
} TsLogged;

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

	/*
	 * Not 0 while records of an undecided transaction are inserted and not yet
	 * in `logged`.  Set (full barrier) before XLogInsert, cleared (release)
	 * after the chunk is linked.  A pure transaction shows the same by
	 * PREPARING and COMMITTED.
	 */
	pg_atomic_uint32 logging;

	/*
	 * Changed under `logged_lock` exclusively, by the owner, or by whoever
	 * finishes a prepared transaction.  An image walks it under the lock, so
	 * versions are undone and freed, and the list let go, only under it.
	 */
	LWLock		logged_lock;
	TsLogged   *logged;

	struct TsPrepared *prepared;	/* state PREPARED only, or NULL */
	int			next_free;		/* under the descriptor lock */
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

/* GUC tsengine.commit_marker_interval, milliseconds */
extern int ts_commit_marker_interval;

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
extern void ts_txn_add_row_lock(TsRowRef ref, LockTupleMode mode);

/*
 * Things allocated for a change that is not in the write set yet; an abort
 * gives them back.  At most a handful at a time.
 */
extern void ts_txn_add_loose(void *memory, Size size);
extern void ts_txn_add_loose_row(TsRowRef ref);
extern void ts_txn_keep_loose(int n);

/* What became of a transaction, for its versions. */
typedef struct TsOutcome
{
	uint64		csn;			/* csn_upper if mixed */
	TransactionId xid;			/* to be shown as xmin; 0: versions have theirs */
	bool		mixed;
	bool		async;			/* committed with synchronous_commit = off */
	uint16		aux;			/* mixed: how far the csn may lie below */
} TsOutcome;

/* undoing and finishing, shared with prepared.c and recovery */
extern void ts_write_undo(const TsWrite *write);
extern void ts_writes_commit(const TsWrite *set, int64 n, const TsOutcome *outcome);
extern void ts_forget_logged(TsTxn *txn);
extern void ts_undo_newest_chunk(TsTxn *txn);
extern uint64 ts_take_csn(void);
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

/*
 * prepared.c: what PREPARE leaves behind besides the logged writes, in the
 * arena.  Transactions that recovery finds undecided look the same, without
 * this struct if they have not been prepared.
 */
typedef struct TsPreparedLock
{
	TsRowRef	ref;
	uint16		tag;
	uint16		mode;			/* LockTupleMode */
} TsPreparedLock;

typedef struct TsPrepared
{
	Size		size;
	int64		nlocks;
	int			ncommit_drops;
	int			nabort_drops;
	TsPreparedLock *locks;
	RelFileNode *commit_drops;
	RelFileNode *abort_drops;
} TsPrepared;

extern TsPrepared *ts_prepared_alloc(int64 nlocks, int ncommit_drops, int nabort_drops);
extern void ts_prepared_restore(TsTxn *txn, TsPrepared *prepared);
extern void ts_prepared_finish(TsTxn *txn, uint64 seq);
extern void ts_undecided_end(TsTxn *txn, uint64 seq, bool committed);
extern void ts_prepared_finish_all(void);
extern void ts_prepared_startup(void);

/*
 * undecided.c: transactions that recovery has met and not seen the end of.
 * Used by one process at a time, the one that replays or loads the manifest.
 */
extern TsTxn *ts_undecided_txn(TransactionId xid, bool make);
extern TsTxn *ts_undecided_txn_of_word(uint64 live_word);
extern uint64 ts_undecided_word(TsTxn *txn);
extern void ts_undecided_write(TsTxn *txn, TransactionId xid, TsRowRef ref, TsVersion *version);
extern void ts_undecided_abort_sub(TransactionId xid, int nchildren, const TransactionId *children);
extern void ts_undecided_forget_table(TsTable *table);
extern void ts_recovered_commit(const TsRowRef *refs, TsVersion **versions, int n, uint32 xmin);

/* Descriptors with numbers below this may have been used. */
extern int	ts_txn_count(void);

/* the system column xmin of pure versions */
#define TS_XMIN_MASK	0x3FFFFFFF

extern uint32 ts_shown_xmin(uint64 csn);
extern uint32 ts_xmin_counter(void);
extern void ts_xmin_counter_restore(uint32 shown);

#endif							/* TS_TXN_H */
