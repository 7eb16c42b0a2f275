/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  The process that lets no checkpoint complete before its image is durable.
 *
 * Its PGPROC carries DELAY_CHKPT_COMPLETE, so that CreateCheckPoint() waits for
 * its virtual transaction before it writes the checkpoint record.  The guard
 * changes its transaction number, which lets the checkpointer go on, only while
 * the redo pointer is the one of the newest image; both under ProcArrayLock, so
 * no checkpoint slips through in between.
 *
 * Before it first allows changes, nothing is held back: the image on disk is the
 * last word.  At the end of a recovery that has replayed anything, redo wrote it;
 * if there was nothing to be replayed, nothing has been changed since the server
 * was stopped, as there is a record of ours behind every redo pointer since then.
 *
 * If the guard went away while the server runs, checkpoints would complete
 * without an image, and rows would be lost.  So every failure is a PANIC, and
 * the exits below are the only ones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/pidfile.h"
#include "utils/timestamp.h"

#include "memory/epoch.h"
#include "memory/process.h"
#include "transaction/durable.h"
#include "transaction/txn.h"

#include "durability/guard.h"
#include "durability/load.h"
#include "durability/manifest.h"

#define POLL_MS				10
#define MIN_RETRY_MS		1000
#define MAX_RETRY_MS		10000
#define START_PATIENCE_MS	2000	/* until then the guard may not have been started */
#define FINAL_RETRY_MS		10000	/* so long a last image is tried for */

static volatile sig_atomic_t asked_to_stop = false;

static MemoryContext work_context;	/* reset after each image */
static XLogRecPtr imaged = InvalidXLogRecPtr;	/* redo pointer of the newest image */
static bool begun = false;		/* an image may be on disk that is not final */

/* trouble with the file system */
static TimestampTz retry_at = 0;
static int	retry_ms = 0;
static TimestampTz reported_at = 0;
static char reported[256];

bool
ts_guard_writable(void)
{
	return pg_atomic_read_u32(&ts_image_shared->guard_ready) != 0;
}

bool
ts_guard_expected(void)
{
	return pg_atomic_read_u32(&ts_image_shared->guard_expected) != 0 ||
		!TimestampDifferenceExceeds(ts_image_shared->start_time, GetCurrentTimestamp(),
									START_PATIENCE_MS);
}

static void
on_stop(SIGNAL_ARGS)
{
	int			save_errno = errno;

	asked_to_stop = true;
	ts_image_hurry = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/* From now on checkpoints wait for us. */
static void
hold_checkpoints(void)
{
	InitProcessPhase2();
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->lxid = GetNextLocalTransactionId();
	MyProc->delayChkptFlags |= DELAY_CHKPT_COMPLETE;
	LWLockRelease(ProcArrayLock);
}

/* Let checkpoints of the imaged redo pointer complete, and only those. */
static void
release_checkpoint(void)
{
	LocalTransactionId next = GetNextLocalTransactionId();

	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	if (GetRedoRecPtr() == imaged)
		MyProc->lxid = next;
	LWLockRelease(ProcArrayLock);
}

/* What the guard does with files.  Raises errors of the file system. */
typedef void (*Work) (XLogRecPtr redo);

static void
write_image(XLogRecPtr redo)
{
	ts_image_write(redo, false);
}

static void
write_final_image(XLogRecPtr redo)
{
	ts_image_write(redo, true);
}

/* The last image before changes are allowed. */
static void
write_first_image(XLogRecPtr redo)
{
	ts_image_write(redo, false);
	ts_service_write((uint32) ts_image_shared->generation);
}

static void
end_recovery(XLogRecPtr redo)
{
	(void) ts_load_recovery_over();
}

/*
 * Something could not be done.  A message for each new kind of trouble, and now
 * and then; the checkpoint waits.
 */
static void
note_trouble(const ErrorData *error, Work work)
{
	TimestampTz now = GetCurrentTimestamp();

	retry_ms = Min(Max(retry_ms * 2, MIN_RETRY_MS), MAX_RETRY_MS);
	retry_at = TimestampTzPlusMilliseconds(now, retry_ms);
	if (strncmp(reported, error->message, sizeof(reported) - 1) == 0 &&
		!TimestampDifferenceExceeds(reported_at, now, MAX_RETRY_MS))
		return;
	strlcpy(reported, error->message, sizeof(reported));
	reported_at = now;
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 work == end_recovery ?
			 errmsg("could not look for the files of tsengine tables: %s", error->message) :
			 errmsg("could not write tsengine's checkpoint image: %s", error->message),
			 work == end_recovery ?
			 errdetail("tsengine tables cannot be used until that succeeds; it is tried again.") :
			 errdetail("Checkpoints wait until that succeeds; it is tried again."),
			 error->hint ? errhint("%s", error->hint) : 0));
}

