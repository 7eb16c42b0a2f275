/*-------------------------------------------------------------------------
 *
 * manifest.c
 *	  The file that says what an image consists of.
 *
 * Manifests are numbered ("generation"); each stands for itself.  A newer one
 * is written completely before older ones go, and files that any manifest on
 * disk names stay.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "storage/fd.h"
#include "storage/table.h"
#include "utils/memutils.h"

#include "durability/manifest.h"

#define MANIFEST_MAGIC	0x5453494D
#define MANIFEST_PREFIX	"manifest."
#define SERVICE_PATH	"global/pg_tsengine.service"

void
ts_manifest_path(char *path, uint32 generation)
{
	snprintf(path, MAXPGPATH, "%s/%s%08X", TS_IMAGE_DIR, MANIFEST_PREFIX, generation);
}

/* Begin with an empty header.  The memory is the caller's context's. */
void
ts_manifest_begin(TsManifestBuilder *b)
{
	b->room = 64 * 1024;
	b->data = MemoryContextAllocHuge(CurrentMemoryContext, b->room);
	b->len = sizeof(TsManifestHeader);
	memset(b->data, 0, b->len);
}

void
ts_manifest_append(TsManifestBuilder *b, const void *data, Size len)
{
	if (b->len + len > b->room)
	{
		b->room = Max(b->room * 2, b->len + len);
		b->data = repalloc_huge(b->data, b->room);
	}
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static pg_crc32c
manifest_crc(const char *data, Size len)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, data + sizeof(pg_crc32c), len - sizeof(pg_crc32c));
	FIN_CRC32C(crc);
	return crc;
}

/*
 * Fill in what all manifests have and make the file durable.  Raises errors of
 * the file system; there is no file of that name then.
 */
void
ts_manifest_write(TsManifestBuilder *b)
{
	TsManifestHeader *header = ts_manifest_header(b);
	char		path[MAXPGPATH];

	header->magic = MANIFEST_MAGIC;
	header->format = TS_IMAGE_FORMAT;
	header->system_identifier = GetSystemIdentifier();
	header->bytes = b->len;
	header->crc = manifest_crc(b->data, b->len);
	ts_manifest_path(path, header->generation);
	ts_durable_write(path, b->data, b->len);
}

static int
compare_descending(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/*
 * The numbers of the files "<prefix>XXXXXXXX" in TS_IMAGE_DIR, largest first,
 * in a palloc'd array.  No directory: none.  Raises errors of the file system.
 */
uint32 *
ts_image_dir_list(const char *prefix, int *n)
{
	int			max = 64;
	uint32	   *numbers = palloc(max * sizeof(uint32));
	DIR		   *dir = AllocateDir(TS_IMAGE_DIR);
	struct dirent *entry;
	Size		prefix_len = strlen(prefix);

	*n = 0;
	if (dir == NULL && errno == ENOENT)
		return numbers;
	while ((entry = ReadDir(dir, TS_IMAGE_DIR)) != NULL)
	{
		const char *digits = entry->d_name + prefix_len;

		if (strncmp(entry->d_name, prefix, prefix_len) != 0 ||
			strlen(digits) != 8 || strspn(digits, "0123456789ABCDEF") != 8)
			continue;
		if (*n == max)
		{
			max *= 2;
			numbers = repalloc_huge(numbers, max * sizeof(uint32));
		}
		numbers[(*n)++] = (uint32) strtoul(digits, NULL, 16);
	}
	FreeDir(dir);
	qsort(numbers, *n, sizeof(uint32), compare_descending);
	return numbers;
}

uint32 *
ts_manifest_list(int *n)
{
	return ts_image_dir_list(MANIFEST_PREFIX, n);
}

/* Read a whole file into palloc'd memory; NULL and errno if that fails. */
static char *
read_file(const char *path, Size *len)
{
	int			fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	struct stat st;
	char	   *data;
	Size		done = 0;
	int			error = 0;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) < 0)
	{
		error = errno;
		CloseTransientFile(fd);
		errno = error;
		return NULL;
	}
	*len = (Size) st.st_size;
	data = MemoryContextAllocHuge(CurrentMemoryContext, Max(*len, 1));
	while (done < *len && error == 0)
	{
		ssize_t		n = read(fd, data + done, Min(*len - done, (Size) 1 << 30));

		if (n > 0)
			done += n;
		else if (n == 0)
			error = EIO;		/* shorter than fstat said */
		else if (errno != EINTR)
			error = errno;
	}
	CloseTransientFile(fd);
	if (error == 0)
		return data;
	pfree(data);
	errno = error;
	return NULL;
}

