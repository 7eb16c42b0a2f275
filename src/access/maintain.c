/*-------------------------------------------------------------------------
 *
 * maintain.c
 *	  Relation files, TRUNCATE, rewrites, VACUUM, size and estimates.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "commands/dbcommands.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/smgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "access/access.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/txn.h"

/* what a row of heap takes besides its data, and what a page of it holds */
#define HEAP_ROW_OVERHEAD	(MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData))
#define HEAP_PAGE_BYTES		(BLCKSZ - SizeOfPageHeaderData)
#define NEVER_VACUUMED_PAGES 10

/*
 * Temporary tables this session has made.  Core does not tell when their files
 * go, so we look now and then: when another one is made, and at the end.
 */
static RelFileNode *temp_nodes = NULL;
static int	ntemp_nodes = 0;
static int	max_temp_nodes = 0;

static void
drop_all_temp(int code, Datum arg)
{
	for (int i = 0; i < ntemp_nodes; i++)
		ts_table_drop(temp_nodes[i], BackendIdForTempRelations());
	ntemp_nodes = 0;
}

static void
drop_stale_temp(void)
{
	int			kept = 0;

	for (int i = 0; i < ntemp_nodes; i++)
	{
		SMgrRelation file = smgropen(temp_nodes[i], BackendIdForTempRelations());

		if (smgrexists(file, MAIN_FORKNUM))
			temp_nodes[kept++] = temp_nodes[i];
		else
		{
			smgrclose(file);
			ts_table_drop(temp_nodes[i], BackendIdForTempRelations());
		}
	}
	ntemp_nodes = kept;
}

static void
note_temp(const RelFileNode *node)
{
	if (temp_nodes == NULL)
	{
		max_temp_nodes = 16;
		temp_nodes = MemoryContextAlloc(TopMemoryContext, max_temp_nodes * sizeof(RelFileNode));
		on_shmem_exit(drop_all_temp, 0);
	}
	drop_stale_temp();
	if (ntemp_nodes == max_temp_nodes)
	{
		max_temp_nodes *= 2;
		temp_nodes = repalloc(temp_nodes, max_temp_nodes * sizeof(RelFileNode));
	}
	temp_nodes[ntemp_nodes++] = *node;
}

/*
 * A new relation file: always an empty main fork, which makes core's code that
 * opens it work, and a table in memory.  Nothing of ours is in the xid space,
 * so there is nothing to freeze.
 */
void
ts_relation_set_new_filenode(Relation rel, const RelFileNode *newrnode, char persistence,
							 TransactionId *freezeXid, MultiXactId *minmulti)
{
	SMgrRelation srel;

	*freezeXid = InvalidTransactionId;
	*minmulti = InvalidMultiXactId;
	srel = RelationCreateStorage(*newrnode, persistence, true);
	if (persistence == RELPERSISTENCE_UNLOGGED)
	{
		smgrcreate(srel, INIT_FORKNUM, false);
		log_smgrcreate(newrnode, INIT_FORKNUM);
		smgrimmedsync(srel, INIT_FORKNUM);
	}
	smgrclose(srel);
	ts_txn_attach();
	if (persistence == RELPERSISTENCE_TEMP)
		note_temp(newrnode);
	(void) ts_table_create(*newrnode,
						   persistence == RELPERSISTENCE_TEMP ? BackendIdForTempRelations() : InvalidBackendId);
}

/* The table was made in this very (sub)transaction: nobody else has seen it. */
void
ts_relation_nontransactional_truncate(Relation rel)
{
	TsTable    *table = ts_relation_table(rel);

	ts_txn_forget_table(table);
	ts_table_empty(table);
}

/*
 * Copy a version; NULL if there is no memory.  Columns added since it was
 * written get their values now: core forgets the defaults for them when a table
 * is rewritten.
 */
