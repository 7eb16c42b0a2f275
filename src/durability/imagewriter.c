/*-------------------------------------------------------------------------
 *
 * imagewriter.c
 *	  Writing an image file.
 *
 * The stream is cut into pages in the buffers of a ring of requests; a full
 * buffer is on its way to the disk while the next ones are filled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "miscadmin.h"

#include "durability/imagefile.h"
#include "durability/imageio.h"
#include "durability/imagepage.h"
#include "durability/imagepool.h"

#define BATCH_BYTES		((Size) TS_IMAGE_BATCH_PAGES * TS_IMAGE_PAGE_SIZE)

/* space is allocated ahead of the stream in steps of at most so many bytes */
#define MAX_EXTENT		((off_t) 16 * 1024 * 1024)

struct TsImageWriter
{
	MemoryContext context;		/* of the buffers */
	int			fd;
	uint32		file;
	uint64		system_identifier;
	bool		allocates_ahead;
	off_t		allocated;		/* bytes the file has */
	off_t		sent;			/* bytes whose writes were begun */

	/* where the stream stands: in this page, at this byte of its payload */
	uint32		page;
	uint32		used;

	int			current;		/* the batch that is being filled */
	TsIoRequest batches[TS_IMAGE_BATCHES];
	void	   *memory[TS_IMAGE_BATCHES];	/* as palloc'd; request.buffer aligned */

	char		path[MAXPGPATH];
};

/*
 * Create a file and begin its stream.  The writer and its buffers (up to 8 MB)
 * are in the current memory context.  ERROR: nothing stays open.
 */
TsImageWriter *
ts_image_writer_open(uint32 file, uint64 system_identifier)
{
	TsImageWriter *w = palloc0(sizeof(TsImageWriter));
	struct stat st;

	w->context = CurrentMemoryContext;
	w->file = file;
	w->system_identifier = system_identifier;
	w->allocates_ahead = true;
	ts_image_file_path(w->path, file);
	w->fd = ts_image_create_file(w->path);
	if (fstat(w->fd, &st) == 0)
		w->allocated = st.st_size;
	return w;
}

/* Where the next byte will land. */
TsImagePlace
ts_image_writer_place(TsImageWriter *w)
{
	/* full pages are sealed at once: there is room in this one */
	TsImagePlace place = {w->file, w->page, w->used};

	return place;
}

/*
 * Give back what is allocated and not needed yet, and leave that be from now
 * on: the disk is full, or the file system cannot do it.  ERROR.
 */
static void
stop_allocating_ahead(TsImageWriter *w)
{
	w->allocates_ahead = false;
	if (w->allocated <= w->sent)
		return;
	if (ts_io_truncate(w->fd, w->sent) < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not truncate file \"%s\": %m", w->path)));
	w->allocated = w->sent;
}

/*
 * Have space allocated up to "end" and somewhat beyond: writes that extend a
 * file are done one after the other.  ERROR.
 */
static void
allocate_ahead(TsImageWriter *w, off_t end)
{
	off_t		begin = w->allocated;

	if (!w->allocates_ahead || end <= begin)
		return;
	w->allocated = end + Min(begin, MAX_EXTENT);
	/* without it only speed is lost; a full disk shows in the write */
	if (fallocate(w->fd, 0, begin, w->allocated - begin) < 0)
		stop_allocating_ahead(w);
}

/* Wait until a batch is written; ERROR.  A full disk is given what we hoard. */
static void
wait_batch(TsImageWriter *w, TsIoRequest *batch)
{
	bool		retried = false;

	if (batch->state == TS_IO_IDLE)
		return;
	while (!ts_io_wait(batch))
	{
		if (batch->error == ENOSPC)
		{
			stop_allocating_ahead(w);
			/* once in any case: another batch may have freed space */
			if (ts_image_free_space() || !retried)
			{
				retried = true;
				ts_io_retry(batch);
				continue;
			}
		}
		errno = batch->error;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", w->path)));
	}
	batch->state = TS_IO_IDLE;
}

