/*-------------------------------------------------------------------------
 *
 * output.h
 *	  The files that one image is written to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_DURABILITY_OUTPUT_H
#define TS_DURABILITY_OUTPUT_H

#include "postgres.h"

#include "durability/imagefile.h"
#include "durability/imagepage.h"

#define TS_OUTPUT_MAX_FILES		1024

typedef struct TsImageOutput
{
	TsImageWriter *writer;		/* NULL: no file is open */
	uint32		first_file;
	uint32		next_file;		/* files first_file .. next_file - 1 were begun */
	uint64		in_file;		/* bytes of stream in the open file */
	uint64		bytes;			/* of stream in all of them */
	uint64		disk_bytes;		/* of finished files */
	uint32		nfiles;			/* finished */
	uint32		pages[TS_OUTPUT_MAX_FILES]; /* of each */
} TsImageOutput;

/* The page on which a piece ends. */
static inline uint32
ts_image_last_page(TsImagePlace place, uint64 bytes)
{
	return place.page + (uint32) ((place.offset + Max(bytes, 1) - 1) / TS_IMAGE_PAYLOAD);
}

extern void ts_output_init(TsImageOutput *out, uint32 first_file);
extern TsImagePlace ts_output_begin(TsImageOutput *out);
extern void ts_output_append(TsImageOutput *out, const void *data, Size len);
extern void ts_output_finish(TsImageOutput *out);
extern void ts_output_abort(TsImageOutput *out);

#endif							/* TS_DURABILITY_OUTPUT_H */
