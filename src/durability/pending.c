/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  The section of an image for transactions that are not decided.
 *
 * What a transaction with an xid has logged is not repeated after the image's
 * LSN, and only its xid will tell whether it counts.  So the section repeats
 * it: for each such transaction a PendingTxn with its row locks and relation
 * files to be dropped, and a PendingWrite for each of its writes, in order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"

#include "memory/arena.h"
#include "memory/epoch.h"
#include "transaction/txn.h"

#include "durability/load.h"
#include "durability/pending.h"

#define SMALL_BODY		8192

typedef enum PendingKind
{
	PENDING_TXN = 0x54535031,
	PENDING_WRITE,
	PENDING_END
} PendingKind;

typedef struct PendingTxn
{
	TransactionId xid;
	uint32		prepared;
	int64		nlocks;			/* PendingLocks follow, */
	int32		ncommit_drops;	/* then RelFileNodes */
	int32		nabort_drops;
} PendingTxn;

typedef struct PendingLock
{
	RelFileNode rnode;
	BlockNumber blkno;
	uint32		index;
	uint16		tag;
	uint16		mode;
} PendingLock;

typedef struct PendingWrite
{
	TransactionId xid;			/* of the (sub)transaction */
	RelFileNode rnode;
	BlockNumber blkno;
	uint16		index;
	uint16		flags;
	uint32		len;			/* bytes of body that follow */
} PendingWrite;

/* ---- writing ---- */

typedef struct PendingOutput
{
	TsImageOutput *out;
	bool		unlogged;
	XLogRecPtr	lsn;			/* the image's */
	bool		begun;			/* a transaction is in it */
	TsImagePlace place;
	uint64		start;			/* out->bytes there */
} PendingOutput;

static void
put(PendingOutput *p, const void *data, Size len)
{
	if (!p->begun)
	{
		p->place = ts_output_begin(p->out);
		p->start = p->out->bytes;
		p->begun = true;
	}
	ts_output_append(p->out, data, len);
}

static void
put_kind(PendingOutput *p, PendingKind kind)
{
	uint32		word = kind;

	put(p, &word, sizeof(word));
}

static bool
is_kept(const PendingOutput *p, const TsTable *table)
{
	return table->persistence == RELPERSISTENCE_PERMANENT ||
		(p->unlogged && table->persistence == RELPERSISTENCE_UNLOGGED);
}

/* What is kept of a version's body. */
static const char *
body_of(const TsVersion *v, uint32 *len)
{
	if ((v->flags & TS_V_DELETED) == 0)
	{
		*len = ((const MinimalTupleData *) v->body)->t_len - TS_TUPLE_SKIPPED;
		return v->body + TS_TUPLE_SKIPPED;
	}
	*len = (v->flags & TS_V_MOVED) ? sizeof(TsMoved) : 0;
	return v->body;
}

/*
 * The version of a write as long as it is undecided.  What has committed may be
 * pruned while we look, so the row is asked, not the write.  Inside an epoch
 * section.
 */
static TsVersion *
undecided_version(const TsWrite *write, uint64 live_word)
{
	TsVersion  *v = ts_row_head(&write->block->rows[write->index]);

	while (v != NULL && v != write->version)
		v = ts_version_prev(v);
	/* another's, if its memory has been given away since */
	return v != NULL && ts_version_creator(v) == live_word ? v : NULL;
}

static void
put_write(PendingOutput *p, const TsWrite *write, TransactionId xid, uint64 live_word)
{
	PendingWrite head = {.xid = xid,.blkno = write->block->blkno,.index = (uint16) write->index};
	char		small[SMALL_BODY];
	const char *body;
	TsVersion  *v;

	ts_epoch_enter();
	v = undecided_version(write, live_word);
	if (v == NULL)
	{
		/* committed meanwhile; its owner may not have come to say so */
		ts_block_changed(write->block);
		ts_epoch_leave();
		return;
	}
	head.rnode = write->block->table->rnode;
	head.flags = v->flags;
	body = body_of(v, &head.len);
	if (head.len <= sizeof(small))
	{
		memcpy(small, body, head.len);
		ts_epoch_leave();
		body = small;
	}
	put_kind(p, PENDING_WRITE);
	put(p, &head, sizeof(head));
	if (head.len > 0)
		put(p, body, head.len);
	if (body != small)
		ts_epoch_leave();
}

