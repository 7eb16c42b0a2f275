/*-------------------------------------------------------------------------
 *
 * redo.c
 *	  Replay of tsengine's WAL records.
 *
 * Replay of every record sets rows to what they were after it, whatever they
 * are now: so it does not matter how much of what follows a block's image
 * already shows.  See README, "Redo".
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "access/transam.h"
#include "access/rmgr.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "postmaster/startup.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "durability/image.h"
#include "durability/load.h"
#include "durability/redo.h"
#include "durability/wal.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "transaction/txn.h"

#define PRESSURE_ROUNDS		1000

/* more than can be committed before the walwriter flushes what is asynchronous */
#define LOST_COMMITS_MAX	(1 << 20)

typedef struct RedoShared
{
	pg_atomic_uint32 happened;
} RedoShared;

/* A record being read. */
typedef struct Cursor
{
	const char *at;
	const char *end;
} Cursor;

/* A row's entry in a record. */
typedef struct Entry
{
	BlockNumber blkno;
	uint32		index;
	uint8		kind;
	uint8		flags;
	uint32		xmin;			/* TS_WAL_HAS_XMIN */
	Size		total;			/* length of the tuple */
	Size		offset;			/* patch or fragment: where its bytes go */
	Size		len;
	const char *bytes;
} Entry;

/* versions of a pure record, gathered before they are shown */
typedef struct Gathered
{
	int			n;
	int			max;
	TsRowRef   *refs;
	TsVersion **versions;
} Gathered;

static RedoShared *shared;
static MemoryContext redo_context = NULL;
static Gathered gathered;
static void (*core_xact_redo) (XLogReaderState *record) = NULL;

void
ts_redo_request(void)
{
	RequestAddinShmemSpace(sizeof(RedoShared));
}

void
ts_redo_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("tsengine redo", sizeof(RedoShared), &found);
	if (!found)
		pg_atomic_init_u32(&shared->happened, 0);
}

bool
ts_recovery_happened(void)
{
	return pg_atomic_read_u32(&shared->happened) != 0;
}

/* ---- reading records ---- */

static const char *
get_bytes(Cursor *c, Size len)
{
	const char *bytes = c->at;

	if (len > (Size) (c->end - c->at))
		elog(PANIC, "tsengine WAL record is too short");
	c->at += len;
	return bytes;
}

static uint8
get_byte(Cursor *c)
{
	return *(const uint8 *) get_bytes(c, 1);
}

static uint64
get_number(Cursor *c)
{
	uint64		n = 0;

	for (int shift = 0; shift < 64; shift += 7)
	{
		uint8		byte = get_byte(c);

		n |= (uint64) (byte & 0x7F) << shift;
		if (byte < 0x80)
			return n;
	}
	elog(PANIC, "invalid number in tsengine WAL record");
	return 0;
}

static void
get_entry(Cursor *c, Entry *e)
{
	uint8		byte;

	e->blkno = (BlockNumber) get_number(c);
	e->index = get_byte(c);
	byte = get_byte(c);
	e->kind = byte & TS_WAL_KIND;
	e->flags = byte & ~TS_WAL_KIND;
	e->xmin = 0;
	if (e->flags & TS_WAL_HAS_XMIN)
		memcpy(&e->xmin, get_bytes(c, sizeof(uint32)), sizeof(uint32));
	e->total = e->offset = e->len = 0;
	switch (e->kind)
	{
		case TS_WAL_DELETE:
			break;
		case TS_WAL_FULL:
			e->total = e->len = get_number(c);
			e->bytes = get_bytes(c, e->len);
			break;
		case TS_WAL_PATCH:
		case TS_WAL_FRAGMENT:
			e->total = get_number(c);
			e->offset = get_number(c);
			e->len = get_number(c);
			e->bytes = get_bytes(c, e->len);
			if (e->offset + e->len > e->total)
				elog(PANIC, "invalid range in tsengine WAL record");
			break;
		default:
			elog(PANIC, "unknown kind %u of row in tsengine WAL record", e->kind);
	}
}

/* ---- rows ---- */

