/*-------------------------------------------------------------------------
 *
 * imageio.h
 *	  Operations on files below the image's files, with two ways of doing
 *	  reads and writes: io_uring, and plain system calls.
 *
 * Operations that return int give -1 and errno when they fail.  With
 * io_uring, requests run side by side while the process does something else;
 * otherwise each runs when it is waited for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_IMAGEIO_H
#define TS_IMAGEIO_H

#include "postgres.h"

#include <sys/uio.h>

#include "utils/guc.h"

/* what direct I/O wants memory, offsets and lengths to be multiples of */
#define TS_IO_ALIGNMENT		4096

typedef enum TsIoMethod
{
	TS_IO_AUTO,
	TS_IO_URING,
	TS_IO_SYNC
} TsIoMethod;

/* GUC tsengine.io_method */
extern int ts_io_method;
extern const struct config_enum_entry ts_io_method_options[];

typedef enum TsIoState
{
	TS_IO_IDLE,
	TS_IO_TODO,					/* some of it has to be asked for (again) */
	TS_IO_IN_FLIGHT,			/* the kernel has it: neither free nor move it */
	TS_IO_DONE
} TsIoState;

/*
 * A read or a write.  The caller owns it, sets the first group of fields and
 * keeps request and buffer in place until the request is waited for or dropped.
 */
typedef struct TsIoRequest
{
	int			fd;
	bool		write;
	char	   *buffer;			/* aligned, as are length and offset */
	Size		length;
	off_t		offset;

	TsIoState	state;
	Size		done;
	int			error;			/* errno; 0 and done < length: end of file */
	struct iovec part;
} TsIoRequest;

extern bool ts_io_uses_uring(void);
extern void ts_io_start(TsIoRequest *request);
extern bool ts_io_wait(TsIoRequest *request);
extern void ts_io_retry(TsIoRequest *request);
extern void ts_io_drop(TsIoRequest *request);

extern int	ts_io_open(const char *path, int flags);
extern int	ts_io_open_direct(const char *path, int flags);
extern void ts_io_close(int fd);
extern int	ts_io_write_all(int fd, const char *data, Size len);
extern int	ts_io_truncate(int fd, off_t length);
extern int	ts_io_fsync(int fd);
extern int	ts_io_fsync_directory(const char *path);
extern int	ts_io_rename(const char *from, const char *to);
extern int	ts_io_unlink(const char *path);

#endif							/* TS_IMAGEIO_H */
