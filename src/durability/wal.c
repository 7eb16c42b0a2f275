/*-------------------------------------------------------------------------
 *
 * wal.c
 *	  Building and inserting WAL records.
 *
 * Rows are logged whole or, where an update leaves a tuple's length as it was,
 * as the range of bytes that differ from the version below.  Either way replay
 * ends right from any state of the row between the record's own and the last:
 * see README, "Redo".
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "durability/guard.h"
#include "durability/wal.h"
#include "memory/epoch.h"
#include "storage/load.h"
#include "storage/log.h"
#include "transaction/log.h"

/* bytes of a record under construction; kept from record to record */
typedef struct Bytes
{
	char	   *data;
	Size		used;
	Size		size;
} Bytes;

#define BUFFER_KEEP		(64 * 1024)
#define MAX_GROUP_ROWS	PG_UINT16_MAX

/* A record of rows under construction. */
typedef struct Rows
{
	Bytes		buffer;
	TsTable    *table;			/* of the group being filled, or NULL */
	Oid			database;
	Size		count_at;		/* where the group's number of rows goes */
	uint16		count;
} Rows;

static Rows pure;
static Rows mixed;
static Rows copied;
static uint64 copied_by = 0;	/* live word of the transaction that copies */

static void
buffer_reserve(Bytes *b, Size more)
{
	Size		size;

	if (likely(b->used + more <= b->size))
		return;
	size = Max(1024, (b->used + more) * 2);
	if (b->data == NULL)
		b->data = MemoryContextAllocHuge(TopMemoryContext, size);
	else
		b->data = repalloc_huge(b->data, size);
	b->size = size;
}

static inline void
put_bytes(Bytes *b, const void *data, Size len)
{
	memcpy(b->data + b->used, data, len);
	b->used += len;
}

static inline void
put_byte(Bytes *b, uint8 byte)
{
	b->data[b->used++] = (char) byte;
}

static inline void
put_number(Bytes *b, uint64 n)
{
	for (; n >= 0x80; n >>= 7)
		put_byte(b, (uint8) n | 0x80);
	put_byte(b, (uint8) n);
}

/* Begin a record; an error may have left the last one unfinished. */
static void
rows_reset(Rows *rows)
{
	rows->buffer.used = 0;
	rows->table = NULL;
	if (rows->buffer.size > 2 * TS_WAL_RECORD_BYTES)
	{
		pfree(rows->buffer.data);
		rows->buffer = (Bytes) {0};
	}
}

/* block number, index, kind and four lengths, a group's header */
#define MAX_ROW_OVERHEAD	64

/* The fixed part of a row's entry; makes room for `len` bytes more. */
static void
put_row(Rows *rows, TsRowRef ref, uint8 kind, Size len)
{
	Bytes	   *b = &rows->buffer;
	TsTable    *table = ref.block->table;

	buffer_reserve(b, MAX_ROW_OVERHEAD + len);
	if (rows->table != table || rows->count == MAX_GROUP_ROWS)
	{
		rows->table = table;
		rows->database = table->rnode.dbNode;
		rows->count = 0;
		put_bytes(b, &table->rnode.relNode, sizeof(Oid));
		rows->count_at = b->used;
		b->used += sizeof(uint16);
	}
	rows->count++;
	memcpy(b->data + rows->count_at, &rows->count, sizeof(uint16));
	put_number(b, ref.block->blkno);
	put_byte(b, (uint8) ref.index);
	put_byte(b, kind);
}

static inline Size
logged_length(TsVersion *v)
{
	return ts_version_tuple(v)->t_len - TS_TUPLE_SKIPPED;
}

static inline const char *
logged_tuple(TsVersion *v)
{
	return (const char *) ts_version_tuple(v) + TS_TUPLE_SKIPPED;
}

/* The range in which two tuples of the same length differ; false if whole ones are shorter. */
static bool
find_patch(TsVersion *v, TsVersion *base, Size *offset, Size *len)
{
	const char *new_tuple = logged_tuple(v);
	const char *old_tuple;
	Size		total = logged_length(v);
	Size		first = 0;
	Size		last = total;

	if (base == NULL || (base->flags & TS_V_DELETED) || logged_length(base) != total)
		return false;
	old_tuple = logged_tuple(base);
	while (first < total && new_tuple[first] == old_tuple[first])
		first++;
	while (last > first && new_tuple[last - 1] == old_tuple[last - 1])
		last--;
	*offset = first;
	*len = last - first;
	return *len + 4 < total;
}

/*
 * Add a version to the record.  `base` is the version that redo will find below
 * it, or NULL.  A tuple that does not fit is up to the caller.
 */
