/*-------------------------------------------------------------------------
 *
 * imagepage.h
 *	  The page of an image file: format, making, checking.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_IMAGEPAGE_H
#define TS_IMAGEPAGE_H

#include "postgres.h"

#include "port/pg_crc32c.h"

#include "durability/imagefile.h"

/*
 * In the byte order of the machine, as all of PostgreSQL's files.  Later
 * formats keep the first three fields, so that ours can tell what it sees.
 */
typedef struct TsImagePageHeader
{
	pg_crc32c	crc;			/* of the rest of the page, unused bytes included */
	uint32		magic;
	uint32		format;
	uint32		file;
	uint64		system_identifier;
	uint32		page;
	uint32		used;			/* bytes of payload */
} TsImagePageHeader;

#define TS_IMAGE_MAGIC		0x54534947
#define TS_IMAGE_PAYLOAD	(TS_IMAGE_PAGE_SIZE - sizeof(TsImagePageHeader))

/* a read or write of pages, and how many of them are kept going */
#define TS_IMAGE_BATCH_PAGES	16
#define TS_IMAGE_BATCHES		8

/* What is wrong with a file. */
typedef struct TsImageProblem
{
	int			sqlstate;		/* 0: what fits the errno */
	int			error;			/* errno, if that is what it comes from */
	bool		newer;			/* written by a later release */
	char	   *message;		/* palloc'd */
} TsImageProblem;

static inline char *
ts_image_payload(char *page)
{
	return page + sizeof(TsImagePageHeader);
}

extern void ts_image_page_seal(char *page, uint32 file, uint64 system_identifier,
							   uint32 number, uint32 used);
extern bool ts_image_page_check(const char *page, uint32 file, uint64 system_identifier,
								uint32 number, TsImageProblem *problem);

#endif							/* TS_IMAGEPAGE_H */
