/*-------------------------------------------------------------------------
 *
 * epoch.c
 *	  Epoch-based reclamation: retiring and reclaiming memory.
 *
 * Invariant: an object retired while the global epoch was e is freed only
 * after the global epoch has reached e + 2.  The global epoch moves from g to
 * g + 1 only when no process is inside an epoch other than g; so at e + 2
 * every process that was inside at e has left since.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "memory/arena.h"
#include "memory/epoch.h"

TsEpochShared *ts_epoch_shared = NULL;
int			ts_epoch_depth = 0;

static void
process_exit(int code, Datum arg)
{
	ts_epoch_exit_process();
}

/*
 * Claim this process's entry.  Needs MyProc.  Registers the exit callback that
 * returns the process's free memory and hands its retired memory to others.
 */
void
ts_process_attach(void)
{
	if (ts_my_process != NULL)
		return;
	if (ts_processes == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tsengine must be loaded via shared_preload_libraries"),
				 errhint("Add tsengine to \"shared_preload_libraries\" and restart the server.")));
	Assert(MyProc != NULL && MyProc->pgprocno < ts_num_processes);
	on_shmem_exit(process_exit, 0);
	ts_my_process = &ts_processes[MyProc->pgprocno];
}

/* Leave all nested sections, whatever their depth: for transaction abort. */
void
ts_epoch_reset(void)
{
	if (ts_epoch_depth > 0)
	{
		ts_epoch_depth = 1;
		ts_epoch_leave();
	}
}

/* Move the global epoch on if every process inside has caught up with it. */
static void
try_advance(void)
{
	uint64		global = pg_atomic_read_u64(&ts_epoch_shared->global);

	/*
	 * Order the unlinking stores that preceded ts_retire() before the reads
	 * of the other processes' epochs.
	 */
	pg_memory_barrier();
	for (int i = 0; i < ts_num_processes; i++)
	{
		uint64		epoch = pg_atomic_read_u64(&ts_processes[i].epoch);

		if (epoch != 0 && epoch != global)
			return;
	}
	(void) pg_atomic_compare_exchange_u64(&ts_epoch_shared->global, &global, global + 1);
}

/*
 * Date a bag.  An epoch read after the last object was unlinked will do for all
 * in it; the barrier makes sure that it is read after.
 */
static void
close_bag(TsBag *bag)
{
	pg_memory_barrier();
	bag->epoch = pg_atomic_read_u64(&ts_epoch_shared->global);
}

static uint64
bag_bytes(const TsBag *bag)
{
	uint64		bytes = 0;

	for (int i = 0; i < bag->count; i++)
		bytes += bag->items[i].size;
	return bytes;
}

static void
bag_free_items(TsBag *bag)
{
	ts_my_process->retired_bytes -= bag_bytes(bag);
	for (int i = 0; i < bag->count; i++)
		ts_free(bag->items[i].ptr, bag->items[i].size);
	ts_free(bag, sizeof(TsBag));
}

/* Retired and not yet freed, over all processes; a figure for statistics. */
uint64
ts_epoch_retired_bytes(void)
{
	uint64		bytes = 0;
	LWLock	   *lock = &GetNamedLWLockTranche("TsengineEpoch")->lock;

	for (int i = 0; i < ts_num_processes; i++)
		bytes += ts_processes[i].retired_bytes;
	LWLockAcquire(lock, LW_SHARED);
	for (TsBag *bag = ts_epoch_shared->orphans; bag != NULL; bag = bag->next)
		bytes += bag_bytes(bag);
	LWLockRelease(lock);
	return bytes;
}

/* Adopt what exited processes left behind: bags that are dated. */
static void
adopt_orphans(void)
{
	TsProcess  *my = ts_my_process;
	TsBag	   *first;
	TsBag	   *last;
	LWLock	   *lock = &GetNamedLWLockTranche("TsengineEpoch")->lock;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	first = ts_epoch_shared->orphans;
	ts_epoch_shared->orphans = NULL;
	LWLockRelease(lock);
	if (first == NULL)
		return;
	for (last = first;; last = last->next)
	{
		my->retired_bytes += bag_bytes(last);
		if (last->next == NULL)
			break;
	}
	/* at the head: they are about as old as what is there */
	last->next = my->limbo_head;
	my->limbo_head = first;
	if (my->limbo_tail == NULL)
		my->limbo_tail = last;
}