/* Do it; false if that failed, which is noted. */
static bool
try_work(Work work, XLogRecPtr redo)
{
	volatile bool ok = false;

	PG_TRY();
	{
		work(redo);
		ok = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(work_context);
		error = CopyErrorData();
		FlushErrorState();
		LWLockReleaseAll();
		ts_epoch_reset();
		AtEOXact_Files(false);
		note_trouble(error, work);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(work_context);
	MemoryContextReset(work_context);
	if (ok)
	{
		retry_ms = 0;
		retry_at = 0;
		reported[0] = '\0';
	}
	return ok;
}

/*
 * A start without anything to replay leaves redo with nothing of ours to do, and
 * the checkpoint at its end would outdate an image that is not final.  With a
 * record behind the redo pointer, recovery runs, and writes an image as its last
 * act.
 */
static void
log_something(void)
{
	char		nothing = 0;

	XLogBeginInsert();
	XLogRegisterData(&nothing, sizeof(nothing));
	XLogSetRecordFlags(XLOG_MARK_UNIMPORTANT);
	XLogFlush(XLogInsert(RM_XLOG_ID, XLOG_NOOP));
}

/* Make an image durable for a redo pointer: checkpoints of it may complete then. */
static bool
try_image(Work work, XLogRecPtr redo)
{
	log_something();
	if (!try_work(work, redo))
		return false;
	imaged = redo;
	return true;
}

/*
 * The first steps after a start: read the manifest, wait for the end of
 * recovery, and write a manifest that no later start mistakes for the last word
 * on what we are about to allow.
 */
static void
begin_service(void)
{
	static bool workers_started = false;

	if (!ts_image_ensure_loaded())
		return;
	if (!workers_started && (workers_started = true) &&
		ts_load_start_workers() == 0 && ts_load_workers > 0)
		ereport(LOG,
				(errmsg("no background worker could be registered to load tsengine tables"),
				 errhint("Consider increasing \"max_worker_processes\".")));
	if (GetRecoveryState() != RECOVERY_STATE_DONE ||
		!try_work(end_recovery, InvalidXLogRecPtr))
		return;
	begun = true;
	if (!try_image(write_first_image, GetRedoRecPtr()))
		return;
	pg_memory_barrier();
	pg_atomic_write_u32(&ts_image_shared->guard_ready, 1);
}

static void
serve(void)
{
	XLogRecPtr	redo = GetRedoRecPtr();

	if (!begun)
		imaged = redo;
	if (retry_at == 0 || GetCurrentTimestamp() >= retry_at)
	{
		if (!ts_guard_writable() && !asked_to_stop)
			begin_service();
		else if (begun && redo != imaged)
			(void) try_image(write_image, redo);
	}
	release_checkpoint();
}

/* ---- the end ---- */

/* Does the postmaster's pid file say that the server is being shut down? */
static bool
server_is_stopping(void)
{
	FILE	   *file = AllocateFile("postmaster.pid", "r");
	char		line[128];
	bool		stopping = false;

	if (file == NULL)
		return false;
	for (int i = 1; fgets(line, sizeof(line), file) != NULL; i++)
		if (i == LOCK_FILE_LINE_PM_STATUS)
			stopping = strncmp(line, PM_STATUS_STOPPING, strlen("stopping")) == 0;
	FreeFile(file);
	return stopping;
}

static bool
is_walsender(pid_t pid)
{
	for (int i = 0; i < max_wal_senders; i++)
		if (WalSndCtl->walsnds[i].pid == pid)
			return true;
	return false;
}

/* Whose transaction is it?  0 if nobody's, or no longer. */
static pid_t
writer_of(int number, uint64 state)
{
	uint64		word = ts_live_word((uint64) number, ts_txn_seq(state));

	for (int i = 0; i < ts_num_processes; i++)
		if (pg_atomic_read_u64(&ts_txn_processes[i].live_word) == word)
			return ProcGlobal->allProcs[i].pid;
	return 0;
}

/*
 * Has everyone gone who could write?  Walsenders stay until we have: one that
 * has a transaction open is told to go, as all other sessions have been.
 */
static bool
others_have_gone(void)
{
	for (int i = 1; i <= MaxBackends; i++)
	{
		PGPROC	   *proc = BackendIdGetProc(i);

		if (proc != NULL && proc->pid != 0 && !is_walsender(proc->pid))
			return false;
	}
	for (int i = 0; i < ts_txn_count(); i++)
	{
		uint64		state = pg_atomic_read_u64(&ts_txns[i].state);
		TsTxnState	phase = ts_txn_phase(state);
		pid_t		writer;

		if (phase == TS_TXN_FREE || phase == TS_TXN_PREPARED)
			continue;
		writer = writer_of(i, state);
		if (writer != 0 && is_walsender(writer))
			kill(writer, SIGTERM);
		return false;
	}
	return true;
}

/*
 * The last image; without it the server recovers at its next start.  Nothing is
 * lost by that, so we do not keep a shutdown waiting for long.
 */
static void
write_last_image(void)
{
	TimestampTz begin = GetCurrentTimestamp();

	while (!try_work(write_final_image, ts_wal_inserted()))
	{
		if (TimestampDifferenceExceeds(begin, GetCurrentTimestamp(), FINAL_RETRY_MS))
		{
			ereport(LOG,
					(errmsg("tsengine's last checkpoint image could not be written"),
					 errdetail("The server will recover from the WAL when it is started again.")));
			/* no clean-up: the shutdown checkpoint must not complete */
			_exit(2);
		}
		pg_usleep(MIN_RETRY_MS * 1000L);
	}
}

/* Without a postmaster the checkpointer ends at its next wait: until then, serve. */
static bool
checkpointer_has_gone(void)
{
	pid_t		pid = ProcGlobal->checkpointerLatch == NULL ? 0 :
	ProcGlobal->checkpointerLatch->owner_pid;

	return pid == 0 || (kill(pid, 0) < 0 && errno == ESRCH);
}

/* Is it time to leave?  Does what is to be done before. */
static bool
may_leave(bool postmaster_gone)
{
	if (postmaster_gone)
	{
		asked_to_stop = true;	/* or service would begin again */
		pg_atomic_write_u32(&ts_image_shared->guard_ready, 0);
		return checkpointer_has_gone();
	}
	if (!asked_to_stop)
		return false;
	if (!server_is_stopping())
	{
		asked_to_stop = false;
		ts_image_hurry = false;
		ereport(LOG,
				(errmsg("tsengine guard goes on, as the server is not shutting down")));
		return false;
	}
	/* full barrier: see ts_guard_writable */
	(void) pg_atomic_exchange_u32(&ts_image_shared->guard_ready, 0);
	if (!others_have_gone())
		return false;
	if (begun)
		write_last_image();
	return true;
}

static void
guard_loop(void)
{
	bool		postmaster_gone = false;

	while (!may_leave(postmaster_gone))
	{
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		serve();
		ts_durable_advance();
		if (postmaster_gone)
			pg_usleep(POLL_MS * 1000L);
		else
			postmaster_gone = (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH,
										 POLL_MS, PG_WAIT_EXTENSION) & WL_POSTMASTER_DEATH) != 0;
		ResetLatch(MyLatch);
	}
}

/* Main function of the guard. */
void
ts_guard_main(Datum arg)
{
	pqsignal(SIGTERM, on_stop);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	work_context = AllocSetContextCreate(TopMemoryContext, "tsengine guard",
										 ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(work_context);
	ts_process_attach();
	hold_checkpoints();
	pg_atomic_write_u32(&ts_image_shared->guard_expected, 1);
	BackgroundWorkerUnblockSignals();
	PG_TRY();
	{
		guard_loop();
	}
	PG_CATCH();
	{
		EmitErrorReport();
		ereport(PANIC,
				(errmsg("tsengine guard has failed"),
				 errdetail("No checkpoint may complete without it.")));
	}
	PG_END_TRY();
	proc_exit(0);
}
