/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Index scans.
 *
 * A scan reads a leaf's matching entries at once, as a batch of TIDs, and holds
 * nothing of the tree between calls: it goes on by searching for the separator
 * that ended the leaf.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/itup.h"
#include "access/relscan.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "index/index.h"
#include "index/scan.h"
#include "memory/epoch.h"

/* A leaf's entries being read. */
typedef struct LeafRead
{
	TsPosition	position;
	int			from;
	int			to;
	TsLimit		low;
	TsLimit		high;
	TsEntry		entries[TS_NODE_WORDS / 2];
} LeafRead;

static void
copy_blobs(LeafRead *r, int n)
{
	for (int i = 0; i < n; i++)
	{
		Size		size = ts_blob_size(r->entries[i].blob->len);

		r->entries[i].blob = memcpy(palloc_extended(size, MCXT_ALLOC_HUGE),
									r->entries[i].blob, size);
	}
}

/* Keep a matching entry's key for an index-only scan. */
static void
keep_key(const TsScan *scan, TsBatch *batch, const TsEntry *entry)
{
	TsEntry    *kept = &batch->entries[batch->n];

	*kept = *entry;
	if (entry->blob != NULL)
	{
		Size		size = ts_blob_size(entry->blob->len);

		kept->blob = memcpy(MemoryContextAllocHuge(batch->context, size), entry->blob, size);
	}
}

/* Put the TIDs of matching entries into the batch. */
static void
take_matching(const TsScan *scan, TsBatch *batch, const LeafRead *r)
{
	int			n = r->to - r->from;

	batch->n = 0;
	batch->entries = scan->want_keys && n > 0 ?
		MemoryContextAlloc(batch->context, n * sizeof(TsEntry)) : NULL;
	for (int i = 0; i < n; i++)
	{
		if (scan->nconditions > 0 && !ts_entry_matches(scan, &r->entries[i]))
			continue;
		if (batch->entries != NULL)
			keep_key(scan, batch, &r->entries[i]);
		batch->tids[batch->n++] = r->entries[i].tail & TS_TAIL_TID;
	}
}

/*
 * Read entries from..to of the leaf, and its limits, into the batch.  False if
 * something has changed since the search.
 */
static bool
read_leaf(TsScan *scan, TsBatch *batch, LeafRead *r, bool need_low, bool need_high)
{
	bool		blobs = scan->tree.info->kind != TS_KEY_SHORT;
	bool		compared = scan->tree.info->kind == TS_KEY_COMPARED;
	bool		valid;
	int			n = r->to - r->from;

	r->low.node = r->high.node = NULL;
	if (blobs)
		ts_epoch_enter();
	for (int i = 0; i < n; i++)
		ts_node_entry(scan->tree.index, r->position.leaf, 0, r->from + i, &r->entries[i]);
	valid = need_low || need_high ?
		ts_tree_limits(&scan->tree, &r->position, &r->low, &r->high) :
		ts_latch_valid(&r->position.leaf->latch, r->position.version);
	if (valid)
	{
		MemoryContext old = MemoryContextSwitchTo(batch->context);

		MemoryContextReset(batch->context);
		if (need_low && r->low.node != NULL)
			ts_key_of_entry(scan->tree.info, &r->low.entry, &batch->low);
		if (need_high && r->high.node != NULL)
			ts_key_of_entry(scan->tree.info, &r->high.entry, &batch->high);
		if (compared && (scan->nconditions > 0 || scan->want_keys))
			copy_blobs(r, n);
		MemoryContextSwitchTo(old);
		if (!compared)
			take_matching(scan, batch, r);
	}
	if (blobs)
		ts_epoch_leave();
	if (valid && compared)
		take_matching(scan, batch, r);
	return valid;
}