static TsVersion *
copy_version(TupleDesc desc, TsVersion *source)
{
	Size		size = ts_version_size(source);
	MinimalTuple expanded = NULL;
	TsVersion  *copy;

	if ((source->flags & TS_V_DELETED) == 0 &&
		HeapTupleHeaderGetNatts(ts_version_tuple(source)) < desc->natts)
	{
		HeapTupleData tuple;

		ts_version_as_heap_tuple(source, &tuple);
		expanded = minimal_expand_tuple(&tuple, desc);
		size = TS_VERSION_HEADER + expanded->t_len;
	}
	copy = ts_alloc(size, TS_ALLOC_NORMAL);
	if (copy != NULL)
	{
		memcpy(copy, source, expanded != NULL ? TS_VERSION_HEADER : size);
		if (expanded != NULL)
			memcpy(copy->body, expanded, expanded->t_len);
		pg_atomic_write_u64(&copy->prev, 0);
	}
	if (expanded != NULL)
		pfree(expanded);
	return copy;
}

/*
 * Copy a version chain, in an epoch section: the table is locked, but garbage
 * collection goes on.  False if there is no memory; *head then has part of it.
 */
static bool
copy_chain(TupleDesc desc, TsVersion *source, TsVersion **head)
{
	TsVersion  *last = NULL;

	*head = NULL;
	for (; source != NULL; source = ts_version_prev(source))
	{
		TsVersion  *copy = copy_version(desc, source);

		if (copy == NULL)
			return false;
		if (last == NULL)
			*head = copy;
		else
			pg_atomic_write_u64(&last->prev, (uint64) (uintptr_t) copy);
		last = copy;
	}
	return true;
}

static void
free_chain(TsVersion *version)
{
	while (version != NULL)
	{
		TsVersion  *prev = ts_version_prev(version);

		ts_free(version, ts_version_size(version));
		version = prev;
	}
}

/*
 * The copies of this transaction's own versions join the write set, oldest
 * first, so that commit stamps them and abort undoes them.
 */
static void
adopt_own_versions(TsRowRef ref, TsVersion *version)
{
	if (version == NULL || !ts_is_mine(ts_version_creator(version)))
		return;
	adopt_own_versions(ref, ts_version_prev(version));
	ts_txn_add_write(ref, version, false);
}

static int
count_own_versions(TsVersion *version)
{
	int			n = 0;

	for (; version != NULL && ts_is_mine(ts_version_creator(version));
		 version = ts_version_prev(version))
		n++;
	return n;
}

/*
 * Copy a row.  With new_tids, where rows get other TIDs than they had, nothing
 * is left that leads from a moved row to where it went.  Raises 53200.
 */
static void
copy_row(TupleDesc desc, TsRow *row, TsRowRef target, bool new_tids)
{
	TsVersion  *head;
	TsVersion  *committed;

	for (int attempt = 0;; attempt++)
	{
		bool		done;

		ts_epoch_enter();
		done = copy_chain(desc, ts_row_head(row), &head);
		ts_epoch_leave();
		if (done)
			break;
		free_chain(head);
		if (attempt > 0 || ts_garbage_under_pressure() == TS_PRESSURE_NOTHING)
			ts_arena_out_of_memory(0);
	}
	if (head == NULL)
		return;
	if (new_tids && (head->flags & TS_V_MOVED))
		ItemPointerSetInvalid(&ts_version_moved(head)->successor);
	ts_txn_reserve_writes(count_own_versions(head));
	pg_atomic_write_u64(ts_ref_row(target), (uint64) (uintptr_t) head);
	adopt_own_versions(target, head);
	committed = head;
	while (committed != NULL && ts_is_mine(ts_version_creator(committed)))
		committed = ts_version_prev(committed);
	if (committed != NULL && (committed->flags & TS_V_DELETED) == 0)
		ts_table_add_rows(target.block->table, 1);
}

/* Wait until whoever has committed changes to the table has stamped them. */
static void
settle_row(Relation rel, TsRowRef ref)
{
	for (;;)
	{
		TsVersion  *head;
		ItemPointerData tid;
		uint64		word;
		uint16		tag;

		ts_epoch_enter();
		head = ts_row_head(ts_ref_row(ref));
		if (head == NULL || ts_version_status(head) != TS_CREATOR_RUNNING)
		{
			ts_epoch_leave();
			return;
		}
		word = ts_version_creator(head);
		tag = head->aux;
		ts_epoch_leave();
		ts_ref_tid(ref, &tid);
		if (ts_creator_is_live(word))
			(void) ts_txn_wait(word, tag, LockWaitBlock, rel, &tid, XLTW_None);
	}
}

