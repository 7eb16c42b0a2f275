/*-------------------------------------------------------------------------
 *
 * modify.c
 *	  INSERT, UPDATE and DELETE.
 *
 * Everything that can fail (memory, locks, detoasting, room in the write set)
 * is done before a version is put onto its row; from then on nothing fails.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "access/access.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "storage/rowlock.h"
#include "transaction/txn.h"

/*
 * Values as they are to be stored: those that live elsewhere (TOAST tables,
 * expanded objects) are brought here.  Returns the slot's own array if there is
 * none.
 */
static Datum *
inline_values(TupleDesc desc, TupleTableSlot *slot)
{
	Datum	   *values = slot->tts_values;

	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attlen != -1 || slot->tts_isnull[i] ||
			!VARATT_IS_EXTERNAL(DatumGetPointer(slot->tts_values[i])))
			continue;
		if (values == slot->tts_values)
		{
			values = palloc(desc->natts * sizeof(Datum));
			memcpy(values, slot->tts_values, desc->natts * sizeof(Datum));
		}
		values[i] = PointerGetDatum(detoast_external_attr((struct varlena *)
														  DatumGetPointer(slot->tts_values[i])));
	}
	return values;
}

/*
 * The slot's row as a MinimalTuple that can be stored as it is, or NULL: a slot
 * of ours that was materialized, with all columns and nothing that lives
 * elsewhere.
 */
static MinimalTuple
ready_tuple(TupleDesc desc, TupleTableSlot *slot)
{
	MinimalTuple tuple;

	if (!ts_is_slot(slot))
		return NULL;
	tuple = ((TsSlot *) slot)->base.mintuple;
	if (tuple == NULL || (tuple->t_infomask & HEAP_HASEXTERNAL) ||
		HeapTupleHeaderGetNatts(tuple) != desc->natts)
		return NULL;
	return tuple;
}

static bool
has_nulls(TupleDesc desc, TupleTableSlot *slot)
{
	for (int i = 0; i < desc->natts; i++)
		if (slot->tts_isnull[i])
			return true;
	return false;
}

/*
 * Make a version from a slot's row: creator, prev and flags are for the caller
 * to set.  Raises errors (53200, detoasting).  The caller owns the memory.
 */
TsVersion *
ts_form_version(TupleDesc desc, TupleTableSlot *slot)
{
	Datum	   *values;
	bool		hasnull;
	Size		hoff = SizeofMinimalTupleHeader;
	Size		data_size;
	Size		len;
	TsVersion  *version;
	MinimalTuple tuple = ready_tuple(desc, slot);

	if (tuple != NULL)
	{
		version = ts_alloc_or_error(TS_VERSION_HEADER + tuple->t_len, TS_ALLOC_NORMAL);
		memcpy(version->body, tuple, tuple->t_len);
		return version;
	}
	slot_getallattrs(slot);
	values = inline_values(desc, slot);
	hasnull = has_nulls(desc, slot);
	if (hasnull)
		hoff += BITMAPLEN(desc->natts);
	hoff = MAXALIGN(hoff);
	data_size = heap_compute_data_size(desc, values, slot->tts_isnull);
	len = hoff + data_size;
	if (len > MaxAllocSize - TS_VERSION_HEADER)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu", len,
						(Size) MaxAllocSize - TS_VERSION_HEADER)));

	version = ts_alloc_or_error(TS_VERSION_HEADER + len, TS_ALLOC_NORMAL);
	tuple = ts_version_tuple(version);
	/* padding must be zero: readers tell short varlenas from it */
	memset(tuple, 0, len);
	tuple->t_len = (uint32) len;
	HeapTupleHeaderSetNatts(tuple, desc->natts);
	tuple->t_hoff = (uint8) (hoff + MINIMAL_TUPLE_OFFSET);
	heap_fill_tuple(desc, values, slot->tts_isnull, (char *) tuple + hoff, data_size,
					&tuple->t_infomask, hasnull ? tuple->t_bits : NULL);
	if (values != slot->tts_values)
		pfree(values);
	return version;
}

static void
init_version(TsVersion *version, TsVersion *prev, CommandId cid, uint16 flags)
{
	pg_atomic_init_u64(&version->creator, ts_my_live_word);
	pg_atomic_init_u64(&version->prev, (uint64) (uintptr_t) prev);
	version->cid = cid;
	version->flags = flags;
	version->aux = ts_txn_tag();
}

