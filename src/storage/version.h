/*-------------------------------------------------------------------------
 *
 * version.h
 *	  Row words and versions: the formats readers and writers agree on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_VERSION_H
#define TS_VERSION_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "port/atomics.h"
#include "storage/itemptr.h"

/*
 * Creator word of a version, by its two top bits:
 *
 *	00	a commit sequence number (csn): committed by a pure transaction
 *	1x	live: descriptor number and sequence of the transaction
 *	01	mixed: csn_upper, a count at or past the commit; the version's cid
 *		field then holds the committing transaction's xid
 *
 * Stored with release semantics after everything the version holds; it changes
 * at most once, from live to one of the others.
 */
#define TS_CREATOR_LIVE			(UINT64CONST(1) << 63)
#define TS_CREATOR_MIXED		(UINT64CONST(1) << 62)
#define TS_CREATOR_KIND			(UINT64CONST(3) << 62)
#define TS_LIVE_SLOT_BITS		18
#define TS_LIVE_SEQ_BITS		44
#define TS_LIVE_SEQ_MASK		((UINT64CONST(1) << TS_LIVE_SEQ_BITS) - 1)

#define ts_creator_is_csn(w)	(((w) & TS_CREATOR_KIND) == 0)
#define ts_creator_is_live(w)	(((w) & TS_CREATOR_LIVE) != 0)
#define ts_creator_is_mixed(w)	(((w) & TS_CREATOR_KIND) == TS_CREATOR_MIXED)
/* the count from which on the version is visible to everyone */
#define ts_creator_upper(w)		((w) & ~TS_CREATOR_KIND)

#define ts_live_word(slot, seq) \
	(TS_CREATOR_LIVE | ((uint64) (slot) << TS_LIVE_SEQ_BITS) | ((seq) & TS_LIVE_SEQ_MASK))
#define ts_live_slot(w)			((int) (((w) & ~TS_CREATOR_KIND) >> TS_LIVE_SEQ_BITS))
#define ts_live_seq(w)			((w) & TS_LIVE_SEQ_MASK)

/* version flags */
#define TS_V_DELETED			0x0001	/* marks the row's end; holds no tuple */
#define TS_V_MOVED				0x0002	/* deleted here, goes on under a new TID */
#define TS_V_MOVED_PARTITION	0x0004	/* deleted here, goes on in a partition */
#define TS_V_KEYS_UPDATED		0x0008	/* deleted, or moved with a changed key */
#define TS_V_SPECULATIVE		0x0010	/* INSERT ... ON CONFLICT, undecided */
#define TS_V_INSERTED			0x0020	/* first version of a row */
#define TS_V_LOCKED_BEFORE		0x0040	/* its creator had locked the row first */
#define TS_V_ASYNC				0x0080	/* committed with synchronous_commit = off */
#define TS_V_DELETED_BY_ME		0x0100	/* only in a slot's copy of the header */

/* aux of a mixed version: its csn is not known to lie within 65534 of upper */
#define TS_AUX_FAR				0xFFFF

typedef struct TsVersion
{
	pg_atomic_uint64 creator;
	pg_atomic_uint64 prev;		/* next older version, or 0 */

	/*
	 * Command id while live (read by its own transaction only); what the
	 * system column xmin shows once it is committed: the xid if the creator
	 * word is of the mixed kind.
	 */
	uint32		cid;
	uint16		flags;

	/*
	 * While live: number of the subtransaction's lock tag.  Once mixed: how
	 * far the true csn may lie below csn_upper.
	 */
	uint16		aux;

	/* a MinimalTuple, or a TsMoved where TS_V_DELETED is set */
	char		body[FLEXIBLE_ARRAY_MEMBER];
} TsVersion;

#define TS_VERSION_HEADER	offsetof(TsVersion, body)

StaticAssertDecl(TS_VERSION_HEADER == 24, "a version's tuple must be MAXALIGNed");

typedef struct TsMoved
{
	ItemPointerData successor;
} TsMoved;

/* a delete is a header alone; a move adds the successor */
#define TS_DELETE_SIZE		TS_VERSION_HEADER
#define TS_MOVE_SIZE		(TS_VERSION_HEADER + MAXALIGN(sizeof(TsMoved)))

#define ts_version_tuple(v)	((MinimalTuple) (v)->body)
#define ts_version_moved(v)	((TsMoved *) (v)->body)

/*
 * What of a tuple is logged and imaged: from here on.  Lengths and offsets there
 * count from here, too.
 */
#define TS_TUPLE_SKIPPED	offsetof(MinimalTupleData, t_infomask2)

static inline Size
ts_version_size(const TsVersion *v)
{
	if (v->flags & TS_V_DELETED)
		return (v->flags & TS_V_MOVED) ? TS_MOVE_SIZE : TS_DELETE_SIZE;
	return TS_VERSION_HEADER + ((const MinimalTupleData *) v->body)->t_len;
}

/* The version's tuple for functions that take heap tuples; it is not copied. */
static inline void
ts_version_as_heap_tuple(TsVersion *v, HeapTuple tuple)
{
	tuple->t_len = ts_version_tuple(v)->t_len + MINIMAL_TUPLE_OFFSET;
	tuple->t_data = (HeapTupleHeader) ((char *) ts_version_tuple(v) - MINIMAL_TUPLE_OFFSET);
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
}

static inline TsVersion *
ts_version_prev(TsVersion *v)
{
	return (TsVersion *) (uintptr_t) pg_atomic_read_u64(&v->prev);
}

static inline uint64
ts_version_creator(TsVersion *v)
{
	return pg_atomic_read_u64(&v->creator);
}

/*
 * Row word: a pointer to the newest version, or one of the states that have no
 * version, with three flag bits below it.  The flags may be set for a moment
 * in any state (they are set without a look at the rest), so states are
 * compared without them.
 */
#define TS_ROW_LOCKED		UINT64CONST(1)	/* the row lock table has entries */
#define TS_ROW_QUEUED		UINT64CONST(2)	/* waits in the garbage queue */
#define TS_ROW_PRUNING		UINT64CONST(4)	/* a process is cutting the chain */
#define TS_ROW_BITS			UINT64CONST(7)

#define TS_ROW_FREE			UINT64CONST(0)	/* no index entry leads here */
#define TS_ROW_DEAD			UINT64CONST(8)	/* index entries may lead here */
#define TS_ROW_VACUUM		UINT64CONST(16) /* dead, noted by a running VACUUM */
#define TS_ROW_SWEEP		UINT64CONST(24) /* dead, noted by a sweep: sweep.c */

typedef pg_atomic_uint64 TsRow;

static inline TsVersion *
ts_row_word_version(uint64 word)
{
	return word < 64 ? NULL : (TsVersion *) (uintptr_t) (word & ~TS_ROW_BITS);
}

/*
 * Newest version of a row, or NULL.  The pointer is dereferenced through a data
 * dependency, which orders it after the load on every machine we support.
 */
static inline TsVersion *
ts_row_head(TsRow *row)
{
	return ts_row_word_version(pg_atomic_read_u64(row));
}

#endif							/* TS_VERSION_H */