static void
put_version(Rows *rows, TsRowRef ref, TsVersion *v, TsVersion *base, uint8 flags)
{
	Size		total;
	Size		offset;
	Size		len;

	if (v->flags & TS_V_DELETED)
	{
		put_row(rows, ref, TS_WAL_DELETE | flags, 0);
		return;
	}
	total = logged_length(v);
	if (find_patch(v, base, &offset, &len))
	{
		put_row(rows, ref, TS_WAL_PATCH | flags, len);
		put_number(&rows->buffer, total);
		put_number(&rows->buffer, offset);
		put_number(&rows->buffer, len);
		put_bytes(&rows->buffer, logged_tuple(v) + offset, len);
		return;
	}
	put_row(rows, ref, TS_WAL_FULL | flags, total);
	put_number(&rows->buffer, total);
	put_bytes(&rows->buffer, logged_tuple(v), total);
}

static inline bool
is_logged_table(TsBlock *block)
{
	return block->table->persistence == RELPERSISTENCE_PERMANENT;
}

/* ---- pure transactions ---- */

void
ts_log_build_pure(const TsWrite *set, int64 n)
{
	rows_reset(&pure);
	for (int64 i = 0; i < n; i++)
	{
		TsRowRef	ref = {set[i].block, set[i].index};
		TsVersion  *v = set[i].version;
		TsVersion  *base;
		uint8		flags = 0;

		if (v == NULL || !is_logged_table(ref.block) || ts_row_head(ts_ref_row(ref)) != v)
			continue;
		for (base = v; base != NULL && ts_is_mine(ts_version_creator(base));
			 base = ts_version_prev(base))
			if (base->flags & TS_V_INSERTED)
				flags |= TS_WAL_INSERTED;
		/* a row that came and went within the transaction */
		if ((flags & TS_WAL_INSERTED) && (v->flags & TS_V_DELETED))
			continue;
		put_version(&pure, ref, v, base, flags);
	}
}

XLogRecPtr
ts_log_insert_pure(uint32 xmin)
{
	TsWalPure	header = {xmin, pure.database};

	if (pure.buffer.used == 0)
		return InvalidXLogRecPtr;
	XLogBeginInsert();
	XLogRegisterData((char *) &header, sizeof(header));
	XLogRegisterData(pure.buffer.data, pure.buffer.used);
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	pure.buffer.used = 0;
	return XLogInsert(TS_RMGR_ID, TS_WAL_PURE);
}

/* ---- mixed transactions ---- */

/* Insert what has gathered; *first is set to the end of the first record of several. */
static void
insert_mixed(TransactionId xid, TransactionId top_xid, XLogRecPtr *first)
{
	TsWalMixed	header = {xid, top_xid, mixed.database};
	XLogRecPtr	end;

	if (mixed.buffer.used == 0)
		return;
	XLogBeginInsert();
	XLogRegisterData((char *) &header, sizeof(header));
	XLogRegisterData(mixed.buffer.data, mixed.buffer.used);
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	end = XLogInsert(TS_RMGR_ID, TS_WAL_MIXED);
	if (XLogRecPtrIsInvalid(*first))
		*first = end;
	rows_reset(&mixed);
}

/* One piece of a tuple too large for a record. */
static void
put_fragment(Rows *rows, TsRowRef ref, TsVersion *v, uint8 flags, Size offset, Size len)
{
	put_row(rows, ref, TS_WAL_FRAGMENT | flags, len);
	put_number(&rows->buffer, logged_length(v));
	put_number(&rows->buffer, offset);
	put_number(&rows->buffer, len);
	put_bytes(&rows->buffer, logged_tuple(v) + offset, len);
}

XLogRecPtr
ts_log_mixed(const TsWrite *set, int64 n, TransactionId xid, TransactionId top_xid)
{
	XLogRecPtr	first = InvalidXLogRecPtr;

	/* rows that these may lie on top of */
	if (copied_by == ts_my_live_word)
		ts_log_copied_flush();
	rows_reset(&mixed);
	for (int64 i = 0; i < n; i++)
	{
		TsRowRef	ref = {set[i].block, set[i].index};
		TsVersion  *v = set[i].version;
		TsVersion  *base;
		uint8		flags;

		if (v == NULL || !is_logged_table(ref.block))
			continue;
		flags = (v->flags & TS_V_INSERTED) ? TS_WAL_INSERTED : 0;
		base = ts_version_prev(v);
		if (base != NULL && ts_is_mine(ts_version_creator(base)))
			flags |= TS_WAL_BASE_MINE;
		if ((v->flags & TS_V_DELETED) || logged_length(v) <= TS_WAL_FRAGMENT_BYTES)
			put_version(&mixed, ref, v, base, flags);
		else
		{
			Size		total = logged_length(v);

			for (Size at = 0; at < total; at += TS_WAL_FRAGMENT_BYTES)
			{
				put_fragment(&mixed, ref, v, flags, at, Min(TS_WAL_FRAGMENT_BYTES, total - at));
				insert_mixed(xid, top_xid, &first);
			}
		}
		if (mixed.buffer.used > TS_WAL_RECORD_BYTES)
			insert_mixed(xid, top_xid, &first);
	}
	insert_mixed(xid, top_xid, &first);
	return first;
}

/* ---- rows copied into a new table ---- */

void
ts_log_copied_begin(void)
{
	rows_reset(&copied);
	copied_by = ts_my_live_word;
}

