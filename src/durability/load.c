/*-------------------------------------------------------------------------
 *
 * load.c
 *	  From the manifest to tables that are ready.
 *
 * The manifest is read once a server start: by redo if there is anything to be
 * replayed, else by whoever comes first after recovery, the guard or a backend.
 * It gives tables and blocks; rows follow table by table.
 * When all rows of a table are in memory and recovery is over, the table is
 * settled (its free slots are counted and offered) and ready.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "memory/arena.h"
#include "memory/epoch.h"
#include "transaction/txn.h"

#include "durability/fault.h"
#include "durability/load.h"
#include "durability/manifest.h"
#include "durability/pending.h"
#include "durability/redo.h"

/* ---- the manifest ---- */

static void
set_state(TsImageState state)
{
	pg_write_barrier();
	pg_atomic_write_u32(&ts_image_shared->state, state);
}

/* Is it us who replays the WAL?  In single-user mode there is nobody else. */
static bool
replaying(void)
{
	return RecoveryInProgress() && (AmStartupProcess() || !IsUnderPostmaster);
}

/*
 * There is no image to go on from: tsengine tables cannot be used until the next
 * start.  But what replay skips, no later start finds again: so there the server
 * ends.
 */
static void
set_broken(const char *file, const char *reason)
{
	if (replaying())
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("tsengine's checkpoint image is not usable: file \"%s\": %s", file, reason),
				 errdetail("Changes of tsengine tables in the WAL cannot be replayed without it."),
				 errhint("Restore directory \"%s\" and start the server; or, to give up the rows of all tsengine tables, move the directory away and start the server.",
						 TS_IMAGE_DIR)));
	strlcpy(ts_image_shared->broken_file, file, sizeof(ts_image_shared->broken_file));
	strlcpy(ts_image_shared->broken_reason, reason, sizeof(ts_image_shared->broken_reason));
	set_state(TS_IMAGE_BROKEN);
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("tsengine's checkpoint image is not usable: file \"%s\": %s", file, reason),
			 errdetail("No tsengine table can be used, and no new image will be written.")));
}

static void
make_blocks(TsTable *table, const TsManifestTable *entry, const TsManifestBlock *blocks)
{
	uint32		left = 0;
	uint64		bytes = 0;

	if (!ts_table_ensure_blocks(table, entry->nblocks))
		ts_arena_out_of_memory(sizeof(TsBlock));
	for (BlockNumber blkno = TS_FIRST_BLOCK; blkno < entry->nblocks; blkno++)
	{
		const TsManifestBlock *from = &blocks[blkno - TS_FIRST_BLOCK];
		TsBlock    *block = ts_table_block(table, blkno);

		if (from->file == 0)
			continue;
		block->place = ts_manifest_block_place(from);
		block->image_bytes = ts_manifest_block_bytes(from);
		pg_atomic_write_u32(&block->load, TS_BLOCK_ON_DISK);
		left++;
		bytes += block->image_bytes;
	}
	pg_atomic_write_u32(&table->load_left, left);
	pg_atomic_fetch_add_u64(&ts_image_shared->blocks_to_load, left);
	pg_atomic_fetch_add_u64(&ts_image_shared->bytes_to_load, bytes);
}

/* Nobody else looks at tables before the state is set. */
static void
make_table(const TsManifestTable *entry, const TsManifestBlock *blocks)
{
	TsTable    *table = ts_table_create(entry->rnode, InvalidBackendId, (char) entry->persistence);

	ts_fault_slow_manifest();
	pg_atomic_write_u32(&table->load, TS_TABLE_LOADING);
	ts_fault_slow_manifest();
	pg_atomic_write_u32(&table->indexed, (entry->flags & TS_MANIFEST_INDEXED) ? 2 : 0);
	table->bury_free = (entry->flags & TS_MANIFEST_BURY_FREE) || !ts_started_after_shutdown();
	table->creator_xid = entry->creator_xid;
	make_blocks(table, entry, blocks);
	table->logged_blocks = Max(table->logged_blocks, entry->logged_blocks);
	table->announced_blocks = table->logged_blocks;
	if (entry->flags & TS_MANIFEST_CHANGES_LOST)
	{
		table->damaged_file = entry->damaged_file;
		table->changes_lost = true;
		pg_atomic_write_u32(&table->load, TS_TABLE_DAMAGED);
	}
}

