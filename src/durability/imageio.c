/*-------------------------------------------------------------------------
 *
 * imageio.c
 *	  Operations on files: see imageio.h.
 *
 * Each process that uses io_uring has one ring for all its streams, made at
 * the first request and kept.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/wait_event.h"

#include "durability/fault.h"
#include "durability/imagefile.h"
#include "durability/imageio.h"

#define RING_ENTRIES	64

int			ts_io_method = TS_IO_AUTO;

const struct config_enum_entry ts_io_method_options[] = {
	{"auto", TS_IO_AUTO, false},
	{"io_uring", TS_IO_URING, false},
	{"sync", TS_IO_SYNC, false},
	{NULL, 0, false}
};

static struct io_uring ring;
static int	in_flight = 0;		/* requests the ring has */

/* Make the ring. Older kernels may lose completions: they are not used. */
static int
make_ring(void)
{
	int			ret = io_uring_queue_init(RING_ENTRIES, &ring, 0);

	if (ret == 0 && (ring.features & IORING_FEAT_NODROP) == 0)
	{
		io_uring_queue_exit(&ring);
		ret = -EOPNOTSUPP;
	}
	if (ret == 0)
		ReserveExternalFD();	/* for good */
	return ret;
}

/*
 * Does this process use io_uring?  Found out once.  ERROR if the setting asks
 * for it and there is none, as where a container forbids it.
 */
bool
ts_io_uses_uring(void)
{
	static TsIoMethod chosen = TS_IO_AUTO;

	if (likely(chosen != TS_IO_AUTO))
		return chosen == TS_IO_URING;
	if (ts_io_method != TS_IO_SYNC)
	{
		int			ret = make_ring();

		errno = -ret;
		if (ret < 0 && ts_io_method == TS_IO_URING)
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("could not set up io_uring: %m"),
					 errhint("Set \"tsengine.io_method\" to \"auto\" or \"sync\".")));
		if (ret < 0)
			ereport(DEBUG1, (errmsg_internal("io_uring is not available: %m")));
		else
		{
			chosen = TS_IO_URING;
			return true;
		}
	}
	chosen = TS_IO_SYNC;
	return false;
}

/* The name of the method this process uses; ERROR as above. */
const char *
ts_image_io_method(void)
{
	return ts_io_uses_uring() ? "io_uring" : "sync";
}

/* Take note of what a system call has given: bytes, or a negative errno. */
static void
account(TsIoRequest *request, ssize_t result)
{
	Size		left = request->length - request->done;
	Size		advance;

	request->state = TS_IO_TODO;
	if (result == -EINTR || result == -EAGAIN)
		return;
	if (result < 0)
	{
		request->error = -result;
		request->state = TS_IO_DONE;
		return;
	}
	/* direct I/O can go on at an aligned place only */
	advance = result < left ? TYPEALIGN_DOWN(TS_IO_ALIGNMENT, result) : left;
	request->done += advance;
	if (advance == 0 && request->write)
		request->error = ENOSPC;	/* as PostgreSQL does */
	if (advance == 0 || advance == left)
		request->state = TS_IO_DONE;
}

/*
 * Give the kernel a part of a request.  A failure that leaves the entry in the
 * ring could only be followed by a write from memory that is someone else's.
 */
static void
give_to_ring(TsIoRequest *request)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	off_t		offset = request->offset + request->done;
	int			ret;

	Assert(sqe != NULL);		/* each entry is submitted at once */
	if (request->write)
		io_uring_prep_writev(sqe, request->fd, &request->part, 1, offset);
	else
		io_uring_prep_readv(sqe, request->fd, &request->part, 1, offset);
	io_uring_sqe_set_data(sqe, request);
	while ((ret = io_uring_submit(&ring)) != 1)
	{
		if (ret == -EAGAIN)
			pg_usleep(1000);	/* the kernel is short of memory */
		else if (ret != -EINTR)
			elog(PANIC, "could not submit to io_uring: %s", strerror(-ret));
	}
	request->state = TS_IO_IN_FLIGHT;
	in_flight++;
}

/* Take one completion from the ring, whosever it is; wait for it if need be. */
static void
take_from_ring(void)
{
	struct io_uring_cqe *cqe;
	TsIoRequest *request;
	int			result;
	int			ret;

	Assert(in_flight > 0);
	ret = io_uring_wait_cqe(&ring, &cqe);
	if (ret == -EINTR || ret == -EAGAIN)
		return;					/* callers loop */
	if (ret < 0)
		elog(PANIC, "could not wait for io_uring: %s", strerror(-ret));
	request = io_uring_cqe_get_data(cqe);
	result = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	in_flight--;
	account(request, result);
}

static ssize_t
run_now(TsIoRequest *request)
{
	off_t		offset = request->offset + request->done;
	ssize_t		result;

	if (request->write)
		result = pg_pwrite(request->fd, request->part.iov_base, request->part.iov_len, offset);
	else
		result = pg_pread(request->fd, request->part.iov_base, request->part.iov_len, offset);
	return result < 0 ? -errno : result;
}

