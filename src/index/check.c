/*-------------------------------------------------------------------------
 *
 * check.c
 *	  tsengine.check_index(): is an index in order?
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "compat.h"
#include "index/index.h"
#include "memory/epoch.h"
#include "storage/table.h"
#include "transaction/visibility.h"

TS_FUNCTION_INFO_V1(tsengine_check_index);

typedef struct Check
{
	FunctionCallInfo fcinfo;
	Relation	table;
	Relation	index;
	TsTable    *rows;
	TsTree		tree;
	HTAB	   *tids;			/* of all entries */
	int64		nproblems;
	MemoryContext row_context;
} Check;

typedef struct SeenTid
{
	uint64		tid;			/* hash key */
	bool		in_table;
} SeenTid;

#define MAX_PROBLEMS 100

static void problem(Check *check, const char *format,...) pg_attribute_printf(2, 3);

static void
problem(Check *check, const char *format,...)
{
	ReturnSetInfo *result = (ReturnSetInfo *) check->fcinfo->resultinfo;
	char		buffer[200];
	Datum		value;
	bool		isnull = false;
	va_list		args;

	if (check->nproblems++ >= MAX_PROBLEMS)
		return;
	va_start(args, format);
	vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	value = CStringGetTextDatum(buffer);
	tuplestore_putvalues(result->setResult, result->setDesc, &value, &isnull);
}

/* A leaf's entries and limits, copied. */
typedef struct LeafCopy
{
	int			n;
	TsEntry		entries[TS_NODE_WORDS / 2];
	TsLimit		low;
	TsLimit		high;
} LeafCopy;

static TsBlob *
copy_blob(const TsBlob *blob)
{
	if (blob == NULL)
		return NULL;
	return memcpy(palloc_extended(ts_blob_size(blob->len), MCXT_ALLOC_HUGE), blob,
				  ts_blob_size(blob->len));
}

static bool
copy_leaf(const TsTree *tree, const TsPosition *p, LeafCopy *copy)
{
	bool		valid;

	ts_epoch_enter();
	copy->n = ts_node_count(tree->index, p->leaf, 0);
	for (int i = 0; i < copy->n; i++)
		ts_node_entry(tree->index, p->leaf, 0, i, &copy->entries[i]);
	valid = ts_tree_limits(tree, p, &copy->low, &copy->high);
	if (valid)
	{
		for (int i = 0; i < copy->n; i++)
			copy->entries[i].blob = copy_blob(copy->entries[i].blob);
		if (copy->low.node != NULL)
			copy->low.entry.blob = copy_blob(copy->low.entry.blob);
		if (copy->high.node != NULL)
			copy->high.entry.blob = copy_blob(copy->high.entry.blob);
	}
	ts_epoch_leave();
	return valid;
}

static void
check_entry(Check *check, const TsEntry *entry)
{
	uint64		tid = entry->tail & TS_TAIL_TID;
	ItemPointerData pointer;
	TsRowRef	ref;
	SeenTid    *seen;
	bool		found;

	ts_tid_of_tail(tid, &pointer);
	seen = hash_search(check->tids, &tid, HASH_ENTER, &found);
	seen->in_table = false;
	if (found)
		problem(check, "two entries for row (%u,%u)", ItemPointerGetBlockNumberNoCheck(&pointer),
				ItemPointerGetOffsetNumberNoCheck(&pointer));
	if (!ts_table_row(check->rows, &pointer, &ref) ||
		(pg_atomic_read_u64(ts_ref_row(ref)) & ~TS_ROW_BITS) == TS_ROW_FREE)
		problem(check, "entry for row (%u,%u), which is free",
				ItemPointerGetBlockNumberNoCheck(&pointer),
				ItemPointerGetOffsetNumberNoCheck(&pointer));
}

/* The entries of a leaf: above what came before, and within the leaf's limits. */
static void
check_leaf(Check *check, const LeafCopy *copy, TsKey *previous, bool *any)
{
	const TsKeyInfo *info = check->tree.info;
	TsKey		limit;

	for (int i = 0; i < copy->n; i++)
	{
		const TsEntry *entry = &copy->entries[i];

		if (*any && ts_compare_copied(info, entry, previous) <= 0)
			problem(check, "entry %d of a leaf is not above the one before", i);
		ts_key_of_entry(info, entry, previous);
		*any = true;
		check_entry(check, entry);
	}
	if (copy->n > 0 && copy->low.node != NULL)
	{
		ts_key_of_entry(info, &copy->low.entry, &limit);
		if (ts_compare_copied(info, &copy->entries[0], &limit) < 0)
			problem(check, "first entry of a leaf is below its separator");
	}
	if (copy->n > 0 && copy->high.node != NULL)
	{
		ts_key_of_entry(info, &copy->high.entry, &limit);
		if (ts_compare_copied(info, &copy->entries[copy->n - 1], &limit) >= 0)
			problem(check, "last entry of a leaf is not below the next separator");
	}
}