/* Outside epoch sections, so that garbage can be collected to make room. */
static void *
alloc_version(Size size)
{
	void	   *memory = ts_alloc(size, TS_ALLOC_RESERVE);

	Assert(ts_epoch_depth == 0);
	for (int i = 0; memory == NULL && i < PRESSURE_ROUNDS &&
		 ts_garbage_under_pressure() != TS_PRESSURE_NOTHING; i++)
	{
		pg_usleep(1000);
		memory = ts_alloc(size, TS_ALLOC_RESERVE);
	}
	if (memory == NULL)
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("the rows to be recovered do not fit into tsengine.memory"),
				 errhint("Increase \"tsengine.memory\" and start the server again.")));
	return memory;
}

/*
 * The tuple that a patch was made of: the newest one of the row, whatever its
 * fate, or the newest one that is not its own transaction's (`word`, or 0).
 */
static TsVersion *
base_of_patch(TsRow *row, uint64 word)
{
	TsVersion  *v = ts_row_head(row);

	while (v != NULL && ((v->flags & TS_V_DELETED) || ts_version_creator(v) == word))
		v = ts_version_prev(v);
	return v;
}

static inline char *
logged_part(TsVersion *v)
{
	return (char *) ts_version_tuple(v) + TS_TUPLE_SKIPPED;
}

/* Make the version that a row's entry describes; `word` as for base_of_patch. */
static TsVersion *
make_version(TsRow *row, const Entry *e, uint64 word)
{
	TsVersion  *v;
	TsVersion  *base;
	uint16		flags = (e->flags & TS_WAL_INSERTED) ? TS_V_INSERTED : 0;

	if (e->kind == TS_WAL_DELETE)
	{
		v = alloc_version(TS_DELETE_SIZE);
		memset(v, 0, TS_DELETE_SIZE);
		v->flags = flags | TS_V_DELETED | TS_V_KEYS_UPDATED;
		return v;
	}
	v = alloc_version(TS_VERSION_HEADER + TS_TUPLE_SKIPPED + e->total);
	memset(v, 0, TS_VERSION_HEADER + TS_TUPLE_SKIPPED);
	v->flags = flags;
	v->cid = e->xmin;
	ts_version_tuple(v)->t_len = (uint32) (TS_TUPLE_SKIPPED + e->total);
	if (e->kind == TS_WAL_PATCH)
	{
		/* a base that is missing or of another length belongs to a later state */
		ts_epoch_enter();
		base = base_of_patch(row, word);
		if (base != NULL && ts_version_tuple(base)->t_len == ts_version_tuple(v)->t_len)
			memcpy(logged_part(v), logged_part(base), e->total);
		else
			memset(logged_part(v), 0, e->total);
		ts_epoch_leave();
	}
	memcpy(logged_part(v) + e->offset, e->bytes, e->len);
	return v;
}

/*
 * The second and later pieces of a tuple go into the version that the first has
 * made.  False if there is none.
 */
static bool
continue_version(TsRowRef ref, const Entry *e)
{
	TsVersion  *v = ts_row_head(ts_ref_row(ref));

	if (e->kind != TS_WAL_FRAGMENT || e->offset == 0 ||
		v == NULL || (v->flags & TS_V_DELETED) ||
		ts_version_tuple(v)->t_len != TS_TUPLE_SKIPPED + e->total)
		return false;
	memcpy(logged_part(v) + e->offset, e->bytes, e->len);
	ts_block_changed(ref.block);
	return true;
}

/* Bring an undecided transaction to the end that clog tells of. */
static void
settle(TsTxn *txn)
{
	ts_undecided_end(txn, ts_txn_seq(pg_atomic_read_u64(&txn->state)),
					 TransactionIdDidCommit(pg_atomic_read_u32(&txn->xid)));
}

/*
 * Find a row.  If its newest version is another transaction's and undecided,
 * that one has ended before this record was written, without a record that is
 * replayed.  False if the row cannot be had (its image is damaged).
 */
static bool
find_row(TsTable *table, const Entry *e, TsTxn *mine, TsRowRef *ref)
{
	TsVersion  *head;
	uint64		word = 0;

	if (!ts_table_ensure_blocks(table, e->blkno + 1))
		(void) alloc_version(MaxAllocHugeSize);	/* says what is wrong */
	ref->block = ts_table_block(table, e->blkno);
	ref->index = e->index;
	if (ref->block == NULL || !ts_load_block(table, ref->block))
		return false;
	ts_epoch_enter();
	head = ts_row_head(ts_ref_row(*ref));
	if (head != NULL)
		word = ts_version_creator(head);
	ts_epoch_leave();
	if (ts_creator_is_live(word))
	{
		TsTxn	   *owner = ts_undecided_txn_of_word(word);

		/* the transaction that has copied the row has changed the copy */
		if (e->flags & TS_WAL_HAS_XMIN)
			return false;
		if (owner != NULL && owner != mine)
			settle(owner);
	}
	return true;
}