/* A copy in a context of its own of the key to go on from. */
static void
copy_key(const TsScan *scan, const TsKey *key, TsKey *copy, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);

	*copy = *key;
	if (key->bytes != NULL)
		copy->bytes = memcpy(palloc_extended(key->len, MCXT_ALLOC_HUGE), key->bytes, key->len);
	if (key->values != NULL)
	{
		TsEntry		entry = {key->prefix, key->tail, NULL};
		TsBlob	   *blob = palloc_extended(ts_blob_size(key->len), MCXT_ALLOC_HUGE);

		blob->len = key->len;
		memcpy(blob->data, key->bytes, key->len);
		entry.blob = blob;
		ts_key_of_entry(scan->tree.info, &entry, copy);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Load the batch to the right of `from`, or the first one.  The key may be the
 * batch's own.
 */
static void
load_right(TsScan *scan, const TsKey *from, bool first)
{
	TsBatch    *batch = &scan->batch;
	LeafRead	r;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ts_tree_find(&scan->tree, from, false, &r.position);
		r.from = r.position.index;
		if (!ts_tree_search_leaf(&scan->tree, &r.position, &scan->end, &r.to))
			continue;
		r.to = Max(r.to, r.from);
		/* what is behind this leaf, if the scan's end is not in it */
		if (read_leaf(scan, batch, &r, false,
					  r.to == ts_node_count(scan->tree.index, r.position.leaf, 0)))
			break;
	}
	batch->more_right = r.high.node != NULL;
	batch->more_left = !first;
	batch->loaded = true;
}

/* The same to the left. */
static void
load_left(TsScan *scan, const TsKey *from, bool first)
{
	TsBatch    *batch = &scan->batch;
	LeafRead	r;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ts_tree_find(&scan->tree, from, true, &r.position);
		r.to = r.position.index;
		if (!ts_tree_search_leaf(&scan->tree, &r.position, &scan->start, &r.from))
			continue;
		r.from = Min(r.from, r.to);
		if (read_leaf(scan, batch, &r, r.from == 0, false))
			break;
	}
	batch->more_left = r.low.node != NULL;
	batch->more_right = !first;
	batch->loaded = true;
}

/*
 * Go on to the right of the batch.  Loading resets the batch's context, so the
 * key it starts from is copied, and becomes the new batch's other end.
 */
static void
next_batch(TsScan *scan)
{
	TsBatch    *batch = &scan->batch;
	MemoryContext keep = AllocSetContextCreate(CurrentMemoryContext, "tsindex key",
											   ALLOCSET_SMALL_SIZES);
	TsKey		from;

	copy_key(scan, &batch->high, &from, keep);
	load_right(scan, &from, false);
	copy_key(scan, &from, &batch->low, batch->context);
	MemoryContextDelete(keep);
}

static void
previous_batch(TsScan *scan)
{
	TsBatch    *batch = &scan->batch;
	MemoryContext keep = AllocSetContextCreate(CurrentMemoryContext, "tsindex key",
											   ALLOCSET_SMALL_SIZES);
	TsKey		from;

	copy_key(scan, &batch->low, &from, keep);
	load_left(scan, &from, false);
	copy_key(scan, &from, &batch->high, batch->context);
	MemoryContextDelete(keep);
}

/*
 * A parallel scan: fetch the leaf whose turn it is.  False if none is left.  A
 * participant that goes on alone has a batch that leads on, as other scans do.
 */
static bool
load_turn(IndexScanDesc desc, ScanDirection direction)
{
	TsScan	   *scan = desc->opaque;
	TsBatch    *batch = &scan->batch;
	bool		forward = ScanDirectionIsForward(direction);
	MemoryContext keep = AllocSetContextCreate(CurrentMemoryContext, "tsindex key",
											   ALLOCSET_SMALL_SIZES);
	TsKey		from;
	bool		first;
	bool		more;

	if (!ts_parallel_take_turn(desc, &first, &from, keep))
	{
		MemoryContextDelete(keep);
		batch->n = 0;
		batch->loaded = true;
		batch->more_left = batch->more_right = false;
		return false;
	}
	if (forward)
		load_right(scan, first ? &scan->start : &from, true);
	else
		load_left(scan, first ? &scan->end : &from, true);
	MemoryContextDelete(keep);
	more = forward ? batch->more_right : batch->more_left;
	if (scan->narrays > 0)
	{
		(void) ts_parallel_pass_turn(desc, NULL);
		scan->shares = false;
	}
	else
		scan->shares = ts_parallel_pass_turn(desc, !more ? NULL :
											 forward ? &batch->high : &batch->low);
	return true;
}

