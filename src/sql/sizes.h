/*-------------------------------------------------------------------------
 *
 * sizes.h
 *	  pg_relation_size() and its relatives for tables that lie in memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_SIZES_H
#define TS_SIZES_H

#include "postgres.h"

#include "nodes/parsenodes.h"

extern Query *ts_replace_size_functions(Query *query);

#endif							/* TS_SIZES_H */
