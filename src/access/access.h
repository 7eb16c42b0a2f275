/*-------------------------------------------------------------------------
 *
 * access.h
 *	  What the files of the table access method share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_ACCESS_H
#define TS_ACCESS_H

#include "postgres.h"

#include "access/relscan.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

#include "storage/table.h"
#include "storage/version.h"
#include "transaction/visibility.h"

/* ---- relation.c ---- */

/* Cached in rd_amcache: what the engine knows of an open relation. */
typedef struct TsRelation
{
	TsTable    *table;
	bool		needs_xid;		/* core may have to wait for who inserts here */
	bool		aliasing;		/* has AFTER ROW triggers: see alias.c */
} TsRelation;

extern TsRelation *ts_relation_build(Relation rel);
extern bool ts_relation_is_lost(Relation rel);
extern bool ts_is_memory_index(Oid index);
extern void ts_note_indexes(Relation rel, TsTable *table);
extern void ts_copy_database(Oid template, Oid database);

extern bool ts_warned_serializable;
extern void ts_warn_serializable(void);

static inline TsRelation *
ts_relation(Relation rel)
{
	TsRelation *info = (TsRelation *) rel->rd_amcache;

	if (unlikely(XactIsoLevel == XACT_SERIALIZABLE && !ts_warned_serializable))
		ts_warn_serializable();

	return likely(info != NULL) ? info : ts_relation_build(rel);
}

static inline TsTable *
ts_relation_table(Relation rel)
{
	return ts_relation(rel)->table;
}

/* ---- slot.c ---- */

/*
 * A slot that shows a version.  The tuple is a MinimalTuple, in the arena or,
 * when the slot has a copy, in its memory context.
 */
typedef struct TsSlot
{
	MinimalTupleTableSlot base;
	TsVersion  *version;		/* identity only: may have been freed */
	TsVersion  *header;			/* its header, or header_copy; NULL if none */
	union
	{
		TsVersion	version;
		char		space[TS_VERSION_HEADER];
	}			header_copy;
} TsSlot;

extern TupleTableSlotOps ts_slot_ops;

#define ts_is_slot(slot)	((slot)->tts_ops == &ts_slot_ops)

extern void ts_slot_init_ops(void);
extern void ts_slot_store_copy(TupleTableSlot *slot, TsVersion *version,
							   ItemPointer tid, Relation rel);
extern void ts_slot_set_version(TupleTableSlot *slot, TsVersion *version);
extern void ts_slot_set_deleted(TupleTableSlot *slot);

static inline void
ts_slot_point(TsSlot *slot, MinimalTuple tuple)
{
	MinimalTupleTableSlot *m = &slot->base;

	m->mintuple = tuple;
	/* minhdr.t_len is used by nobody; to set it would be to touch the tuple */
	m->minhdr.t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);
	m->off = 0;
	m->base.tts_nvalid = 0;
}

/*
 * Show a version where it lies.  Something else must keep it there: the
 * snapshot that sees it, a lock on the row, or its being this transaction's.
 */
static inline void
ts_slot_store(TupleTableSlot *slot, TsVersion *version, ItemPointer tid, Relation rel)
{
	TsSlot	   *tslot = (TsSlot *) slot;

	Assert(ts_is_slot(slot));
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	ts_slot_point(tslot, ts_version_tuple(version));
	tslot->header = tslot->version = version;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_tid = *tid;
	slot->tts_tableOid = RelationGetRelid(rel);
}

/* ---- alias.c ---- */

#define TS_ALIAS_FIRST_BLOCK	((BlockNumber) 0x80000000)
#define ts_is_alias(tid)	\
	(ItemPointerGetBlockNumberNoCheck(tid) >= TS_ALIAS_FIRST_BLOCK)

extern bool ts_alias_everywhere;

#define ts_aliasing(rel)	(ts_alias_everywhere || ts_relation(rel)->aliasing)

extern void ts_alias_request(void);
extern void ts_alias_startup(void);
extern void ts_alias_of_version(TsRowRef ref, TsVersion *version, ItemPointer tid);
extern bool ts_alias_resolve(ItemPointer tid, TsRowRef *ref, TsVersion **version);