static void
gather(TsRowRef ref, TsVersion *version)
{
	if (gathered.n == gathered.max)
	{
		gathered.max = Max(64, gathered.max * 2);
		if (gathered.refs == NULL)
		{
			gathered.refs = MemoryContextAlloc(redo_context, gathered.max * sizeof(TsRowRef));
			gathered.versions = MemoryContextAlloc(redo_context,
												   gathered.max * sizeof(TsVersion *));
		}
		else
		{
			gathered.refs = repalloc_huge(gathered.refs, gathered.max * sizeof(TsRowRef));
			gathered.versions = repalloc_huge(gathered.versions,
											  gathered.max * sizeof(TsVersion *));
		}
	}
	gathered.refs[gathered.n] = ref;
	gathered.versions[gathered.n] = version;
	gathered.n++;
}

/* Apply one row; `txn` is NULL if the record is pure. */
static void
redo_row(TsTable *table, const Entry *e, TsTxn *txn, TransactionId xid)
{
	TsRowRef	ref;
	TsVersion  *version;
	bool		done;
	uint64		word = txn != NULL && !(e->flags & TS_WAL_BASE_MINE) ? ts_undecided_word(txn) : 0;

	if (!find_row(table, e, txn, &ref))
		return;
	ts_epoch_enter();
	/* nothing to delete: the image is of a later time */
	done = (e->kind == TS_WAL_DELETE && ts_row_head(ts_ref_row(ref)) == NULL) ||
		continue_version(ref, e);
	ts_epoch_leave();
	if (done)
		return;
	version = make_version(ts_ref_row(ref), e, word);
	if (txn == NULL)
		gather(ref, version);
	else
		ts_undecided_write(txn, xid, ref, version);
}

/* Groups of rows: see wal.h. */
static void
redo_rows(Cursor *c, Oid database, TsTxn *txn, TransactionId xid)
{
	while (c->at < c->end)
	{
		RelFileNode rnode = {InvalidOid, database, InvalidOid};
		TsTable    *table;
		uint16		n;

		memcpy(&rnode.relNode, get_bytes(c, sizeof(Oid)), sizeof(Oid));
		memcpy(&n, get_bytes(c, sizeof(n)), sizeof(n));
		/* a table that is not there is dropped by a record to come */
		table = ts_table_lookup(rnode);
		for (int i = 0; i < n; i++)
		{
			Entry		e;

			get_entry(c, &e);
			if (table != NULL)
				redo_row(table, &e, txn, xid);
		}
	}
}

static void
redo_pure(Cursor *c)
{
	TsWalPure	header;

	memcpy(&header, get_bytes(c, sizeof(header)), sizeof(header));
	gathered.n = 0;
	redo_rows(c, header.database, NULL, InvalidTransactionId);
	if (header.xmin != 0)
		ts_xmin_counter_restore(header.xmin);
	if (gathered.n > 0)
		ts_recovered_commit(gathered.refs, gathered.versions, gathered.n, header.xmin);
}

static void
redo_mixed(Cursor *c)
{
	TsWalMixed	header;

	memcpy(&header, get_bytes(c, sizeof(header)), sizeof(header));
	redo_rows(c, header.database, ts_undecided_txn(header.top_xid, true), header.xid);
}

/* ---- tables ---- */

static void
drop_files(int n, const RelFileNode *nodes)
{
	for (int i = 0; i < n; i++)
	{
		TsTable    *table = ts_table_lookup(nodes[i]);

		if (table != NULL)
			ts_undecided_forget_table(table);
		ts_table_drop(nodes[i], InvalidBackendId);
	}
}

static TsTable *
make_table(RelFileNode rnode, TransactionId creator_xid)
{
	TsTable    *table = ts_table_create(rnode, InvalidBackendId, RELPERSISTENCE_PERMANENT);

	table->creator_xid = creator_xid;
	ts_load_settle_later(table);
	return table;
}