static void
make_tables(const TsManifestHeader *header)
{
	const char *next = (const char *) (header + 1);

	for (uint32 i = 0; i < header->ntables; i++)
	{
		const TsManifestTable *entry = (const TsManifestTable *) next;

		next += sizeof(*entry);
		/* after a crash core empties unlogged tables */
		if (entry->persistence == RELPERSISTENCE_PERMANENT || ts_started_after_shutdown())
			make_table(entry, (const TsManifestBlock *) next);
		next += (entry->nblocks - TS_FIRST_BLOCK) * sizeof(TsManifestBlock);
	}
}

/*
 * Numbers of files that there are, or that the manifest speaks of, are not used
 * again.  False if there are files and no manifest.
 */
static bool
set_next_numbers(const TsManifest *manifest)
{
	int			n;
	uint32	   *numbers = ts_image_dir_list("image.", &n);
	uint32		last = n > 0 ? numbers[0] : 0;

	if (manifest->header != NULL)
	{
		const TsManifestFile *files = (const TsManifestFile *)
		((char *) manifest->header + manifest->header->files_at);

		for (uint32 i = 0; i < manifest->header->nfiles; i++)
			last = Max(last, files[i].file);
	}
	ts_image_shared->next_file = last + 1;
	ts_image_shared->generation = manifest->last_generation;
	return n == 0 || manifest->any;
}

static void
load_manifest(void)
{
	TsManifest	manifest;

	/* a late reader must not ask for more than the recovery it belongs to did */
	ts_manifest_choose(Min(GetRedoRecPtr(), ts_image_shared->control_redo), &manifest);
	if (!set_next_numbers(&manifest))
	{
		/* a new installation has neither: the first manifest comes before files */
		set_broken(TS_IMAGE_DIR, "there are image files, and no manifest");
		return;
	}
	if (manifest.broken != NULL)
	{
		set_broken(manifest.name, manifest.broken);
		return;
	}
	if (manifest.header != NULL)
	{
		const TsManifestHeader *header = manifest.header;

		ts_image_shared->loaded_lsn = header->lsn;
		ts_xmin_counter_restore(header->xmin_counter);
		make_tables(header);
		if (header->pending_bytes > 0)
			ts_pending_read(header->pending, header->pending_bytes);
		ereport(LOG,
				(errmsg("tsengine loads %u tables: " UINT64_FORMAT " blocks, " UINT64_FORMAT " bytes",
						header->ntables,
						pg_atomic_read_u64(&ts_image_shared->blocks_to_load),
						pg_atomic_read_u64(&ts_image_shared->bytes_to_load))));
	}
	ts_image_shared->load_start = GetCurrentTimestamp();
	pg_atomic_write_u64(&ts_image_shared->load_report, (uint64) GetCurrentTimestamp());
	set_state(TS_IMAGE_USABLE);
}

/*
 * The same; what goes wrong makes the image unusable until the next start, as part
 * of it may be in memory.  But redo cannot go on without it: there it ends the
 * server.
 */
