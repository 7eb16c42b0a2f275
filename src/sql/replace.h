/*-------------------------------------------------------------------------
 *
 * replace.h
 *	  Calls of built-in functions that are replaced by calls of ours.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_REPLACE_H
#define TS_REPLACE_H

#include "postgres.h"

#include "nodes/parsenodes.h"

extern bool ts_may_call_replaced(const char *query_string);
extern Query *ts_replace_functions(Query *query);

#endif							/* TS_REPLACE_H */
