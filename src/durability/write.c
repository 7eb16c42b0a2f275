/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Writing an image.
 *
 * An image has one LSN for all of it.  Every record that ends at or before it
 * is in the image: in a block, or in the section of undecided transactions.  A
 * block may hold later changes as well, as nobody is kept from making any;
 * redo repeats those in order, whole rows each, and so ends where it should.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/transam.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/proc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "memory/epoch.h"
#include "storage/horizon.h"
#include "transaction/durable.h"
#include "transaction/txn.h"

#include "durability/blockimage.h"
#include "durability/imageio.h"
#include "durability/load.h"
#include "durability/manifest.h"
#include "durability/pending.h"

#define COMPACT_EXTRA_BYTES		(UINT64CONST(64) * 1024 * 1024)
#define SMALL_FILE_BYTES		(UINT64CONST(8) * 1024 * 1024)
#define MANY_FILES				256
#define PACE_BYTES				(512 * 1024)
#define PACE_REST				3
#define PACE_MAX_USEC			50000
#define MIN_RESERVE_BYTES		(UINT64CONST(16) * 1024 * 1024)
#define MAX_RESERVE_BYTES		(UINT64CONST(256) * 1024 * 1024)

/* An image file that blocks in memory refer to. */
typedef struct FileUse
{
	uint32		file;			/* hash key */
	uint32		pages;
	uint64		live_before;	/* bytes of blocks when the image began */
	uint64		live_after;		/* ... as of the new manifest */
	bool		pinned;			/* some block is on disk only */
	bool		compact;		/* its blocks are to be written anew */
} FileUse;

typedef struct Image
{
	XLogRecPtr	redo;
	XLogRecPtr	lsn;
	bool		final;
	uint32		generation;		/* of the manifest; 0 before it is written */
	MemoryContext context;
	TsImageOutput out;
	TsManifestBuilder manifest;
	TsTableRef *tables;
	int			ntables;
	HTAB	   *files;
	FileUse    *last_use;		/* cache of the last one looked up */
	uint64		dirty_bytes;	/* estimate of what is to be written */

	/* blocks whose dirty flags this image has taken */
	TsBlockCopy *taken;
	int64		ntaken;
	int64		max_taken;
	char	   *buffer;

	instr_time	rested;			/* when the last rest ended, */
	uint64		paced_bytes;	/* bytes written then, */
	uint64		paced_count;	/* and transactions ended: see pace() */

	instr_time	start;
	instr_time	written;
} Image;

volatile sig_atomic_t ts_image_hurry = false;

/* ---- which records are in the image ---- */

/*
 * An LSN such that what ends there or before has been inserted.  In recovery:
 * has been replayed, and at the end of it nothing of ours comes before `redo`.
 */
static XLogRecPtr
image_lsn(XLogRecPtr redo)
{
	if (RecoveryInProgress())
		return Max(GetXLogReplayRecPtr(NULL), redo);
	return ts_wal_inserted();
}

/* Flush what was inserted up to now: the image may hold effects of all of it. */
static void
flush_wal(void)
{
	if (!RecoveryInProgress())	/* what is replayed is on disk */
		XLogFlush(ts_wal_inserted());
}

/* Has the transaction inserted records whose effect is not in memory as such? */
static bool
is_in_window(TsTxn *txn, uint64 seq)
{
	uint64		state = pg_atomic_read_u64(&txn->state);
	TsTxnState	phase = ts_txn_phase(state);

	if (pg_atomic_read_u32(&txn->logging) != 0)
		return true;
	return ts_txn_seq(state) == seq &&
		(phase == TS_TXN_PREPARING || phase == TS_TXN_COMMITTED);
}

/*
 * Wait until everything up to the image's LSN, which has been taken, is in
 * memory: as stamped versions, or in the list of what a transaction has logged.
 * The windows are short, so we sleep.
 */
static void
await_windows(void)
{
	pg_memory_barrier();
	for (int i = 0; i < ts_txn_count(); i++)
	{
		uint64		seq = ts_txn_seq(pg_atomic_read_u64(&ts_txns[i].state));

		while (is_in_window(&ts_txns[i], seq))
			pg_usleep(100);
	}
	pg_read_barrier();
}

/* ---- files in use ---- */

