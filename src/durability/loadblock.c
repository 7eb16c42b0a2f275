/*-------------------------------------------------------------------------
 *
 * loadblock.c
 *	  Bringing blocks from the image into memory.
 *
 * A process claims blocks (load: ON_DISK -> LOADING) before it looks at the
 * file: the file then stays, as a block that is not loaded refers to it.  Redo
 * loads single blocks, the loader batches, in the order of the file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "memory/epoch.h"

#include "durability/blockimage.h"
#include "durability/fault.h"
#include "durability/load.h"

#define BATCH_BLOCKS		256
#define MAX_GAP_PAGES		16	/* rather read on than begin anew */

typedef struct Claims
{
	TsTable    *table;
	uint64		generation;
	uint32		reading_file;	/* for messages */
	int			n;
	int			done;			/* [0 .. done) are loaded */
	TsBlockCopy blocks[BATCH_BLOCKS];
	TsBlockContent content;		/* of the one being read */
	char	   *buffer;
} Claims;

/* Claim a block if it is on disk only.  Inside an epoch section. */
static bool
claim(Claims *claims, TsBlock *block)
{
	uint32		expected = TS_BLOCK_ON_DISK;
	TsBlockCopy *copy = &claims->blocks[claims->n];

	if (!pg_atomic_compare_exchange_u32(&block->load, &expected, TS_BLOCK_LOADING))
		return false;
	copy->block = block;
	copy->table = claims->table;
	copy->generation = claims->generation;
	copy->rnode = claims->table->rnode;
	copy->blkno = block->blkno;
	copy->place = block->place;
	copy->bytes = block->image_bytes;
	claims->n++;
	return true;
}

/*
 * Give up what was claimed and not loaded: it is on disk again.  The block that
 * was being read may be found damaged; its place stays in later manifests.
 */
static void
release_claims(Claims *claims, bool damaged)
{
	BlockNumber lowest = InvalidBlockNumber;

	ts_epoch_enter();
	if (pg_atomic_read_u64(&claims->table->generation) == claims->generation)
	{
		for (int i = claims->done; i < claims->n; i++)
		{
			if (damaged && i == claims->done)
			{
				pg_atomic_write_u32(&claims->blocks[i].block->load, TS_BLOCK_DAMAGED);
				continue;
			}
			pg_atomic_write_u32(&claims->blocks[i].block->load, TS_BLOCK_ON_DISK);
			lowest = Min(lowest, claims->blocks[i].blkno);
		}
		if (lowest != InvalidBlockNumber)
		{
			uint32		next = pg_atomic_read_u32(&claims->table->load_next);

			/* somebody is to come by again */
			while (next > lowest &&
				   !pg_atomic_compare_exchange_u32(&claims->table->load_next, &next, lowest))
				;
		}
	}
	ts_epoch_leave();
	claims->n = claims->done;
}

/* Put the block that was read in place. */
static void
install(Claims *claims)
{
	const TsBlockCopy *copy = &claims->blocks[claims->done];
	bool		installed = false;

	ts_epoch_enter();
	if (pg_atomic_read_u64(&copy->table->generation) == copy->generation)
	{
		ts_block_install(copy->block, &claims->content);
		pg_atomic_fetch_sub_u32(&copy->table->load_left, 1);
		installed = true;
	}
	ts_epoch_leave();
	if (!installed)
		ts_block_content_free(&claims->content);
	pg_atomic_fetch_add_u64(&ts_image_shared->rows_loaded, claims->content.nrows);
	pg_atomic_fetch_add_u64(&ts_image_shared->blocks_loaded, 1);
	pg_atomic_fetch_add_u64(&ts_image_shared->bytes_loaded, copy->bytes);
	claims->content.n = 0;
	claims->done++;
}

static int
compare_places(const void *a, const void *b)
{
	const TsImagePlace *x = &((const TsBlockCopy *) a)->place;
	const TsImagePlace *y = &((const TsBlockCopy *) b)->place;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->page != y->page)
		return x->page < y->page ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset ? 1 : 0;
}

static inline uint32
last_page(const TsBlockCopy *copy)
{
	return ts_image_last_page(copy->place, copy->bytes);
}

/* Read a run of blocks that lie close together in one file. */
static void
read_run(Claims *claims, TsImageReader *reader, int end)
{
	ts_image_reader_start(reader, claims->blocks[claims->done].place,
						  last_page(&claims->blocks[end - 1]));
	while (claims->done < end)
	{
		const TsBlockCopy *copy = &claims->blocks[claims->done];

		ts_image_reader_skip_to(reader, copy->place);
		ts_block_read(reader, copy, claims->buffer, &claims->content);
		install(claims);
	}
}