/* The TID under which a version is shown. */
static inline void
ts_shown_tid(Relation rel, TsRowRef ref, TsVersion *version, ItemPointer tid)
{
	ts_ref_tid(ref, tid);
	if (unlikely(ts_my_live_word != 0) &&
		ts_is_mine(ts_version_creator(version)) &&
		(version->flags & TS_V_INSERTED) == 0 && ts_aliasing(rel))
		ts_alias_of_version(ref, version, tid);
}

/* As ts_slot_store or ts_slot_store_copy, under the TID to be shown. */
static inline void
ts_slot_store_row(TupleTableSlot *slot, TsVersion *version, TsRowRef ref,
				  Relation rel, bool copy)
{
	ItemPointerData tid;

	ts_shown_tid(rel, ref, version, &tid);
	if (copy)
		ts_slot_store_copy(slot, version, &tid, rel);
	else
		ts_slot_store(slot, version, &tid, rel);
}

/* The row a TID names, real or alias; *version is set for an alias only. */
static inline bool
ts_resolve_tid(Relation rel, ItemPointer tid, TsRowRef *ref, TsVersion **version)
{
	*version = NULL;
	if (unlikely(ts_is_alias(tid)))
		return ts_alias_resolve(tid, ref, version);
	return ts_table_row(ts_relation_table(rel), tid, ref);
}

/* ---- change.c: checks shared by update, delete and lock ---- */

typedef struct TsChange
{
	Relation	rel;
	TsTable    *table;
	TsRowRef	ref;
	ItemPointerData tid;		/* real TID of the row */
	TsReadView	view;
	bool		newest;			/* whatever is newest, not what the view sees */
	TsVersion  *pinned;			/* this version, named by an alias, or NULL */
	Snapshot	crosscheck;
	CommandId	cid;
	LockWaitPolicy policy;
	XLTW_Oper	oper;
	LockTupleMode mode;
	bool		queued;			/* holds the heavyweight tuple lock */
} TsChange;

extern void ts_change_init(TsChange *change, Relation rel, TsRowRef ref,
						   TsVersion *pinned, Snapshot snapshot, CommandId cid, LockTupleMode mode,
						   XLTW_Oper oper);
extern TM_Result ts_change_begin(TsChange *change, TsVersion **head, TM_FailureData *tmfd);
extern bool ts_change_wait(TsChange *change, uint64 live_word, uint16 tag);
extern void ts_change_end(TsChange *change);
extern TM_Result ts_change_self(TsChange *change, TsVersion *head, TM_FailureData *tmfd);
extern TM_Result ts_change_superseded(TsChange *change, TsVersion *head, TM_FailureData *tmfd);

/* ---- callbacks, by file ---- */

extern const TableAmRoutine *ts_table_am_routine(void);

/* scan.c */
extern TableScanDesc ts_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
								   ScanKeyData *key, ParallelTableScanDesc pscan,
								   uint32 flags);
extern void ts_scan_end(TableScanDesc scan);
extern void ts_scan_rescan(TableScanDesc scan, ScanKeyData *key, bool set_params,
						   bool allow_strat, bool allow_sync, bool allow_pagemode);
extern bool ts_scan_getnextslot(TableScanDesc scan, ScanDirection direction,
								TupleTableSlot *slot);
extern void ts_scan_set_tidrange(TableScanDesc scan, ItemPointer mintid, ItemPointer maxtid);
extern bool ts_scan_getnextslot_tidrange(TableScanDesc scan, ScanDirection direction,
										 TupleTableSlot *slot);
extern TsBlock *ts_scan_next_block(TableScanDesc scan);
extern void ts_scan_set_blocks(TableScanDesc scan, BlockNumber first, BlockNumber count);
extern const TsReadView *ts_scan_view(TableScanDesc scan);
extern Size ts_parallelscan_estimate(Relation rel);
extern Size ts_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan);
extern void ts_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan);
extern bool ts_scan_bitmap_next_block(TableScanDesc scan, struct TBMIterateResult *tbmres);
extern bool ts_scan_bitmap_next_tuple(TableScanDesc scan, struct TBMIterateResult *tbmres,
									  TupleTableSlot *slot);
extern bool ts_scan_sample_next_block(TableScanDesc scan, struct SampleScanState *state);
extern bool ts_scan_sample_next_tuple(TableScanDesc scan, struct SampleScanState *state,
									  TupleTableSlot *slot);
