/*-------------------------------------------------------------------------
 *
 * table.c
 *	  The directory of tables, their blocks, and the allotment of TIDs.
 *
 * A table is found by database and relation file number, so that DROP, TRUNCATE
 * and rewrites follow PostgreSQL's own rules.  The tablespace is left out: ALTER
 * DATABASE SET TABLESPACE changes it without a word to us.  TsTable structs are type-stable:
 * they are reused for other tables but never given back, so a stale pointer
 * still points to a TsTable whose generation tells that it is stale.
 *
 * A process that inserts owns one block a table and fills its free slots; so
 * inserts of different processes share nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/log.h"
#include "storage/table.h"

#define DIRECTORY_BUCKETS	4096

/* test builds reach the case sooner */
#ifdef TSENGINE_TEST
#define LARGE_TABLE_BLOCKS	64
#else
#define LARGE_TABLE_BLOCKS	RELSEG_SIZE
#endif

typedef struct Directory
{
	int			tranche;
	bool		after_shutdown;	/* constant */
	bool		large_table;	/* set once, never cleared */
	TsTable    *unused;			/* structs for reuse, linked by hash_next */
	TsTable    *dropped;		/* tables whose memory is to be freed */
	TsTable    *buckets[DIRECTORY_BUCKETS];
} Directory;

/* the block this process inserts into, per table */
typedef struct OwnBlock
{
	TsTable    *table;			/* hash key */
	uint64		generation;
	TsBlock    *block;
	uint32		next;			/* first slot to try */
	int64		inserted;		/* rows of the running transaction */
	struct OwnBlock *next_uncounted;
} OwnBlock;

void		(*ts_table_before_free_hook) (void) = NULL;
void		(*ts_file_dropped_hook) (RelFileNode rnode, BackendId backend) = NULL;
void		(*ts_database_dropped_hook) (Oid database) = NULL;

static Directory *directory;
static LWLock *directory_lock;
static HTAB *own_blocks = NULL;
static OwnBlock *last_own = NULL;
static OwnBlock *uncounted = NULL;	/* those with inserted > 0 */

void
ts_table_request(void)
{
	RequestAddinShmemSpace(sizeof(Directory));
	RequestNamedLWLockTranche("TsengineDirectory", 1);
}

/*
 * Was the server shut down in an orderly way before it started?  Core has then
 * left unlogged relations, indexes among them, as they were.
 */
bool
ts_started_after_shutdown(void)
{
	return directory->after_shutdown;
}

/* Has any table grown beyond one segment of a relation file? */
bool
ts_large_table_exists(void)
{
	return directory->large_table;
}

static bool
was_shut_down(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		result = control->state == DB_SHUTDOWNED ||
		control->state == DB_SHUTDOWNED_IN_RECOVERY;

	pfree(control);
	return result;
}

void
ts_table_startup(void)
{
	bool		found;

	directory_lock = &GetNamedLWLockTranche("TsengineDirectory")->lock;
	directory = ShmemInitStruct("tsengine tables", sizeof(Directory), &found);
	if (!found)
	{
		memset(directory, 0, sizeof(Directory));
		directory->tranche = LWLockNewTrancheId();
		directory->after_shutdown = was_shut_down();
	}
	LWLockRegisterTranche(directory->tranche, "TsengineTable");
}

static TsTable **
bucket_of(RelFileNode rnode)
{
	uint32		h = rnode.relNode * 0x9E3779B1u ^ rnode.dbNode * 0x85EBCA77u;

	return &directory->buckets[(h ^ h >> 16) % DIRECTORY_BUCKETS];
}

static inline bool
is_table_of(const TsTable *table, RelFileNode rnode, BackendId backend)
{
	return table->rnode.relNode == rnode.relNode && table->rnode.dbNode == rnode.dbNode &&
		table->backend == backend;
}

static TsTable *
bucket_find(RelFileNode rnode, BackendId backend)
{
	TsTable    *table = *bucket_of(rnode);

	while (table != NULL && !is_table_of(table, rnode, backend))
		table = table->hash_next;
	return table;
}