/* Store the first version of a row into the slot reserved for it. */
static void
store_new_row(TsRowRef ref, TsVersion *version)
{
	TsRow	   *row = ts_ref_row(ref);
	uint64		word = pg_atomic_read_u64(row);

	/* the exchange is a full barrier: the version is complete before it */
	while (!pg_atomic_compare_exchange_u64(row, &word,
										   (uint64) (uintptr_t) version | (word & TS_ROW_BITS)))
		;
	ts_txn_add_write(ref, version, false);
}

static TsVersion *
insert_row(Relation rel, TupleTableSlot *slot, CommandId cid, uint16 flags)
{
	TsRelation *info = ts_relation(rel);
	TsTable    *table = info->table;
	TsVersion  *version;
	TsRowRef	ref;

	ts_txn_begin_write(info->needs_xid);
	ts_txn_reserve_writes(1);
	version = ts_form_version(RelationGetDescr(rel), slot);
	ts_txn_add_loose(version, TS_VERSION_HEADER + ts_version_tuple(version)->t_len);
	init_version(version, NULL, cid, TS_V_INSERTED | flags);
	if (unlikely(!ts_table_reserve_row(table, &ref)))
		ts_arena_out_of_memory(sizeof(TsBlock));
	ts_txn_keep_loose(1);
	store_new_row(ref, version);

	ts_ref_tid(ref, &slot->tts_tid);
	slot->tts_tableOid = RelationGetRelid(rel);
	ts_slot_set_version(slot, version);
	pgstat_count_heap_insert(rel, 1);
	return version;
}

void
ts_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
				struct BulkInsertStateData *bistate)
{
	(void) insert_row(rel, slot, cid, 0);
}

void
ts_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
				int options, struct BulkInsertStateData *bistate)
{
	for (int i = 0; i < nslots; i++)
		(void) insert_row(rel, slots[i], cid, 0);
}

/*
 * INSERT ... ON CONFLICT: the row is there for others to wait for, but whether
 * it stays is decided by ts_tuple_complete_speculative().
 */
void
ts_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
							int options, struct BulkInsertStateData *bistate,
							uint32 specToken)
{
	ts_txn_begin_write(true);
	pg_atomic_write_u32(&ts_txn_of_word(ts_my_live_word)->spec_token, specToken);
	(void) insert_row(rel, slot, cid, TS_V_SPECULATIVE);
}

void
ts_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 specToken,
							  bool succeeded)
{
	TsRowRef	ref;
	TsVersion  *alias;
	TsVersion  *version;

	if (!ts_resolve_tid(rel, &slot->tts_tid, &ref, &alias))
		elog(ERROR, "speculative tsengine row not found");
	version = ts_row_head(ts_ref_row(ref));
	if (version == NULL || (version->flags & TS_V_SPECULATIVE) == 0 ||
		!ts_is_mine(ts_version_creator(version)))
		elog(ERROR, "tsengine row is not speculative");
	if (succeeded)
		version->flags &= ~TS_V_SPECULATIVE;
	else
		ts_txn_undo_write(version);
	pg_atomic_write_u32(&ts_txn_of_word(ts_my_live_word)->spec_token, 0);
}

static TsVersion *
form_marker(Size size, TsAllocMode mode)
{
	TsVersion  *marker = ts_alloc_or_error(size, mode);

	memset(marker, 0, size);
	ts_txn_add_loose(marker, size);
	return marker;
}

/* Memory in which the row's older versions lie is used again soon: help. */
static inline void
prune_after_change(TsRowRef ref, TsVersion *head)
{
	TsVersion  *prev = ts_version_prev(head);

	if (prev == NULL || ts_creator_is_live(ts_version_creator(head)))
		return;
	if (ts_version_needed(prev, head, ts_horizon(false)) &&
		ts_version_needed(prev, head, ts_horizon(true)))
		return;
	(void) ts_row_prune(ref, ts_horizon(false));
}

/*
 * A version could not be put onto the row.  True to try again, false if that
 * would mean to wait against the caller's wish.
 */
static bool
retry_install(TsChange *change, TsRowLockResult result, TsLockHolder blocker)
{
	if (result == TS_ROWLOCK_NO_MEMORY)
		ts_arena_out_of_memory(0);
	if (result == TS_ROWLOCK_CONFLICT)
		return ts_change_wait(change, blocker.txn, blocker.tag);
	return true;
}

