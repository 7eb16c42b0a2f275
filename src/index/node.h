/*-------------------------------------------------------------------------
 *
 * node.h
 *	  Nodes of the tree, and their latches.
 *
 * A latch is a version word: bit 0 is set while a writer is inside, bit 1 once
 * the node is no part of the tree, the rest counts changes.  Readers note the
 * word, read, and see whether it is still the same; a writer takes the latch by
 * replacing the very word it has noted, so that what it found then still holds.
 * (V. Leis and others, The ART of practical synchronization, 2016.)
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_INDEX_NODE_H
#define TS_INDEX_NODE_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/itemptr.h"

#define TS_NODE_BYTES		2048
#define TS_LATCHED			UINT64CONST(1)
#define TS_OBSOLETE			UINT64CONST(2)
#define TS_LATCH_STEP		UINT64CONST(4)

typedef pg_atomic_uint64 TsLatch;

/*
 * A key too long for the 8-byte prefix: order-preserving bytes, or the columns
 * as a MinimalTuple where values are compared by their type's function.
 */
typedef struct TsBlob
{
	uint64		len;			/* keeps the data MAXALIGNed */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} TsBlob;

#define ts_blob_size(len)	(offsetof(TsBlob, data) + (len))

/*
 * An entry is ordered by its key, of which `prefix` has the first 8 bytes, and
 * then by `tail`: the TID, under what the kind of a short key is (see key.h).
 */
typedef struct TsEntry
{
	uint64		prefix;
	uint64		tail;
	TsBlob	   *blob;			/* NULL if the prefix is all of the key */
} TsEntry;

/*
 * A node stays a node of its index for as long as that exists, so a pointer to
 * one may be kept outside of epoch sections: its latch tells what happened.
 *
 * words[] holds columns of one word an entry: prefixes, tails, blobs (if the
 * index has long keys), and children (inner nodes, one more than separators).
 * Child i holds what is not below separator i - 1 and below separator i.
 */
typedef struct TsNode
{
	TsLatch		latch;
	uint16		level;			/* 0: leaf */
	uint16		count;			/* entries, or separators */
	uint32		cycle;			/* walk during which it was split last */
	struct TsNode *right;		/* what was split off last; next unused node */
	pg_atomic_uint64 words[FLEXIBLE_ARRAY_MEMBER];
} TsNode;

#define TS_NODE_WORDS	((TS_NODE_BYTES - offsetof(TsNode, words)) / sizeof(uint64))

/* Wait until nobody is inside; returns the version. */
extern uint64 ts_latch_wait(TsLatch *latch);

static inline uint64
ts_latch_read(TsLatch *latch)
{
	uint64		version = pg_atomic_read_u64(latch);

	if (unlikely(version & TS_LATCHED))
		version = ts_latch_wait(latch);
	pg_read_barrier();
	return version;
}

/* Has nothing changed since `version` was read? */
static inline bool
ts_latch_valid(TsLatch *latch, uint64 version)
{
	pg_read_barrier();
	return pg_atomic_read_u64(latch) == version;
}

/* Take the latch if nothing has changed since `version` was read. */
static inline bool
ts_latch_upgrade(TsLatch *latch, uint64 version)
{
	return pg_atomic_compare_exchange_u64(latch, &version, version | TS_LATCHED);
}

static inline void
ts_latch_release(TsLatch *latch, bool changed)
{
	uint64		version = pg_atomic_read_u64(latch) & ~TS_LATCHED;

	pg_write_barrier();
	pg_atomic_write_u64(latch, changed ? version + TS_LATCH_STEP : version);
}

static inline uint64
ts_node_word(const TsNode *node, int i)
{
	return pg_atomic_read_u64((pg_atomic_uint64 *) &node->words[i]);
}

static inline void
ts_node_set_word(TsNode *node, int i, uint64 word)
{
	pg_atomic_write_u64(&node->words[i], word);
}

static inline uint64
ts_tail_of_tid(ItemPointer tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
ts_tid_of_tail(uint64 tail, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (tail >> 16), (OffsetNumber) tail);
}

#endif							/* TS_INDEX_NODE_H */