static void
redo_table(uint8 info, Cursor *c)
{
	TsWalTable	record;
	TsTable    *table;

	memcpy(&record, get_bytes(c, sizeof(record)), sizeof(record));
	table = ts_table_find(record.rnode, InvalidBackendId);
	switch (info)
	{
		case TS_WAL_CREATE:
		case TS_WAL_EMPTY:
			/* the image may lack it, if it was emptied while that was written */
			drop_files(1, &record.rnode);
			(void) make_table(record.rnode, record.argument);
			break;
		case TS_WAL_EXTEND:
			if (table != NULL && !ts_table_ensure_blocks(table, record.argument))
				(void) alloc_version(MaxAllocHugeSize);
			break;
		case TS_WAL_INDEXED:
			if (table != NULL)
				pg_atomic_write_u32(&table->indexed, 2);
			break;
	}
}

/* ---- transactions ---- */

static void
redo_prepare(Cursor *c)
{
	TsWalPrepare header;
	TsPrepared *p;
	TsTxn	   *txn;
	int64		nlocks = 0;

	memcpy(&header, get_bytes(c, sizeof(header)), sizeof(header));
	txn = ts_undecided_txn(header.xid, true);
	p = ts_prepared_alloc(header.nlocks, header.ncommit_drops, header.nabort_drops);
	for (int64 i = 0; i < header.nlocks; i++)
	{
		TsWalLock	lock;
		TsTable    *table;
		Entry		e = {0};

		memcpy(&lock, get_bytes(c, sizeof(lock)), sizeof(lock));
		table = ts_table_find(lock.rnode, InvalidBackendId);
		e.blkno = lock.blkno;
		e.index = lock.index;
		if (table == NULL || !find_row(table, &e, txn, &p->locks[nlocks].ref))
			continue;
		p->locks[nlocks].tag = lock.tag;
		p->locks[nlocks].mode = lock.mode;
		nlocks++;
	}
	p->nlocks = nlocks;
	memcpy(p->commit_drops, get_bytes(c, header.ncommit_drops * sizeof(RelFileNode)),
		   header.ncommit_drops * sizeof(RelFileNode));
	memcpy(p->abort_drops, get_bytes(c, header.nabort_drops * sizeof(RelFileNode)),
		   header.nabort_drops * sizeof(RelFileNode));
	ts_prepared_restore(txn, p);
}

static void
end_undecided(TransactionId xid, bool committed)
{
	TsTxn	   *txn = ts_undecided_txn(xid, false);

	if (txn != NULL)
		ts_undecided_end(txn, ts_txn_seq(pg_atomic_read_u64(&txn->state)), committed);
}

static void
after_commit(XLogReaderState *record, bool prepared)
{
	xl_xact_parsed_commit parsed;

	ParseCommitRecord(XLogRecGetInfo(record), (xl_xact_commit *) XLogRecGetData(record), &parsed);
	end_undecided(prepared ? parsed.twophase_xid : XLogRecGetXid(record), true);
	drop_files(parsed.nrels, parsed.xnodes);
}

static void
after_abort(XLogReaderState *record, bool prepared)
{
	xl_xact_parsed_abort parsed;
	TransactionId xid;

	ParseAbortRecord(XLogRecGetInfo(record), (xl_xact_abort *) XLogRecGetData(record), &parsed);
	xid = prepared ? parsed.twophase_xid : XLogRecGetXid(record);
	if (ts_undecided_txn(xid, false) != NULL)
		end_undecided(xid, false);
	else
		ts_undecided_abort_sub(xid, parsed.nsubxacts, parsed.subxacts);
	drop_files(parsed.nrels, parsed.xnodes);
}

/*
 * Core's records of transactions: core's part comes first, so that the count of
 * finished transactions includes this one when versions are stamped; until then
 * readers go by the xid.
 */
static void
redo_core_xact(XLogReaderState *record)
{
	core_xact_redo(record);
	if (!ts_image_ensure_loaded())
		return;
	ts_txn_attach();
	switch (XLogRecGetInfo(record) & XLOG_XACT_OPMASK)
	{
		case XLOG_XACT_COMMIT:
			after_commit(record, false);
			break;
		case XLOG_XACT_COMMIT_PREPARED:
			after_commit(record, true);
			break;
		case XLOG_XACT_ABORT:
			after_abort(record, false);
			break;
		case XLOG_XACT_ABORT_PREPARED:
			after_abort(record, true);
			break;
		default:
			break;
	}
}

/* ---- the resource manager ---- */