/* SET TABLESPACE: a new relation file with the same rows under the same TIDs. */
void
ts_relation_copy_data(Relation rel, const RelFileNode *newrnode)
{
	TsTable    *source = ts_relation_table(rel);
	TsTable    *target;
	TransactionId freeze_xid;
	MultiXactId min_multi;
	BlockNumber nblocks = ts_table_nblocks(source);

	ts_relation_set_new_filenode(rel, newrnode, rel->rd_rel->relpersistence,
								 &freeze_xid, &min_multi);
	target = ts_table_find(*newrnode, rel->rd_backend);
	pg_atomic_write_u32(&target->indexed, pg_atomic_read_u32(&source->indexed));
	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < nblocks; blkno++)
	{
		TsBlock    *from = ts_table_block(source, blkno);
		TsBlock    *to = ts_table_append_block(target);
		uint32		used = 0;

		CHECK_FOR_INTERRUPTS();
		for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
		{
			TsRowRef	source_ref = {from, i};
			TsRowRef	target_ref = {to, i};
			uint64		word;

			settle_row(rel, source_ref);
			word = pg_atomic_read_u64(&from->rows[i]) & ~TS_ROW_BITS;
			if (word == TS_ROW_FREE)
				continue;
			used++;
			if (ts_row_word_version(word) == NULL)
				pg_atomic_write_u64(&to->rows[i], TS_ROW_DEAD);
			else
				copy_row(RelationGetDescr(rel), &from->rows[i], target_ref, false);
		}
		pg_atomic_write_u32(&to->nfree, TS_ROWS_PER_BLOCK - used);
		pg_atomic_write_u32(&to->limit, TS_ROWS_PER_BLOCK);
		ts_table_rows_freed(to, 0);
	}
	RelationDropStorage(rel);
}

/* State of CLUSTER or VACUUM FULL. */
typedef struct Rewrite
{
	Relation	old_table;
	TsTable    *target;
	const TsHorizon *horizon;
	double		copied;
	double		dropped;
} Rewrite;

static void
rewrite_row(Rewrite *r, TsRowRef ref)
{
	TsVersion  *head;
	TsRowRef	target;
	bool		deleted;
	bool		dead;

	settle_row(r->old_table, ref);
	ts_epoch_enter();
	head = ts_row_head(ts_ref_row(ref));
	deleted = head == NULL || (head->flags & TS_V_DELETED);
	dead = head == NULL || ts_row_is_dead(ref, r->horizon);
	ts_epoch_leave();
	if (dead)
	{
		r->dropped += head != NULL;
		return;
	}
	ts_txn_begin_write(false);
	if (!ts_table_reserve_row(r->target, &target))
		ts_arena_out_of_memory(sizeof(TsBlock));
	copy_row(RelationGetDescr(r->old_table), ts_ref_row(ref), target, true);
	if (!deleted)
		r->copied += 1;
}

static void
rewrite_by_index(Rewrite *r, Relation index)
{
	IndexScanDesc scan = index_beginscan(r->old_table, index, SnapshotAny, 0, 0);
	ItemPointer tid;

	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		TsRowRef	ref;

		CHECK_FOR_INTERRUPTS();
		if (scan->xs_recheck)
			elog(ERROR, "CLUSTER does not support lossy index conditions");
		if (ts_table_row(ts_relation_table(r->old_table), tid, &ref))
			rewrite_row(r, ref);
	}
	index_endscan(scan);
}

/*
 * CLUSTER and VACUUM FULL: whole chains are copied, so snapshots older than the
 * command see what they saw before.
 */
void
ts_relation_copy_for_cluster(Relation old_table, Relation new_table, Relation old_index,
							 bool use_sort, TransactionId OldestXmin,
							 TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
							 double *num_tuples, double *tups_vacuumed,
							 double *tups_recently_dead)
{
	Rewrite		r = {.old_table = old_table,.target = ts_relation_table(new_table),
	.horizon = ts_horizon(true)};

	if (old_index != NULL)
		rewrite_by_index(&r, old_index);
	else
	{
		TsTable    *source = ts_relation_table(old_table);
		BlockNumber nblocks = ts_table_nblocks(source);

		for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < nblocks; blkno++)
		{
			CHECK_FOR_INTERRUPTS();
			for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
			{
				TsRowRef	ref = {ts_table_block(source, blkno), i};

				rewrite_row(&r, ref);
			}
		}
	}
	*xid_cutoff = InvalidTransactionId;
	*multi_cutoff = InvalidMultiXactId;
	*num_tuples = r.copied;
	*tups_vacuumed = r.dropped;
	*tups_recently_dead = 0;
}