/*
 * Free what has passed its grace period.  Called by ts_retire() now and then,
 * and by anyone who is short of memory.  Raises no error.
 */
void
ts_reclaim(void)
{
	TsProcess  *my = ts_my_process;

	if (ts_epoch_shared->orphans != NULL)	/* unlocked look: a hint only */
		adopt_orphans();
	for (int round = 0; round < 3 && my->limbo_head != NULL; round++)
	{
		uint64		global;

		if (my->limbo_tail->epoch == 0 && my->limbo_tail->count > 0)
			close_bag(my->limbo_tail);
		try_advance();
		global = pg_atomic_read_u64(&ts_epoch_shared->global);
		while (my->limbo_head != NULL && my->limbo_head->count > 0 &&
			   my->limbo_head->epoch + 2 <= global)
		{
			TsBag	   *bag = my->limbo_head;

			my->limbo_head = bag->next;
			if (my->limbo_head == NULL)
				my->limbo_tail = NULL;
			bag_free_items(bag);
		}
	}
}

/* The epoch now, for ts_epoch_passed(): a full barrier comes before. */
uint64
ts_epoch_now(void)
{
	pg_memory_barrier();
	return pg_atomic_read_u64(&ts_epoch_shared->global);
}

/* Has every process that was inside an epoch section at `epoch` left it? */
bool
ts_epoch_passed(uint64 epoch)
{
	for (int i = 0; i < 2 && pg_atomic_read_u64(&ts_epoch_shared->global) < epoch + 2; i++)
		try_advance();
	return pg_atomic_read_u64(&ts_epoch_shared->global) >= epoch + 2;
}

/*
 * Wait until every process that is inside an epoch section now has left it:
 * what was stored before the call is then seen by all.  Call it outside of one.
 */
void
ts_epoch_wait_grace(void)
{
	uint64		epoch = ts_epoch_now();

	Assert(ts_epoch_depth == 0);
	while (!ts_epoch_passed(epoch))
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(20);
	}
}

static bool
limbo_new_bag(void)
{
	TsBag	   *bag = ts_alloc(sizeof(TsBag), TS_ALLOC_RESERVE);
	TsProcess  *my = ts_my_process;

	if (bag == NULL)
		return false;
	bag->next = NULL;
	bag->count = 0;
	bag->epoch = 0;
	if (my->limbo_tail != NULL)
		my->limbo_tail->next = bag;
	else
		my->limbo_head = bag;
	my->limbo_tail = bag;
	return true;
}

/*
 * Hand over an object that is no longer reachable from shared structures, to
 * be freed when no process can hold a pointer to it any more.  `size` as given
 * to ts_alloc().
 *
 * Raises no error.  If even the reserve has no room to note the object, waits
 * for older ones to be freed; inside an epoch section, where waiting is not
 * possible, the object is lost until restart and counted as leaked.
 */
void
ts_retire(void *ptr, Size size)
{
	TsProcess  *my = ts_my_process;
	TsBag	   *bag = my->limbo_tail;

	if (bag == NULL || bag->count == TS_BAG_ITEMS)
	{
		ts_reclaim();
		while (!limbo_new_bag())
		{
			if (ts_epoch_depth > 0)
			{
				pg_atomic_fetch_add_u64(&ts_epoch_shared->leaked_bytes, size);
				return;
			}
			pg_usleep(100);
			ts_reclaim();
		}
		bag = my->limbo_tail;
	}
	bag->items[bag->count].ptr = ptr;
	bag->items[bag->count].size = size;
	bag->count++;
	bag->epoch = 0;
	if (bag->count == TS_BAG_ITEMS)
		close_bag(bag);
	my->retired_bytes += size;
}

/* At process exit: leave nothing behind that only this process could free. */
void
ts_epoch_exit_process(void)
{
	TsProcess  *my = ts_my_process;
	LWLock	   *lock = &GetNamedLWLockTranche("TsengineEpoch")->lock;

	if (my == NULL)
		return;
	ts_epoch_reset();
	ts_reclaim();
	if (my->limbo_head != NULL)
	{
		LWLockAcquire(lock, LW_EXCLUSIVE);
		my->limbo_tail->next = ts_epoch_shared->orphans;
		ts_epoch_shared->orphans = my->limbo_head;
		LWLockRelease(lock);
		my->limbo_head = my->limbo_tail = NULL;
		my->retired_bytes = 0;
	}
	ts_arena_flush_magazines();
	ts_my_process = NULL;
}
