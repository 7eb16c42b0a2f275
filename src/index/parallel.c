/*-------------------------------------------------------------------------
 *
 * parallel.c
 *	  Parallel index scans: participants take turns in fetching leaves.
 *
 * Where to go on is a separator, copied into shared memory.  If that is too long
 * for it, the participant that met it reads all that is left; and so does the
 * first one if there are arrays.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/memutils.h"

#include "index/index.h"
#include "index/scan.h"

#define MAX_SHARED_KEY	1024

typedef enum Turn
{
	TURN_FIRST,					/* nobody has read anything */
	TURN_TAKEN,					/* somebody is fetching a leaf */
	TURN_FREE,					/* go on from the key */
	TURN_OVER					/* nothing is left for others */
} Turn;

typedef struct SharedScan
{
	slock_t		mutex;
	ConditionVariable changed;
	Turn		turn;
	bool		has_blob;
	uint64		prefix;
	uint64		tail;
	TsBlob		blob;			/* its data follows */
	char		space[MAX_SHARED_KEY];
} SharedScan;

static SharedScan *
shared_of(IndexScanDesc desc)
{
	ParallelIndexScanDesc parallel = desc->parallel_scan;

	return (SharedScan *) OffsetToPointer((void *) parallel, parallel->ps_offset);
}

/* amestimateparallelscan */
Size
ts_index_estimateparallelscan(void)
{
	return sizeof(SharedScan);
}

/* aminitparallelscan */
void
ts_index_initparallelscan(void *target)
{
	SharedScan *shared = target;

	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->changed);
	shared->turn = TURN_FIRST;
}

/* amparallelrescan */
void
ts_index_parallelrescan(IndexScanDesc desc)
{
	SharedScan *shared = shared_of(desc);

	SpinLockAcquire(&shared->mutex);
	shared->turn = TURN_FIRST;
	SpinLockRelease(&shared->mutex);
}

/*
 * Wait for this participant's turn, to fetch the next leaf.  False if nothing
 * is left.  Else *first, or *from, is where to go on; the key is in `context`.
 */
bool
ts_parallel_take_turn(IndexScanDesc desc, bool *first, TsKey *from, MemoryContext context)
{
	SharedScan *shared = shared_of(desc);
	TsScan	   *scan = desc->opaque;
	Turn		turn;

	for (;;)
	{
		SpinLockAcquire(&shared->mutex);
		turn = shared->turn;
		if (turn == TURN_FIRST || turn == TURN_FREE)
			shared->turn = TURN_TAKEN;
		SpinLockRelease(&shared->mutex);
		if (turn != TURN_TAKEN)
			break;
		ConditionVariableSleep(&shared->changed, WAIT_EVENT_BTREE_PAGE);
	}
	ConditionVariableCancelSleep();
	*first = turn == TURN_FIRST;
	if (turn == TURN_FREE)
	{
		TsEntry		entry = {shared->prefix, shared->tail, shared->has_blob ? &shared->blob : NULL};
		MemoryContext old = MemoryContextSwitchTo(context);

		ts_key_of_entry(scan->tree.info, &entry, from);
		MemoryContextSwitchTo(old);
	}
	return turn != TURN_OVER;
}

/*
 * The leaf is fetched; `next` is where the next participant goes on, or NULL.
 * False if that cannot be told, so that the caller goes on alone.
 */
bool
ts_parallel_pass_turn(IndexScanDesc desc, const TsKey *next)
{
	SharedScan *shared = shared_of(desc);
	bool		passed = next != NULL && next->len <= MAX_SHARED_KEY;

	if (passed)
	{
		shared->prefix = next->prefix;
		shared->tail = next->tail;
		shared->has_blob = next->bytes != NULL;
		shared->blob.len = next->len;
		if (next->bytes != NULL)
			memcpy(shared->blob.data, next->bytes, next->len);
	}
	SpinLockAcquire(&shared->mutex);
	shared->turn = passed ? TURN_FREE : TURN_OVER;
	SpinLockRelease(&shared->mutex);
	ConditionVariableBroadcast(&shared->changed);
	return passed || next == NULL;
}
