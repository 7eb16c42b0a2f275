/*-------------------------------------------------------------------------
 *
 * imagereader.c
 *	  Reading and checking image files.
 *
 * A queue of batches, each a run of pages, is read ahead of the stream's
 * position, to the end of the range asked for and no further.  A page is
 * checked before any byte of it is used.
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

typedef struct Batch
{
	TsIoRequest request;
	void	   *memory;			/* as palloc'd; request.buffer aligned */
	uint32		pages_room;		/* pages the buffer can hold */
	uint32		first;			/* pages it does hold */
	uint32		pages;
} Batch;

struct TsImageReader
{
	MemoryContext context;		/* of the buffers */
	int			fd;
	uint32		file;
	uint64		system_identifier;

	/* the range; pages are 64 bits wide so that one past the last is a number */
	uint64		next_page;		/* to be asked for next */
	uint64		end_page;

	/* where the stream stands */
	uint64		page;
	uint32		offset;
	char	   *current;		/* its page, checked; NULL: not there yet */

	int			head;			/* oldest batch */
	int			count;			/* batches asked for */
	Batch		batches[TS_IMAGE_BATCHES];

	char		path[MAXPGPATH];
};

static void
report_problem(const TsImageProblem *problem)
{
	errno = problem->error;
	ereport(ERROR,
			(problem->sqlstate == 0 ? errcode_for_file_access() : errcode(problem->sqlstate),
			 errmsg_internal("%s", problem->message),
			 problem->newer ?
			 errhint("The file was written by a later release of tsengine.") : 0));
}

/* Open without ERROR: NULL and a problem instead. */
static TsImageReader *
open_reader(uint32 file, uint64 system_identifier, TsImageProblem *problem)
{
	TsImageReader *r = palloc0(sizeof(TsImageReader));

	r->context = CurrentMemoryContext;
	r->file = file;
	r->system_identifier = system_identifier;
	ts_image_file_path(r->path, file);
	r->fd = ts_io_open_direct(r->path, O_RDONLY);
	if (r->fd >= 0)
		return r;
	memset(problem, 0, sizeof(TsImageProblem));
	problem->error = errno;
	if (errno == ENOENT)
		problem->sqlstate = ERRCODE_DATA_CORRUPTED;
	problem->message = psprintf("could not open file \"%s\": %s", r->path, strerror(problem->error));
	pfree(r);
	return NULL;
}

/*
 * Open a file for reading.  The reader and its buffers (up to 8 MB, no more
 * than a range needs) are in the current memory context.  ERROR: nothing stays
 * open.
 */
TsImageReader *
ts_image_reader_open(uint32 file, uint64 system_identifier)
{
	TsImageProblem problem;
	TsImageReader *r = open_reader(file, system_identifier, &problem);

	if (r == NULL)
		report_problem(&problem);
	return r;
}

static void
drop_head(TsImageReader *r)
{
	ts_io_drop(&r->batches[r->head].request);
	r->head = (r->head + 1) % TS_IMAGE_BATCHES;
	r->count--;
}

/* Ask for the next pages of the range. */
static void
ask_batch(TsImageReader *r)
{
	Batch	   *batch = &r->batches[(r->head + r->count) % TS_IMAGE_BATCHES];
	uint32		pages = Min(r->end_page - r->next_page, TS_IMAGE_BATCH_PAGES);

	if (batch->pages_room < pages)
	{
		if (batch->memory != NULL)
			pfree(batch->memory);
		batch->memory = NULL;
		batch->pages_room = 0;
		batch->memory = MemoryContextAlloc(r->context,
										   (Size) pages * TS_IMAGE_PAGE_SIZE + TS_IO_ALIGNMENT);
		batch->pages_room = pages;
		batch->request.buffer = (char *) TYPEALIGN(TS_IO_ALIGNMENT, batch->memory);
	}
	batch->first = r->next_page;
	batch->pages = pages;
	batch->request.fd = r->fd;
	batch->request.write = false;
	batch->request.length = (Size) pages * TS_IMAGE_PAGE_SIZE;
	batch->request.offset = (off_t) batch->first * TS_IMAGE_PAGE_SIZE;
	ts_io_start(&batch->request);
	r->next_page += pages;
	r->count++;
}

/* Why a batch could not be read. */
static void
read_problem(TsImageReader *r, Batch *batch, TsImageProblem *problem)
{
	memset(problem, 0, sizeof(TsImageProblem));
	problem->error = batch->request.error;
	if (problem->error != 0)
	{
		problem->message = psprintf("could not read file \"%s\": %s", r->path,
									strerror(problem->error));
		return;
	}
	problem->sqlstate = ERRCODE_DATA_CORRUPTED;
	problem->message = psprintf("file \"%s\" is truncated: it ends in page %u", r->path,
								batch->first + (uint32) (batch->request.done / TS_IMAGE_PAGE_SIZE));
}

/*
 * Have the page of the stream's position read and checked, and those behind it
 * asked for.  False: there is a problem.
 */
static bool
fetch_page(TsImageReader *r, TsImageProblem *problem)
{
	Batch	   *batch;
	char	   *page;

	Assert(r->page < r->end_page);
	while (r->count > 0 &&
		   r->batches[r->head].first + (uint64) r->batches[r->head].pages <= r->page)
		drop_head(r);
	r->next_page = Max(r->next_page, r->page);
	while (r->count < TS_IMAGE_BATCHES && r->next_page < r->end_page)
		ask_batch(r);

	CHECK_FOR_INTERRUPTS();
	batch = &r->batches[r->head];
	Assert(r->page >= batch->first && r->page < batch->first + (uint64) batch->pages);
	if (!ts_io_wait(&batch->request))
	{
		read_problem(r, batch, problem);
		return false;
	}
	page = batch->request.buffer + (Size) (r->page - batch->first) * TS_IMAGE_PAGE_SIZE;
	if (!ts_image_page_check(page, r->file, r->system_identifier, r->page, problem))
		return false;
	r->current = page;
	return true;
}

