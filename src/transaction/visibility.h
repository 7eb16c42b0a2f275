/*-------------------------------------------------------------------------
 *
 * visibility.h
 *	  Which version of a row a snapshot sees.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_VISIBILITY_H
#define TS_VISIBILITY_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "storage/version.h"
#include "transaction/durable.h"
#include "transaction/txn.h"

/* An MVCC snapshot, prepared for many look-ups. */
typedef struct TsReadView
{
	Snapshot	snapshot;
	uint64		count;
	uint64		quick;			/* up to this csn nothing needs a second look */
	CommandId	curcid;
} TsReadView;

/* What a version's creator is right now, for those who want to change a row. */
typedef enum TsCreatorStatus
{
	TS_CREATOR_COMMITTED,
	TS_CREATOR_MINE,
	TS_CREATOR_RUNNING			/* or about to be stamped or undone */
} TsCreatorStatus;

/* Who is changing a row, so that its keys are undecided. */
typedef struct TsRival
{
	uint64		word;			/* live creator word; 0: nobody */
	uint16		tag;
} TsRival;

extern void ts_adopt_leader_writes(void);
extern void ts_read_view_init(TsReadView *view, Snapshot snapshot);
extern bool ts_version_visible_slow(TsVersion *version, uint64 word,
									const TsReadView *view);
extern TsCreatorStatus ts_version_status(TsVersion *version);
extern TsVersion *ts_newest_settled(TsVersion *head);
extern TsVersion *ts_row_fetch(TsRow *row, Snapshot snapshot, const TsReadView *view);
extern TsVersion *ts_row_fetch_dirty(TsRow *row, Snapshot snapshot, TsRival *rival);
extern TransactionId ts_version_xmin(TsVersion *version);
extern TransactionId ts_own_xid(void);

/*
 * Is the version's creator visible?  The first comparison decides for almost
 * all: only a csn or a csn_upper can be that small.
 */
static inline bool
ts_version_visible(TsVersion *version, const TsReadView *view)
{
	uint64		word = pg_atomic_read_u64(&version->creator);

	return likely((word & ~TS_CREATOR_MIXED) <= view->quick) || ts_version_visible_slow(version, word, view);
}

/*
 * The version of a row that the view sees, or NULL.  Call it inside an epoch
 * section; the result stays valid while the view's snapshot is published.
 */
static inline TsVersion *
ts_row_visible(TsRow *row, const TsReadView *view)
{
	TsVersion  *v = ts_row_head(row);

	while (v != NULL)
	{
		if (ts_version_visible(v, view))
			return unlikely(v->flags & TS_V_DELETED) ? NULL : v;
		v = ts_version_prev(v);
	}
	return NULL;
}

#endif							/* TS_VISIBILITY_H */