/* The batch is used up: load the next one, if there is one. */
static bool
load_more(IndexScanDesc desc, ScanDirection direction)
{
	TsScan	   *scan = desc->opaque;
	bool		forward = ScanDirectionIsForward(direction);

	if (scan->shares)
		return load_turn(desc, direction);
	if (!(forward ? scan->batch.more_right : scan->batch.more_left))
		return false;
	if (forward)
		next_batch(scan);
	else
		previous_batch(scan);
	return true;
}

static bool
load_first(IndexScanDesc desc, ScanDirection direction)
{
	TsScan	   *scan = desc->opaque;

	if (scan->shares)
		return load_turn(desc, direction);
	if (ScanDirectionIsForward(direction))
		load_right(scan, &scan->start, true);
	else
		load_left(scan, &scan->end, true);
	return true;
}

/* The next entry of the running combination of array elements. */
static bool
step(IndexScanDesc desc, ScanDirection direction)
{
	TsScan	   *scan = desc->opaque;
	TsBatch    *batch = &scan->batch;

	if (ScanDirectionIsForward(direction))
	{
		if (!batch->loaded)
		{
			if (!load_first(desc, direction))
				return false;
			batch->at = -1;
		}
		batch->at++;
		while (batch->at >= batch->n)
		{
			batch->at = batch->n;
			if (!load_more(desc, direction))
				return false;
			batch->at = 0;
		}
		return true;
	}
	if (!batch->loaded)
	{
		if (!load_first(desc, direction))
			return false;
		batch->at = batch->n;
	}
	batch->at--;
	while (batch->at < 0)
	{
		batch->at = -1;
		if (!load_more(desc, direction))
			return false;
		batch->at = batch->n - 1;
	}
	return true;
}

static void
prepare(IndexScanDesc desc)
{
	TsScan	   *scan = desc->opaque;

	pgstat_count_index_scan(scan->index);
	ts_scan_prepare(scan, desc->numberOfKeys, scan->narrays > 0 ? scan->keys : desc->keyData);
	scan->batch.loaded = false;
}

/* amgettuple without what it hands out: on to the next matching entry. */
static bool
advance(IndexScanDesc desc, ScanDirection direction)
{
	TsScan	   *scan = desc->opaque;

	if (!scan->prepared)
	{
		if (scan->narrays < 0)
			ts_scan_collect_arrays(desc);
		if (scan->narrays > 0)
			ts_scan_start_arrays(desc, direction);
		scan->shares = desc->parallel_scan != NULL;
		prepare(desc);
	}
	for (;;)
	{
		if (!scan->empty && step(desc, direction))
			return true;
		if (scan->narrays <= 0 || !ts_scan_advance_arrays(desc, direction))
			return false;
		prepare(desc);
	}
}

/* ambeginscan */
IndexScanDesc
ts_index_beginscan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc desc = RelationGetIndexScan(index, nkeys, norderbys);
	TsScan	   *scan = palloc0(sizeof(TsScan));

	scan->tree = ts_index_tree_copy(index);
	scan->index = index;
	scan->narrays = -1;
	scan->context = AllocSetContextCreate(CurrentMemoryContext, "tsindex scan keys",
										  ALLOCSET_SMALL_SIZES);
	scan->batch.context = AllocSetContextCreate(CurrentMemoryContext, "tsindex scan",
												ALLOCSET_SMALL_SIZES);
	desc->xs_itupdesc = desc->xs_hitupdesc = RelationGetDescr(index);
	desc->opaque = scan;
	return desc;
}

/* amrescan */
void
ts_index_rescan(IndexScanDesc desc, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	TsScan	   *scan = desc->opaque;

	if (keys != NULL && desc->numberOfKeys > 0)
		memmove(desc->keyData, keys, desc->numberOfKeys * sizeof(ScanKeyData));
	scan->prepared = false;
	scan->narrays = -1;
	scan->batch.loaded = scan->mark.loaded = false;
	scan->batch.n = scan->batch.at = 0;
}

/*
 * The current entry as a tuple, for an index-only scan.  An index tuple cannot
 * be as large as our keys; then it is a heap tuple.
 */