/* Ask for what is left of a request. */
static void
attempt(TsIoRequest *request)
{
	Size		left = request->length - request->done;
	int			fault = ts_fault(request->write ? TS_FAULT_WRITE : TS_FAULT_READ);

	if (fault > 0)
	{
		account(request, -fault);
		return;
	}
	if (fault == TS_FAULT_SHORT)
		left = Max(TYPEALIGN_DOWN(TS_IO_ALIGNMENT, left / 2), TS_IO_ALIGNMENT);
	request->part.iov_base = request->buffer + request->done;
	request->part.iov_len = left;
	if (!ts_io_uses_uring())
	{
		account(request, run_now(request));
		return;
	}
	/* there must be room for the completions of all */
	while (in_flight >= RING_ENTRIES)
		take_from_ring();
	give_to_ring(request);
}

/* Begin a request whose first fields are set. */
void
ts_io_start(TsIoRequest *request)
{
	Assert(request->state == TS_IO_IDLE || request->state == TS_IO_DONE);
	Assert((uintptr_t) request->buffer % TS_IO_ALIGNMENT == 0);
	request->done = 0;
	ts_io_retry(request);
}

/* Begin again with what is left of a request that failed. */
void
ts_io_retry(TsIoRequest *request)
{
	bool		now = ts_io_uses_uring();

	request->error = 0;
	request->state = TS_IO_TODO;
	if (now)
		attempt(request);
}

/* Wait for a request.  False: it failed with errno, 0 meaning end of file. */
bool
ts_io_wait(TsIoRequest *request)
{
	Assert(request->state != TS_IO_IDLE);
	pgstat_report_wait_start(request->write ? WAIT_EVENT_DATA_FILE_WRITE :
							 WAIT_EVENT_DATA_FILE_READ);
	while (request->state != TS_IO_DONE)
	{
		if (request->state == TS_IO_TODO)
			attempt(request);
		else
			take_from_ring();
	}
	pgstat_report_wait_end();
	errno = request->error;
	return request->done == request->length;
}

/* Give a request up: afterwards the kernel has nothing of it.  Never fails. */
void
ts_io_drop(TsIoRequest *request)
{
	while (request->state == TS_IO_IN_FLIGHT)
		take_from_ring();
	request->state = TS_IO_IDLE;
}

/* The fault that is due for an operation, as errno and -1; else 0. */
static inline int
check_fault(TsFaultOperation operation)
{
	int			fault = ts_fault(operation);

	if (fault <= 0)
		return 0;
	errno = fault;
	return -1;
}

/* Open a file as fd.c likes it to be done; close it with ts_io_close. */
int
ts_io_open(const char *path, int flags)
{
	int			fd;

	if (check_fault(TS_FAULT_OPEN) < 0)
		return -1;
	fd = BasicOpenFile(path, flags | O_CLOEXEC | PG_BINARY);
	if (fd >= 0)
		ReserveExternalFD();
	return fd;
}

/*
 * The same past the page cache, where the file system can do that.  One that
 * cannot may have created the file all the same before it says so.
 */
int
ts_io_open_direct(const char *path, int flags)
{
	int			fd = ts_io_open(path, flags | O_DIRECT);

	if (fd < 0 && errno == EINVAL)
		fd = ts_io_open(path, flags & ~O_EXCL);
	return fd;
}

void
ts_io_close(int fd)
{
	close(fd);
	ReleaseExternalFD();
}

/* Write at the file position, unaligned. */
int
ts_io_write_all(int fd, const char *data, Size len)
{
	while (len > 0)
	{
		int			fault = ts_fault(TS_FAULT_WRITE);
		ssize_t		written = -1;

		if (fault > 0)
			errno = fault;
		else
			written = write(fd, data, fault == TS_FAULT_SHORT ? (len + 1) / 2 : len);
		if (written == 0)
			errno = ENOSPC;		/* as PostgreSQL does */
		if (written == 0 || (written < 0 && errno != EINTR))
			return -1;
		if (written > 0)
		{
			data += written;
			len -= written;
		}
	}
	return 0;
}

int
ts_io_truncate(int fd, off_t length)
{
	int			ret;

	if (check_fault(TS_FAULT_TRUNCATE) < 0)
		return -1;
	do
		ret = ftruncate(fd, length);
	while (ret < 0 && errno == EINTR);
	return ret;
}

/* Data and size; the setting fsync is honoured. */
int
ts_io_fsync(int fd)
{
	int			ret;

	if (check_fault(TS_FAULT_FSYNC) < 0)
		return -1;
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_SYNC);
	ret = pg_fdatasync(fd);
	pgstat_report_wait_end();
	return ret;
}

/* Make names in a directory durable. */
int
ts_io_fsync_directory(const char *path)
{
	int			fd = ts_io_open(path, O_RDONLY);
	int			ret;
	int			save_errno;

	if (fd < 0)
		return -1;
	ret = check_fault(TS_FAULT_FSYNC);
	if (ret == 0)
		ret = pg_fsync(fd);
	/* as PostgreSQL: some systems cannot do that with directories */
	if (ret < 0 && (errno == EBADF || errno == EINVAL))
		ret = 0;
	save_errno = errno;
	ts_io_close(fd);
	errno = save_errno;
	return ret;
}

int
ts_io_rename(const char *from, const char *to)
{
	return check_fault(TS_FAULT_RENAME) < 0 ? -1 : rename(from, to);
}

int
ts_io_unlink(const char *path)
{
	return check_fault(TS_FAULT_UNLINK) < 0 ? -1 : unlink(path);
}
