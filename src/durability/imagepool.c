/*-------------------------------------------------------------------------
 *
 * imagepool.c
 *	  The image directory: names, files kept for reuse, and the space set aside
 *	  for a full disk.
 *
 *	  image.XXXXXXXX	a file of the image
 *	  recycle.XXXXXXXX	what was such a file, to be overwritten by a new one
 *	  reserve			space for the day when the disk is full
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "storage/fd.h"

#include "durability/imagefile.h"
#include "durability/imageio.h"
#include "durability/imagepool.h"

#define RESERVE_PATH	TS_IMAGE_DIR "/reserve"
#define RECYCLE_PREFIX	"recycle."

/* The path of a file, relative to the data directory; room for MAXPGPATH bytes. */
void
ts_image_file_path(char *path, uint32 file)
{
	snprintf(path, MAXPGPATH, TS_IMAGE_DIR "/image.%08X", file);
}

/* Make the image directory if it is not there; ERROR. */
static void
make_directory(void)
{
	if (MakePGDirectory(TS_IMAGE_DIR) < 0)
	{
		if (errno != EEXIST)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not create directory \"%s\": %m", TS_IMAGE_DIR)));
		return;
	}
	if (ts_io_fsync_directory(".") < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not fsync directory \"%s\": %m", ".")));
}

/*
 * Look through the files kept for reuse.  Returns their bytes, and in path
 * (unless NULL) one of them, or "".
 */
static Size
scan_pool(char *path)
{
	DIR		   *dir = AllocateDir(TS_IMAGE_DIR);
	struct dirent *entry;
	Size		bytes = 0;

	if (path != NULL)
		path[0] = '\0';
	/* what is unreadable is no source of space: not worth an ERROR */
	while ((entry = ReadDirExtended(dir, TS_IMAGE_DIR, LOG)) != NULL)
	{
		char		found[MAXPGPATH];
		struct stat st;

		if (strncmp(entry->d_name, RECYCLE_PREFIX, strlen(RECYCLE_PREFIX)) != 0)
			continue;
		snprintf(found, MAXPGPATH, TS_IMAGE_DIR "/%s", entry->d_name);
		if (lstat(found, &st) < 0)
			continue;			/* another process has taken it */
		bytes += st.st_size;
		if (path != NULL)
			strlcpy(path, found, MAXPGPATH);
	}
	if (dir != NULL)
		FreeDir(dir);
	return bytes;
}

/* Rename a file that is kept for reuse to path.  False if there is none. */
static bool
take_recycled(const char *path)
{
	char		found[MAXPGPATH];

	for (;;)
	{
		scan_pool(found);
		if (found[0] == '\0')
			return false;
		if (ts_io_rename(found, path) == 0)
			return true;
		if (errno != ENOENT)	/* else another process was faster */
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rename file \"%s\" to \"%s\": %m", found, path)));
	}
}

/*
 * Create an image file that must not exist yet, of an old file, or of the
 * reserve if the disk is full.  Old bytes may be in it.  Returns an fd of
 * ts_io_open; ERROR.
 */
int
ts_image_create_file(const char *path)
{
	struct stat st;
	bool		exists;
	int			fd;

	make_directory();
	if (lstat(path, &st) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_FILE),
				 errmsg("file \"%s\" exists already", path)));
	exists = take_recycled(path);
	fd = ts_io_open_direct(path, exists ? O_RDWR : O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0 && errno == ENOSPC && !exists)
	{
		exists = ts_io_rename(RESERVE_PATH, path) == 0;
		if (exists)
			fd = ts_io_open_direct(path, O_RDWR);
		else
			errno = ENOSPC;
	}
	if (fd < 0)
	{
		int			save_errno = errno;

		if (errno != EEXIST)
			(void) ts_io_unlink(path);
		errno = save_errno;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", path)));
	}
	return fd;
}

/*
 * Give space back to a full disk: a file kept for reuse, in the end the
 * reserve.  False if there is nothing left.
 */
