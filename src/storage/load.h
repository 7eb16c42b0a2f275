/*-------------------------------------------------------------------------
 *
 * load.h
 *	  What the layers above storage ask of the durability layer: is a table's
 *	  content in memory?
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_STORAGE_LOAD_H
#define TS_STORAGE_LOAD_H

#include "postgres.h"

#include "storage/table.h"

/* where image files lie, relative to the data directory */
#define TS_IMAGE_DIR	"pg_tsengine"

/*
 * To be called before the table of a relation is looked up: makes sure that
 * what the image says has been read, so that a table that is not found does not
 * exist.  Raises XX001 if there is no usable image.
 */
extern void ts_load_check(void);

/*
 * Wait until a table is TS_TABLE_READY, helping to load it.  `name` is the
 * relation's, for messages.  To be called outside epoch sections with nothing
 * held.  Raises XX001 if an image file of the table is damaged, 53200 if its
 * rows do not fit into the arena; may be interrupted.
 */
extern void ts_load_wait(TsTable *table, const char *name);

#endif							/* TS_STORAGE_LOAD_H */