static void
load_manifest_once(void)
{
	uint32		holdoff = InterruptHoldoffCount;
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "tsengine manifest",
												  ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		load_manifest();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		if (replaying())
			PG_RE_THROW();
		InterruptHoldoffCount = holdoff;	/* an LWLock is held */
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		ts_epoch_reset();
		set_broken(TS_IMAGE_DIR, error->message);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

bool
ts_image_ensure_loaded(void)
{
	if (ts_image_state() != TS_IMAGE_NOT_LOADED)
		return ts_image_state() == TS_IMAGE_USABLE;
	/* replay must not be misled by what another process could not read */
	if (RecoveryInProgress() && !replaying())
		return false;
	LWLockAcquire(ts_image_lock(TS_LOCK_LOAD), LW_EXCLUSIVE);
	if (ts_image_state() == TS_IMAGE_NOT_LOADED)
		load_manifest_once();
	LWLockRelease(ts_image_lock(TS_LOCK_LOAD));
	return ts_image_state() == TS_IMAGE_USABLE;
}

XLogRecPtr
ts_image_loaded_lsn(void)
{
	return ts_image_shared->loaded_lsn;
}

void
ts_load_check(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("tsengine tables cannot be used during recovery"),
				 errdetail("Reading them on a standby is not implemented yet.")));
	if (ts_image_ensure_loaded())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("tsengine's checkpoint image is not usable"),
			 errdetail("File \"%s\": %s.", ts_image_shared->broken_file,
					   ts_image_shared->broken_reason),
			 errhint("Restore directory \"%s\" and restart the server; or move it away, restart, and TRUNCATE or restore the tables.",
					 TS_IMAGE_DIR)));
}

/* ---- tables ---- */

/*
 * A table may be dropped at any time, so its memory is looked at inside epoch
 * sections, after a look at the generation.
 */
static bool
enter_table(TsTable *table, uint64 generation)
{
	ts_epoch_enter();
	if (pg_atomic_read_u64(&table->generation) == generation)
		return true;
	ts_epoch_leave();
	return false;
}

static void
set_load(TsTable *table, TsTableLoad load)
{
	pg_write_barrier();
	pg_atomic_write_u32(&table->load, load);
}

/* ---- damage ---- */

/*
 * Note that a file of a table cannot be read; tells the log.  Nothing to be noted
 * if the table has been dropped: that may be why.  No error.
 */
void
ts_load_damaged(TsTable *table, uint64 generation, uint32 file, const char *message)
{
	char		path[MAXPGPATH];
	RelFileNode rnode;

	if (!enter_table(table, generation))
		return;
	rnode = table->rnode;
	table->damaged_file = file;
	set_load(table, TS_TABLE_DAMAGED);
	ts_epoch_leave();
	ts_image_file_path(path, file);
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("could not load tsengine table with relation file %u/%u: %s",
					rnode.dbNode, rnode.relNode, message),
			 errdetail("The image file is \"%s\".", path)));
	ConditionVariableBroadcast(&ts_image_shared->load_done);
}

static void
report_damage(TsTable *table, const char *name)
{
	char		path[MAXPGPATH];

	ts_image_file_path(path, table->damaged_file);
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("rows of table \"%s\" cannot be read from file \"%s\"", name, path),
			 table->changes_lost ?
			 errdetail("Changes that recovery found in the WAL could not be applied either.") :
			 errdetail("The server log tells what is wrong with it."),
			 table->changes_lost ?
			 errhint("Restore the table, or TRUNCATE it to use it again.") :
			 errhint("Restore the file and restart the server; or TRUNCATE the table to use it again.")));
}

/* ---- the end of recovery ---- */

void
ts_load_settle_later(TsTable *table)
{
	pg_atomic_write_u32(&table->load_left, 0);
	table->bury_free = true;
	pg_write_barrier();
	pg_atomic_write_u32(&table->load, TS_TABLE_LOADING);
}

/* Raises errors of the file system other than that there is none. */
static bool
file_exists(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return true;
	if (errno != ENOENT && errno != ENOTDIR)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", path)));
	return false;
}

/* Is there a main fork of this name in any tablespace?  It may have moved. */
static bool
relation_file_exists(RelFileNode rnode)
{
	char	   *path = relpathperm(rnode, MAIN_FORKNUM);
	bool		found = file_exists(path);
	char		other[MAXPGPATH];
	DIR		   *dir;
	struct dirent *entry;

	pfree(path);
	snprintf(other, sizeof(other), "base/%u/%u", rnode.dbNode, rnode.relNode);
	if (found || file_exists(other))
		return true;
	dir = AllocateDir("pg_tblspc");
	while (!found && (entry = ReadDir(dir, "pg_tblspc")) != NULL)
	{
		if (entry->d_name[0] == '.')
			continue;
		snprintf(other, sizeof(other), "pg_tblspc/%s/%s/%u/%u", entry->d_name,
				 TABLESPACE_VERSION_DIRECTORY, rnode.dbNode, rnode.relNode);
		found = file_exists(other);
	}
	FreeDir(dir);
	return found;
}

