/*-------------------------------------------------------------------------
 *
 * imagefile.h
 *	  Files of the checkpoint image: checksummed streams in TS_IMAGE_DIR.
 *
 * Everything here needs a memory context and nothing else of a backend: no
 * transaction, no catalogs, no shared memory.  Unless a comment says otherwise
 * a function reports trouble with ERROR.  An object that was open then stays
 * open: the caller's PG_CATCH hands it to ts_image_writer_abort or
 * ts_image_reader_close, which wait for what is in flight.  Paths are relative
 * to the data directory.  See README in this folder.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_IMAGEFILE_H
#define TS_IMAGEFILE_H

#include "postgres.h"


#include "storage/image.h"
#include "storage/load.h"


/* bytes of a file page, header included */
#define TS_IMAGE_PAGE_SIZE	65536

/* in every page header; a newer one is refused */
#define TS_IMAGE_FORMAT		1

extern const char *ts_image_io_method(void);

/* Writer: one new file, an append-only stream. */
typedef struct TsImageWriter TsImageWriter;

extern TsImageWriter *ts_image_writer_open(uint32 file, uint64 system_identifier);
extern TsImagePlace ts_image_writer_place(TsImageWriter *w);
extern void ts_image_writer_append(TsImageWriter *w, const void *data, Size len);
extern uint64 ts_image_writer_finish(TsImageWriter *w);
extern void ts_image_writer_abort(TsImageWriter *w);

/* Reader: a range of one file's stream, read in order. */
typedef struct TsImageReader TsImageReader;

extern TsImageReader *ts_image_reader_open(uint32 file, uint64 system_identifier);
extern void ts_image_reader_start(TsImageReader *r, TsImagePlace from, uint32 last_page);
extern void ts_image_reader_skip_to(TsImageReader *r, TsImagePlace place);
extern void ts_image_reader_read(TsImageReader *r, void *dst, Size len);
extern void ts_image_reader_close(TsImageReader *r);

extern char *ts_image_verify_file(uint32 file, uint64 system_identifier, uint32 npages);

/* Files. */
extern void ts_image_file_path(char *path, uint32 file);
extern void ts_image_file_remove(uint32 file, Size recycle_limit);
extern void ts_image_reserve(Size bytes);
extern void ts_durable_write(const char *path, const void *data, Size len);

#endif							/* TS_IMAGEFILE_H */