static void
hand_out_tuple(IndexScanDesc desc)
{
	TsScan	   *scan = desc->opaque;
	TupleDesc	tupdesc = scan->tree.info->desc;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	MemoryContext old;

	if (scan->tuple_context == NULL)
		scan->tuple_context = AllocSetContextCreate(GetMemoryChunkContext(scan),
													"tsindex tuple", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(scan->tuple_context);
	old = MemoryContextSwitchTo(scan->tuple_context);
	ts_decode_entry(scan->tree.info, &scan->batch.entries[scan->batch.at], values, isnull);
	desc->xs_itup = NULL;
	desc->xs_hitup = NULL;
	if (heap_compute_data_size(tupdesc, values, isnull) < INDEX_SIZE_MASK - BLCKSZ / 16)
		desc->xs_itup = index_form_tuple(tupdesc, values, isnull);
	else
		desc->xs_hitup = heap_form_tuple(tupdesc, values, isnull);
	MemoryContextSwitchTo(old);
}

/* amgettuple */
bool
ts_index_gettuple(IndexScanDesc desc, ScanDirection direction)
{
	TsScan	   *scan = desc->opaque;

	if (!scan->prepared)
		scan->want_keys = desc->xs_want_itup;
	if (!advance(desc, direction))
		return false;
	ts_tid_of_tail(scan->batch.tids[scan->batch.at], &desc->xs_heaptid);

	/*
	 * Only for an MVCC snapshot it is certain that what it sees under the TID
	 * is what was there when the leaf was read.
	 */
	desc->xs_recheck = scan->recheck ||
		(desc->numberOfKeys > 0 && !IsMVCCSnapshot(desc->xs_snapshot));
	if (scan->want_keys)
		hand_out_tuple(desc);
	return true;
}

/* amgetbitmap */
int64
ts_index_getbitmap(IndexScanDesc desc, TIDBitmap *tbm)
{
	TsScan	   *scan = desc->opaque;
	int64		n = 0;

	while (advance(desc, ForwardScanDirection))
	{
		ItemPointerData tid;

		ts_tid_of_tail(scan->batch.tids[scan->batch.at], &tid);
		tbm_add_tuples(tbm, &tid, 1, scan->recheck);
		n++;
	}
	return n;
}

/* amendscan */
void
ts_index_endscan(IndexScanDesc desc)
{
	TsScan	   *scan = desc->opaque;

	MemoryContextDelete(scan->context);
	MemoryContextDelete(scan->batch.context);
	if (scan->mark.context != NULL)
		MemoryContextDelete(scan->mark.context);
	if (scan->array_context != NULL)
		MemoryContextDelete(scan->array_context);
	if (scan->tuple_context != NULL)
		MemoryContextDelete(scan->tuple_context);
	pfree(scan->tree.info);
	pfree(scan);
}

static void
copy_batch(TsScan *scan, const TsBatch *from, TsBatch *to)
{
	MemoryContext context = to->context;

	MemoryContextReset(context);
	*to = *from;
	to->context = context;
	if (from->entries != NULL)
	{
		to->entries = MemoryContextAlloc(context, Max(from->n, 1) * sizeof(TsEntry));
		for (to->n = 0; to->n < from->n; to->n++)
			keep_key(scan, to, &from->entries[to->n]);
	}
	if (from->loaded && from->more_left)
		copy_key(scan, &from->low, &to->low, context);
	if (from->loaded && from->more_right)
		copy_key(scan, &from->high, &to->high, context);
}

/* ammarkpos */
void
ts_index_markpos(IndexScanDesc desc)
{
	TsScan	   *scan = desc->opaque;

	if (scan->mark.context == NULL)
		scan->mark.context = AllocSetContextCreate(GetMemoryChunkContext(scan),
												   "tsindex marked position",
												   ALLOCSET_SMALL_SIZES);
	copy_batch(scan, &scan->batch, &scan->mark);
	for (int i = 0; i < scan->narrays; i++)
		scan->arrays[i].marked = scan->arrays[i].at;
}

/* amrestrpos */
void
ts_index_restrpos(IndexScanDesc desc)
{
	TsScan	   *scan = desc->opaque;
	bool		moved = false;

	for (int i = 0; i < scan->narrays; i++)
	{
		TsArrayKey *array = &scan->arrays[i];

		moved |= array->at != array->marked;
		array->at = array->marked;
		scan->keys[array->key].sk_argument = array->elems[array->at];
	}
	if (moved)
		prepare(desc);
	copy_batch(scan, &scan->mark, &scan->batch);
}
