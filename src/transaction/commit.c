/*-------------------------------------------------------------------------
 *
 * commit.c
 *	  Commit, abort and PREPARE: what happens at a transaction's end.
 *
 * What may fail is done in PRE_COMMIT: the record of a pure transaction is
 * built, a mixed one's writes are logged.  From XACT_EVENT_COMMIT on nothing
 * fails but by a PANIC.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "replication/origin.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "compat.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/durable.h"
#include "transaction/log.h"
#include "transaction/private.h"
#include "transaction/snapshot.h"

void		(*ts_txn_end_hook) (void) = NULL;

static uint64 count_at_pre_commit = 0;

/* The transaction's descriptor stands for nobody from here on. */
static void
release_descriptor(void)
{
	if (ts_my_live_word == 0)
		return;
	ts_forget_logged(ts_local.txn);
	pg_write_barrier();
	pg_atomic_write_u32(&ts_local.txn->logging, 0);
	ts_txn_reset_descriptor(ts_local.txn);
	ts_my_live_word = 0;
}

static void
finish_transaction(void)
{
	if (ts_txn_end_hook != NULL)
		ts_txn_end_hook();
	release_descriptor();
	ts_local.nwrites = 0;
	ts_local.nlogged = 0;
	ts_local.no_memory_for_list = false;
	ts_local.unlogged_bytes = 0;
	ts_local.nrow_locks = 0;
	ts_local.nlevels = 0;
	ts_local.prepared = NULL;
	ts_table_end_transaction();
	if (ts_my_txn_process != NULL)
		pg_atomic_write_u64(&ts_my_txn_process->live_word, 0);
	if (ts_local.max_writes > 4096 || ts_local.max_row_locks > 4096 || ts_local.max_levels > 64)
	{
		MemoryContextReset(ts_local.context);
		ts_local.writes = NULL;
		ts_local.row_locks = NULL;
		ts_local.levels = NULL;
		ts_local.max_writes = ts_local.max_row_locks = 0;
		ts_local.max_levels = 0;
	}
	if (unlikely(ts_arena_is_tight()))
	{
		ts_reclaim();
		ts_arena_flush_magazines();
	}
	ts_snapshot_end_transaction();
}

/*
 * Tables whose files go at this end of the (sub)transaction.  The list does not
 * name temporary ones; those are found out later (ts_table_drop_stale_temp).
 */
void
ts_drop_tables(bool commit)
{
	RelFileNode *nodes;
	int			n = smgrGetPendingDeletes(commit, &nodes);

	for (int i = 0; i < n; i++)
		ts_table_drop(nodes[i], InvalidBackendId);
	if (n > 0)
		pfree(nodes);
}

/* Does a commit with an xid wait for synchronous standbys? */
bool
ts_waits_for_standbys(void)
{
	return SyncRepRequested() && SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0';
}

/* Reasons for a transaction without an xid to get one. */
static bool
must_be_mixed(void)
{
	return ts_local.unlogged_bytes > TS_LOG_CHUNK_BYTES ||
		(MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE) ||	/* on-commit actions run after us */
		ts_waits_for_standbys() ||
		replorigin_session_origin != InvalidRepOriginId ||
		XLogLogicalInfoActive() ||
		ts_marker_due();
}

/*
 * PRE_COMMIT: what may fail.  An xid that exists is published before it can be
 * seen as committed.
 */
static void
pre_commit(void)
{
	if (ts_my_live_word == 0)
		return;

	if (!TransactionIdIsValid(ts_txn_publish_xid()) && ts_local.nwrites > 0 && must_be_mixed())
		(void) GetTopTransactionId();
	if (!TransactionIdIsValid(ts_txn_publish_xid()))
	{
		ts_log_build_pure(ts_local.writes, ts_local.nwrites);
		ts_set_phase(ts_local.txn, TS_TXN_DECIDED_PURE);
		pg_memory_barrier();
		if (ts_txn_mixed_forced())
		{
			ts_set_phase(ts_local.txn, TS_TXN_ACTIVE);
			(void) GetTopTransactionId();
			(void) ts_txn_publish_xid();
		}
	}
	if (ts_local.published_xid && ts_local.nwrites > ts_local.nlogged)
		ts_log_writes(true);
	count_at_pre_commit = ts_current_count();
}

