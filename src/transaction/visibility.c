/*-------------------------------------------------------------------------
 *
 * visibility.c
 *	  Which version of a row a snapshot sees: the cases off the common path.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "memory/epoch.h"
#include "storage/horizon.h"
#include "storage/garbage.h"
#include "transaction/snapshot.h"
#include "transaction/visibility.h"

/* In a parallel worker: the leader's own changes count as ours. */
void
ts_adopt_leader_writes(void)
{
	if (IsParallelWorker() && MyProc->lockGroupLeader != NULL)
		ts_my_live_word =
			pg_atomic_read_u64(&ts_txn_processes[MyProc->lockGroupLeader->pgprocno].live_word);
}

/* Prepare an MVCC snapshot for look-ups. */
void
ts_read_view_init(TsReadView *view, Snapshot snapshot)
{
	view->snapshot = snapshot;
	view->curcid = snapshot->curcid;
	view->count = ts_snapshot_count(snapshot);
	view->quick = Min(view->count, ts_durable_csn());
	ts_adopt_leader_writes();
}

/*
 * Was the top-level xid running, as far as the snapshot knows?  As
 * XidInMVCCSnapshot, without its detour through subtransactions.
 */
static bool
xid_in_progress_for(TransactionId xid, Snapshot snapshot)
{
	if (TransactionIdPrecedes(xid, snapshot->xmin))
		return false;
	if (TransactionIdFollowsOrEquals(xid, snapshot->xmax))
		return true;
	if (snapshot->takenDuringRecovery)
		return XidInMVCCSnapshot(xid, snapshot);
	for (uint32 i = 0; i < snapshot->xcnt; i++)
		if (snapshot->xip[i] == xid)
			return true;
	return false;
}

/*
 * Visibility of a live version of another transaction.  Sets *again if the
 * version has been stamped or undone meanwhile.
 */
static bool
live_version_visible(TsVersion *version, uint64 word, const TsReadView *view, bool *again)
{
	TsTxn	   *txn = ts_txn_of_word(word);
	uint64		state = pg_atomic_read_u64(&txn->state);
	TransactionId xid;
	uint64		csn;
	uint64		floor;

	*again = false;
	pg_read_barrier();
	xid = pg_atomic_read_u32(&txn->xid);
	csn = pg_atomic_read_u64(&txn->csn);
	floor = pg_atomic_read_u64(&txn->floor);
	pg_read_barrier();
	if (ts_txn_seq(state) != ts_live_seq(word) ||
		pg_atomic_read_u64(&txn->state) != state)
	{
		*again = true;
		return false;
	}
	switch (ts_txn_phase(state))
	{
		case TS_TXN_PREPARING:
			if (floor >= view->count)
				return false;
			ts_txn_await_change(txn, state);
			*again = true;
			return false;
		case TS_TXN_COMMITTED:
			if (csn <= view->count)
			{
				if (!TransactionIdIsValid(xid))
					ts_durable_note_read(version, csn);
				return true;
			}
			return TransactionIdIsValid(xid) && !xid_in_progress_for(xid, view->snapshot);
		case TS_TXN_ACTIVE:
		case TS_TXN_DECIDED_PURE:
		case TS_TXN_PREPARED:
			/* mixed transactions commit by their xid, before we hear of it */
			return TransactionIdIsValid(xid) &&
				!xid_in_progress_for(xid, view->snapshot) &&
				TransactionIdDidCommit(xid);
		default:
			return false;
	}
}

bool
ts_version_visible_slow(TsVersion *version, uint64 word, const TsReadView *view)
{
	for (;;)
	{
		bool		again;
		bool		visible;

		if (ts_creator_is_csn(word))
		{
			if (word > view->count)
				return false;
			ts_durable_note_read(version, word);
			return true;
		}
		if (ts_creator_is_mixed(word))
		{
			if (ts_creator_upper(word) <= view->count)
				return true;
			pg_read_barrier();	/* cid was written before the word */
			return !xid_in_progress_for(version->cid, view->snapshot);
		}
		if (ts_is_mine(word))
			return version->cid < view->curcid;
		visible = live_version_visible(version, word, view, &again);
		if (!again)
			return visible;
		/*
		 * A stamp precedes the descriptor's move to its next sequence: if
		 * that is seen and still no stamp, the version was undone.
		 */
		if (ts_txn_seq(pg_atomic_read_u64(&ts_txn_of_word(word)->state)) != ts_live_seq(word))
		{
			pg_read_barrier();
			if (ts_version_creator(version) == word)
				return false;
		}
		word = ts_version_creator(version);
	}
}