/* An empty state, but for identity and generation. */
static void
table_reset(TsTable *table)
{
	pg_atomic_write_u32(&table->nblocks, TS_FIRST_BLOCK);
	pg_atomic_write_u64(&table->rows, 0);
	pg_atomic_write_u64(&table->rows_at_vacuum, 0);
	pg_atomic_write_u32(&table->load, TS_TABLE_READY);
	pg_atomic_write_u32(&table->load_left, 0);
	pg_atomic_write_u32(&table->load_next, TS_FIRST_BLOCK);
	pg_atomic_write_u32(&table->load_wanted, 0);
	pg_atomic_write_u32(&table->ndead, 0);
	table->damaged_file = 0;
	table->changes_lost = false;
	table->bury_free = false;
	table->logged_blocks = TS_FIRST_BLOCK;
	table->announced_blocks = TS_FIRST_BLOCK;
	table->free_head = NULL;
	memset(table->segment, 0, sizeof(table->segment));
}

/*
 * A struct for a new table; not yet in the directory.  Raises 53200 with no
 * lock held.
 */
static TsTable *
table_struct_get(void)
{
	TsTable    *table;

	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	table = directory->unused;
	if (table != NULL)
		directory->unused = table->hash_next;
	LWLockRelease(directory_lock);
	if (table == NULL)
	{
		table = ts_alloc_or_error(sizeof(TsTable), TS_ALLOC_RESERVE);
		memset(table, 0, sizeof(TsTable));
		pg_atomic_init_u64(&table->generation, 0);
		LWLockInitialize(&table->lock, directory->tranche);
	}
	return table;
}

/*
 * Make a table for a relation file, or return the one there is.  Raises 53200
 * when the arena is full.  Undone by ts_table_drop(), which follows the file's
 * life.
 */
TsTable *
ts_table_create(RelFileNode rnode, BackendId backend, char persistence)
{
	TsTable    *table = table_struct_get();
	TsTable   **bucket = bucket_of(rnode);
	TsTable    *other;

	table->rnode = rnode;
	table->backend = backend;
	table->persistence = persistence;
	table->creator_xid = InvalidTransactionId;
	pg_atomic_write_u32(&table->indexed, 0);
	pg_atomic_write_u32(&table->indexes, TS_INDEXES_UNKNOWN);
	pg_atomic_write_u32(&table->index_builds, 0);
	table_reset(table);
	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	other = bucket_find(rnode, backend);
	if (other == NULL)
	{
		pg_atomic_fetch_add_u64(&table->generation, 1);
		table->hash_next = *bucket;
		*bucket = table;
	}
	else
	{
		/* an unlogged table that two sessions found missing at once */
		table->hash_next = directory->unused;
		directory->unused = table;
		table = other;
	}
	LWLockRelease(directory_lock);
	if (table->rnode.spcNode != rnode.spcNode)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("relation file number %u is in use in another tablespace", rnode.relNode),
				 errhint("Repeat the command; it will get another number.")));
	return table;
}

/* The table of a relation file, or NULL. */
TsTable *
ts_table_find(RelFileNode rnode, BackendId backend)
{
	TsTable    *table;

	LWLockAcquire(directory_lock, LW_SHARED);
	table = bucket_find(rnode, backend);
	if (table != NULL)
		table->rnode.spcNode = rnode.spcNode;	/* the same for all who look */
	LWLockRelease(directory_lock);
	return table;
}

/* The same for recovery, which does not know the tablespace. */
TsTable *
ts_table_lookup(RelFileNode rnode)
{
	TsTable    *table;

	LWLockAcquire(directory_lock, LW_SHARED);
	table = bucket_find(rnode, InvalidBackendId);
	LWLockRelease(directory_lock);
	return table;
}

/* With the directory lock held: out of the directory, into the drop list. */
static void
unlink_table(TsTable **link)
{
	TsTable    *table = *link;

	*link = table->hash_next;
	pg_atomic_fetch_add_u64(&table->generation, 1);
	table->drop_epoch = ts_epoch_now();
	table->drop_next = directory->dropped;
	directory->dropped = table;
}

/*
 * Forget a table.  Its memory is freed later by ts_table_free_dropped().  The
 * caller holds a lock on the relation that keeps all others out.  No error.
 */
