/*-------------------------------------------------------------------------
 *
 * horizon.c
 *	  Which counts snapshots of all processes may still look at.
 *
 * A sample is taken under ProcArrayLock (shared; it keeps commits from taking
 * csns).  A process without an xmin has no snapshot, and those it takes later
 * have at least the current count.  A process with an xmin contributes what it
 * has published (snapshot.c).  One that has not published anything in its
 * present transaction took its snapshots after it was last seen without an
 * xmin or in another transaction: the count of that sample bounds them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "portability/instr_time.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "memory/process.h"
#include "transaction/horizon.h"
#include "transaction/txn.h"

/* a cached sample is good enough for this long */
#define REFRESH_MICROSECONDS	200

/* what the last samples saw of a process; under the sampler lock */
typedef struct Seen
{
	LocalTransactionId lxid;
	uint64		count;			/* its snapshots are at least this old */
} Seen;

typedef struct Sampler
{
	uint64		last_count;		/* of the previous sample */
	Seen		seen[FLEXIBLE_ARRAY_MEMBER];
} Sampler;

static Sampler *sampler;
static LWLock *sampler_lock;
static TsHorizon horizon;
static instr_time sampled_at;

static Size
sampler_size(void)
{
	return offsetof(Sampler, seen) + mul_size(ts_max_processes(), sizeof(Seen));
}

void
ts_horizon_request(void)
{
	RequestAddinShmemSpace(sampler_size());
	RequestNamedLWLockTranche("TsengineHorizon", 1);
}

void
ts_horizon_startup(void)
{
	bool		found;

	sampler_lock = &GetNamedLWLockTranche("TsengineHorizon")->lock;
	sampler = ShmemInitStruct("tsengine horizon", sampler_size(), &found);
	if (!found)
		memset(sampler, 0, sampler_size());
}

uint64
ts_current_count(void)
{
	return *(volatile uint64 *) &ts_transam_variables->xactCompletionCount;
}

static int
compare_counts(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/* Snapshots at `count` look; if there is no room, all from it on. */
static void
note_held(TsHorizon *h, uint64 count)
{
	if (count == 0 || count >= h->all_before)
		return;
	if (h->nheld == TS_MAX_HELD)
		h->all_before = Min(h->all_before, count);
	else
		h->held[h->nheld++] = count;
}

/*
 * Is the process in a state in which it has no snapshot but published ones?
 * Read before what it has published.
 */
static bool
is_quiet(PGPROC *proc, TsTxnProcess *published)
{
	uint32		wait = *(volatile uint32 *) &proc->wait_event_info;

	return wait == WAIT_EVENT_CLIENT_READ ||
		pg_atomic_read_u32(&published->quiet) != 0;
}

static void
add_process(TsHorizon *h, int procno, uint64 count)
{
	PGPROC	   *proc = &ProcGlobal->allProcs[procno];
	TsTxnProcess *published = &ts_txn_processes[procno];
	Seen	   *seen = &sampler->seen[procno];
	LocalTransactionId lxid = *(volatile LocalTransactionId *) &ts_proc_lxid(proc);
	bool		quiet;
	uint64		base;

	if (!TransactionIdIsValid(*(volatile TransactionId *) &proc->xmin))
	{
		seen->count = count;
		seen->lxid = lxid;
		return;
	}
	if (seen->lxid != lxid)
	{
		seen->lxid = lxid;
		seen->count = sampler->last_count;
	}
	quiet = is_quiet(proc, published);
	pg_read_barrier();
	base = pg_atomic_read_u64(&published->base);
	pg_read_barrier();
	for (int i = 0; i < (int) lengthof(published->held); i++)
		note_held(h, pg_atomic_read_u64(&published->held[i]));
	if (pg_atomic_read_u64(&published->held_min) != 0)
		h->all_before = Min(h->all_before, pg_atomic_read_u64(&published->held_min));
	if (base != 0)
	{
		if (!quiet)
			h->all_before = Min(h->all_before, base);
	}
	else if ((proc->statusFlags & (PROC_IN_VACUUM | PROC_AFFECTS_ALL_HORIZONS)) == 0)
		h->all_before = Min(h->all_before, seen->count);
}

static void
take_sample(void)
{
	uint64		count;

	LWLockAcquire(sampler_lock, LW_EXCLUSIVE);
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	count = ts_current_count();
	horizon.all_before = count;
	horizon.nheld = 0;
	for (int i = 0; i < ts_num_processes; i++)
		add_process(&horizon, i, count);
	LWLockRelease(ProcArrayLock);
	sampler->last_count = count;
	LWLockRelease(sampler_lock);
	qsort(horizon.held, horizon.nheld, sizeof(uint64), compare_counts);
	INSTR_TIME_SET_CURRENT(sampled_at);
}

const TsHorizon *
ts_horizon(bool refresh)
{
	if (refresh)
	{
		instr_time	now;

		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, sampled_at);
		if (horizon.all_before == 0 || INSTR_TIME_GET_MICROSEC(now) >= REFRESH_MICROSECONDS)
			take_sample();
	}
	return &horizon;
}
