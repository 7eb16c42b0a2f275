/*-------------------------------------------------------------------------
 *
 * copy.c
 *	  Copying whole tables: SET TABLESPACE, CLUSTER and VACUUM FULL, and the
 *	  tables of a database that is the template of a new one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "access/access.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "storage/load.h"
#include "storage/log.h"
#include "transaction/txn.h"

/*
 * Copy a version; NULL if there is no memory.  Given a descriptor, columns added
 * since it was written get their values now: core forgets the defaults for them
 * when a table is rewritten.
 */
static TsVersion *
copy_version(TupleDesc desc, TsVersion *source)
{
	Size		size = ts_version_size(source);
	MinimalTuple expanded = NULL;
	TsVersion  *copy;

	if (desc != NULL && (source->flags & TS_V_DELETED) == 0 &&
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
	{
		ts_table_add_rows(target.block->table, 1);
		ts_block_changed(target.block);
		ts_log_copied_row(target, committed);
	}
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
	pg_atomic_write_u32(&target->indexes, TS_INDEXES_MOVED);
	ts_log_indexed(target);
	ts_log_copied_begin();
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
		ts_block_changed(to);
		ts_table_rows_freed(to, 0);
	}
	ts_log_copied_flush();
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

	ts_log_copied_begin();
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
	ts_log_copied_flush();
	*xid_cutoff = InvalidTransactionId;
	*multi_cutoff = InvalidMultiXactId;
	*num_tuples = r.copied;
	*tups_vacuumed = r.dropped;
	*tups_recently_dead = 0;
}

/* ---- CREATE DATABASE ---- */

/*
 * Copy the newest committed version of a row; NULL if it has none.  Nobody
 * changes the row, but garbage collection goes on.  Raises 53200.
 */
static TsVersion *
copy_committed(TsRow *row)
{
	TsVersion  *v;
	TsVersion  *copy = NULL;

	ts_epoch_enter();
	v = ts_row_head(row);
	while (v != NULL && ts_creator_is_live(ts_version_creator(v)))
		v = ts_version_prev(v);
	if (v != NULL && (v->flags & TS_V_DELETED))
		v = NULL;
	if (v != NULL)
		copy = copy_version(NULL, v);
	ts_epoch_leave();
	if (v != NULL && copy == NULL)
		ts_arena_out_of_memory(0);
	return copy;
}

/* Copy the committed rows of a block, and which of its TIDs are dead. */
static void
copy_committed_block(TsBlock *from, TsBlock *to)
{
	uint32		used = 0;

	for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
	{
		TsRowRef	target = {to, i};
		TsVersion  *copy;

		if ((pg_atomic_read_u64(&from->rows[i]) & ~TS_ROW_BITS) == TS_ROW_FREE)
			continue;
		used++;
		copy = copy_committed(&from->rows[i]);
		if (copy == NULL)
		{
			/* core has copied the index entries that lead here */
			pg_atomic_write_u64(&to->rows[i], TS_ROW_DEAD);
			continue;
		}
		copy->flags |= TS_V_INSERTED;
		pg_atomic_write_u64(&to->rows[i], (uint64) (uintptr_t) copy);
		ts_block_changed(to);
		ts_table_add_rows(to->table, 1);
		ts_log_copied_row(target, copy);
	}
	pg_atomic_write_u32(&to->nfree, TS_ROWS_PER_BLOCK - used);
	pg_atomic_write_u32(&to->limit, TS_ROWS_PER_BLOCK);
	ts_block_changed(to);
	ts_table_rows_freed(to, 0);
}

static void
copy_to_database(TsTable *source, Oid database)
{
	RelFileNode rnode = {source->rnode.spcNode, database, source->rnode.relNode};
	TsTable    *target;

	ts_load_wait(source, "of the template database");
	target = ts_table_create(rnode, InvalidBackendId, source->persistence);
	pg_atomic_write_u32(&target->indexed, pg_atomic_read_u32(&source->indexed));
	if (source->persistence == RELPERSISTENCE_PERMANENT)
	{
		target->creator_xid = GetTopTransactionId();
		ts_log_create(rnode, target->creator_xid);
		ts_log_indexed(target);
	}
	ts_log_copied_begin();
	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < ts_table_nblocks(source); blkno++)
	{
		CHECK_FOR_INTERRUPTS();
		copy_committed_block(ts_table_block(source, blkno), ts_table_append_block(target));
	}
	ts_log_copied_flush();
}

/*
 * CREATE DATABASE has copied the files of a template database, in which nobody
 * is: do the same with its tables.  Recovery drops them if the transaction does
 * not commit.  Raises errors; the caller drops what there is then.
 */
void
ts_copy_database(Oid template, Oid database)
{
	int			n;
	TsTableRef *refs;

	ts_load_check();
	refs = ts_table_list(&n);
	for (int i = 0; i < n; i++)
	{
		if (refs[i].rnode.dbNode != template)
			continue;
		ts_txn_begin_write(true);
		copy_to_database(refs[i].table, database);
	}
	pfree(refs);
}