static FileUse *
file_use(Image *image, uint32 file)
{
	FileUse    *use = image->last_use;
	bool		found;
	char		path[MAXPGPATH];
	struct stat st;

	if (use != NULL && use->file == file)
		return use;
	use = hash_search(image->files, &file, HASH_ENTER, &found);
	image->last_use = use;
	if (found)
		return use;
	memset((char *) use + sizeof(uint32), 0, sizeof(FileUse) - sizeof(uint32));
	ts_image_file_path(path, file);
	if (stat(path, &st) == 0)
		use->pages = (uint32) (st.st_size / TS_IMAGE_PAGE_SIZE);
	else
		use->pinned = true;		/* damaged: there is nothing to be won */
	return use;
}

static void
count_block(Image *image, TsBlock *block)
{
	TsBlockLoad load = (TsBlockLoad) pg_atomic_read_u32(&block->load);

	if (pg_atomic_read_u32(&block->dirty) != 0)
		image->dirty_bytes += Max(block->image_bytes, TS_ROWS_PER_BLOCK * 32);
	if (block->place.file != 0)
	{
		FileUse    *use = file_use(image, block->place.file);

		use->live_before += block->image_bytes;
		if (load != TS_BLOCK_LOADED)
			use->pinned = true;
	}
}

static void
count_files(Image *image)
{
	HASHCTL		ctl = {.keysize = sizeof(uint32),.entrysize = sizeof(FileUse),.hcxt = image->context};

	image->files = hash_create("tsengine image files", 256, &ctl,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int t = 0; t < image->ntables; t++)
	{
		const TsTableRef *ref = &image->tables[t];

		for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < ref->nblocks; blkno++)
		{
			ts_epoch_enter();
			if (pg_atomic_read_u64(&ref->table->generation) == ref->generation)
				count_block(image, ts_table_block(ref->table, blkno));
			ts_epoch_leave();
		}
	}
}

static int
compare_uses(const void *a, const void *b)
{
	uint32		x = (*(FileUse *const *) a)->file;
	uint32		y = (*(FileUse *const *) b)->file;

	return x < y ? -1 : x > y ? 1 : 0;
}

/*
 * Choose files whose blocks are to be written anew, so that the files can go:
 * those half empty, and small ones when there are many; the oldest first, and
 * no more than about doubles the work.
 */
static void
choose_compaction(Image *image)
{
	uint64		budget = image->dirty_bytes + COMPACT_EXTRA_BYTES;
	long		nfiles = hash_get_num_entries(image->files);
	FileUse   **uses = palloc(Max(nfiles, 1) * sizeof(FileUse *));
	FileUse    *use;
	HASH_SEQ_STATUS seq;
	int			n = 0;

	hash_seq_init(&seq, image->files);
	while ((use = hash_seq_search(&seq)) != NULL)
		uses[n++] = use;
	qsort(uses, n, sizeof(FileUse *), compare_uses);
	for (int i = 0; i < n; i++)
	{
		uint64		size = (uint64) uses[i]->pages * TS_IMAGE_PAGE_SIZE;

		if (uses[i]->pinned || uses[i]->live_before == 0 || uses[i]->live_before > budget)
			continue;
		if (uses[i]->live_before < size / 2 || (n > MANY_FILES && size < SMALL_FILE_BYTES))
		{
			uses[i]->compact = true;
			budget -= uses[i]->live_before;
		}
	}
	pfree(uses);
}

/* ---- blocks ---- */

/*
 * Enter an epoch section in which the table's memory stays what it is.  False, and
 * no section, if it is another table's by now.
 */
static bool
enter_table(const TsTableRef *ref)
{
	ts_epoch_enter();
	if (pg_atomic_read_u64(&ref->table->generation) == ref->generation)
		return true;
	ts_epoch_leave();
	return false;
}

static TsBlockCopy *
note_taken(Image *image, const TsTableRef *ref, TsBlock *block)
{
	TsBlockCopy *copy;

	if (image->ntaken == image->max_taken)
	{
		image->max_taken = Max(1024, image->max_taken * 2);
		if (image->taken == NULL)
			image->taken = MemoryContextAllocHuge(image->context,
												  image->max_taken * sizeof(TsBlockCopy));
		else
			image->taken = repalloc_huge(image->taken, image->max_taken * sizeof(TsBlockCopy));
	}
	copy = &image->taken[image->ntaken++];
	memset(copy, 0, sizeof(*copy));
	copy->block = block;
	copy->table = ref->table;
	copy->generation = ref->generation;
	copy->rnode = ref->rnode;
	copy->blkno = block->blkno;
	return copy;
}

/*
 * Does the block go into this image?  Clears its dirty flag then, which its
 * entry in `taken` remembers.  `listed`: the manifest names its table.
 */