void
ts_table_drop(RelFileNode rnode, BackendId backend)
{
	TsTable   **link;

	if (ts_file_dropped_hook != NULL)
		ts_file_dropped_hook(rnode, backend);
	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	for (link = bucket_of(rnode); *link != NULL; link = &(*link)->hash_next)
	{
		if (is_table_of(*link, rnode, backend))
		{
			unlink_table(link);
			break;
		}
	}
	LWLockRelease(directory_lock);
}

void
ts_table_drop_database(Oid dboid)
{
	if (ts_database_dropped_hook != NULL)
		ts_database_dropped_hook(dboid);
	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	for (int i = 0; i < DIRECTORY_BUCKETS; i++)
	{
		TsTable   **link = &directory->buckets[i];

		while (*link != NULL)
		{
			if ((*link)->rnode.dbNode == dboid)
				unlink_table(link);
			else
				link = &(*link)->hash_next;
		}
	}
	LWLockRelease(directory_lock);
}

/*
 * Throw away all rows at once (a table made in the same transaction is
 * truncated in place).  The caller holds AccessExclusiveLock.  Raises 53200
 * before anything is changed.
 */
void
ts_table_empty(TsTable *table)
{
	TsTable    *remains = table_struct_get();

	/* the rows go to a struct of their own, which is dropped at once */
	memcpy(remains->segment, table->segment, sizeof(table->segment));
	pg_atomic_write_u32(&remains->nblocks, pg_atomic_read_u32(&table->nblocks));
	pg_atomic_fetch_add_u64(&remains->generation, 2);
	pg_atomic_fetch_add_u64(&table->generation, 2);
	/* collectors that still take the old rows for the table's finish first */
	ts_epoch_wait_grace();
	table_reset(table);
	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	remains->drop_epoch = 0;
	remains->drop_next = directory->dropped;
	directory->dropped = remains;
	LWLockRelease(directory_lock);
}

/* Copy what is in the directory to `refs`, at most `max`; returns how many there are. */
static int
list_tables(TsTableRef *refs, int max)
{
	int			n = 0;

	LWLockAcquire(directory_lock, LW_SHARED);
	for (int i = 0; i < DIRECTORY_BUCKETS; i++)
	{
		for (TsTable *table = directory->buckets[i]; table != NULL; table = table->hash_next)
		{
			if (table->persistence == RELPERSISTENCE_TEMP)
				continue;
			if (n < max)
				refs[n] = (TsTableRef) {
					table, pg_atomic_read_u64(&table->generation), table->rnode,
					table->persistence, ts_table_nblocks(table)
				};
			n++;
		}
	}
	LWLockRelease(directory_lock);
	return n;
}

/* All tables but temporary ones, in a palloc'd array. */
TsTableRef *
ts_table_list(int *n)
{
	int			max = 64;
	TsTableRef *refs = palloc(max * sizeof(TsTableRef));

	while ((*n = list_tables(refs, max)) > max)
	{
		max = *n + 16;
		pfree(refs);
		refs = palloc_extended(max * sizeof(TsTableRef), MCXT_ALLOC_HUGE);
	}
	return refs;
}

static void
free_versions(TsBlock *block)
{
	for (int i = 0; i < TS_ROWS_PER_BLOCK; i++)
	{
		TsVersion  *v = ts_row_head(&block->rows[i]);

		while (v != NULL)
		{
			TsVersion  *prev = ts_version_prev(v);

			ts_retire(v, ts_version_size(v));
			v = prev;
		}
	}
}

/* Is there a dropped table whose memory is still to be freed? */
bool
ts_table_any_dropped(void)
{
	return *(TsTable *volatile *) &directory->dropped != NULL;
}

/*
 * Free the memory of one dropped table.  False if there was none.  Called by
 * the garbage collector and under memory pressure, outside epoch sections.
 */
