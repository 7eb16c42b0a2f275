/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Figures of a tsindex.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_INDEX_STATS_H
#define TS_INDEX_STATS_H

#include "postgres.h"

#include "utils/relcache.h"

typedef struct TsIndexStats
{
	int64		entries;
	int64		height;			/* levels, leaves included */
	int64		leaves;
	int64		inner_nodes;
	int64		fill_percent;	/* of the leaves */
	int64		bytes;
	int64		splits;			/* since it was built, as are restarts */
	int64		restarts;
} TsIndexStats;

extern bool ts_index_get_stats(Relation index, TsIndexStats *stats);

#endif							/* TS_INDEX_STATS_H */
