/*-------------------------------------------------------------------------
 *
 * image.h
 *	  Where the image of a block lies on disk, and whether it is loaded.
 *
 * The fields live in the storage layer's structs; what they mean to the disk
 * is the durability layer's business.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_IMAGE_H
#define TS_IMAGE_H

#include "postgres.h"

/* A place in an image file: where a piece of its stream begins. */
typedef struct TsImagePlace
{
	uint32		file;			/* 0: nowhere */
	uint32		page;
	uint32		offset;			/* in the page's payload */
} TsImagePlace;

/* load state of a block */
typedef enum TsBlockLoad
{
	TS_BLOCK_LOADED = 0,
	TS_BLOCK_ON_DISK,			/* its rows are in the image only */
	TS_BLOCK_LOADING,			/* some process is at it */
	TS_BLOCK_DAMAGED			/* its image cannot be read */
} TsBlockLoad;

/* load state of a table */
typedef enum TsTableLoad
{
	TS_TABLE_READY = 0,
	TS_TABLE_LOADING,			/* rows may be on disk still */
	TS_TABLE_SETTLING,			/* rows are there, free slots are being counted */
	TS_TABLE_DAMAGED			/* an image file of it cannot be read */
} TsTableLoad;

#endif							/* TS_IMAGE_H */