bool
ts_image_free_space(void)
{
	char		found[MAXPGPATH];

	scan_pool(found);
	if (found[0] != '\0' && ts_io_unlink(found) == 0)
		return true;
	return ts_io_unlink(RESERVE_PATH) == 0;
}

/*
 * Remove an image file, or keep it for reuse if what is kept so has less than
 * recycle_limit bytes.  One that is not there is all right.  ERROR.
 *
 * Not durable by itself: after a crash of the machine the file may be there
 * again, with another's pages.  So no manifest that survives such a crash may
 * name it.
 */
void
ts_image_file_remove(uint32 file, Size recycle_limit)
{
	char		path[MAXPGPATH];

	ts_image_file_path(path, file);
	if (scan_pool(NULL) < recycle_limit)
	{
		char		kept[MAXPGPATH];

		snprintf(kept, MAXPGPATH, TS_IMAGE_DIR "/" RECYCLE_PREFIX "%08X", file);
		if (ts_io_rename(path, kept) < 0 && errno != ENOENT)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rename file \"%s\" to \"%s\": %m", path, kept)));
	}
	else if (ts_io_unlink(path) < 0 && errno != ENOENT)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", path)));
}

/* Let a file have at least so many bytes on disk; else errno, and it is as before. */
static int
grow(int fd, off_t bytes)
{
	struct stat st;
	int			error;

	if (fstat(fd, &st) < 0)
		return errno;
	if (st.st_size >= bytes)
		return 0;
	do
		error = posix_fallocate(fd, 0, bytes);
	while (error == EINTR);
	if (error != 0 && ts_io_truncate(fd, st.st_size) < 0)
		elog(LOG, "could not truncate file \"%s\": %m", RESERVE_PATH);
	return error;
}

/*
 * Set space aside for a full disk: a file of at least so many bytes, which the
 * next file that finds the disk full uses up.  If there is not that much, a
 * message in the log says so, and what was there before stays.
 */
void
ts_image_reserve(Size bytes)
{
	int			fd;

	make_directory();
	fd = ts_io_open(RESERVE_PATH, O_RDWR | O_CREAT);
	if (fd >= 0)
	{
		errno = grow(fd, bytes);
		ts_io_close(fd);
		if (errno == 0)
			return;
	}
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not reserve %zu bytes in file \"%s\": %m", bytes, RESERVE_PATH)));
}

/* Write a new file and make its contents durable; on failure -1 and errno. */
static int
write_file(const char *path, const void *data, Size len)
{
	int			fd;
	int			ret;
	int			save_errno;

	fd = ts_io_open(path, O_WRONLY | O_CREAT | O_TRUNC);
	if (fd < 0)
		return -1;
	ret = ts_io_write_all(fd, data, len);
	if (ret == 0)
		ret = ts_io_fsync(fd);
	save_errno = errno;
	ts_io_close(fd);
	errno = save_errno;
	return ret;
}

/*
 * Replace the contents of a file in the image directory so that after a crash
 * it has the old ones or the new ones, and the new ones once this has returned.
 * Uses up the reserve if the disk is full.  ERROR; whether a crash would then
 * show the old contents or the new is open.  After a failed fsync trying again
 * proves nothing, as everywhere: the caller should PANIC.
 */
void
ts_durable_write(const char *path, const void *data, Size len)
{
	char		temporary[MAXPGPATH];
	int			ret;

	make_directory();
	snprintf(temporary, MAXPGPATH, "%s.tmp", path);
	while ((ret = write_file(temporary, data, len)) < 0 && errno == ENOSPC &&
		   ts_image_free_space())
		;
	if (ret < 0)
	{
		int			save_errno = errno;

		(void) ts_io_unlink(temporary);
		errno = save_errno;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", temporary)));
	}
	if (ts_io_rename(temporary, path) < 0)
	{
		int			save_errno = errno;

		(void) ts_io_unlink(temporary);
		errno = save_errno;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rename file \"%s\" to \"%s\": %m", temporary, path)));
	}
	if (ts_io_fsync_directory(TS_IMAGE_DIR) < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not fsync directory \"%s\": %m", TS_IMAGE_DIR)));
}
