/*-------------------------------------------------------------------------
 *
 * maintain.c
 *	  Relation files, TRUNCATE, VACUUM, size and estimates.
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
#include "storage/log.h"
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

/* The table in memory, and in the WAL, in this order: see ts_log_create(). */
static void
create_table(const RelFileNode *rnode, char persistence)
{
	TsTable    *table;

	if (persistence == RELPERSISTENCE_PERMANENT)
		ts_txn_begin_write(true);
	table = ts_table_create(*rnode,
							persistence == RELPERSISTENCE_TEMP ? BackendIdForTempRelations() : InvalidBackendId,
							persistence);
	/* indexes of other kinds make themselves known when they are built */
	pg_atomic_write_u32(&table->indexes, TS_INDEXES_MEMORY);
	if (persistence == RELPERSISTENCE_PERMANENT)
	{
		table->creator_xid = GetTopTransactionId();
		ts_log_create(*rnode, table->creator_xid);
	}
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
	create_table(newrnode, persistence);
}

/* The table was made in this very (sub)transaction: nobody else has seen it. */
void
ts_relation_nontransactional_truncate(Relation rel)
{
	TsTable    *table = ts_relation_table(rel);

	if (table->persistence == RELPERSISTENCE_PERMANENT)
		ts_txn_begin_write(true);
	ts_txn_forget_table(table);
	ts_table_empty(table);
	/* an image past the record must show it, so it comes last */
	if (table->persistence == RELPERSISTENCE_PERMANENT)
	{
		ts_log_empty(table->rnode, table->creator_xid);
		ts_log_indexed(table);
	}
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
			 ((word == TS_ROW_DEAD || word == TS_ROW_SWEEP) &&
			  pg_atomic_compare_exchange_u64(row, &word, note)))
		v->noted++;
}

/* Prune all rows, and note the dead TIDs in their row words. */
static void
vacuum_note_dead(Vacuum *v)
{
	BlockNumber nblocks = ts_table_nblocks(v->table);
	const TsHorizon *horizon = ts_horizon(true);

	pg_atomic_write_u32(&v->table->ndead, 0);
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
		ts_block_changed(block);
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
				(errmsg("skipping vacuum of \"%s\" --- its rows are missing",
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
	ts_note_indexes(rel, v.table);
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