/* All leaves in order; two contexts take turns, as a key is kept from the last. */
static void
check_order(Check *check)
{
	MemoryContext contexts[2];
	MemoryContext old = CurrentMemoryContext;
	LeafCopy   *copy = palloc(sizeof(LeafCopy));
	TsKey		next = {0};
	TsKey		previous = {0};
	bool		any = false;
	int64		entries = 0;
	TsPosition	p;

	for (int i = 0; i < 2; i++)
		contexts[i] = AllocSetContextCreate(old, "tsindex check", ALLOCSET_DEFAULT_SIZES);
	for (int turn = 0;; turn ^= 1)
	{
		MemoryContextReset(contexts[turn]);
		MemoryContextSwitchTo(contexts[turn]);
		do
		{
			CHECK_FOR_INTERRUPTS();
			ts_tree_find(&check->tree, &next, false, &p);
		} while (!copy_leaf(&check->tree, &p, copy));
		if (any && copy->n == 0)
		{
			/* what is kept of the last leaf must outlast this turn */
			TsEntry		entry = {previous.prefix, previous.tail, NULL};

			if (previous.bytes != NULL)
			{
				entry.blob = palloc_extended(ts_blob_size(previous.len), MCXT_ALLOC_HUGE);
				entry.blob->len = previous.len;
				memcpy(entry.blob->data, previous.bytes, previous.len);
			}
			ts_key_of_entry(check->tree.info, &entry, &previous);
		}
		check_leaf(check, copy, &previous, &any);
		entries += copy->n;
		if (copy->high.node == NULL)
			break;
		ts_key_of_entry(check->tree.info, &copy->high.entry, &next);
	}
	MemoryContextSwitchTo(old);
	if (entries != (int64) pg_atomic_read_u64(&check->tree.index->entries))
		problem(check, "%lld entries found, %lld counted", (long long) entries,
				(long long) pg_atomic_read_u64(&check->tree.index->entries));
}

/* A row that should be in the index. */
static void
check_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	Check	   *check = state;
	uint64		key_of_tid = ts_tail_of_tid(tid);
	SeenTid    *seen = hash_search(check->tids, &key_of_tid, HASH_FIND, NULL);
	MemoryContext old = MemoryContextSwitchTo(check->row_context);
	TsKey		key;

	ts_key_form(check->tree.info, values, isnull, tid, &key);
	if (seen == NULL)
		problem(check, "no entry for row (%u,%u)", ItemPointerGetBlockNumberNoCheck(tid),
				ItemPointerGetOffsetNumberNoCheck(tid));
	else if (!ts_index_has_entry(&check->tree, &key))
		problem(check, "entry for row (%u,%u) is not under its key",
				ItemPointerGetBlockNumberNoCheck(tid), ItemPointerGetOffsetNumberNoCheck(tid));
	if (seen != NULL)
		seen->in_table = true;
	MemoryContextSwitchTo(old);
	MemoryContextReset(check->row_context);
}

/* An entry that no row asked for is one of a dead row. */
static void
check_dead(Check *check)
{
	HASH_SEQ_STATUS seq;
	SeenTid    *seen;

	hash_seq_init(&seq, check->tids);
	while ((seen = hash_seq_search(&seq)) != NULL)
	{
		ItemPointerData tid;
		TsRowRef	ref;
		TsVersion  *head;

		ts_tid_of_tail(seen->tid, &tid);
		if (seen->in_table || !ts_table_row(check->rows, &tid, &ref))
			continue;
		ts_epoch_enter();
		head = ts_row_head(ts_ref_row(ref));
		if (head != NULL && (head->flags & TS_V_DELETED) == 0)
			problem(check, "entry for row (%u,%u), which does not belong into the index",
					ItemPointerGetBlockNumberNoCheck(&tid),
					ItemPointerGetOffsetNumberNoCheck(&tid));
		ts_epoch_leave();
	}
}

static void
check_index(Check *check)
{
	HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(SeenTid),
	.hcxt = CurrentMemoryContext};

	check->tree = ts_index_tree_copy(check->index);
	check->rows = ts_table_find(check->table->rd_node, check->table->rd_backend);
	check->tids = hash_create("tsindex entries", 1024, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	check->row_context = AllocSetContextCreate(CurrentMemoryContext, "tsindex check, row",
											   ALLOCSET_DEFAULT_SIZES);
	check_order(check);
	(void) check->table->rd_tableam->index_build_range_scan(check->table, check->index,
															BuildIndexInfo(check->index),
															false, true, false, 0,
															InvalidBlockNumber, check_row,
															check, NULL);
	check_dead(check);
}

/*
 * check_index(index regclass) returns setof text: a row for each thing that is
 * wrong, the first 100 of them.  Writers of the table wait for it.
 */
Datum
tsengine_check_index(PG_FUNCTION_ARGS)
{
	Oid			oid = PG_GETARG_OID(0);
	Oid			table = IndexGetRelation(oid, true);
	Check		check = {.fcinfo = fcinfo};

	if (!OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation with OID %u is not an index", oid)));
	check.table = table_open(table, ShareLock);
	if (!pg_class_ownercheck(table, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(check.table));
	check.index = index_open(oid, AccessShareLock);
	if (check.index->rd_rel->relam != ts_index_am_oid())
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("index \"%s\" is not of access method \"tsindex\"",
						RelationGetRelationName(check.index))));
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	check_index(&check);
	index_close(check.index, AccessShareLock);
	table_close(check.table, ShareLock);
	return (Datum) 0;
}