/*
 * Can all tablespaces be looked at?  One that is not mounted is a link to nowhere,
 * or to a directory without the version's.
 */
static bool
tablespaces_are_there(void)
{
	DIR		   *dir = AllocateDir("pg_tblspc");
	struct dirent *entry;
	bool		all = true;

	while ((entry = ReadDir(dir, "pg_tblspc")) != NULL)
	{
		char		path[MAXPGPATH];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "pg_tblspc/%s/%s", entry->d_name,
				 TABLESPACE_VERSION_DIRECTORY);
		if (file_exists(path))
			continue;
		all = false;
		ereport(LOG,
				(errmsg("directory \"%s\" is missing", path),
				 errdetail("tsengine tables whose relation files are missing are kept, as the files may be there.")));
	}
	FreeDir(dir);
	return all;
}

/* Did the transaction that made a table come to nothing, in a crash? */
static bool
creation_is_undone(TsTable *table)
{
	TransactionId xid = table->creator_xid;

	return TransactionIdIsValid(xid) && !TransactionIdIsInProgress(xid) &&
		!TransactionIdDidCommit(xid);
}

/*
 * Tables without a relation file: dropped where the image was written after the
 * commit was logged and before it was carried out here.
 */
static void
drop_orphans(void)
{
	int			n;
	TsTableRef *refs = ts_table_list(&n);
	bool		complete = tablespaces_are_there();

	for (int i = 0; i < n; i++)
		if (creation_is_undone(refs[i].table) ||
			(complete && !relation_file_exists(refs[i].rnode)))
			ts_table_drop(refs[i].rnode, InvalidBackendId);
	pfree(refs);
}

bool
ts_load_recovery_over(void)
{
	if (pg_atomic_read_u32(&ts_image_shared->recovered) != 0)
		return true;
	if (RecoveryInProgress() || !ts_image_ensure_loaded())
		return false;
	LWLockAcquire(ts_image_lock(TS_LOCK_LOAD), LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&ts_image_shared->recovered) == 0)
	{
		drop_orphans();
		pg_write_barrier();
		pg_atomic_write_u32(&ts_image_shared->recovered, 1);
	}
	LWLockRelease(ts_image_lock(TS_LOCK_LOAD));
	return true;
}

/* Is there a row, as far as it is decided?  Inside an epoch section. */
static bool
holds_row(TsVersion *v)
{
	while (v != NULL && ts_creator_is_live(ts_version_creator(v)))
		v = ts_version_prev(v);
	return v != NULL && (v->flags & TS_V_DELETED) == 0;
}

/*
 * Count a block's free slots.  `bury`: entries of transactions that a crash has
 * ended may lead to them, so they are dead until VACUUM has been there.  Returns
 * how many rows it holds.
 */
static int64
settle_block(TsBlock *block, bool indexed, bool bury)
{
	uint32		before = pg_atomic_read_u32(&block->nfree);
	uint32		nfree = 0;
	int64		rows = 0;
	uint32		limit = 0;
	bool		buried = false;

	for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
	{
		TsRow	   *row = &block->rows[i];
		uint64		word = pg_atomic_read_u64(row) & ~TS_ROW_BITS;

		if (word == TS_ROW_FREE && bury)
		{
			pg_atomic_write_u64(row, TS_ROW_DEAD);
			word = TS_ROW_DEAD;
			buried = true;
			ts_table_row_died(block->table);
		}
		else if (word == TS_ROW_DEAD && !indexed)
		{
			pg_atomic_write_u64(row, TS_ROW_FREE);
			word = TS_ROW_FREE;
		}
		if (word == TS_ROW_FREE)
			nfree++;
		else
			limit = i + 1;
		rows += holds_row(ts_row_word_version(word));
	}
	/* added, not set: a prepared transaction may free slots meanwhile */
	pg_atomic_fetch_add_u32(&block->nfree, nfree - before);
	pg_atomic_write_u32(&block->limit, limit);
	if (buried)
		ts_block_changed(block);
	ts_table_rows_freed(block, 0);
	return rows;
}