static bool
take_block(Image *image, const TsTableRef *ref, TsBlock *block, bool listed)
{
	if (pg_atomic_read_u32(&block->load) != TS_BLOCK_LOADED)
		return false;
	if (listed && (pg_atomic_read_u32(&block->dirty) != 0 || block->place.file == 0))
	{
		(void) note_taken(image, ref, block);
		/* full barrier: what changes after this makes it dirty again */
		(void) pg_atomic_exchange_u32(&block->dirty, 0);
		return true;
	}
	if (block->place.file != 0 && file_use(image, block->place.file)->compact)
	{
		(void) note_taken(image, ref, block);
		(void) pg_atomic_exchange_u32(&block->dirty, 0);
		return true;
	}
	return false;
}

/*
 * One block: write it if it has changed, and tell where its image is.  False if
 * the table is not what it was.
 */
static bool
image_block(Image *image, const TsTableRef *ref, BlockNumber blkno, bool listed)
{
	TsBlock    *block;
	TsImagePlace place;
	uint64		bytes;
	bool		taken;

	if (!enter_table(ref))
		return false;
	block = ts_table_block(ref->table, blkno);
	taken = take_block(image, ref, block, listed);
	place = block->place;
	bytes = block->image_bytes;
	ts_epoch_leave();
	if (taken)
	{
		TsBlockCopy *copy = &image->taken[image->ntaken - 1];

		if (!ts_block_write(&image->out, copy, image->buffer))
			return false;
		place = copy->place;
		bytes = copy->bytes;
	}
	if (place.file != 0)
		file_use(image, place.file)->live_after += bytes;
	if (listed)
	{
		TsManifestBlock entry = ts_manifest_block_make(place, bytes);

		ts_manifest_append(&image->manifest, &entry, sizeof(entry));
	}
	return true;
}

/*
 * The table's entry without its blocks.  False if the table is not what it was.
 */
static bool
describe_table(const TsTableRef *ref, TsManifestTable *entry)
{
	TsTable    *table = ref->table;

	memset(entry, 0, sizeof(*entry));
	entry->rnode = ref->rnode;
	entry->persistence = ref->persistence;
	if (!enter_table(ref))
		return false;
	LWLockAcquire(&table->lock, LW_SHARED);
	entry->logged_blocks = table->announced_blocks;
	if (table->bury_free)
		entry->flags |= TS_MANIFEST_BURY_FREE;
	if (table->changes_lost)
	{
		entry->flags |= TS_MANIFEST_CHANGES_LOST;
		entry->damaged_file = table->damaged_file;
	}
	LWLockRelease(&table->lock);
	if (pg_atomic_read_u32(&table->indexed) != 0)
		entry->flags |= TS_MANIFEST_INDEXED;
	entry->nblocks = ts_table_nblocks(table);
	entry->creator_xid = table->creator_xid;
	/* the flags before the blocks: see settle_table in load.c */
	pg_read_barrier();
	ts_epoch_leave();
	return true;
}

/*
 * The transaction that made the table, if that has not committed.  Committed
 * ones are forgotten before clog forgets them.
 */
static TransactionId
uncommitted_creator(const TsTableRef *ref, TransactionId creator)
{
	if (!TransactionIdIsValid(creator) || !TransactionIdDidCommit(creator))
		return creator;
	if (enter_table(ref))
	{
		ref->table->creator_xid = InvalidTransactionId;
		ts_epoch_leave();
	}
	return InvalidTransactionId;
}

/*
 * Sessions want the processors, too: if transactions have ended since the last
 * look, rest three times as long as the last piece of work took.  Not while
 * everybody waits for the image.
 */
static void
pace(Image *image)
{
	instr_time	now;
	uint64		usec;
	uint64		count;

	if (image->final || ts_image_hurry || image->out.bytes < image->paced_bytes + PACE_BYTES)
		return;
	count = ts_current_count();
	if (count != image->paced_count)
	{
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, image->rested);
		usec = INSTR_TIME_GET_MICROSEC(now) * PACE_REST;
		pg_usleep((long) Min(usec, PACE_MAX_USEC));
	}
	INSTR_TIME_SET_CURRENT(image->rested);
	image->paced_count = count;
	image->paced_bytes = image->out.bytes;
}