/* ---- VACUUM ---- */

typedef struct Vacuum
{
	Relation	rel;
	TsTable    *table;
	int			nindexes;
	Relation   *indexes;
	IndexBulkDeleteResult **results;
	int64		live;
	int64		noted;			/* dead TIDs in state TS_ROW_VACUUM */
	int64		remaining;		/* garbage that old snapshots need */
} Vacuum;

static void
vacuum_row(Vacuum *v, TsRowRef ref, const TsHorizon *horizon, uint64 note)
{
	TsRow	   *row = ts_ref_row(ref);
	uint64		word;
	TsVersion  *head;

	if (ts_row_prune(ref, horizon))
		v->remaining++;
	word = pg_atomic_read_u64(row);
	head = ts_row_word_version(word);
	if (head != NULL)
	{
		if ((head->flags & TS_V_DELETED) == 0)
			v->live++;
	}
	else if (word == TS_ROW_VACUUM ||
			 (word == TS_ROW_DEAD && pg_atomic_compare_exchange_u64(row, &word, note)))
		v->noted++;
}

/* Prune all rows, and note the dead TIDs in their row words. */
static void
vacuum_note_dead(Vacuum *v)
{
	BlockNumber nblocks = ts_table_nblocks(v->table);
	const TsHorizon *horizon = ts_horizon(true);

	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < nblocks; blkno++)
	{
		TsBlock    *block = ts_table_block(v->table, blkno);

		vacuum_delay_point();
		ts_epoch_enter();
		for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
		{
			TsRowRef	ref = {block, i};

			vacuum_row(v, ref, horizon, TS_ROW_VACUUM);
		}
		ts_epoch_leave();
		pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, blkno);
	}
}

/* No index leads to the noted TIDs any more. */
static void
vacuum_free_noted(Vacuum *v)
{
	BlockNumber nblocks = ts_table_nblocks(v->table);

	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < nblocks; blkno++)
	{
		TsBlock    *block = ts_table_block(v->table, blkno);
		uint32		freed = 0;

		CHECK_FOR_INTERRUPTS();
		for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
		{
			uint64		word = TS_ROW_VACUUM;

			if (pg_atomic_compare_exchange_u64(&block->rows[i], &word, TS_ROW_FREE))
				freed++;
		}
		if (freed == 0)
			continue;
		ts_table_rows_freed(block, freed);
	}
}

static bool
tid_is_noted(ItemPointer tid, void *state)
{
	TsRowRef	ref;

	return ts_table_row((TsTable *) state, tid, &ref) &&
		(pg_atomic_read_u64(ts_ref_row(ref)) & ~TS_ROW_BITS) == TS_ROW_VACUUM;
}

static void
vacuum_index_info(Vacuum *v, int i, IndexVacuumInfo *info, BufferAccessStrategy strategy)
{
	info->index = v->indexes[i];
	info->analyze_only = false;
	info->report_progress = false;
	info->estimated_count = true;
	info->message_level = DEBUG2;
	info->num_heap_tuples = (double) v->live;
	info->strategy = strategy;
}

static void
vacuum_indexes(Vacuum *v, BufferAccessStrategy strategy)
{
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
	for (int i = 0; i < v->nindexes && v->noted > 0; i++)
	{
		IndexVacuumInfo info;

		vacuum_index_info(v, i, &info, strategy);
		v->results[i] = index_bulk_delete(&info, v->results[i], tid_is_noted, v->table);
	}
	vacuum_free_noted(v);
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
	for (int i = 0; i < v->nindexes; i++)
	{
		IndexVacuumInfo info;

		vacuum_index_info(v, i, &info, strategy);
		v->results[i] = index_vacuum_cleanup(&info, v->results[i]);
		if (v->results[i] != NULL && !v->results[i]->estimated_count)
			vac_update_relstats(v->indexes[i], v->results[i]->num_pages,
								v->results[i]->num_index_tuples, 0, false,
								InvalidTransactionId, InvalidMultiXactId, NULL, NULL, false);
	}
}

