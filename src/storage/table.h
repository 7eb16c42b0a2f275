/*-------------------------------------------------------------------------
 *
 * table.h
 *	  Tables: their directory in shared memory, blocks, and TIDs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_TABLE_H
#define TS_TABLE_H

#include "postgres.h"

#include "port/pg_bitutils.h"
#include "storage/block.h"
#include "storage/lwlock.h"
#include "storage/relfilenode.h"
#include "utils/relcache.h"

#include "storage/image.h"
#include "storage/version.h"

#define TS_ROWS_PER_BLOCK	256
#define TS_FIRST_BLOCK		1		/* block 0 never holds rows */
#define TS_MAX_BLOCK		0x40000000
#define TS_FIRST_SEGMENT	8		/* blocks in directory segment 0 */
#define TS_NUM_SEGMENTS		28

/* a block with fewer free slots than this is not offered for inserts again */
#define TS_BLOCK_REUSE_MIN	16

typedef struct TsTable TsTable;

typedef struct TsBlock
{
	TsTable    *table;
	BlockNumber blkno;
	pg_atomic_uint32 nfree;		/* slots in state TS_ROW_FREE */

	/*
	 * Slots from here on have never held a row.  Only grows; written by who
	 * inserts, before (full barrier) the row is stored.
	 */
	pg_atomic_uint32 limit;

	/* under the table's lock */
	bool		owned;			/* one process inserts here */
	bool		listed;			/* in the table's list of blocks with room */
	struct TsBlock *next_free;

	/* the block's image; written by who writes or loads images */
	TsImagePlace place;
	uint64		image_bytes;
	pg_atomic_uint32 load;		/* TsBlockLoad */

	TsRow		rows[TS_ROWS_PER_BLOCK];

	/*
	 * Committed content has changed since the image was begun.  Set (release)
	 * after the change; cleared (exchange, full barrier) before the rows are
	 * read for an image.  Away from the fields that readers look at.
	 */
	pg_atomic_uint32 dirty;
} TsBlock;

typedef enum TsTableIndexes
{
	TS_INDEXES_UNKNOWN,			/* loaded after a start: see relation.c */
	TS_INDEXES_MEMORY,			/* none but such that are in memory */
	TS_INDEXES_OTHERS,			/* some that only VACUUM cleans */
	TS_INDEXES_MOVED			/* the table has another file than its indexes
								 * know: it is left to VACUUM for good */
} TsTableIndexes;

struct TsTable
{
	/* identity; constant while `live` */
	RelFileNode rnode;
	BackendId	backend;
	char		persistence;	/* RELPERSISTENCE_* */

	/*
	 * Top-level xid that made a permanent table, until an image finds it
	 * committed: after a crash the table goes unless that xid has committed.
	 */
	TransactionId creator_xid;
	TsTable    *hash_next;		/* under the directory lock */

	/*
	 * Changes whenever the struct comes to stand for another table or the
	 * table is emptied in place: pointers to blocks are valid only as long as
	 * it is what it was.  Odd values only while the table exists.
	 */
	pg_atomic_uint64 generation;

	/*
	 * Not 0: entries in indexes that only VACUUM cleans may lead to dead rows.
	 * 1 while processes may still act on the 0 they saw, then 2 (build.c).
	 */
	pg_atomic_uint32 indexed;

	/* what indexes the table has, as far as a sweep cares (sweep.c) */
	pg_atomic_uint32 indexes;	/* TsTableIndexes */
	pg_atomic_uint32 index_builds;	/* builds of indexes in memory under way */
	pg_atomic_uint32 ndead;		/* rows that died since they were cleaned last */

	/*
	 * Blocks in use, block 0 included.  Advanced under `lock` with a write
	 * barrier after the directory entry is stored; read without a lock.
	 */
	pg_atomic_uint32 nblocks;

	pg_atomic_uint64 rows;		/* committed inserts less deletes */

	LWLock		lock;			/* extension, list of blocks with room */
	TsBlock    *free_head;
	TsTable    *drop_next;		/* in the list of tables to be freed */
	uint64		drop_epoch;		/* epoch at which it was put there */

	/*
	 * Loading after a start (durability/load.c).  While not TS_TABLE_READY only
	 * recovery and loaders touch the rows.
	 */
	pg_atomic_uint32 load;		/* TsTableLoad */
	pg_atomic_uint32 load_next; /* next block to be claimed by a loader */
	pg_atomic_uint32 load_left; /* blocks that are not loaded yet */
	pg_atomic_uint32 load_wanted;	/* somebody waits for it */
	uint32		damaged_file;	/* TS_TABLE_DAMAGED: the image file; constant */
	bool		changes_lost;	/* redo could not apply something */
	bool		bury_free;		/* free slots are dead until VACUUM: see load.c */

	/*
	 * Blocks whose TIDs may be in use as far as the WAL knows; under lock.  An
	 * image holds announced_blocks, which is raised before the WAL hears of it:
	 * what it holds is never behind its LSN.
	 */
	BlockNumber logged_blocks;
	BlockNumber announced_blocks;