/* Send the current batch to the disk and go on to the next one. */
static void
send_batch(TsImageWriter *w)
{
	TsIoRequest *batch = &w->batches[w->current];
	uint32		pages = w->page % TS_IMAGE_BATCH_PAGES;

	CHECK_FOR_INTERRUPTS();
	if (pages == 0)
		pages = TS_IMAGE_BATCH_PAGES;
	batch->fd = w->fd;
	batch->write = true;
	batch->length = (Size) pages * TS_IMAGE_PAGE_SIZE;
	batch->offset = (off_t) (w->page - pages) * TS_IMAGE_PAGE_SIZE;
	allocate_ahead(w, batch->offset + batch->length);
	ts_io_start(batch);
	w->sent = batch->offset + batch->length;
	w->current = (w->current + 1) % TS_IMAGE_BATCHES;
}

/* The buffer of the page that is being filled. */
static char *
current_page(TsImageWriter *w)
{
	TsIoRequest *batch = &w->batches[w->current];

	if (batch->buffer == NULL)
	{
		w->memory[w->current] = MemoryContextAlloc(w->context, BATCH_BYTES + TS_IO_ALIGNMENT);
		batch->buffer = (char *) TYPEALIGN(TS_IO_ALIGNMENT, w->memory[w->current]);
	}
	wait_batch(w, batch);
	return batch->buffer + (Size) (w->page % TS_IMAGE_BATCH_PAGES) * TS_IMAGE_PAGE_SIZE;
}

static void
seal_page(TsImageWriter *w)
{
	if (w->page == PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("file \"%s\" is too large", w->path)));
	ts_image_page_seal(current_page(w), w->file, w->system_identifier, w->page, w->used);
	w->page++;
	w->used = 0;
	if (w->page % TS_IMAGE_BATCH_PAGES == 0)
		send_batch(w);
}

/* Append to the stream; the data is copied.  ERROR, also of earlier writes. */
void
ts_image_writer_append(TsImageWriter *w, const void *data, Size len)
{
	const char *from = data;

	while (len > 0)
	{
		Size		part = Min(len, TS_IMAGE_PAYLOAD - w->used);

		memcpy(ts_image_payload(current_page(w)) + w->used, from, part);
		w->used += part;
		from += part;
		len -= part;
		if (w->used == TS_IMAGE_PAYLOAD)
			seal_page(w);
	}
}

/* Close the file and free all memory. */
static void
free_writer(TsImageWriter *w)
{
	for (int i = 0; i < TS_IMAGE_BATCHES; i++)
	{
		ts_io_drop(&w->batches[i]);
		if (w->memory[i] != NULL)
			pfree(w->memory[i]);
	}
	ts_io_close(w->fd);
	pfree(w);
}

/*
 * Write the rest and make the file durable, name included.  Returns its bytes,
 * a multiple of TS_IMAGE_PAGE_SIZE; frees the writer.  After an ERROR the file
 * is good for nothing but ts_image_writer_abort.
 */
uint64
ts_image_writer_finish(TsImageWriter *w)
{
	uint64		bytes;

	if (w->used > 0)
		seal_page(w);
	if (w->page % TS_IMAGE_BATCH_PAGES != 0)
		send_batch(w);
	for (int i = 0; i < TS_IMAGE_BATCHES; i++)
		wait_batch(w, &w->batches[i]);

	/* cut off what was allocated ahead, or a former file had */
	bytes = (uint64) w->page * TS_IMAGE_PAGE_SIZE;
	if (ts_io_truncate(w->fd, bytes) < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not truncate file \"%s\": %m", w->path)));
	if (ts_io_fsync(w->fd) < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", w->path)));
	if (ts_io_fsync_directory(TS_IMAGE_DIR) < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not fsync directory \"%s\": %m", TS_IMAGE_DIR)));
	free_writer(w);
	return bytes;
}

/* Give the file up: close and remove it, free the writer.  Never fails. */
void
ts_image_writer_abort(TsImageWriter *w)
{
	char		path[MAXPGPATH];

	strlcpy(path, w->path, MAXPGPATH);
	free_writer(w);
	if (ts_io_unlink(path) < 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", path)));
}