/*
 * What the creator is now.  RUNNING includes a transaction that has committed
 * but not yet stamped its versions: wait for it, it is a matter of moments.
 */
TsCreatorStatus
ts_version_status(TsVersion *version)
{
	uint64		word = ts_version_creator(version);

	if (!ts_creator_is_live(word))
		return TS_CREATOR_COMMITTED;
	return ts_is_mine(word) ? TS_CREATOR_MINE : TS_CREATOR_RUNNING;
}

/* The newest version that is committed or mine; NULL if there is none. */
TsVersion *
ts_newest_settled(TsVersion *head)
{
	TsVersion  *v = head;

	while (v != NULL && ts_version_status(v) == TS_CREATOR_RUNNING)
		v = ts_version_prev(v);
	if (v != NULL && ts_creator_is_csn(ts_version_creator(v)))
		ts_durable_note_read(v, ts_version_creator(v));
	return v;
}

/*
 * Committed as of now?  Unlike ts_version_status, looks behind the creator
 * word of a transaction that is about to stamp.
 */
static bool
committed_now(TsVersion *version)
{
	for (;;)
	{
		uint64		word = ts_version_creator(version);
		TsTxn	   *txn;
		uint64		state;
		TransactionId xid;

		if (!ts_creator_is_live(word))
		{
			if (ts_creator_is_csn(word))
				ts_durable_note_read(version, word);
			return true;
		}
		txn = ts_txn_of_word(word);
		state = pg_atomic_read_u64(&txn->state);
		pg_read_barrier();
		xid = pg_atomic_read_u32(&txn->xid);
		pg_read_barrier();
		if (ts_txn_seq(state) != ts_live_seq(word))
			return !ts_creator_is_live(ts_version_creator(version));
		if (pg_atomic_read_u64(&txn->state) != state)
			continue;
		switch (ts_txn_phase(state))
		{
			case TS_TXN_PREPARING:
				ts_txn_await_change(txn, state);
				continue;
			case TS_TXN_COMMITTED:
				if (!TransactionIdIsValid(xid))
					ts_durable_note_read(version, pg_atomic_read_u64(&txn->csn));
				return true;
			default:
				return TransactionIdIsValid(xid) && !TransactionIdIsInProgress(xid) &&
					TransactionIdDidCommit(xid);
		}
	}
}

/*
 * SnapshotSelf and SnapshotDirty look at what is there now.  A head that was
 * taken before its transaction went on and committed would show a state that
 * never was (a row updated, not yet deleted, and committed): so look again if
 * the head has changed.
 */
static TsVersion *
fetch_self(TsRow *row)
{
	for (;;)
	{
		TsVersion  *head = ts_row_head(row);
		TsVersion  *v = head;

		while (v != NULL && !ts_is_mine(ts_version_creator(v)) && !committed_now(v))
			v = ts_version_prev(v);
		pg_read_barrier();
		if (ts_row_head(row) == head)
			return v == NULL || (v->flags & TS_V_DELETED) ? NULL : v;
	}
}

/*
 * SnapshotDirty: what would be there if all running transactions committed,
 * and who is to be waited for: xmin for an insert, xmax for a delete.  An
 * update in place leaves the row and its keys where they are, so there is
 * nobody to wait for.
 */
static TsVersion *
look_dirty(TsVersion *head, Snapshot snapshot, TsRival *rival)
{
	TsVersion  *v;
	uint64		word;

	rival->word = 0;
	snapshot->xmin = snapshot->xmax = InvalidTransactionId;
	snapshot->speculativeToken = 0;
	if (head == NULL)
		return NULL;
	word = ts_version_creator(head);
	if (ts_is_mine(word) || committed_now(head))
		return (head->flags & TS_V_DELETED) ? NULL : head;

	rival->word = word;
	/* versions of one running transaction, over the newest committed one */
	for (v = head; v != NULL && !committed_now(v); v = ts_version_prev(v))
		;
	if (v == NULL)
	{
		/*
		 * A row inserted by it.  If it has deleted it again, it may yet roll
		 * back that much.
		 */
		for (v = head; ts_version_prev(v) != NULL; v = ts_version_prev(v))
			;
		rival->tag = v->aux;
		snapshot->xmin = ts_txn_xid_of(word, v->aux);
		if (v->flags & TS_V_SPECULATIVE)
			snapshot->speculativeToken =
				pg_atomic_read_u32(&ts_txn_of_word(word)->spec_token);
		return (head->flags & TS_V_DELETED) ? v : head;
	}
	if (v->flags & TS_V_DELETED)
		return NULL;
	if ((head->flags & TS_V_DELETED) == 0)
	{
		rival->word = 0;		/* updated in place */
		return head;
	}
	rival->tag = head->aux;
	snapshot->xmax = ts_txn_xid_of(word, head->aux);
	/* the last version that holds a tuple */
	for (v = head; v->flags & TS_V_DELETED; v = ts_version_prev(v))
		;
	return v;
}