/* Begin with a range: from a place up to the end of a page. */
static void
start_range(TsImageReader *r, uint32 page, uint32 offset, uint64 end_page)
{
	while (r->count > 0)
		drop_head(r);
	r->page = r->next_page = page;
	r->offset = offset;
	r->end_page = end_page;
	r->current = NULL;
}

/*
 * Begin to read at a place.  Pages are read ahead up to last_page, and none
 * behind it.  A reader can be started any number of times.
 */
void
ts_image_reader_start(TsImageReader *r, TsImagePlace from, uint32 last_page)
{
	if (from.file != r->file || from.page > last_page)
		elog(ERROR, "invalid range of image file %08X", r->file);
	start_range(r, from.page, from.offset, (uint64) last_page + 1);
	/* not waited for: what the caller does meanwhile is gained */
	while (r->count < TS_IMAGE_BATCHES && r->next_page < r->end_page)
		ask_batch(r);
}

/*
 * Go on at a later place of the range.  Pages in between that have not been
 * asked for yet are not read, and not checked.
 */
void
ts_image_reader_skip_to(TsImageReader *r, TsImagePlace place)
{
	if (place.file != r->file || place.page >= r->end_page || place.page < r->page ||
		(place.page == r->page && place.offset < r->offset))
		elog(ERROR, "invalid place in image file %08X", r->file);
	if (place.page != r->page)
		r->current = NULL;
	r->page = place.page;
	r->offset = place.offset;
}

/* Step to the next page if this one is used up; there must be more of the stream. */
static void
next_piece(TsImageReader *r)
{
	TsImageProblem problem;
	uint32		used;

	if (r->offset == TS_IMAGE_PAYLOAD && r->page < r->end_page)
	{
		r->page++;
		r->offset = 0;
		r->current = NULL;
	}
	if (r->page >= r->end_page)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("data in file \"%s\" goes on behind page " UINT64_FORMAT,
						r->path, r->end_page - 1)));
	if (r->current == NULL && !fetch_page(r, &problem))
		report_problem(&problem);

	used = ((TsImagePageHeader *) r->current)->used;
	if (r->offset >= used)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("data in file \"%s\" ends in page " UINT64_FORMAT,
						r->path, r->page),
				 errdetail("Byte %u was asked for, the page has %u.", r->offset, used)));
}

/*
 * Read the next bytes into dst.  ERROR if they are damaged or the range ends;
 * what dst has then is undefined.
 */
void
ts_image_reader_read(TsImageReader *r, void *dst, Size len)
{
	char	   *to = dst;

	while (len > 0)
	{
		Size		part;

		next_piece(r);
		part = Min(len, ((TsImagePageHeader *) r->current)->used - r->offset);
		memcpy(to, ts_image_payload(r->current) + r->offset, part);
		r->offset += part;
		to += part;
		len -= part;
	}
}

/* Close the file and free the reader.  Never fails. */
void
ts_image_reader_close(TsImageReader *r)
{
	while (r->count > 0)
		drop_head(r);
	for (int i = 0; i < TS_IMAGE_BATCHES; i++)
		if (r->batches[i].memory != NULL)
			pfree(r->batches[i].memory);
	ts_io_close(r->fd);
	pfree(r);
}

/* Check size and pages of a file that is open. */
static bool
verify_pages(TsImageReader *r, uint32 npages, TsImageProblem *problem)
{
	struct stat st;
	off_t		expected = (off_t) npages * TS_IMAGE_PAGE_SIZE;

	memset(problem, 0, sizeof(TsImageProblem));
	problem->sqlstate = ERRCODE_DATA_CORRUPTED;
	if (fstat(r->fd, &st) < 0)
	{
		problem->message = psprintf("could not stat file \"%s\": %s", r->path, strerror(errno));
		return false;
	}
	if (st.st_size != expected)
	{
		problem->message = psprintf("file \"%s\" has " INT64_FORMAT " bytes instead of " INT64_FORMAT,
									r->path, (int64) st.st_size, (int64) expected);
		return false;
	}
	start_range(r, 0, 0, npages);
	for (; r->page < npages; r->page++)
	{
		uint32		used;

		if (!fetch_page(r, problem))
			return false;
		used = ((TsImagePageHeader *) r->current)->used;
		if (used != TS_IMAGE_PAYLOAD && r->page != npages - 1)
		{
			problem->message = psprintf("page " UINT64_FORMAT " of file \"%s\" ends early",
										r->page, r->path);
			return false;
		}
	}
	return true;
}

/*
 * Check that a file has so many pages and that all are good.  NULL if so, else
 * a palloc'd message that names the file.  ERROR for an interrupt only.
 */
char *
ts_image_verify_file(uint32 file, uint64 system_identifier, uint32 npages)
{
	TsImageProblem problem;
	TsImageReader *r = open_reader(file, system_identifier, &problem);
	bool		good = false;

	if (r == NULL)
		return problem.message;
	PG_TRY();
	{
		good = verify_pages(r, npages, &problem);
	}
	PG_FINALLY();
	{
		ts_image_reader_close(r);
	}
	PG_END_TRY();
	return good ? NULL : problem.message;
}
