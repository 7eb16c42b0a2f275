/*-------------------------------------------------------------------------
 *
 * blockimage.h
 *	  The rows of one block as they are on disk.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_BLOCKIMAGE_H
#define TS_BLOCKIMAGE_H

#include "postgres.h"

#include "durability/output.h"
#include "memory/arena.h"
#include "storage/table.h"

/* Where an image of a block is to go, and where it went. */
typedef struct TsBlockCopy
{
	TsBlock    *block;
	TsTable    *table;
	uint64		generation;
	RelFileNode rnode;
	BlockNumber blkno;
	TsImagePlace place;			/* file 0: it holds nothing */
	uint64		bytes;
} TsBlockCopy;

/* The rows of a block image that was read, before they are put into the block. */
typedef struct TsBlockContent
{
	uint32		n;
	uint32		nrows;			/* of them with a version */
	struct
	{
		uint32		index;
		TsVersion  *version;	/* NULL: the slot is dead */
	}			slots[TS_ROWS_PER_BLOCK];
} TsBlockContent;

/* small block images go through a buffer of this size */
#define TS_BLOCK_BUFFER		(512 * 1024)

extern bool ts_block_write(TsImageOutput *out, TsBlockCopy *copy, char *buffer);
extern void ts_block_read(TsImageReader *reader, const TsBlockCopy *copy, char *buffer,
						  TsBlockContent *content);
extern void ts_block_install(TsBlock *block, const TsBlockContent *content);
extern void ts_block_content_free(TsBlockContent *content);

#endif							/* TS_BLOCKIMAGE_H */