static void
put_prepared(PendingOutput *p, const TsPrepared *prepared, TransactionId xid)
{
	PendingTxn	head = {.xid = xid};

	if (prepared != NULL)
	{
		head.prepared = true;
		for (int64 i = 0; i < prepared->nlocks; i++)
			head.nlocks += is_kept(p, prepared->locks[i].ref.block->table);
		head.ncommit_drops = prepared->ncommit_drops;
		head.nabort_drops = prepared->nabort_drops;
	}
	put_kind(p, PENDING_TXN);
	put(p, &head, sizeof(head));
	if (prepared == NULL)
		return;
	for (int64 i = 0; i < prepared->nlocks; i++)
	{
		const TsPreparedLock *lock = &prepared->locks[i];
		PendingLock out = {
			lock->ref.block->table->rnode, lock->ref.block->blkno, lock->ref.index,
			lock->tag, lock->mode
		};

		if (is_kept(p, lock->ref.block->table))
			put(p, &out, sizeof(out));
	}
	put(p, prepared->commit_drops, prepared->ncommit_drops * sizeof(RelFileNode));
	put(p, prepared->abort_drops, prepared->nabort_drops * sizeof(RelFileNode));
}

/* With the transaction's logged_lock, which keeps list and versions. */
static void
put_transaction(PendingOutput *p, TsTxn *txn)
{
	int			nchunks = 0;
	TsLogged  **chunks;
	uint64		state = pg_atomic_read_u64(&txn->state);
	uint64		live_word = ts_live_word((uint64) (txn - ts_txns), ts_txn_seq(state));

	for (TsLogged *chunk = txn->logged; chunk != NULL; chunk = chunk->next)
		nchunks++;
	if (nchunks == 0 && txn->prepared == NULL && ts_txn_phase(state) != TS_TXN_PREPARED)
		return;
	chunks = palloc_extended(Max(nchunks, 1) * sizeof(TsLogged *), MCXT_ALLOC_HUGE);
	nchunks = 0;
	for (TsLogged *chunk = txn->logged; chunk != NULL; chunk = chunk->next)
		chunks[nchunks++] = chunk;
	put_prepared(p, txn->prepared, pg_atomic_read_u32(&txn->xid));
	while (nchunks > 0)
	{
		TsLogged   *chunk = chunks[--nchunks];

		/* redo meets all of it, after what it was written on top of */
		if (chunk->first_end > p->lsn)
			continue;
		for (int i = 0; i < chunk->n; i++)
			if (chunk->writes[i].version != NULL && is_kept(p, chunk->writes[i].block->table))
				put_write(p, &chunk->writes[i], chunk->xid, live_word);
	}
	pfree(chunks);
}

/*
 * Write the section; tells its place (file 0: there is none) and bytes.  Takes
 * each transaction's logged_lock in turn, and holds it while that is written.
 * Raises errors of the file system, which may leave a lock and an epoch section
 * to the caller.
 */
void
ts_pending_write(TsImageOutput *out, XLogRecPtr lsn, bool unlogged, TsImagePlace *place,
				 uint64 *bytes)
{
	PendingOutput p = {.out = out,.unlogged = unlogged,.lsn = lsn};

	for (int i = 0; i < ts_txn_count(); i++)
	{
		TsTxn	   *txn = &ts_txns[i];

		/* unlocked look: who has logged before our LSN shows one of these */
		if (txn->logged == NULL && txn->prepared == NULL &&
			ts_txn_phase(pg_atomic_read_u64(&txn->state)) != TS_TXN_PREPARED)
			continue;
		LWLockAcquire(&txn->logged_lock, LW_SHARED);
		put_transaction(&p, txn);
		LWLockRelease(&txn->logged_lock);
	}
	if (p.begun)
		put_kind(&p, PENDING_END);
	*place = p.place;
	*bytes = p.begun ? out->bytes - p.start : 0;
}