bool
ts_table_free_dropped(void)
{
	TsTable    *table;
	BlockNumber nblocks;

	if (!ts_table_any_dropped())	/* unlocked look: a hint only */
		return false;
	if (ts_table_before_free_hook != NULL)
		ts_table_before_free_hook();
	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	table = directory->dropped;
	/* collectors that have seen the old generation finish first */
	if (table != NULL && !ts_epoch_passed(table->drop_epoch))
		table = NULL;
	if (table != NULL)
		directory->dropped = table->drop_next;
	LWLockRelease(directory_lock);
	if (table == NULL)
		return false;

	nblocks = pg_atomic_read_u32(&table->nblocks);
	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < nblocks; blkno++)
	{
		TsBlock    *block = ts_table_block(table, blkno);

		free_versions(block);
		ts_retire(block, sizeof(TsBlock));
	}
	for (int k = 0; k < TS_NUM_SEGMENTS; k++)
		if (table->segment[k] != NULL)
			ts_retire(table->segment[k], (sizeof(TsBlock *) * TS_FIRST_SEGMENT) << k);
	table_reset(table);

	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	table->hash_next = directory->unused;
	directory->unused = table;
	LWLockRelease(directory_lock);
	return true;
}

/*
 * Make room for one more block.  Called with the table's lock held, with
 * memory for the block and, where a new one is due, for the segment.  Returns
 * false if the segment or the WAL's word for the block's TIDs is missing.
 */
static bool
append_block(TsTable *table, TsBlock *block, void **segment, bool owned)
{
	BlockNumber blkno = pg_atomic_read_u32(&table->nblocks);
	uint32		offset;
	int			k = ts_segment_of_block(blkno, &offset);

	if (table->persistence == RELPERSISTENCE_PERMANENT && blkno >= table->logged_blocks)
		return false;
	if (table->segment[k] == NULL)
	{
		if (*segment == NULL)
			return false;
		table->segment[k] = *segment;
		*segment = NULL;
	}
	block->table = table;
	block->blkno = blkno;
	pg_atomic_init_u32(&block->nfree, TS_ROWS_PER_BLOCK);
	pg_atomic_init_u32(&block->limit, 0);
	block->owned = owned;
	block->listed = false;
	block->next_free = NULL;
	block->place = (TsImagePlace) {0};
	block->image_bytes = 0;
	pg_atomic_init_u32(&block->load, TS_BLOCK_LOADED);
	pg_atomic_init_u32(&block->dirty, 0);
	for (int i = 0; i < TS_ROWS_PER_BLOCK; i++)
		pg_atomic_init_u64(&block->rows[i], TS_ROW_FREE);
	table->segment[k][offset] = block;
	if (unlikely(blkno + 1 >= LARGE_TABLE_BLOCKS))
		directory->large_table = true;
	pg_write_barrier();
	pg_atomic_write_u32(&table->nblocks, blkno + 1);
	return true;
}

/*
 * Let the WAL know of blocks about to be used, in batches.  Raises an error if
 * it cannot be written.
 */
static void
log_more_blocks(TsTable *table)
{
	BlockNumber nblocks = ts_table_nblocks(table);
	BlockNumber to = nblocks + Max(8, Min(nblocks / 8, 4096));

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	table->announced_blocks = Max(table->announced_blocks, to);
	LWLockRelease(&table->lock);
	ts_log_extend(table->rnode, to);
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	table->logged_blocks = Max(table->logged_blocks, to);
	LWLockRelease(&table->lock);
}

/*
 * A new block, owned by this process or by nobody, or NULL if the arena is
 * full.  Raises an error if it cannot be logged.
 */
static TsBlock *
extend_table(TsTable *table, bool owned, TsAllocMode mode)
{
	void	   *segment = NULL;
	Size		segment_size = 0;
	TsBlock    *block;

	if (table->persistence == RELPERSISTENCE_PERMANENT &&
		ts_table_nblocks(table) >= table->logged_blocks)	/* unlocked: checked again */
		log_more_blocks(table);
	block = ts_alloc(sizeof(TsBlock), mode);
	if (block == NULL || ts_table_nblocks(table) >= TS_MAX_BLOCK)
	{
		if (block != NULL)
			ts_free(block, sizeof(TsBlock));
		return NULL;
	}
	for (;;)
	{
		bool		done;
		bool		unlogged;
		uint32		offset;
		int			k;

		LWLockAcquire(&table->lock, LW_EXCLUSIVE);
		k = ts_segment_of_block(ts_table_nblocks(table), &offset);
		done = append_block(table, block, &segment, owned);
		unlogged = table->persistence == RELPERSISTENCE_PERMANENT &&
			ts_table_nblocks(table) >= table->logged_blocks;
		LWLockRelease(&table->lock);
		if (segment != NULL)
			ts_free(segment, segment_size);
		if (done)
			return block;
		if (unlogged)
		{
			/* the others' blocks have used up the batch */
			ts_free(block, sizeof(TsBlock));
			return extend_table(table, owned, mode);
		}
		segment_size = (sizeof(TsBlock *) * TS_FIRST_SEGMENT) << k;
		segment = ts_alloc(segment_size, mode);
		if (segment == NULL)
		{
			ts_free(block, sizeof(TsBlock));
			return NULL;
		}
	}
}