void
ts_relation_vacuum(Relation rel, VacuumParams *params, BufferAccessStrategy bstrategy)
{
	Vacuum		v = {.rel = rel};
	int			elevel = (params->options & VACOPT_VERBOSE) ? INFO : DEBUG2;
	BlockNumber nblocks;

	if (ts_relation_is_lost(rel))
	{
		/* not a reason to leave the database's other tables alone */
		ereport(WARNING,
				(errmsg("skipping vacuum of \"%s\" --- its rows are not in memory",
						RelationGetRelationName(rel))));
		return;
	}
	v.table = ts_relation_table(rel);
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	ereport(elevel,
			(errmsg("vacuuming \"%s.%s.%s\"", get_database_name(MyDatabaseId),
					get_namespace_name(RelationGetNamespace(rel)),
					RelationGetRelationName(rel))));
	vac_open_indexes(rel, RowExclusiveLock, &v.nindexes, &v.indexes);
	v.results = palloc0(sizeof(IndexBulkDeleteResult *) * Max(v.nindexes, 1));

	/* no index, and none can be made while we hold our lock */
	if (v.nindexes == 0)
		pg_atomic_write_u32(&v.table->indexed, 0);
	vacuum_note_dead(&v);
	if (params->index_cleanup != VACOPTVALUE_DISABLED)
		vacuum_indexes(&v, bstrategy);
	vac_close_indexes(v.nindexes, v.indexes, NoLock);

	nblocks = ts_table_nblocks(v.table);
	pg_atomic_write_u64(&v.table->rows_at_vacuum, v.live);
	vac_update_relstats(rel, nblocks, (double) v.live, nblocks, v.nindexes > 0,
						InvalidTransactionId, InvalidMultiXactId, NULL, NULL, false);
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared,
						 (PgStat_Counter) v.live, (PgStat_Counter) v.remaining);
	ereport(elevel,
			(errmsg("finished vacuuming \"%s\": %lld rows, %lld row identifiers freed, %lld rows with versions old snapshots need",
					RelationGetRelationName(rel), (long long) v.live,
					(long long) v.noted, (long long) v.remaining)));
	pgstat_progress_end_command();
}

/* ---- sizes ---- */

/* Blocks times BLCKSZ: core counts in blocks of that size. */
uint64
ts_relation_size(Relation rel, ForkNumber fork)
{
	if (fork != MAIN_FORKNUM && fork != InvalidForkNumber)
		return 0;
	return (uint64) ts_table_nblocks(ts_relation_table(rel)) * BLCKSZ;
}

/*
 * Planner estimates: the pages heap would need for as many rows, so that costs
 * and plans come out as with heap.
 */
void
ts_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
						  double *tuples, double *allvisfrac)
{
	TsTable    *table = ts_relation_table(rel);
	double		rows = ts_table_live_rows(table);
	double		vacuumed = (double) pg_atomic_read_u64(&table->rows_at_vacuum);
	int32		width = get_rel_data_width(rel, attr_widths);
	double		density = floor(HEAP_PAGE_BYTES / (double) (MAXALIGN(width) + HEAP_ROW_OVERHEAD));

	density = Max(density, 1);
	*pages = (BlockNumber) ceil(rows / density);
	*tuples = rows;

	/*
	 * As for heap: a table never vacuumed may grow after the plan is made.
	 * Its estimate of rows is of full pages, and disregards alignment.
	 */
	if (rel->rd_rel->reltuples < 0 && *pages < NEVER_VACUUMED_PAGES)
	{
		if (!rel->rd_rel->relhassubclass)
			*pages = NEVER_VACUUMED_PAGES;
		*tuples = (double) *pages * (HEAP_PAGE_BYTES / (width + HEAP_ROW_OVERHEAD));
	}
	*allvisfrac = rows > 0 ? Min(1.0, vacuumed / rows) : 0;
}
