/*-------------------------------------------------------------------------
 *
 * durable.c
 *	  Read durability: see durable.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "miscadmin.h"
#include "storage/shmem.h"

#include "memory/testing.h"
#include "storage/garbage.h"
#include "transaction/durable.h"
#include "transaction/txn.h"

#define RING_SIZE		65536

/*
 * Where a commit's record ends.  An entry is overwritten by the commit
 * RING_SIZE csns later: csn = 0, barrier, end, barrier, csn.  A reader reads
 * csn, barrier, end, barrier, csn again.
 */
typedef struct Entry
{
	pg_atomic_uint64 csn;
	pg_atomic_uint64 end;
} Entry;

typedef struct DurableShared
{
	pg_atomic_uint64 csn;		/* see ts_durable_csn() */
	Entry		ring[RING_SIZE];
} DurableShared;

int			ts_read_durability = TS_READ_DURABLE_TRANSACTION;

static DurableShared *shared;

/* end of the last record that this transaction's reads rest on */
static XLogRecPtr read_upto = InvalidXLogRecPtr;

/* a candidate for the mark: durable once the WAL is flushed up to sample_end */
static uint64 sample_csn = 0;
static XLogRecPtr sample_end = InvalidXLogRecPtr;

void
ts_durable_request(void)
{
	RequestAddinShmemSpace(sizeof(DurableShared));
}

void
ts_durable_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("tsengine read durability", sizeof(DurableShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(DurableShared));
		/* versions that were loaded have csn 1 */
		pg_atomic_init_u64(&shared->csn, 1);
	}
	/* the guard stands still while it writes an image */
	ts_garbage_round_hook = ts_durable_advance;
}

uint64
ts_durable_csn(void)
{
	return pg_atomic_read_u64(&shared->csn);
}

/*
 * All records inserted up to now end at or before this, and it can be asked to
 * be flushed.  (GetXLogInsertRecPtr() is where the next record will begin, which
 * may be behind a page header that is not written before that record is.)
 */
XLogRecPtr
ts_wal_inserted(void)
{
	XLogRecPtr	lsn = GetXLogInsertRecPtr();

	if (XLogSegmentOffset(lsn, wal_segment_size) == SizeOfXLogLongPHD)
		lsn -= SizeOfXLogLongPHD;
	else if (lsn % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		lsn -= SizeOfXLogShortPHD;
	return lsn;
}

void
ts_durable_note_commit(uint64 csn, XLogRecPtr end)
{
	Entry	   *entry = &shared->ring[csn % RING_SIZE];

	pg_atomic_write_u64(&entry->csn, 0);
	pg_write_barrier();
	pg_atomic_write_u64(&entry->end, end);
	pg_write_barrier();
	pg_atomic_write_u64(&entry->csn, csn);
}

void
ts_durable_note_read(TsVersion *version, uint64 csn)
{
	Entry	   *entry = &shared->ring[csn % RING_SIZE];
	XLogRecPtr	end;

	if ((version->flags & TS_V_ASYNC) || csn <= ts_durable_csn())
		return;
	if (pg_atomic_read_u64(&entry->csn) == csn)
	{
		pg_read_barrier();
		end = pg_atomic_read_u64(&entry->end);
		pg_read_barrier();
		if (pg_atomic_read_u64(&entry->csn) == csn)
		{
			read_upto = Max(read_upto, end);
			return;
		}
	}
	/* overwritten long ago: wherever it was, it was before this */
	if (!RecoveryInProgress())
		read_upto = Max(read_upto, ts_wal_inserted());
}

void
ts_durable_wait(void)
{
	if (likely(XLogRecPtrIsInvalid(read_upto)))
		return;
	ts_stop_point(TS_STOP_READER_FLUSH);
	if (!RecoveryInProgress())
	{
		START_CRIT_SECTION();
		XLogFlush(read_upto);
		END_CRIT_SECTION();
	}
	read_upto = InvalidXLogRecPtr;
}

void
ts_durable_forget(void)
{
	read_upto = InvalidXLogRecPtr;
}

/*
 * Take a sample: every csn up to sample_csn belongs to a transaction whose
 * record ends at or before sample_end.  The count is read first.  A transaction
 * that is PREPARING when it is met here has a csn above its floor; one that
 * becomes so later takes a csn above the count; all others at or below it have
 * inserted their records, as the insert position is read last.
 */
static void
take_sample(void)
{
	uint64		csn = ts_current_count();

	pg_memory_barrier();
	for (int i = 0; i < ts_txn_count(); i++)
	{
		uint64		state = pg_atomic_read_u64(&ts_txns[i].state);
		uint64		floor;

		if (ts_txn_phase(state) != TS_TXN_PREPARING)
			continue;
		pg_read_barrier();
		floor = pg_atomic_read_u64(&ts_txns[i].floor);
		pg_read_barrier();
		/* it has moved on: then it has inserted its record */
		if (pg_atomic_read_u64(&ts_txns[i].state) == state)
			csn = Min(csn, floor);
	}
	pg_memory_barrier();
	sample_csn = csn;
	sample_end = ts_wal_inserted();
}

void
ts_durable_advance(void)
{
	uint64		mark;

	if (RecoveryInProgress())
		return;
	if (sample_csn != 0 && GetFlushRecPtr(NULL) >= sample_end)
	{
		mark = ts_durable_csn();
		while (mark < sample_csn &&
			   !pg_atomic_compare_exchange_u64(&shared->csn, &mark, sample_csn))
			;
		sample_csn = 0;
	}
	if (sample_csn == 0 && ts_current_count() > ts_durable_csn())
		take_sample();
}
