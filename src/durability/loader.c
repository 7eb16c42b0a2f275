/*-------------------------------------------------------------------------
 *
 * loader.c
 *	  The background workers that load tables after a start.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "memory/process.h"

#include "durability/load.h"

#define REPORT_MS		10000
#define RETRY_MS		10

int			ts_load_workers = 2;

/* What this process goes through. */
static TsTableRef *refs = NULL;
static int	nrefs = 0;
static int	next_ref = 0;
static uint32 wanted_seen = 0;
static bool pass_was_stuck = false;

static void
begin_pass(void)
{
	MemoryContext context = MemoryContextSwitchTo(TopMemoryContext);

	if (refs != NULL)
		pfree(refs);
	refs = NULL;
	wanted_seen = pg_atomic_read_u32(&ts_image_shared->wanted);
	refs = ts_table_list(&nrefs);
	next_ref = 0;
	pass_was_stuck = false;
	MemoryContextSwitchTo(context);
}

/* A table that somebody waits for goes first, if that is news. */
static bool
load_wanted(void)
{
	bool		stuck = false;

	for (int i = 0; i < nrefs; i++)
		if (pg_atomic_read_u32(&refs[i].table->load_wanted) != 0 &&
			ts_load_table_step(refs[i].table, refs[i].generation, &stuck))
			return true;
	wanted_seen = pg_atomic_read_u32(&ts_image_shared->wanted);
	return false;
}

bool
ts_load_some(bool *done)
{
	*done = false;
	if (!ts_image_ensure_loaded())
	{
		*done = ts_image_state() == TS_IMAGE_BROKEN;
		return false;
	}
	if (refs == NULL)
		begin_pass();
	if (wanted_seen != pg_atomic_read_u32(&ts_image_shared->wanted) && load_wanted())
		return true;
	while (next_ref < nrefs)
	{
		const TsTableRef *ref = &refs[next_ref];

		if (ts_load_table_step(ref->table, ref->generation, &pass_was_stuck))
			return true;
		next_ref++;
	}
	/* redo may make further tables, as long as it runs */
	*done = !pass_was_stuck && ts_load_recovery_over();
	begin_pass();
	return false;
}

/* Tell the log how far loading has come, now and then. */
static void
report_progress(void)
{
	uint64		last = pg_atomic_read_u64(&ts_image_shared->load_report);
	TimestampTz now = GetCurrentTimestamp();

	if (now - (TimestampTz) last < REPORT_MS * INT64CONST(1000) ||
		!pg_atomic_compare_exchange_u64(&ts_image_shared->load_report, &last, (uint64) now))
		return;
	ereport(LOG,
			(errmsg("tsengine has loaded " UINT64_FORMAT " of " UINT64_FORMAT " blocks",
					pg_atomic_read_u64(&ts_image_shared->blocks_loaded),
					pg_atomic_read_u64(&ts_image_shared->blocks_to_load))));
}

/* Only once, by the first to find that all is done. */
static void
report_end(void)
{
	double		seconds;
	uint64		rows = pg_atomic_read_u64(&ts_image_shared->rows_loaded);

	if (pg_atomic_exchange_u64(&ts_image_shared->load_report, PG_INT64_MAX) == PG_INT64_MAX ||
		pg_atomic_read_u64(&ts_image_shared->blocks_to_load) == 0)
		return;
	seconds = (double) (GetCurrentTimestamp() - ts_image_shared->load_start) / USECS_PER_SEC;
	ereport(LOG,
			(errmsg("tsengine has loaded " UINT64_FORMAT " rows in %.3f s (%.0f rows/s)",
					rows, seconds, rows / Max(seconds, 0.001))));
}

static void
nap(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 RETRY_MS, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Load what there is to be loaded, and exit.  An error (the arena is too small)
 * ends the worker; sessions that need a table then load it, and get the error.
 */
void
ts_load_worker_main(Datum arg)
{
	bool		done = false;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	ts_process_attach();
	while (!ShutdownRequestPending && !done)
	{
		if (!ts_load_some(&done) && !done)
			nap();
		report_progress();
	}
	if (done)
		report_end();
	proc_exit(0);
}

int
ts_load_start_workers(void)
{
	int			n = 0;

	for (int i = 0; i < ts_load_workers; i++)
	{
		BackgroundWorker worker = {
			.bgw_name = "tsengine loader",
			.bgw_type = "tsengine loader",
			.bgw_flags = BGWORKER_SHMEM_ACCESS,
			.bgw_start_time = BgWorkerStart_PostmasterStart,
			.bgw_restart_time = BGW_NEVER_RESTART,
			.bgw_library_name = "tsengine",
			.bgw_function_name = "ts_load_worker_main"
		};

		if (!RegisterDynamicBackgroundWorker(&worker, NULL))
			break;
		n++;
	}
	return n;
}