/* Take a commit sequence number: the next count of finished transactions. */
uint64
ts_take_csn(void)
{
	uint64		csn;

	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	csn = ++ts_transam_variables->xactCompletionCount;
	LWLockRelease(ProcArrayLock);
	return csn;
}

static void
become_committed(const TsOutcome *outcome)
{
	pg_atomic_write_u64(&ts_local.txn->csn, outcome->csn);
	ts_set_phase(ts_local.txn, TS_TXN_COMMITTED);
	ts_stop_point(TS_STOP_COMMITTED);
	ts_writes_commit(ts_local.writes, ts_local.nwrites, outcome);
	ts_release_row_locks_to(0);
}

/* Core has written the commit record, and flushed it if that was asked for. */
static void
commit_mixed(TransactionId xid)
{
	TsOutcome	outcome = {.mixed = true,.xid = xid};

	ts_stop_point(TS_STOP_MIXED_ENDED);
	outcome.csn = ts_current_count();
	/* our end has moved the count on: who has the one from before does not see us */
	outcome.aux = (uint16) Min(outcome.csn - count_at_pre_commit - 1, TS_AUX_FAR);
	ts_my_txn_process->counters.commits_mixed++;
	become_committed(&outcome);
	/* before tables are dropped: an image may be following the list to their blocks */
	release_descriptor();
}

/*
 * The record is the commit.  It is inserted before the versions become visible,
 * and flushed after who waits for them has been woken: so the disk does not
 * stand between two transactions that change the same row.
 */
static void
commit_pure(void)
{
	TsTxn	   *txn = ts_local.txn;
	uint16		tag = ts_local.levels[0].tag;
	uint64		live_word = ts_my_live_word;
	TsOutcome	outcome = {.async = synchronous_commit == SYNCHRONOUS_COMMIT_OFF};
	XLogRecPtr	end;

	ts_stop_point(TS_STOP_PURE_ENDED);
	START_CRIT_SECTION();
	pg_atomic_write_u64(&txn->floor, ts_current_count());
	ts_set_phase(txn, TS_TXN_PREPARING);
	pg_memory_barrier();		/* before the record: see TsTxn.logging */
	ts_stop_point(TS_STOP_PREPARING);
	outcome.csn = ts_take_csn();
	outcome.xid = ts_shown_xmin(outcome.csn);
	ts_stop_point(TS_STOP_CSN_TAKEN);
	end = ts_log_insert_pure(outcome.xid);
	ts_durable_note_commit(outcome.csn, end);
	become_committed(&outcome);
	ts_my_txn_process->counters.commits_pure++;
	release_descriptor();
	END_CRIT_SECTION();

	ts_free_tag_lock(live_word, tag);
	if (XLogRecPtrIsInvalid(end))
		return;
	START_CRIT_SECTION();
	if (outcome.async)
		XLogSetAsyncXactLSN(end);
	else
	{
		ts_stop_point(TS_STOP_BEFORE_FLUSH);
		XLogFlush(end);
	}
	END_CRIT_SECTION();
	/* as at the end of RecordTransactionCommit */
	XactLastCommitEnd = end;
	XactLastRecEnd = 0;
}

/*
 * COMMIT: ProcArrayEndTransaction has run, so a mixed transaction is visible
 * by its xid already; a pure one becomes so here.  Nothing may fail.
 */
static void
commit(void)
{
	TransactionId xid = GetTopTransactionIdIfAny();

	if (ts_local.nwrites == 0)
	{
		ts_release_row_locks_to(0);
		return;
	}
	if (TransactionIdIsValid(xid) && !ts_local.published_xid)
	{
		/*
		 * Too late to be mixed: snapshots that count the xid as committed may
		 * have been taken already, and have not seen our rows.
		 */
		ts_my_txn_process->counters.late_xid++;
		xid = InvalidTransactionId;
	}
	if (TransactionIdIsValid(xid))
		commit_mixed(xid);
	else
		commit_pure();
}

/* PREPARE has failed. */
static void
forget_prepared(void)
{
	TsPrepared *prepared = ts_local.prepared;

	if (prepared == NULL)
		return;
	LWLockAcquire(&ts_local.txn->logged_lock, LW_EXCLUSIVE);
	ts_local.txn->prepared = NULL;
	LWLockRelease(&ts_local.txn->logged_lock);
	ts_free(prepared, prepared->size);
	ts_local.prepared = NULL;
}