/* ---- reading ---- */

/* The row, its block loaded; false if there is none or it cannot be read. */
static bool
find_row(RelFileNode rnode, BlockNumber blkno, uint32 index, TsRowRef *ref)
{
	TsTable    *table = ts_table_find(rnode, InvalidBackendId);

	if (table == NULL)
		return false;			/* unlogged, after a crash */
	if (index >= TS_ROWS_PER_BLOCK)
		elog(ERROR, "invalid row in the image's section of undecided transactions");
	if (!ts_table_ensure_blocks(table, blkno + 1))
		ts_arena_out_of_memory(sizeof(TsBlock));
	ref->block = ts_table_block(table, blkno);
	ref->index = index;
	return ref->block != NULL && ts_load_block(table, ref->block);
}

static void
read_prepared(TsImageReader *reader, TsTxn *txn, const PendingTxn *head)
{
	TsPrepared *prepared;
	int64		n = 0;

	if (!head->prepared)
		return;
	prepared = ts_prepared_alloc(head->nlocks, head->ncommit_drops, head->nabort_drops);
	for (int64 i = 0; i < head->nlocks; i++)
	{
		PendingLock lock;
		TsRowRef	ref;

		ts_image_reader_read(reader, &lock, sizeof(lock));
		if (find_row(lock.rnode, lock.blkno, lock.index, &ref))
			prepared->locks[n++] = (TsPreparedLock) {ref, lock.tag, lock.mode};
	}
	prepared->nlocks = n;
	ts_image_reader_read(reader, prepared->commit_drops,
						 head->ncommit_drops * sizeof(RelFileNode));
	ts_image_reader_read(reader, prepared->abort_drops,
						 head->nabort_drops * sizeof(RelFileNode));
	ts_prepared_restore(txn, prepared);
}

static void
read_write(TsImageReader *reader, TsTxn *txn)
{
	PendingWrite head;
	TsRowRef	ref;
	Size		body;
	TsVersion  *v;

	ts_image_reader_read(reader, &head, sizeof(head));
	body = (head.flags & TS_V_DELETED) ? MAXALIGN(head.len) : (Size) head.len + TS_TUPLE_SKIPPED;
	v = ts_alloc_or_error(TS_VERSION_HEADER + body, TS_ALLOC_RESERVE);
	v->flags = head.flags;
	if (head.flags & TS_V_DELETED)
		ts_image_reader_read(reader, v->body, head.len);
	else
	{
		memset(v->body, 0, TS_TUPLE_SKIPPED);
		ts_version_tuple(v)->t_len = (uint32) body;
		ts_image_reader_read(reader, v->body + TS_TUPLE_SKIPPED, head.len);
	}
	if (find_row(head.rnode, head.blkno, head.index, &ref))
		ts_undecided_write(txn, head.xid, ref, v);
	else
		ts_free(v, TS_VERSION_HEADER + body);
}

static void
read_section(TsImageReader *reader)
{
	TsTxn	   *txn = NULL;

	for (;;)
	{
		uint32		kind;
		PendingTxn	head;

		ts_image_reader_read(reader, &kind, sizeof(kind));
		if (kind == PENDING_END)
			return;
		if (kind == PENDING_TXN)
		{
			ts_image_reader_read(reader, &head, sizeof(head));
			txn = ts_undecided_txn(head.xid, true);
			read_prepared(reader, txn, &head);
		}
		else if (kind == PENDING_WRITE && txn != NULL)
			read_write(reader, txn);
		else
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("invalid section of undecided transactions in the image")));
	}
}

/*
 * Read the section into memory; loads the blocks it needs.  Called once, when
 * the tables of the manifest have been made.  Raises errors of the file system
 * and 53200.
 */
void
ts_pending_read(TsImagePlace place, uint64 bytes)
{
	TsImageReader *reader = ts_image_reader_open(place.file, GetSystemIdentifier());

	PG_TRY();
	{
		ts_image_reader_start(reader, place, ts_image_last_page(place, bytes));
		read_section(reader);
	}
	PG_FINALLY();
	{
		ts_image_reader_close(reader);
	}
	PG_END_TRY();
}