static void
image_table(Image *image, const TsTableRef *ref)
{
	bool		listed = image->final || ref->persistence == RELPERSISTENCE_PERMANENT;
	TsManifestTable entry;
	Size		start = image->manifest.len;

	if (!describe_table(ref, &entry))
		return;
	entry.creator_xid = uncommitted_creator(ref, entry.creator_xid);
	if (listed)
		ts_manifest_append(&image->manifest, &entry, sizeof(entry));
	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < entry.nblocks; blkno++)
	{
		if (image_block(image, ref, blkno, listed))
		{
			pace(image);
			continue;
		}
		/* dropped or emptied after the LSN: redo will see to that */
		image->manifest.len = start;
		return;
	}
	if (listed)
		ts_manifest_header(&image->manifest)->ntables++;
}

/* ---- the whole ---- */

static void
write_manifest(Image *image)
{
	TsManifestHeader *header = ts_manifest_header(&image->manifest);
	uint64		pending_bytes = header->pending_bytes;
	HASH_SEQ_STATUS seq;
	FileUse    *use;

	if (pending_bytes > 0)
		file_use(image, header->pending.file)->live_after += pending_bytes;
	for (uint32 i = 0; i < image->out.nfiles; i++)
		file_use(image, image->out.first_file + i)->pages = image->out.pages[i];
	header->files_at = image->manifest.len;
	header->generation = (uint32) ++ts_image_shared->generation;
	header->redo = image->redo;
	header->lsn = image->lsn;
	header->final = image->final;
	header->time = GetCurrentTimestamp();
	header->xmin_counter = ts_xmin_counter();
	hash_seq_init(&seq, image->files);
	while ((use = hash_seq_search(&seq)) != NULL)
	{
		TsManifestFile entry = {use->file, use->pages, use->live_after};

		if (use->live_after == 0)
			continue;
		ts_manifest_append(&image->manifest, &entry, sizeof(entry));
		ts_manifest_header(&image->manifest)->nfiles++;
	}
	/* (appending may have moved the header) */
	image->generation = ts_manifest_header(&image->manifest)->generation;
	ts_manifest_write(&image->manifest);
	ts_image_shared->next_file = image->out.next_file;
}

/* The image is durable: let the blocks know where theirs are. */
static void
apply_places(Image *image)
{
	for (int64 i = 0; i < image->ntaken; i++)
	{
		const TsBlockCopy *copy = &image->taken[i];

		ts_epoch_enter();
		if (pg_atomic_read_u64(&copy->table->generation) == copy->generation)
		{
			copy->block->place = copy->place;
			copy->block->image_bytes = copy->bytes;
		}
		ts_epoch_leave();
	}
}

/* Nothing came of the image: what it has taken is to go into the next one. */
static void
give_back(Image *image)
{
	for (int64 i = 0; i < image->ntaken; i++)
	{
		const TsBlockCopy *copy = &image->taken[i];

		ts_epoch_enter();
		if (pg_atomic_read_u64(&copy->table->generation) == copy->generation)
			ts_block_changed(copy->block);
		ts_epoch_leave();
	}
}

/* Remove what the new manifest does not name.  Raises errors of the file system. */
static void
remove_unused(Image *image)
{
	TsManifestHeader *header = ts_manifest_header(&image->manifest);
	Size		recycle = 2 * image->out.disk_bytes;
	int			n;
	uint32	   *numbers = ts_manifest_list(&n);

	for (int i = 0; i < n; i++)
	{
		char		path[MAXPGPATH];

		if (numbers[i] == header->generation)
			continue;
		ts_manifest_path(path, numbers[i]);
		if (ts_io_unlink(path) < 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", path)));
	}
	numbers = ts_image_dir_list("image.", &n);
	for (int i = 0; i < n; i++)
	{
		FileUse    *use = hash_search(image->files, &numbers[i], HASH_FIND, NULL);

		if (use == NULL || use->live_after == 0)
			ts_image_file_remove(numbers[i], recycle);
	}
	ts_image_reserve(Min(Max(image->out.disk_bytes, MIN_RESERVE_BYTES), MAX_RESERVE_BYTES));
}

/* The same; as the image is durable already, trouble is only worth a message. */
static void
tidy_up(Image *image)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;

	PG_TRY();
	{
		remove_unused(image);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		InterruptHoldoffCount = holdoff;	/* an LWLock is held */
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		ereport(LOG,
				(errmsg("could not tidy up tsengine's checkpoint image: %s", error->message)));
		FreeErrorData(error);
	}
	PG_END_TRY();
}