/* Read all that was claimed.  *reader is open or NULL, whatever happens. */
static void
read_claims(Claims *claims, TsImageReader **reader, uint32 *reader_file)
{
	while (claims->done < claims->n)
	{
		const TsBlockCopy *first = &claims->blocks[claims->done];
		int			end = claims->done + 1;

		claims->reading_file = first->place.file;
		if (*reader != NULL && *reader_file != first->place.file)
		{
			TsImageReader *old = *reader;

			*reader = NULL;
			ts_image_reader_close(old);
		}
		if (*reader == NULL)
		{
			*reader = ts_image_reader_open(first->place.file, GetSystemIdentifier());
			*reader_file = first->place.file;
		}
		while (end < claims->n && claims->blocks[end].place.file == first->place.file &&
			   claims->blocks[end].place.page <= last_page(&claims->blocks[end - 1]) + MAX_GAP_PAGES)
			end++;
		read_run(claims, *reader, end);
	}
}

/* Is it the file's fault, and not for want of memory, descriptors and so on? */
static bool
is_damage(const ErrorData *error)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return category != ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) &&
		category != ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION);
}

/*
 * Load what was claimed.  False if that is not possible because of damage, which
 * is noted and logged.  Other errors are raised, with the claims given up.
 */
static bool
load_claims(Claims *claims, TsImageReader **reader, uint32 *reader_file)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	volatile bool ok = true;

	claims->content.n = 0;
	claims->done = 0;
	/* nobody else could finish what we have claimed */
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		ts_fault_slow_load();
		read_claims(claims, reader, reader_file);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		InterruptHoldoffCount = holdoff + 1;	/* as it was before the error */
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		ts_epoch_reset();
		ts_block_content_free(&claims->content);
		if (*reader != NULL)
			ts_image_reader_close(*reader);
		*reader = NULL;
		if (!is_damage(error))
		{
			release_claims(claims, false);
			InterruptHoldoffCount = 0;	/* as an error leaves it */
			PG_RE_THROW();
		}
		FlushErrorState();
		ts_load_damaged(claims->table, claims->generation, claims->reading_file, error->message);
		FreeErrorData(error);
		release_claims(claims, true);
		ok = false;
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
	return ok;
}

/* Claim the next batch; false if no block is left to be looked at. */
static bool
claim_batch(Claims *claims)
{
	TsTable    *table = claims->table;
	BlockNumber first;
	BlockNumber end;
	bool		any = false;

	ts_epoch_enter();
	if (pg_atomic_read_u64(&table->generation) == claims->generation &&
		pg_atomic_read_u32(&table->load_next) < ts_table_nblocks(table))
	{
		first = pg_atomic_fetch_add_u32(&table->load_next, BATCH_BLOCKS);
		end = Min(first + BATCH_BLOCKS, ts_table_nblocks(table));
		for (BlockNumber blkno = first; blkno < end; blkno++)
			(void) claim(claims, ts_table_block(table, blkno));
		any = first < end;
	}
	ts_epoch_leave();
	return any;
}

/*
 * Load the next blocks of a table, as long as it is of this generation.  False
 * if none is left.  Raises 53200 and other lacks of resources.
 */
bool
ts_load_batch(TsTable *table, uint64 generation)
{
	Claims	   *claims = palloc(sizeof(Claims));
	TsImageReader *reader = NULL;
	uint32		reader_file = 0;
	bool		any;

	claims->table = table;
	claims->generation = generation;
	claims->n = 0;
	claims->buffer = palloc(TS_BLOCK_BUFFER);
	any = claim_batch(claims);
	qsort(claims->blocks, claims->n, sizeof(TsBlockCopy), compare_places);
	(void) load_claims(claims, &reader, &reader_file);
	if (reader != NULL)
		ts_image_reader_close(reader);
	pfree(claims->buffer);
	pfree(claims);
	return any;
}

/* Load one block that is on disk, if nobody else does.  The reader is kept. */
static void
load_single(TsTable *table, TsBlock *block)
{
	static Claims *claims = NULL;
	static TsImageReader *reader = NULL;
	static uint32 reader_file = 0;
	MemoryContext context = MemoryContextSwitchTo(TopMemoryContext);

	if (claims == NULL)
	{
		Claims	   *made = palloc(sizeof(Claims));

		made->buffer = palloc(TS_BLOCK_BUFFER);
		claims = made;
	}
	claims->table = table;
	claims->generation = pg_atomic_read_u64(&table->generation);
	claims->n = 0;
	ts_epoch_enter();
	(void) claim(claims, block);
	ts_epoch_leave();
	if (claims->n > 0)
		(void) load_claims(claims, &reader, &reader_file);
	MemoryContextSwitchTo(context);
}

bool
ts_load_block(TsTable *table, TsBlock *block)
{
	for (;;)
	{
		uint32		load = pg_atomic_read_u32(&block->load);

		pg_read_barrier();
		if (load == TS_BLOCK_LOADED)
			return true;
		if (load == TS_BLOCK_DAMAGED)
		{
			table->changes_lost = true;
			return false;
		}
		if (load == TS_BLOCK_ON_DISK)
			load_single(table, block);
		else
		{
			/* another process is at it, for some milliseconds */
			CHECK_FOR_INTERRUPTS();
			pg_usleep(100);
		}
	}
}