	/* rows seen by the last VACUUM, for estimates; 0: none yet */
	pg_atomic_uint64 rows_at_vacuum;

	/* segment k holds pointers to TS_FIRST_SEGMENT << k blocks */
	TsBlock   **segment[TS_NUM_SEGMENTS];
};

/* position of a row */
typedef struct TsRowRef
{
	TsBlock    *block;
	uint32		index;
} TsRowRef;

#define ts_ref_row(ref)		(&(ref).block->rows[(ref).index])

static inline void
ts_ref_tid(TsRowRef ref, ItemPointer tid)
{
	ItemPointerSet(tid, ref.block->blkno, (OffsetNumber) (ref.index + 1));
}

static inline int
ts_segment_of_block(BlockNumber blkno, uint32 *offset)
{
	uint32		n = blkno / TS_FIRST_SEGMENT + 1;
	int			k = pg_leftmost_one_pos32(n);

	*offset = blkno - TS_FIRST_SEGMENT * ((1U << k) - 1);
	return k;
}

/* The block, or NULL if the table has none of that number. */
static inline TsBlock *
ts_table_block(TsTable *table, BlockNumber blkno)
{
	uint32		offset;
	int			k;

	if (unlikely(blkno >= pg_atomic_read_u32(&table->nblocks) || blkno < TS_FIRST_BLOCK))
		return NULL;
	pg_read_barrier();
	k = ts_segment_of_block(blkno, &offset);
	return table->segment[k][offset];
}

/* The row with this TID; false if there can be none. */
static inline bool
ts_table_row(TsTable *table, ItemPointer tid, TsRowRef *ref)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

	ref->block = ts_table_block(table, ItemPointerGetBlockNumberNoCheck(tid));
	ref->index = (uint32) offset - 1;
	return ref->block != NULL && offset >= 1 && offset <= TS_ROWS_PER_BLOCK;
}

static inline BlockNumber
ts_table_nblocks(TsTable *table)
{
	return pg_atomic_read_u32(&table->nblocks);
}

/* A row has died that indexes may lead to. */
static inline void
ts_table_row_died(TsTable *table)
{
	pg_atomic_fetch_add_u32(&table->ndead, 1);
}

/*
 * To be called after a change of the block's committed content (a stamp).  See
 * TsBlock.dirty.
 */
static inline void
ts_block_changed(TsBlock *block)
{
	pg_write_barrier();
	pg_atomic_write_u32(&block->dirty, 1);
}

/*
 * Runs before the memory of dropped tables is freed, and now and then in the
 * garbage collector: see prepared.c.
 */
extern void (*ts_table_before_free_hook) (void);

/*
 * Called when a relation file goes, be it a table's or another's, and when all
 * of a database go: see index/directory.c.  They raise no error.
 */
extern void (*ts_file_dropped_hook) (RelFileNode rnode, BackendId backend);
extern void (*ts_database_dropped_hook) (Oid database);

extern void ts_table_request(void);
extern void ts_table_startup(void);
extern bool ts_started_after_shutdown(void);
extern bool ts_large_table_exists(void);

extern TsTable *ts_table_create(RelFileNode rnode, BackendId backend, char persistence);
extern TsTable *ts_table_find(RelFileNode rnode, BackendId backend);
extern TsTable *ts_table_lookup(RelFileNode rnode);
extern void ts_table_drop(RelFileNode rnode, BackendId backend);
extern void ts_table_drop_database(Oid dboid);
extern void ts_table_empty(TsTable *table);
extern bool ts_table_free_dropped(void);
extern bool ts_table_any_dropped(void);

extern bool ts_table_reserve_row(TsTable *table, TsRowRef *ref);
extern TsBlock *ts_table_append_block(TsTable *table);
extern bool ts_table_ensure_blocks(TsTable *table, BlockNumber nblocks);
extern void ts_table_rows_freed(TsBlock *block, uint32 nfreed);
extern double ts_table_live_rows(TsTable *table);
extern void ts_table_release_blocks(void);
extern void ts_table_end_transaction(void);
extern void ts_table_add_rows(TsTable *table, int64 rows);

/*
 * A permanent or unlogged table as it was when listed.  Inside an epoch section
 * its blocks may be looked at if the generation is still the same.
 */
typedef struct TsTableRef
{
	TsTable    *table;
	uint64		generation;
	RelFileNode rnode;
	char		persistence;
	BlockNumber nblocks;
} TsTableRef;

extern TsTableRef *ts_table_list(int *n);

/* memory that rows take in a table, for statistics */
typedef struct TsTableStats
{
	BlockNumber blocks;
	int64		live_rows;
	int64		dead_rows;		/* dead until VACUUM has cleaned the indexes */
	int64		versions;
	int64		bytes;
} TsTableStats;

extern void ts_table_get_stats(TsTable *table, TsTableStats *stats);

#endif							/* TS_TABLE_H */