/* Do the tables and files lie within the manifest?  A good checksum says so, but... */
static bool
is_consistent(const TsManifestHeader *header)
{
	const char *next = (const char *) (header + 1);
	const char *end = (const char *) header + header->files_at;

	if (header->files_at > header->bytes ||
		(header->bytes - header->files_at) / sizeof(TsManifestFile) != header->nfiles)
		return false;
	for (uint32 i = 0; i < header->ntables; i++)
	{
		const TsManifestTable *table = (const TsManifestTable *) next;

		if (end - next < (ptrdiff_t) sizeof(TsManifestTable))
			return false;
		next += sizeof(TsManifestTable);
		if (table->nblocks < TS_FIRST_BLOCK ||
			(end - next) / sizeof(TsManifestBlock) < table->nblocks - TS_FIRST_BLOCK)
			return false;
		next += (table->nblocks - TS_FIRST_BLOCK) * sizeof(TsManifestBlock);
	}
	return next == end;
}

/*
 * Read a manifest.  Returns NULL and the manifest, or what is wrong with it;
 * both palloc'd.  A manifest of a newer format or another cluster is returned
 * together with that message.
 */
char *
ts_manifest_read(uint32 generation, TsManifestHeader **result)
{
	char		path[MAXPGPATH];
	Size		len;
	TsManifestHeader *header;

	ts_manifest_path(path, generation);
	*result = NULL;
	header = (TsManifestHeader *) read_file(path, &len);
	if (header == NULL)
		return psprintf("it cannot be read: %m");
	if (len < sizeof(TsManifestHeader) || header->magic != MANIFEST_MAGIC)
		return pstrdup("it is not a manifest");
	if (header->format > TS_IMAGE_FORMAT)
	{
		*result = header;
		return pstrdup("it was written by a newer version of tsengine");
	}
	if (header->bytes != len || header->crc != manifest_crc((char *) header, len) ||
		header->generation != generation || !is_consistent(header))
		return pstrdup("its checksum is wrong");
	*result = header;
	if (header->system_identifier != GetSystemIdentifier())
		return pstrdup("it belongs to another database cluster");
	return NULL;
}

/* 0 if there never was one.  Raises errors of the file system. */
uint32
ts_service_read(void)
{
	Size		len;
	char	   *data = read_file(SERVICE_PATH, &len);

	if (data == NULL && errno == ENOENT)
		return 0;
	if (data == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", SERVICE_PATH)));
	if (len != 9 || strspn(data, "0123456789ABCDEF") != 8)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid contents of file \"%s\"", SERVICE_PATH)));
	return (uint32) strtoul(data, NULL, 16);
}

/*
 * Writes are about to be allowed: a final manifest of an older generation, put
 * back by whatever mistake, is not to be believed again.  Durable on return.
 * Raises errors of the file system.
 */
void
ts_service_write(uint32 generation)
{
	const char *temporary = SERVICE_PATH ".tmp";
	char		data[16];
	int			fd = OpenTransientFile(temporary, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	int			len = snprintf(data, sizeof(data), "%08X\n", generation);

	errno = fd < 0 ? errno : 0;
	if (fd < 0 || write(fd, data, len) != len || pg_fsync(fd) != 0)
	{
		/* a short write leaves errno alone */
		if (errno == 0)
			errno = ENOSPC;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", temporary)));
	}
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", temporary)));
	(void) durable_rename(temporary, SERVICE_PATH, ERROR);
}

/* May recovery start from this manifest?  NULL, or why not, palloc'd. */
static char *
reason_not_to_use(const TsManifestHeader *header, bool newest, XLogRecPtr redo_start,
				  uint32 service)
{
	if (header->redo >= redo_start)
		return NULL;
	if (!header->final || !newest)
		return psprintf("the image is older than the last checkpoint: it is of %X/%X, recovery starts at %X/%X",
						LSN_FORMAT_ARGS(header->redo), LSN_FORMAT_ARGS(redo_start));
	if (header->generation < service)
		return psprintf("the server has been in use after it was written, with image %08X",
						service);
	return NULL;
}

/*
 * Find the manifest to start from: the newest one that is intact, if it covers
 * the checkpoint that recovery starts at, or was the last act of a server that
 * wrote nothing after it.  If a newer one is damaged, something may have been
 * written, so only the former counts.
 *
 * No manifest at all: header and broken are NULL.  Raises errors of the file
 * system when the directory cannot be read.
 */
void
ts_manifest_choose(XLogRecPtr redo_start, TsManifest *result)
{
	int			n;
	uint32	   *generations = ts_manifest_list(&n);
	uint32		service = ts_service_read();

	memset(result, 0, sizeof(*result));
	result->any = n > 0;
	result->last_generation = Max(n > 0 ? generations[0] : 0, service);
	for (int i = 0; i < n; i++)
	{
		TsManifestHeader *header;
		char		path[MAXPGPATH];
		char	   *problem = ts_manifest_read(generations[i], &header);

		if (problem == NULL)
			problem = reason_not_to_use(header, i == 0, redo_start, service);
		if (problem == NULL)
			result->header = header;
		if (problem == NULL || i == 0)
		{
			ts_manifest_path(path, generations[i]);
			strlcpy(result->name, path, sizeof(result->name));
			result->broken = problem;
		}
		/* intact, but not ours to use: older ones do not help */
		if (header != NULL && i == 0)
			break;
		if (problem == NULL)
			break;
		ereport(LOG,
				(errmsg("cannot use manifest %08X of tsengine's image: %s", generations[i], problem)));
	}
}