TM_Result
ts_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
				Snapshot crosscheck, bool wait, TM_FailureData *tmfd, bool changingPart)
{
	TsChange	change;
	TsVersion  *alias;
	TsVersion  *head;
	TsVersion  *marker;
	TsRowRef	ref;
	TM_Result	result;

	if (!ts_resolve_tid(rel, tid, &ref, &alias))
		elog(ERROR, "tsengine row to be deleted does not exist");
	ts_txn_begin_write(ts_relation(rel)->needs_xid);
	ts_txn_reserve_writes(1);
	marker = form_marker(TS_DELETE_SIZE, TS_ALLOC_RESERVE);
	ts_change_init(&change, rel, ref, alias, snapshot, cid, LockTupleExclusive, XLTW_Delete);
	change.crosscheck = crosscheck;
	change.policy = wait ? LockWaitBlock : LockWaitSkip;

	for (;;)
	{
		TsRowLockResult installed;
		TsLockHolder blocker;

		result = ts_change_begin(&change, &head, tmfd);
		if (result != TM_Ok)
			break;
		init_version(marker, head, cid,
					 TS_V_DELETED | TS_V_KEYS_UPDATED | (changingPart ? TS_V_MOVED_PARTITION : 0));
		installed = ts_rowlock_install(ref, head, marker, LockTupleExclusive,
									   ts_my_live_word, NULL, &blocker);
		if (installed == TS_ROWLOCK_OK)
		{
			ts_txn_add_write(ref, marker, false);
			ts_epoch_leave();
			pgstat_count_heap_delete(rel);
			break;
		}
		ts_epoch_leave();
		if (!retry_install(&change, installed, blocker))
		{
			result = TM_WouldBlock;
			break;
		}
	}
	ts_change_end(&change);
	ts_txn_keep_loose(result == TM_Ok ? 1 : 0);
	return result;
}

/* Values of an attribute in the old version and in the slot: the same bits? */
static bool
attribute_equal(TupleDesc desc, HeapTuple old, TupleTableSlot *slot, int attnum)
{
	Form_pg_attribute att;
	bool		old_isnull;
	bool		new_isnull;
	Datum		old_value;
	Datum		new_value;

	if (attnum == 0)
		return false;			/* whole row */
	if (attnum < 0)
		return attnum == TableOidAttributeNumber;
	old_value = heap_getattr(old, attnum, desc, &old_isnull);
	new_value = slot_getattr(slot, attnum, &new_isnull);
	if (old_isnull || new_isnull)
		return old_isnull && new_isnull;
	att = TupleDescAttr(desc, attnum - 1);
	/* a value that is not stored inline yet is as good as different */
	if (att->attlen == -1 && VARATT_IS_EXTERNAL(DatumGetPointer(new_value)))
		return false;
	return datumIsEqual(old_value, new_value, att->attbyval, att->attlen);
}

static bool
any_attribute_changed(Relation rel, TsVersion *old, TupleTableSlot *slot, Bitmapset *attrs)
{
	HeapTupleData tuple;
	int			member = -1;

	if (attrs == NULL)
		return false;
	ts_version_as_heap_tuple(old, &tuple);
	while ((member = bms_next_member(attrs, member)) >= 0)
		if (!attribute_equal(RelationGetDescr(rel), &tuple, slot,
							 member + FirstLowInvalidHeapAttributeNumber))
			return true;
	return false;
}

/* An UPDATE under way. */
typedef struct Update
{
	TsChange	change;
	Bitmapset  *index_attrs;
	Bitmapset  *key_attrs;
	TsVersion  *version;
	TsVersion  *marker;			/* if the row has to move */
	TsRowRef	target;			/* where it moves to */
	bool		moves;
	bool		key_changed;
} Update;

/* The row is to move: get a place for it, outside of the epoch section. */
static void
prepare_move(Update *u)
{
	TsRelation *info = ts_relation(u->change.rel);

	ts_txn_begin_write(info->needs_xid);
	u->marker = form_marker(TS_MOVE_SIZE, TS_ALLOC_NORMAL);
	if (!ts_table_reserve_row(u->change.table, &u->target))
		ts_arena_out_of_memory(sizeof(TsBlock));
	ts_txn_add_loose_row(u->target);
}

