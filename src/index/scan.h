/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  What the files for scans share: scan.c, scankey.c, arraykey.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_INDEX_SCAN_H
#define TS_INDEX_SCAN_H

#include "postgres.h"

#include "access/relscan.h"
#include "access/skey.h"

#include "index/tree.h"

/* A scan key that the bounds of the scan do not answer. */
typedef struct TsCondition
{
	ScanKey		key;
	int			column;			/* from 0 */
	int			strategy;		/* in the index's order */
	const char *bytes;			/* the encoded argument, where keys are bytes */
	Size		len;
} TsCondition;

/* "= ANY": its elements in index order, without duplicates. */
typedef struct TsArrayKey
{
	int			key;			/* number of the scan key */
	int			nelems;
	Datum	   *elems;
	int			at;
	int			marked;
} TsArrayKey;

/*
 * The matching rows of one leaf, in index order.  `low` and `high` are where to
 * go on to the left and to the right; they point into `context`.
 */
typedef struct TsBatch
{
	bool		loaded;
	bool		more_left;
	bool		more_right;
	int			n;
	int			at;
	TsKey		low;
	TsKey		high;
	MemoryContext context;
	TsEntry    *entries;		/* for index-only scans, or NULL */
	uint64		tids[TS_NODE_WORDS / 2];
} TsBatch;

typedef struct TsScan
{
	TsTree		tree;
	Relation	index;

	/* made from the scan keys, in `context` */
	MemoryContext context;
	bool		prepared;
	bool		empty;			/* nothing can match */
	bool		recheck;		/* some keys cannot be checked here */
	TsKey		start;			/* entries from here on ... */
	TsKey		end;			/* ... and below this one match the bounds */
	int			nconditions;
	TsCondition *conditions;

	/* arrays, in a context of their own: they last until the next rescan */
	MemoryContext array_context;
	int			narrays;		/* -1: not looked at yet */
	TsArrayKey *arrays;
	ScanKey		keys;			/* the scan's, with the arrays' elements put in */

	bool		want_keys;		/* an index-only scan */
	bool		shares;			/* takes turns with others (parallel.c) */
	MemoryContext tuple_context;	/* of what was handed out last */

	TsBatch		batch;
	TsBatch		mark;
} TsScan;

extern void ts_scan_prepare(TsScan *scan, int nkeys, ScanKey keys);
extern bool ts_entry_matches(const TsScan *scan, const TsEntry *entry);

extern bool ts_parallel_take_turn(IndexScanDesc desc, bool *first, TsKey *from,
								  MemoryContext context);
extern bool ts_parallel_pass_turn(IndexScanDesc desc, const TsKey *next);

extern void ts_scan_collect_arrays(IndexScanDesc desc);
extern void ts_scan_start_arrays(IndexScanDesc desc, ScanDirection direction);
extern bool ts_scan_advance_arrays(IndexScanDesc desc, ScanDirection direction);

#endif							/* TS_INDEX_SCAN_H */
