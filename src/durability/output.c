/*-------------------------------------------------------------------------
 *
 * output.c
 *	  The files that one image is written to.
 *
 * Pieces (block images, the pending section) are appended to one file, and to
 * further ones when it has grown large; a piece lies in one file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"

#include "durability/output.h"

#define FILE_BYTES		(UINT64CONST(1) << 30)

/* An image whose files are numbered from first_file on.  Opens none yet. */
void
ts_output_init(TsImageOutput *out, uint32 first_file)
{
	memset(out, 0, sizeof(*out));
	out->first_file = out->next_file = first_file;
}

static void
close_file(TsImageOutput *out)
{
	uint64		size = ts_image_writer_finish(out->writer);

	out->writer = NULL;
	out->disk_bytes += size;
	out->pages[out->nfiles++] = (uint32) (size / TS_IMAGE_PAGE_SIZE);
}

/*
 * Begin a piece; returns its place.  Opens a file where one is due.  Raises
 * errors of the file system.
 */
TsImagePlace
ts_output_begin(TsImageOutput *out)
{
	if (out->writer != NULL && out->in_file >= FILE_BYTES && out->nfiles < TS_OUTPUT_MAX_FILES - 1)
		close_file(out);
	if (out->writer == NULL)
	{
		out->writer = ts_image_writer_open(out->next_file, GetSystemIdentifier());
		out->next_file++;
		out->in_file = 0;
	}
	return ts_image_writer_place(out->writer);
}

/* Append to the piece that was begun.  Raises errors of the file system. */
void
ts_output_append(TsImageOutput *out, const void *data, Size len)
{
	ts_image_writer_append(out->writer, data, len);
	out->in_file += len;
	out->bytes += len;
}

/* Make all of it durable.  Raises errors of the file system. */
void
ts_output_finish(TsImageOutput *out)
{
	if (out->writer != NULL)
		close_file(out);
}

/* Remove what was written.  Never fails: what stays is removed by a later image. */
void
ts_output_abort(TsImageOutput *out)
{
	if (out->writer != NULL)
		ts_image_writer_abort(out->writer);
	out->writer = NULL;
	for (uint32 i = 0; i < out->nfiles; i++)
	{
		char		path[MAXPGPATH];

		ts_image_file_path(path, out->first_file + i);
		if (unlink(path) < 0)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", path)));
	}
}