/*
 * All rows are there, and nobody else uses the table: make it ready.  Raises
 * 53200 with the table as it was.
 */
static void
settle_table(TsTable *table, uint64 generation)
{
	uint32		expected = TS_TABLE_LOADING;
	bool		indexed = pg_atomic_read_u32(&table->indexed) != 0;
	bool		bury = (table->bury_free || ts_recovery_happened()) && indexed;
	bool		enough = true;
	int64		rows_before;
	int64		rows = 0;

	if (!enter_table(table, generation))
		return;
	rows_before = (int64) pg_atomic_read_u64(&table->rows);
	if (!pg_atomic_compare_exchange_u32(&table->load, &expected, TS_TABLE_SETTLING))
	{
		ts_epoch_leave();
		return;
	}
	if (bury)
		enough = ts_table_ensure_blocks(table, table->logged_blocks);
	if (!enough)
		set_load(table, TS_TABLE_LOADING);
	ts_epoch_leave();
	if (!enough)
		ts_arena_out_of_memory(sizeof(TsBlock));

	/* backwards, as the block listed last is the first to be used */
	for (BlockNumber blkno = ts_table_nblocks(table) - 1; blkno >= TS_FIRST_BLOCK; blkno--)
	{
		if (!enter_table(table, generation))
			return;
		rows += settle_block(ts_table_block(table, blkno), indexed, bury);
		ts_epoch_leave();
	}
	if (!enter_table(table, generation))
		return;
	/* an image that finds the flag unset finds the blocks dirty */
	pg_write_barrier();
	table->bury_free = false;
	ts_table_add_rows(table, rows - rows_before);
	set_load(table, TS_TABLE_READY);
	ts_epoch_leave();
	ConditionVariableBroadcast(&ts_image_shared->load_done);
}

/*
 * Do a piece of work for a table that is loading; false if there is nothing to
 * be done now.  *stuck: for want of the end of recovery, or because others are
 * at it.  Raises 53200 and other lacks of resources.
 */
bool
ts_load_table_step(TsTable *table, uint64 generation, bool *stuck)
{
	if (pg_atomic_read_u64(&table->generation) != generation ||
		pg_atomic_read_u32(&table->load) != TS_TABLE_LOADING)
	{
		*stuck |= pg_atomic_read_u32(&table->load) == TS_TABLE_SETTLING;
		return false;
	}
	if (ts_load_batch(table, generation))
		return true;
	*stuck = true;
	if (pg_atomic_read_u32(&table->load_left) != 0 || !ts_load_recovery_over())
		return false;
	pg_read_barrier();
	HOLD_INTERRUPTS();			/* nobody else could finish it */
	settle_table(table, generation);
	RESUME_INTERRUPTS();
	return true;
}

void
ts_load_wait(TsTable *table, const char *name)
{
	uint64		generation = pg_atomic_read_u64(&table->generation);

	if (pg_atomic_read_u32(&table->load) == TS_TABLE_READY)
		return;
	if (pg_atomic_exchange_u32(&table->load_wanted, 1) == 0)
		pg_atomic_fetch_add_u32(&ts_image_shared->wanted, 1);
	for (;;)
	{
		TsTableLoad load = (TsTableLoad) pg_atomic_read_u32(&table->load);
		bool		stuck = false;

		pg_read_barrier();
		/* the caller holds a lock on the relation, so this cannot be */
		if (pg_atomic_read_u64(&table->generation) != generation)
			elog(ERROR, "tsengine table \"%s\" was dropped while it was loaded", name);
		if (load == TS_TABLE_READY)
			break;
		if (load == TS_TABLE_DAMAGED)
			report_damage(table, name);
		CHECK_FOR_INTERRUPTS();
		if (!ts_load_table_step(table, generation, &stuck))
			ConditionVariableTimedSleep(&ts_image_shared->load_done, 20, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}
