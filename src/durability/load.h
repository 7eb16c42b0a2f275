/*-------------------------------------------------------------------------
 *
 * load.h
 *	  Reading the image after a start: the manifest, tables, single blocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_DURABILITY_LOAD_H
#define TS_DURABILITY_LOAD_H

#include "postgres.h"

#include "compat.h"
#include "durability/image.h"
#include "storage/load.h"
#include "storage/table.h"

/*
 * Read the newest usable manifest, if nobody has yet: makes its tables and
 * blocks (without their rows) and its undecided transactions.  False if the
 * image is broken, or if it is too early to say: in recovery only who replays
 * the WAL reads it.  There all that is wrong is FATAL; elsewhere no error.
 */
extern bool ts_image_ensure_loaded(void);

/* The image's LSN: redo skips records that end there or before. */
extern XLogRecPtr ts_image_loaded_lsn(void);

/*
 * For redo: make sure that a block's rows are in memory before they are
 * changed.  False if its image cannot be read; the change is then lost with the
 * table, and noted as such.  May wait for another process that loads the block.
 */
extern bool ts_load_block(TsTable *table, TsBlock *block);

/*
 * For redo, of a table that it has made or emptied: nothing of it is on disk,
 * but free slots are to be settled when recovery is over.
 */
extern void ts_load_settle_later(TsTable *table);

/*
 * For the guard, once recovery is over: drop tables whose relation files are
 * gone.  Before, no table becomes ready.  False if it is too early.  Raises
 * errors of the file system.
 */
extern bool ts_load_recovery_over(void);

/*
 * Start background workers that load all tables, as many as there are slots for;
 * returns how many.
 */
extern int	ts_load_start_workers(void);

/*
 * Load a bounded piece of some table, those that somebody waits for first.
 * False when there is nothing to be done now; *done tells if there will not be
 * either.  Damaged tables are no error.  Raises 53200 and other lacks of resources.
 */
extern bool ts_load_some(bool *done);

/* GUC tsengine.load_workers */
extern int	ts_load_workers;

extern TS_EXPORTED void ts_load_worker_main(Datum arg) pg_attribute_noreturn();

/* Between loadblock.c and load.c. */
extern bool ts_load_table_step(TsTable *table, uint64 generation, bool *stuck);
extern bool ts_load_batch(TsTable *table, uint64 generation);
extern void ts_load_damaged(TsTable *table, uint64 generation, uint32 file,
							const char *message);

#endif							/* TS_DURABILITY_LOAD_H */