static void
redo(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;
	Cursor		c = {XLogRecGetData(record), XLogRecGetData(record) + XLogRecGetDataLen(record)};

	/* the image shows what the record did, or there is no image to be changed */
	if (!ts_image_ensure_loaded() || record->EndRecPtr <= ts_image_loaded_lsn())
		return;
	ts_txn_attach();
	switch (info)
	{
		case TS_WAL_PURE:
			redo_pure(&c);
			break;
		case TS_WAL_MIXED:
			redo_mixed(&c);
			break;
		case TS_WAL_CREATE:
		case TS_WAL_EMPTY:
		case TS_WAL_EXTEND:
		case TS_WAL_INDEXED:
			redo_table(info, &c);
			break;
		case TS_WAL_PREPARE:
			redo_prepare(&c);
			break;
		default:
			elog(PANIC, "unknown type %u of tsengine WAL record", info);
	}
	(void) ts_garbage_collect(2);
}

static void
redo_begin(void)
{
	if (redo_context == NULL)
		redo_context = AllocSetContextCreate(TopMemoryContext, "tsengine redo",
											 ALLOCSET_DEFAULT_SIZES);
	pg_atomic_write_u32(&shared->happened, 1);
	(void) ts_image_ensure_loaded();
}

/*
 * All has been replayed.  The checkpoint that comes next moves the point from
 * which the next recovery starts, and the guard may not be there yet to hold it:
 * so an image is made durable here.  A full disk is waited for.
 */
static void
redo_end(void)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = false;

	if (!ts_image_ensure_loaded())
		return;
	ts_txn_attach();
	/* commits that nobody had waited for may be lost; what they showed is not shown again */
	ts_xmin_counter_restore(ts_xmin_counter() + LOST_COMMITS_MAX);
	while (!done)
	{
		PG_TRY();
		{
			ts_image_write(GetXLogReplayRecPtr(NULL), true);
			done = true;
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(context);
			EmitErrorReport();
			FlushErrorState();
			pg_usleep(1000000L);
			HandleStartupProcInterrupts();
		}
		PG_END_TRY();
	}
	if (redo_context != NULL)
		MemoryContextDelete(redo_context);
	redo_context = NULL;
	gathered = (Gathered) {0};
}

static const char *
identify(uint8 info)
{
	static const char *const names[] = {
		"PURE", "MIXED", "CREATE", "EMPTY", "EXTEND", "INDEXED", "PREPARE"
	};

	info = (info & ~XLR_INFO_MASK) >> 4;
	return info < lengthof(names) ? names[info] : NULL;
}

/* For pg_waldump's sake of the server's own messages: what a record says. */
static void
describe(StringInfo buf, XLogReaderState *record)
{
	const char *data = XLogRecGetData(record);
	TsWalPure	pure;
	TsWalMixed	mixed;
	TsWalTable	table;
	TsWalPrepare prepare;

	switch (XLogRecGetInfo(record) & ~XLR_INFO_MASK)
	{
		case TS_WAL_PURE:
			memcpy(&pure, data, sizeof(pure));
			appendStringInfo(buf, "database %u, xmin %u", pure.database, pure.xmin);
			break;
		case TS_WAL_MIXED:
			memcpy(&mixed, data, sizeof(mixed));
			appendStringInfo(buf, "database %u, xid %u of %u", mixed.database, mixed.xid,
							 mixed.top_xid);
			break;
		case TS_WAL_PREPARE:
			memcpy(&prepare, data, sizeof(prepare));
			appendStringInfo(buf, "xid %u, %lld row locks", prepare.xid,
							 (long long) prepare.nlocks);
			break;
		default:
			memcpy(&table, data, sizeof(table));
			appendStringInfo(buf, "rel %u/%u/%u: %u", table.rnode.spcNode, table.rnode.dbNode,
							 table.rnode.relNode, table.argument);
			break;
	}
}

/* At preload: the resource manager, and our share in core's records. */
void
ts_redo_register(void)
{
	static RmgrData rmgr = {
		.rm_name = TS_RMGR_NAME,
		.rm_redo = redo,
		.rm_desc = describe,
		.rm_identify = identify,
		.rm_startup = redo_begin,
		.rm_cleanup = redo_end
	};

	RegisterCustomRmgr(TS_RMGR_ID, &rmgr);
	core_xact_redo = RmgrTable[RM_XACT_ID].rm_redo;
	RmgrTable[RM_XACT_ID].rm_redo = redo_core_xact;
}