/* Put the new version onto the row, in an epoch section. */
static TsRowLockResult
install_update(Update *u, TsVersion *head, CommandId cid, TsLockHolder *blocker)
{
	TsRowRef	ref = u->change.ref;
	TsRowLockResult result;
	bool		carry = u->moves && !u->key_changed;
	uint16		locked = ts_rowlock_holds(ref, ts_my_live_word, LockTupleNoKeyExclusive) ?
	TS_V_LOCKED_BEFORE : 0;

	if (!u->moves)
	{
		init_version(u->version, head, cid, locked);
		result = ts_rowlock_install(ref, head, u->version, LockTupleNoKeyExclusive,
									ts_my_live_word, NULL, blocker);
		if (result == TS_ROWLOCK_OK)
			ts_txn_add_write(ref, u->version, false);
		return result;
	}
	init_version(u->marker, head, cid,
				 TS_V_DELETED | TS_V_MOVED | (u->key_changed ? TS_V_KEYS_UPDATED : 0));
	ts_ref_tid(u->target, &ts_version_moved(u->marker)->successor);
	result = ts_rowlock_install(ref, head, u->marker,
								u->key_changed ? LockTupleExclusive : LockTupleNoKeyExclusive,
								ts_my_live_word, carry ? &u->target : NULL, blocker);
	if (result != TS_ROWLOCK_OK)
		return result;
	ts_txn_add_write(ref, u->marker, carry);
	init_version(u->version, NULL, cid, TS_V_INSERTED | locked);
	store_new_row(u->target, u->version);
	return result;
}

static TM_Result
run_update(Update *u, TupleTableSlot *slot, CommandId cid, TM_FailureData *tmfd)
{
	for (;;)
	{
		TsVersion  *head;
		TsRowLockResult installed;
		TsLockHolder blocker;
		TM_Result	result = ts_change_begin(&u->change, &head, tmfd);

		if (result != TM_Ok)
			return result;
		u->key_changed = any_attribute_changed(u->change.rel, head, slot, u->key_attrs);
		u->moves = u->key_changed ||
			any_attribute_changed(u->change.rel, head, slot, u->index_attrs);
		if (u->moves && u->marker == NULL)
		{
			ts_epoch_leave();
			prepare_move(u);
			continue;
		}
		installed = install_update(u, head, cid, &blocker);
		if (installed == TS_ROWLOCK_OK)
		{
			ts_txn_keep_loose(u->moves ? 3 : 1);
			prune_after_change(u->change.ref, head);
			ts_epoch_leave();
			return TM_Ok;
		}
		ts_epoch_leave();
		if (!retry_install(&u->change, installed, blocker))
			return TM_WouldBlock;
	}
}

TM_Result
ts_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
				Snapshot snapshot, Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
				LockTupleMode *lockmode, bool *update_indexes)
{
	Update		u;
	TsVersion  *alias;
	TsRowRef	ref;
	TM_Result	result;

	if (!ts_resolve_tid(rel, otid, &ref, &alias))
		elog(ERROR, "tsengine row to be updated does not exist");
	ts_txn_begin_write(false);
	ts_txn_reserve_writes(2);
	u.index_attrs = u.key_attrs = NULL;
	if (rel->rd_rel->relhasindex)
	{
		u.index_attrs = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_ALL);
		u.key_attrs = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);
	}
	u.marker = NULL;
	u.moves = u.key_changed = false;
	ts_change_init(&u.change, rel, ref, alias, snapshot, cid, LockTupleNoKeyExclusive,
				   XLTW_Update);
	u.change.crosscheck = crosscheck;
	u.change.policy = wait ? LockWaitBlock : LockWaitSkip;
	u.version = ts_form_version(RelationGetDescr(rel), slot);

	ts_txn_add_loose(u.version, TS_VERSION_HEADER + ts_version_tuple(u.version)->t_len);
	result = run_update(&u, slot, cid, tmfd);
	ts_change_end(&u.change);
	*lockmode = u.key_changed ? LockTupleExclusive : LockTupleNoKeyExclusive;
	*update_indexes = false;
	if (result == TM_Ok)
	{
		*update_indexes = u.moves;
		ts_shown_tid(rel, u.moves ? u.target : ref, u.version, &slot->tts_tid);
		slot->tts_tableOid = RelationGetRelid(rel);
		ts_slot_set_version(slot, u.version);
		pgstat_count_heap_update(rel, !u.moves);
	}
	else
		ts_txn_keep_loose(0);
	bms_free(u.index_attrs);
	bms_free(u.key_attrs);
	return result;
}