static void
abort_transaction(void)
{
	ts_epoch_reset();
	ts_txn_keep_loose(0);
	ts_txn_force_mixed(false);
	if (ts_my_live_word != 0)
	{
		ts_my_txn_process->counters.aborts++;
		ts_release_row_locks_to(0);
		ts_undo_to(0);
	}
	forget_prepared();
}

/*
 * What PREPARE is to remember besides the writes: row locks, and files to be
 * dropped at the end.  Raises 53200.
 */
static TsPrepared *
build_prepared(void)
{
	RelFileNode *commit_drops;
	RelFileNode *abort_drops;
	int			ncommit = smgrGetPendingDeletes(true, &commit_drops);
	int			nabort = smgrGetPendingDeletes(false, &abort_drops);
	TsPrepared *p = ts_prepared_alloc(ts_local.nrow_locks, ncommit, nabort);

	for (int64 i = 0; i < p->nlocks; i++)
	{
		p->locks[i].ref = ts_local.row_locks[i].ref;
		p->locks[i].tag = ts_local.row_locks[i].tag;
		p->locks[i].mode = ts_local.row_locks[i].mode;
	}
	if (ncommit > 0)
		memcpy(p->commit_drops, commit_drops, ncommit * sizeof(RelFileNode));
	if (nabort > 0)
		memcpy(p->abort_drops, abort_drops, nabort * sizeof(RelFileNode));
	return p;
}

static void
pre_prepare(void)
{
	RelFileNode *nodes;

	/* files to be dropped at the end need a descriptor to remember them */
	if (ts_my_live_word == 0 && (smgrGetPendingDeletes(true, &nodes) > 0 ||
								 smgrGetPendingDeletes(false, &nodes) > 0))
		ts_txn_begin_write(true);
	if (ts_my_live_word == 0)
		return;
	(void) GetTopTransactionId();
	(void) ts_txn_publish_xid();
	if (ts_local.nwrites > ts_local.nlogged)
		ts_log_writes(true);
	if (ts_local.nwrites > ts_local.nlogged)
		ts_arena_out_of_memory(0);
	ts_local.prepared = build_prepared();
	/* before its record: an image past that must show it */
	LWLockAcquire(&ts_local.txn->logged_lock, LW_EXCLUSIVE);
	ts_local.txn->prepared = ts_local.prepared;
	LWLockRelease(&ts_local.txn->logged_lock);
	ts_log_prepare(GetTopTransactionId(), ts_local.prepared);
	count_at_pre_commit = ts_current_count();
}

/* PREPARE is done: the descriptor goes its own way. */
static void
post_prepare(void)
{
	if (ts_my_live_word == 0)
		return;
	pg_atomic_write_u64(&ts_local.txn->floor, count_at_pre_commit);
	ts_set_phase(ts_local.txn, TS_TXN_PREPARED);
	ts_local.txn = NULL;
	ts_my_live_word = 0;
}

void
ts_xact_callback(XactEvent event, void *arg)
{
	if (ts_processes == NULL)
		return;
	if (ts_my_process == NULL)
	{
		/* this process has not used us, but it may drop our tables */
		if (event == XACT_EVENT_COMMIT)
			ts_drop_tables(true);
		if (event != XACT_EVENT_PRE_PREPARE)
			return;
		ts_txn_attach();
	}
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			pre_commit();
			break;
		case XACT_EVENT_COMMIT:
			commit();
			ts_drop_tables(true);
			finish_transaction();
			ts_durable_wait();
			(void) ts_garbage_collect(4);
			break;
		case XACT_EVENT_ABORT:
			abort_transaction();
			ts_drop_tables(false);
			finish_transaction();
			ts_durable_forget();
			break;
		case XACT_EVENT_PRE_PREPARE:
			pre_prepare();
			break;
		case XACT_EVENT_PREPARE:
			post_prepare();
			finish_transaction();
			ts_durable_wait();
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			ts_epoch_reset();
			ts_my_live_word = 0;	/* the leader's */
			finish_transaction();
			ts_durable_wait();	/* the leader does not know what we read */
			break;
		default:
			break;
	}
}