/*
 * Add a block to a table nobody else uses yet, to be filled by the caller.
 * Raises 53200.
 */
TsBlock *
ts_table_append_block(TsTable *table)
{
	TsBlock    *block = extend_table(table, false, TS_ALLOC_NORMAL);

	if (block == NULL)
		ts_arena_out_of_memory(sizeof(TsBlock));
	return block;
}

/*
 * For recovery and loading: make sure that blocks below nblocks exist, without
 * a word to the WAL.  False if the arena is full, its reserve included.
 */
bool
ts_table_ensure_blocks(TsTable *table, BlockNumber nblocks)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	table->logged_blocks = Max(table->logged_blocks, nblocks);
	table->announced_blocks = Max(table->announced_blocks, nblocks);
	LWLockRelease(&table->lock);
	while (ts_table_nblocks(table) < nblocks)
		if (extend_table(table, false, TS_ALLOC_RESERVE) == NULL)
			return false;
	return true;
}

static TsBlock *
take_listed_block(TsTable *table)
{
	TsBlock    *block;

	if (table->free_head == NULL)	/* unlocked look: a hint only */
		return NULL;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	block = table->free_head;
	if (block != NULL)
	{
		table->free_head = block->next_free;
		block->listed = false;
		block->owned = true;
	}
	LWLockRelease(&table->lock);
	return block;
}

/* With the table's lock held: offer a block for inserts. */
static void
list_block(TsBlock *block)
{
	if (block->listed || block->owned)
		return;
	block->listed = true;
	block->next_free = block->table->free_head;
	block->table->free_head = block;
}

/* Give up the block of a table; it is offered to others if it has room. */
static void
release_own(OwnBlock *own)
{
	TsBlock    *block = own->block;

	if (block == NULL)
		return;
	own->block = NULL;
	/* inside the epoch the block stays, if its table was there */
	ts_epoch_enter();
	if (pg_atomic_read_u64(&own->table->generation) == own->generation)
	{
		LWLockAcquire(&own->table->lock, LW_EXCLUSIVE);
		block->owned = false;
		/* pairs with the atomic add in ts_table_rows_freed: one of us sees it */
		pg_memory_barrier();
		if (pg_atomic_read_u32(&block->nfree) >= TS_BLOCK_REUSE_MIN)
			list_block(block);
		LWLockRelease(&own->table->lock);
	}
	ts_epoch_leave();
}

/* The transaction has ended: its inserts are in the tables' counts, or undone. */
void
ts_table_end_transaction(void)
{
	for (; uncounted != NULL; uncounted = uncounted->next_uncounted)
		uncounted->inserted = 0;
}

/* At process exit. */
void
ts_table_release_blocks(void)
{
	HASH_SEQ_STATUS seq;
	OwnBlock   *own;

	if (own_blocks == NULL)
		return;
	hash_seq_init(&seq, own_blocks);
	while ((own = hash_seq_search(&seq)) != NULL)
		release_own(own);
	last_own = NULL;
}