/*
 * What a SnapshotDirty sees of a row, or NULL.  If that is another transaction's
 * doing, *rival names it, whether it has an xid or not; else its word is 0.
 * Call it inside an epoch section.
 */
TsVersion *
ts_row_fetch_dirty(TsRow *row, Snapshot snapshot, TsRival *rival)
{
	for (;;)
	{
		TsVersion  *head = ts_row_head(row);
		TsVersion  *v = look_dirty(head, snapshot, rival);

		pg_read_barrier();
		if (ts_row_head(row) != head)
			continue;			/* as for fetch_self */

		/*
		 * No xid to wait for means to core that there is no rival: true only
		 * if it has not ended while we looked.
		 */
		if (rival->word == 0 || TransactionIdIsValid(snapshot->xmin) ||
			TransactionIdIsValid(snapshot->xmax) ||
			ts_txn_seq(pg_atomic_read_u64(&ts_txn_of_word(rival->word)->state)) ==
			ts_live_seq(rival->word))
			return v;
	}
}

/* Newest version with a tuple that some snapshot may see, or is undecided. */
static TsVersion *
fetch_non_vacuumable(TsRow *row)
{
	const TsHorizon *horizon = ts_horizon(true);
	TsVersion  *newer = NULL;

	for (TsVersion *v = ts_row_head(row); v != NULL; v = ts_version_prev(v))
	{
		if ((v->flags & TS_V_DELETED) == 0)
		{
			if (newer == NULL || ts_creator_is_live(ts_version_creator(newer)) ||
				ts_version_needed(v, newer, horizon))
				return v;
		}
		newer = v;
	}
	return NULL;
}

static TsVersion *
fetch_any(TsRow *row)
{
	TsVersion  *v = ts_row_head(row);

	while (v != NULL && (v->flags & TS_V_DELETED))
		v = ts_version_prev(v);
	return v;
}

/*
 * The version of a row that a snapshot of any kind sees, or NULL.  `view` must
 * be given for MVCC snapshots.  Call it inside an epoch section.  Only what an
 * MVCC snapshot sees stays valid after it.
 */
TsVersion *
ts_row_fetch(TsRow *row, Snapshot snapshot, const TsReadView *view)
{
	TsRival		rival;

	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_MVCC:
			return ts_row_visible(row, view);
		case SNAPSHOT_SELF:
			return fetch_self(row);
		case SNAPSHOT_DIRTY:
			return ts_row_fetch_dirty(row, snapshot, &rival);
		case SNAPSHOT_NON_VACUUMABLE:
			return fetch_non_vacuumable(row);
		case SNAPSHOT_ANY:
		case SNAPSHOT_TOAST:
			return fetch_any(row);
		case SNAPSHOT_HISTORIC_MVCC:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("tsengine tables cannot be read by logical decoding as catalog tables")));
	}
	return NULL;
}

/*
 * The xid for system columns that name this transaction, which has written:
 * from now on it is mixed.  In parallel mode, invalid if there is none yet.
 */
TransactionId
ts_own_xid(void)
{
	if (IsInParallelMode())
		return pg_atomic_read_u32(&ts_txn_of_word(ts_my_live_word)->xid);
	/* core asks whether this xid is ours: there must be one */
	(void) GetTopTransactionId();
	return ts_txn_publish_xid();
}

/*
 * The system column xmin of a version: the xid of a mixed transaction, a value
 * derived from the csn of a pure one (ts_shown_xmin).  It changes with each
 * committed update, across restarts too.
 */
TransactionId
ts_version_xmin(TsVersion *version)
{
	uint64		word = ts_version_creator(version);

	if (!ts_creator_is_live(word))
	{
		pg_read_barrier();		/* cid was written before the word */
		return version->cid;
	}
	return ts_is_mine(word) ? ts_own_xid() : ts_txn_xid_of(word, version->aux);
}