static void
note_success(Image *image)
{
	TsImageStats *stats = &ts_image_shared->stats;
	instr_time	now;
	instr_time	scan = image->written;
	HASH_SEQ_STATUS seq;
	FileUse    *use;
	int64		files = 0;
	int64		disk = 0;
	int64		live = 0;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, image->written);
	INSTR_TIME_SUBTRACT(scan, image->start);
	hash_seq_init(&seq, image->files);
	while ((use = hash_seq_search(&seq)) != NULL)
	{
		if (use->live_after == 0)
			continue;
		files++;
		disk += (int64) use->pages * TS_IMAGE_PAGE_SIZE;
		live += use->live_after;
	}
	LWLockAcquire(ts_image_lock(TS_LOCK_STATS), LW_EXCLUSIVE);
	stats->images++;
	stats->generation = ts_image_shared->generation;
	stats->redo = image->redo;
	stats->lsn = image->lsn;
	stats->blocks_last = image->ntaken;
	stats->bytes_last = image->out.bytes;
	stats->blocks_total += image->ntaken;
	stats->bytes_total += image->out.bytes;
	stats->scan_ms_last = (int64) INSTR_TIME_GET_MILLISEC(scan);
	stats->sync_ms_last = (int64) INSTR_TIME_GET_MILLISEC(now);
	stats->last_time = GetCurrentTimestamp();
	stats->files = files;
	stats->disk_bytes = disk;
	stats->live_bytes = live;
	LWLockRelease(ts_image_lock(TS_LOCK_STATS));
}

static void
write_image(Image *image)
{
	TsManifestHeader *header;

	INSTR_TIME_SET_CURRENT(image->start);
	ts_output_init(&image->out, ts_image_shared->next_file);
	image->buffer = palloc(TS_BLOCK_BUFFER);
	image->lsn = image_lsn(image->redo);
	ts_stop_point(TS_STOP_IMAGE_LSN);
	await_windows();
	image->tables = ts_table_list(&image->ntables);
	count_files(image);
	choose_compaction(image);
	ts_manifest_begin(&image->manifest);
	header = ts_manifest_header(&image->manifest);
	ts_pending_write(&image->out, image->lsn, image->final, &header->pending,
					 &header->pending_bytes);
	ts_stop_point(TS_STOP_IMAGE_SCAN);
	INSTR_TIME_SET_CURRENT(image->rested);
	image->paced_count = ts_current_count();
	for (int t = 0; t < image->ntables; t++)
	{
		image_table(image, &image->tables[t]);
		ts_stop_point(TS_STOP_IMAGE_TABLE);
	}
	INSTR_TIME_SET_CURRENT(image->written);
	ts_output_finish(&image->out);
	flush_wal();
	ts_stop_point(TS_STOP_IMAGE_MANIFEST);
	write_manifest(image);
	apply_places(image);
	ts_stop_point(TS_STOP_IMAGE_DONE);
	note_success(image);
	tidy_up(image);
}

/*
 * Clean up after an error.  If the manifest may have been put in its place, its
 * files stay: a crash may show it yet.  The next manifest outdates it.
 */
static void
abort_image(Image *image)
{
	char		path[MAXPGPATH];

	ts_manifest_path(path, image->generation);
	if (image->generation == 0 || access(path, F_OK) < 0)
		ts_output_abort(&image->out);
	give_back(image);
}

static void
note_failure(void)
{
	TsImageStats *stats = &ts_image_shared->stats;
	ErrorData  *error = CopyErrorData();

	LWLockAcquire(ts_image_lock(TS_LOCK_STATS), LW_EXCLUSIVE);
	stats->failures++;
	strlcpy(stats->last_error, error->message, sizeof(stats->last_error));
	LWLockRelease(ts_image_lock(TS_LOCK_STATS));
	FreeErrorData(error);
}

void
ts_image_write(XLogRecPtr redo, bool final)
{
	Image		image = {.redo = redo,.final = final};
	MemoryContext caller = CurrentMemoryContext;

	if (!ts_image_ensure_loaded())
		return;
	image.context = AllocSetContextCreate(caller, "tsengine image", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(image.context);
	LWLockAcquire(ts_image_lock(TS_LOCK_IMAGE), LW_EXCLUSIVE);
	PG_TRY();
	{
		write_image(&image);
	}
	PG_CATCH();
	{
		/* should a file be left behind, the next image must not meet it */
		ts_image_shared->next_file = Max(ts_image_shared->next_file, image.out.next_file);
		/* callers hold no LWLocks; what is held is from here */
		LWLockReleaseAll();
		ts_epoch_reset();
		abort_image(&image);
		MemoryContextSwitchTo(caller);
		note_failure();
		MemoryContextDelete(image.context);
		PG_RE_THROW();
	}
	PG_END_TRY();
	LWLockRelease(ts_image_lock(TS_LOCK_IMAGE));
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(image.context);
}
