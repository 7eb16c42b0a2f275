/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  Tuple slots that show versions where they lie in the arena.
 *
 * The tuple part is PostgreSQL's minimal tuple slot; added are the system
 * columns and the TID.  A version seen by an MVCC snapshot stays where it is
 * while the snapshot is in use, so the slot only points to it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "utils/memutils.h"

#include "access/access.h"

TupleTableSlotOps ts_slot_ops;

static void
keep_header(TsSlot *slot, TsVersion *header)
{
	if (header != &slot->header_copy.version)
		memcpy(slot->header_copy.space, header, TS_VERSION_HEADER);
	slot->header = &slot->header_copy.version;
}

/*
 * Show a copy of a version, which the slot does not depend on afterwards.  Call
 * it inside the epoch section that found the version.
 */
void
ts_slot_store_copy(TupleTableSlot *slot, TsVersion *version, ItemPointer tid, Relation rel)
{
	TsSlot	   *tslot = (TsSlot *) slot;
	MemoryContext old;

	ExecClearTuple(slot);
	old = MemoryContextSwitchTo(slot->tts_mcxt);
	ts_slot_point(tslot, heap_copy_minimal_tuple(ts_version_tuple(version)));
	MemoryContextSwitchTo(old);
	keep_header(tslot, version);
	tslot->version = version;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_flags |= TTS_FLAG_SHOULDFREE;
	slot->tts_tid = *tid;
	slot->tts_tableOid = RelationGetRelid(rel);
}

/* The slot's row has been stored as this version, which is ours and live. */
void
ts_slot_set_version(TupleTableSlot *slot, TsVersion *version)
{
	TsSlot	   *tslot = (TsSlot *) slot;

	if (!ts_is_slot(slot))
		return;
	tslot->version = version;
	tslot->header = version;
}

/*
 * This transaction has deleted the row whose version the slot shows: xmax is to
 * tell.
 */
void
ts_slot_set_deleted(TupleTableSlot *slot)
{
	TsSlot	   *tslot = (TsSlot *) slot;

	keep_header(tslot, tslot->header);
	tslot->header->flags |= TS_V_DELETED_BY_ME;
}

static void
slot_init(TupleTableSlot *slot)
{
	TsSlot	   *tslot = (TsSlot *) slot;

	TTSOpsMinimalTuple.init(slot);
	tslot->version = tslot->header = NULL;
}

static void
slot_clear(TupleTableSlot *slot)
{
	TsSlot	   *tslot = (TsSlot *) slot;

	TTSOpsMinimalTuple.clear(slot);
	tslot->version = tslot->header = NULL;
}

/* Values that are in the slot's array and point nowhere. */
static bool
is_self_contained(TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;

	if (((TsSlot *) slot)->base.mintuple != NULL)
		return false;
	for (int i = 0; i < desc->natts; i++)
		if (!slot->tts_isnull[i] && !TupleDescAttr(desc, i)->attbyval)
			return false;
	return true;
}

static void
slot_materialize(TupleTableSlot *slot)
{
	TsSlot	   *tslot = (TsSlot *) slot;

	/* a tuple need not be made if nothing has to be kept */
	if (TTS_SHOULDFREE(slot) || is_self_contained(slot))
		return;
	if (tslot->header != NULL)
		keep_header(tslot, tslot->header);
	TTSOpsMinimalTuple.materialize(slot);
}

/* xmax: set for a row that we deleted, or locked and then updated, as with heap. */
static TransactionId
slot_xmax(TsVersion *header)
{
	if (header->flags & TS_V_DELETED_BY_ME)
		return ts_own_xid();
	if ((header->flags & TS_V_LOCKED_BEFORE) && ts_is_mine(ts_version_creator(header)))
		return ts_version_xmin(header);
	return InvalidTransactionId;
}

static Datum
get_system_attribute(TupleTableSlot *slot, int attnum, bool *isnull)
{
	TsVersion  *header = ((TsSlot *) slot)->header;

	if (header == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot retrieve a system column in this context")));
	*isnull = false;
	switch (attnum)
	{
		case MinTransactionIdAttributeNumber:
			return TransactionIdGetDatum(ts_version_xmin(header));
		case MaxTransactionIdAttributeNumber:
			return TransactionIdGetDatum(slot_xmax(header));
		case MinCommandIdAttributeNumber:
		case MaxCommandIdAttributeNumber:
			return CommandIdGetDatum(ts_creator_is_live(ts_version_creator(header)) ?
									 header->cid : FirstCommandId);
		default:
			elog(ERROR, "invalid system attribute number %d", attnum);
	}
	return (Datum) 0;
}

static void
slot_copyslot(TupleTableSlot *dst, TupleTableSlot *src)
{
	TsSlot	   *tdst = (TsSlot *) dst;
	MemoryContext old = MemoryContextSwitchTo(dst->tts_mcxt);
	MinimalTuple tuple = ExecCopySlotMinimalTuple(src);

	MemoryContextSwitchTo(old);
	ExecClearTuple(dst);
	ts_slot_point(tdst, tuple);
	if (ts_is_slot(src) && ((TsSlot *) src)->header != NULL)
	{
		keep_header(tdst, ((TsSlot *) src)->header);
		tdst->version = ((TsSlot *) src)->version;
	}
	dst->tts_nvalid = 0;
	dst->tts_flags &= ~TTS_FLAG_EMPTY;
	dst->tts_flags |= TTS_FLAG_SHOULDFREE;
	dst->tts_tid = src->tts_tid;
	dst->tts_tableOid = src->tts_tableOid;
}

static HeapTuple
slot_copy_heap_tuple(TupleTableSlot *slot)
{
	HeapTuple	tuple = TTSOpsMinimalTuple.copy_heap_tuple(slot);

	tuple->t_self = slot->tts_tid;
	tuple->t_tableOid = slot->tts_tableOid;
	return tuple;
}

void
ts_slot_init_ops(void)
{
	ts_slot_ops = TTSOpsMinimalTuple;
	ts_slot_ops.base_slot_size = sizeof(TsSlot);
	ts_slot_ops.init = slot_init;
	ts_slot_ops.clear = slot_clear;
	ts_slot_ops.getsysattr = get_system_attribute;
	ts_slot_ops.materialize = slot_materialize;
	ts_slot_ops.copyslot = slot_copyslot;
	ts_slot_ops.copy_heap_tuple = slot_copy_heap_tuple;
}
