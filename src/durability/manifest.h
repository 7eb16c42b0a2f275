/*-------------------------------------------------------------------------
 *
 * manifest.h
 *	  The file that says what an image consists of.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_MANIFEST_H
#define TS_MANIFEST_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "port/pg_crc32c.h"
#include "storage/block.h"
#include "storage/relfilenode.h"

#include "durability/imagefile.h"

/*
 * A manifest is a header, for each table a TsManifestTable with its
 * TsManifestBlocks, and for each image file a TsManifestFile.
 */
typedef struct TsManifestHeader
{
	pg_crc32c	crc;			/* of all that follows */
	uint32		magic;
	uint32		format;			/* TS_IMAGE_FORMAT */
	uint32		generation;
	uint64		system_identifier;
	XLogRecPtr	redo;			/* of the checkpoint it was written for */
	XLogRecPtr	lsn;			/* what ends here or before is in the image */
	TimestampTz time;
	uint64		bytes;			/* of the manifest */
	uint64		files_at;		/* where the list of files begins */
	uint64		pending_bytes;
	TsImagePlace pending;		/* the writes of undecided transactions */
	uint32		final;			/* nothing was written after lsn */
	uint32		xmin_counter;
	uint32		ntables;
	uint32		nfiles;
	uint32		unused;
} TsManifestHeader;

#define TS_MANIFEST_INDEXED			0x01
#define TS_MANIFEST_BURY_FREE		0x02
#define TS_MANIFEST_CHANGES_LOST	0x04

typedef struct TsManifestTable
{
	RelFileNode rnode;
	uint32		persistence;
	uint32		flags;
	uint32		damaged_file;	/* with CHANGES_LOST */
	BlockNumber logged_blocks;
	BlockNumber nblocks;
	TransactionId creator_xid;	/* not known to have committed */
} TsManifestTable;

/* Of each block from TS_FIRST_BLOCK on. */
typedef struct TsManifestBlock
{
	uint32		file;			/* 0: the block is empty */
	uint32		page;
	uint64		rest;			/* bytes << 16 | offset in the page */
} TsManifestBlock;

typedef struct TsManifestFile
{
	uint32		file;
	uint32		pages;
	uint64		live_bytes;
} TsManifestFile;

#define ts_manifest_block_bytes(b)	((b)->rest >> 16)

static inline TsImagePlace
ts_manifest_block_place(const TsManifestBlock *block)
{
	return (TsImagePlace) {block->file, block->page, (uint32) (block->rest & 0xFFFF)};
}

static inline TsManifestBlock
ts_manifest_block_make(TsImagePlace place, uint64 bytes)
{
	return (TsManifestBlock) {place.file, place.page, bytes << 16 | place.offset};
}

/* A manifest under construction. */
typedef struct TsManifestBuilder
{
	char	   *data;
	Size		len;
	Size		room;
} TsManifestBuilder;

#define ts_manifest_header(b)	((TsManifestHeader *) (b)->data)

extern void ts_manifest_begin(TsManifestBuilder *b);
extern void ts_manifest_append(TsManifestBuilder *b, const void *data, Size len);
extern void ts_manifest_write(TsManifestBuilder *b);

/* A manifest that was read. */
typedef struct TsManifest
{
	TsManifestHeader *header;	/* palloc'd, with all that follows */
	char		name[64];		/* of the file, TS_IMAGE_DIR included */
	char	   *broken;			/* not NULL: why there is no usable one */
	uint32		last_generation;	/* largest number seen, 0: none */
	bool		any;			/* there is a manifest, usable or not */
} TsManifest;

extern void ts_manifest_path(char *path, uint32 generation);
extern char *ts_manifest_read(uint32 generation, TsManifestHeader **result);
extern uint32 *ts_manifest_list(int *n);
extern void ts_manifest_choose(XLogRecPtr redo_start, TsManifest *result);

/*
 * The generation of the first manifest after which the running server, or the
 * one before it, allowed writes.  Kept outside of TS_IMAGE_DIR.
 */
extern uint32 ts_service_read(void);
extern void ts_service_write(uint32 generation);

/* files of a prefix "name.XXXXXXXX" in TS_IMAGE_DIR */
extern uint32 *ts_image_dir_list(const char *prefix, int *n);

#endif							/* TS_MANIFEST_H */