void
ts_log_copied_flush(void)
{
	TsWalPure	header = {0, copied.database};

	if (copied.buffer.used == 0)
		return;
	XLogBeginInsert();
	XLogRegisterData((char *) &header, sizeof(header));
	XLogRegisterData(copied.buffer.data, copied.buffer.used);
	(void) XLogInsert(TS_RMGR_ID, TS_WAL_PURE);
	rows_reset(&copied);
}

void
ts_log_copied_row(TsRowRef ref, TsVersion *version)
{
	uint8		flags = TS_WAL_INSERTED | TS_WAL_HAS_XMIN;
	Size		total;

	if (!is_logged_table(ref.block))
		return;
	total = logged_length(version);
	for (Size at = 0; at < total; at += TS_WAL_FRAGMENT_BYTES)
	{
		Size		len = Min(TS_WAL_FRAGMENT_BYTES, total - at);
		uint8		kind = total > TS_WAL_FRAGMENT_BYTES ? TS_WAL_FRAGMENT : TS_WAL_FULL;

		put_row(&copied, ref, kind | flags, len);
		put_bytes(&copied.buffer, &version->cid, sizeof(uint32));
		put_number(&copied.buffer, total);
		if (kind == TS_WAL_FRAGMENT)
		{
			put_number(&copied.buffer, at);
			put_number(&copied.buffer, len);
		}
		put_bytes(&copied.buffer, logged_tuple(version) + at, len);
		if (copied.buffer.used > TS_WAL_RECORD_BYTES)
			ts_log_copied_flush();
	}
}

/* ---- tables ---- */

static void
log_table(RelFileNode rnode, uint32 argument, uint8 info)
{
	TsWalTable	record = {rnode, argument};

	XLogBeginInsert();
	XLogRegisterData((char *) &record, sizeof(record));
	(void) XLogInsert(TS_RMGR_ID, info);
}

void
ts_log_create(RelFileNode rnode, TransactionId creator_xid)
{
	ts_log_check_writable();
	log_table(rnode, creator_xid, TS_WAL_CREATE);
}

void
ts_log_empty(RelFileNode rnode, TransactionId creator_xid)
{
	ts_log_check_writable();
	log_table(rnode, creator_xid, TS_WAL_EMPTY);
}

void
ts_log_extend(RelFileNode rnode, BlockNumber nblocks)
{
	log_table(rnode, nblocks, TS_WAL_EXTEND);
}

void
ts_log_indexed(TsTable *table)
{
	if (table->persistence == RELPERSISTENCE_PERMANENT &&
		pg_atomic_read_u32(&table->indexed) != 0)
		log_table(table->rnode, 0, TS_WAL_INDEXED);
}

/* ---- PREPARE ---- */

void
ts_log_prepare(TransactionId xid, const TsPrepared *p)
{
	TsWalPrepare header = {xid, p->ncommit_drops, p->nabort_drops, p->nlocks};
	TsWalLock  *locks = palloc_extended(Max(1, p->nlocks) * sizeof(TsWalLock), MCXT_ALLOC_HUGE);

	header.nlocks = 0;
	for (int64 i = 0; i < p->nlocks; i++)
	{
		TsBlock    *block = p->locks[i].ref.block;

		if (!is_logged_table(block))
			continue;
		locks[header.nlocks++] = (TsWalLock) {
			block->table->rnode, block->blkno, (uint16) p->locks[i].ref.index,
			p->locks[i].tag, p->locks[i].mode
		};
	}
	XLogBeginInsert();
	XLogRegisterData((char *) &header, sizeof(header));
	XLogRegisterData((char *) locks, header.nlocks * sizeof(TsWalLock));
	XLogRegisterData((char *) p->commit_drops, header.ncommit_drops * sizeof(RelFileNode));
	XLogRegisterData((char *) p->abort_drops, header.nabort_drops * sizeof(RelFileNode));
	(void) XLogInsert(TS_RMGR_ID, TS_WAL_PREPARE);
	pfree(locks);
}

/* ---- permission ---- */

/* how long a writer waits for the guard after a start */
#define GUARD_PATIENCE_MS	10000

static void
refuse_write(void)
{
	if (!IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("tsengine tables are read-only in single-user mode")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("tsengine tables cannot be changed now"),
			 errdetail("The background worker \"tsengine guard\", which makes checkpoints include tsengine tables, is not running."),
			 errhint("If the server is not shutting down, increase \"max_worker_processes\" and restart it; the server log tells more.")));
}

void
ts_log_check_writable(void)
{
	if (likely(ts_guard_writable()))
		return;
	ts_load_check();
	/*
	 * Right after a start the guard needs a moment.  When the server stops,
	 * we are about to hear of it ourselves.
	 */
	for (int waited = 0; IsUnderPostmaster && waited < GUARD_PATIENCE_MS; waited += 10)
	{
		if (ts_guard_writable())
			return;
		if (!ts_guard_expected())
			break;
		CHECK_FOR_INTERRUPTS();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	refuse_write();
}