extern bool ts_scan_analyze_next_block(TableScanDesc scan, BlockNumber blockno,
									   BufferAccessStrategy bstrategy);
extern bool ts_scan_analyze_next_tuple(TableScanDesc scan, TransactionId OldestXmin,
									   double *liverows, double *deadrows,
									   TupleTableSlot *slot);

/* fetch.c */
extern struct IndexFetchTableData *ts_index_fetch_begin(Relation rel);
extern void ts_index_fetch_reset(struct IndexFetchTableData *scan);
extern void ts_index_fetch_end(struct IndexFetchTableData *scan);
extern bool ts_index_fetch_tuple(struct IndexFetchTableData *scan, ItemPointer tid,
								 Snapshot snapshot, TupleTableSlot *slot,
								 bool *call_again, bool *all_dead);
extern bool ts_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
									   TupleTableSlot *slot);
extern bool ts_tuple_tid_valid(TableScanDesc scan, ItemPointer tid);
extern void ts_tuple_get_latest_tid(TableScanDesc scan, ItemPointer tid);
extern bool ts_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot);
extern TransactionId ts_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate);
extern bool ts_was_fetched_dirty(TsRowRef ref);
extern TsRow *ts_last_dirty_row;

static inline void
ts_forget_fetched_dirty(void)
{
	ts_last_dirty_row = NULL;
}


/* modify.c */
extern void ts_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
							int options, struct BulkInsertStateData *bistate);
extern void ts_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
										int options, struct BulkInsertStateData *bistate,
										uint32 specToken);
extern void ts_tuple_complete_speculative(Relation rel, TupleTableSlot *slot,
										  uint32 specToken, bool succeeded);
extern void ts_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
							int options, struct BulkInsertStateData *bistate);
extern TM_Result ts_tuple_delete(Relation rel, ItemPointer tid, CommandId cid,
								 Snapshot snapshot, Snapshot crosscheck, bool wait,
								 TM_FailureData *tmfd, bool changingPart);
extern TM_Result ts_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot,
								 CommandId cid, Snapshot snapshot, Snapshot crosscheck,
								 bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
								 bool *update_indexes);
extern TsVersion *ts_form_version(TupleDesc desc, TupleTableSlot *slot);

/* prefetch.c */
struct PlanState;
extern void ts_stop_prefetch_in_plan(struct PlanState *state);
extern void ts_stop_prefetch_in_analyze(void);
extern void ts_resume_prefetch(void);

/* lock.c */
extern TM_Result ts_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
							   TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
							   LockWaitPolicy wait_policy, uint8 flags, TM_FailureData *tmfd);

/* build.c */
extern double ts_index_build_range_scan(Relation rel, Relation index_rel,
										struct IndexInfo *index_info, bool allow_sync,
										bool anyvisible, bool progress,
										BlockNumber start_blockno, BlockNumber numblocks,
										IndexBuildCallback callback, void *callback_state,
										TableScanDesc scan);
extern void ts_index_validate_scan(Relation rel, Relation index_rel,
								   struct IndexInfo *index_info, Snapshot snapshot,
								   struct ValidateIndexState *state);

/* maintain.c */
extern void ts_relation_set_new_filenode(Relation rel, const RelFileNode *newrnode,
										 char persistence, TransactionId *freezeXid,
										 MultiXactId *minmulti);
extern void ts_relation_nontransactional_truncate(Relation rel);
extern void ts_relation_copy_data(Relation rel, const RelFileNode *newrnode);
extern void ts_relation_copy_for_cluster(Relation old_table, Relation new_table,
										 Relation old_index, bool use_sort,
										 TransactionId OldestXmin, TransactionId *xid_cutoff,
										 MultiXactId *multi_cutoff, double *num_tuples,
										 double *tups_vacuumed, double *tups_recently_dead);
extern void ts_relation_vacuum(Relation rel, struct VacuumParams *params,
							   BufferAccessStrategy bstrategy);
extern uint64 ts_relation_size(Relation rel, ForkNumber fork);
extern void ts_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
									  double *tuples, double *allvisfrac);

#endif							/* TS_ACCESS_H */
