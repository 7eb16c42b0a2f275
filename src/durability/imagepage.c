/*-------------------------------------------------------------------------
 *
 * imagepage.c
 *	  The page of an image file: see imagepage.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "durability/imagepage.h"

static pg_crc32c
page_crc(const char *page)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, page + sizeof(pg_crc32c), TS_IMAGE_PAGE_SIZE - sizeof(pg_crc32c));
	FIN_CRC32C(crc);
	return crc;
}

/* Make a page of a buffer whose payload has "used" bytes; the rest is zeroed. */
void
ts_image_page_seal(char *page, uint32 file, uint64 system_identifier,
				   uint32 number, uint32 used)
{
	TsImagePageHeader *header = (TsImagePageHeader *) page;

	memset(ts_image_payload(page) + used, 0, TS_IMAGE_PAYLOAD - used);
	header->magic = TS_IMAGE_MAGIC;
	header->format = TS_IMAGE_FORMAT;
	header->file = file;
	header->system_identifier = system_identifier;
	header->page = number;
	header->used = used;
	header->crc = page_crc(page);
}

/*
 * Is this the page it should be?  If not, the problem is filled in.  The
 * checksum comes first: without it the other fields mean nothing.
 */
bool
ts_image_page_check(const char *page, uint32 file, uint64 system_identifier,
					uint32 number, TsImageProblem *problem)
{
	const TsImagePageHeader *header = (const TsImagePageHeader *) page;
	char		path[MAXPGPATH];
	char	   *what;

	memset(problem, 0, sizeof(TsImageProblem));
	problem->sqlstate = ERRCODE_DATA_CORRUPTED;
	if (header->crc != page_crc(page))
		what = psprintf("wrong checksum");
	else if (header->magic != TS_IMAGE_MAGIC)
		what = psprintf("wrong magic number %08X", header->magic);
	else if (header->format != TS_IMAGE_FORMAT)
	{
		what = psprintf("format version %u, this release knows version %u",
						header->format, TS_IMAGE_FORMAT);
		problem->newer = header->format > TS_IMAGE_FORMAT;
		problem->sqlstate = ERRCODE_FEATURE_NOT_SUPPORTED;
	}
	else if (header->system_identifier != system_identifier)
		what = psprintf("it belongs to the database system " UINT64_FORMAT ", not " UINT64_FORMAT,
						header->system_identifier, system_identifier);
	else if (header->file != file)
		what = psprintf("it belongs to file %08X", header->file);
	else if (header->page != number)
		what = psprintf("it is page %u", header->page);
	else if (header->used == 0 || header->used > TS_IMAGE_PAYLOAD)
		what = psprintf("wrong length %u", header->used);
	else
		return true;

	ts_image_file_path(path, file);
	problem->message = psprintf("invalid page %u in file \"%s\": %s", number, path, what);
	pfree(what);
	return false;
}