static OwnBlock *
own_block_entry(TsTable *table)
{
	OwnBlock   *own;
	bool		found;
	uint64		generation = pg_atomic_read_u64(&table->generation);

	if (last_own != NULL && last_own->table == table && last_own->generation == generation)
		return last_own;
	if (own_blocks == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(TsTable *),.entrysize = sizeof(OwnBlock),
		.hcxt = TopMemoryContext};

		own_blocks = hash_create("tsengine own blocks", 64, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	own = hash_search(own_blocks, &table, HASH_ENTER, &found);
	if (!found)
		own->inserted = 0;
	if (!found || own->generation != generation)
	{
		own->block = NULL;
		own->generation = generation;
	}
	last_own = own;
	return own;
}

/*
 * Find a free TID for a new row.  The slot stays in state TS_ROW_FREE, but no
 * other process takes it; the caller stores its version there, or returns it
 * with ts_table_rows_freed().  False when the arena is full.
 */
bool
ts_table_reserve_row(TsTable *table, TsRowRef *ref)
{
	OwnBlock   *own = own_block_entry(table);

	for (;;)
	{
		TsBlock    *block = own->block;

		if (block != NULL)
		{
			while (own->next < TS_ROWS_PER_BLOCK &&
				   (pg_atomic_read_u64(&block->rows[own->next]) & ~TS_ROW_BITS) != TS_ROW_FREE)
				own->next++;
			if (own->next < TS_ROWS_PER_BLOCK)
			{
				ref->block = block;
				ref->index = own->next++;
				if (pg_atomic_read_u32(&block->limit) < own->next)
					pg_atomic_write_u32(&block->limit, own->next);
				if (own->inserted++ == 0)
				{
					own->next_uncounted = uncounted;
					uncounted = own;
				}
				pg_atomic_fetch_sub_u32(&block->nfree, 1);
				return true;
			}
			release_own(own);
		}
		block = take_listed_block(table);
		if (block == NULL)
			block = extend_table(table, true, TS_ALLOC_NORMAL);
		if (block == NULL)
			return false;
		own->block = block;
		own->next = 0;
	}
}

/*
 * Note that slots of a block have become free.  Offers the block for inserts
 * when it has room enough to be worth it.
 */
void
ts_table_rows_freed(TsBlock *block, uint32 nfreed)
{
	uint32		nfree = pg_atomic_fetch_add_u32(&block->nfree, nfreed) + nfreed;

	if (nfree < TS_BLOCK_REUSE_MIN || block->owned || block->listed)
		return;					/* unlocked looks: the owner lists it later */
	LWLockAcquire(&block->table->lock, LW_EXCLUSIVE);
	list_block(block);
	LWLockRelease(&block->table->lock);
}

/* A committed transaction's inserts less its deletes. */
void
ts_table_add_rows(TsTable *table, int64 rows)
{
	pg_atomic_fetch_add_u64(&table->rows, rows);
}

/* Committed rows, and those this transaction has inserted: for the planner. */
double
ts_table_live_rows(TsTable *table)
{
	int64		rows = (int64) pg_atomic_read_u64(&table->rows);

	for (OwnBlock *own = uncounted; own != NULL; own = own->next_uncounted)
		if (own->table == table)
			rows += own->inserted;
	return Max(rows, 0);
}

static void
count_row(TsRow *row, TsTableStats *stats)
{
	uint64		word = pg_atomic_read_u64(row);
	TsVersion  *v = ts_row_word_version(word);

	if (v == NULL)
	{
		if ((word & ~TS_ROW_BITS) != TS_ROW_FREE)
			stats->dead_rows++;
		return;
	}
	if ((v->flags & TS_V_DELETED) == 0)
		stats->live_rows++;
	for (; v != NULL; v = ts_version_prev(v))
	{
		stats->versions++;
		stats->bytes += ts_version_size(v);
	}
}

/* Walks the whole table.  Figures of a table under change are approximate. */
void
ts_table_get_stats(TsTable *table, TsTableStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->blocks = ts_table_nblocks(table) - TS_FIRST_BLOCK;
	stats->bytes = sizeof(TsTable) + stats->blocks * sizeof(TsBlock);
	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < stats->blocks + TS_FIRST_BLOCK; blkno++)
	{
		TsBlock    *block = ts_table_block(table, blkno);

		CHECK_FOR_INTERRUPTS();
		ts_epoch_enter();
		for (int i = 0; i < TS_ROWS_PER_BLOCK; i++)
			count_row(&block->rows[i], stats);
		ts_epoch_leave();
	}
}
