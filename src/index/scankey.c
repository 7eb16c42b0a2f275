/*-------------------------------------------------------------------------
 *
 * scankey.c
 *	  From scan keys to bounds of a scan, and conditions within them.
 *
 * Columns compared with "=" or IS NULL, from the first one on, and a range of the
 * column that follows make the bounds.  What else there is becomes conditions,
 * checked on each entry.  What cannot be checked on encoded keys (comparison of
 * a date with a timestamp, say) is left to the executor (xs_recheck).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "index/scan.h"

/* A bound being made. */
typedef struct Bound
{
	StringInfoData bytes;
	uint64		prefix;			/* short keys */
	uint64		rank;
	int			ncolumns;
	bool		past_null;
	bool		after;
	Datum	   *values;
	bool	   *isnull;
	FmgrInfo  **compare;
} Bound;

/* "less than" is "greater than" where the order is descending. */
static int
index_strategy(const TsKeyColumn *column, int strategy)
{
	return column->desc ? BTCommuteStrategyNumber(strategy) : strategy;
}

static inline bool
is_null_test(ScanKey key)
{
	return (key->sk_flags & (SK_SEARCHNULL | SK_SEARCHNOTNULL)) != 0;
}

/* The function that compares a column's value with one of the key's type. */
static FmgrInfo *
compare_function(const TsScan *scan, ScanKey key)
{
	int			i = key->sk_attno - 1;
	FmgrInfo   *info;
	Oid			function;

	if (key->sk_subtype == InvalidOid || key->sk_subtype == scan->index->rd_opcintype[i])
		return &scan->tree.info->columns[i].compare;
	function = get_opfamily_proc(scan->index->rd_opfamily[i], scan->index->rd_opcintype[i],
								 key->sk_subtype, BTORDER_PROC);
	if (!OidIsValid(function))
		return NULL;
	info = palloc(sizeof(FmgrInfo));
	fmgr_info(function, info);
	return info;
}

/* Can the key's argument be compared with the column as it is stored? */
static bool
is_comparable(const TsScan *scan, ScanKey key)
{
	if (is_null_test(key))
		return true;
	if (scan->tree.info->kind == TS_KEY_COMPARED)
		return compare_function(scan, key) != NULL;
	return ts_encoding_for(&scan->tree.info->columns[key->sk_attno - 1],
						   key->sk_subtype) != TS_ENCODE_NONE;
}

static void
bound_init(const TsScan *scan, Bound *bound)
{
	int			n = scan->tree.info->ncolumns;

	memset(bound, 0, sizeof(Bound));
	initStringInfo(&bound->bytes);
	bound->values = palloc0(n * sizeof(Datum));
	bound->isnull = palloc0(n * sizeof(bool));
	bound->compare = palloc0(n * sizeof(FmgrInfo *));
}

/* Add a column to a bound: a key's argument, NULL, or (no key) any value. */
static void
bound_add(const TsScan *scan, Bound *bound, int i, ScanKey key)
{
	const TsKeyInfo *info = scan->tree.info;
	const TsKeyColumn *column = &info->columns[i];
	bool		isnull = key != NULL && is_null_test(key);
	Oid			type = key != NULL && OidIsValid(key->sk_subtype) ? key->sk_subtype : column->type;

	bound->ncolumns = i + 1;
	bound->past_null = key == NULL;
	switch (info->kind)
	{
		case TS_KEY_SHORT:
			bound->rank = TS_RANK_VALUE;
			if (key != NULL && !isnull)
			{
				bound->prefix = ts_encode_number(column->encoding, type, key->sk_argument);
				if (column->desc)
					bound->prefix = ~bound->prefix;
			}
			else
				bound->prefix = column->nulls_first ? 0 : PG_UINT64_MAX;
			if (isnull)
				bound->rank = column->nulls_first ? TS_RANK_NULL_FIRST : TS_RANK_NULL_LAST;
			break;
		case TS_KEY_BYTES:
			if (key == NULL)
				appendStringInfoChar(&bound->bytes, TS_RANK_VALUE);
			else
				ts_encode_column(&bound->bytes, column, type, key->sk_argument, isnull);
			break;
		case TS_KEY_COMPARED:
			bound->isnull[i] = isnull;
			if (key == NULL || isnull)
				break;
			bound->values[i] = key->sk_argument;
			bound->compare[i] = compare_function(scan, key);
			break;
	}
}

static void
bound_finish(const TsScan *scan, Bound *bound, bool is_end, TsKey *key)
{
	memset(key, 0, sizeof(TsKey));
	if (bound->ncolumns == 0)
	{
		/* before, or behind everything */
		key->prefix = key->tail = is_end ? PG_UINT64_MAX : 0;
		return;
	}
	key->tail = bound->after ? PG_UINT64_MAX : 0;
	switch (scan->tree.info->kind)
	{
		case TS_KEY_SHORT:
			key->prefix = bound->prefix;
			key->tail = TS_TAIL_RANK(bound->rank) | (bound->after ? TS_TAIL_LAST : 0);
			break;
		case TS_KEY_BYTES:
			ts_key_finish_bytes(key, bound->bytes.data, bound->bytes.len, bound->after);
			break;
		case TS_KEY_COMPARED:
			key->ncolumns = bound->ncolumns;
			key->past_null = bound->past_null;
			key->values = bound->values;
			key->isnull = bound->isnull;
			key->compare = bound->compare;
			break;
	}
}

/* Keys of one column that can be bounds. */
typedef struct ColumnKeys
{
	ScanKey		equal;
	ScanKey		lower;
	ScanKey		upper;
	ScanKey		not_null;
} ColumnKeys;

static void
sort_key(const TsScan *scan, ScanKey key, ColumnKeys *c)
{
	if (!is_comparable(scan, key))
		return;
	if (key->sk_flags & SK_SEARCHNOTNULL)
	{
		c->not_null = key;
		return;
	}
	if (key->sk_flags & SK_SEARCHNULL)
	{
		c->equal = key;
		return;
	}
	switch (index_strategy(&scan->tree.info->columns[key->sk_attno - 1], key->sk_strategy))
	{
		case BTLessStrategyNumber:
		case BTLessEqualStrategyNumber:
			c->upper = key;
			break;
		case BTEqualStrategyNumber:
			c->equal = key;
			break;
		default:
			c->lower = key;
			break;
	}
}

/* Take a column's range into the bounds. */
static void
add_range(const TsScan *scan, int i, const ColumnKeys *c, Bound *start, Bound *end)
{
	const TsKeyColumn *column = &scan->tree.info->columns[i];
	bool		no_nulls = c->lower != NULL || c->upper != NULL || c->not_null != NULL;

	if (c->lower != NULL)
	{
		bound_add(scan, start, i, c->lower);
		start->after = index_strategy(column, c->lower->sk_strategy) == BTGreaterStrategyNumber;
	}
	else if (no_nulls && column->nulls_first)
		bound_add(scan, start, i, NULL);
	if (c->upper != NULL)
	{
		bound_add(scan, end, i, c->upper);
		end->after = index_strategy(column, c->upper->sk_strategy) == BTLessEqualStrategyNumber;
	}
	else if (no_nulls && !column->nulls_first)
		bound_add(scan, end, i, NULL);
}

static void
add_condition(TsScan *scan, ScanKey key)
{
	TsCondition *condition = &scan->conditions[scan->nconditions];
	const TsKeyColumn *column = &scan->tree.info->columns[key->sk_attno - 1];
	StringInfoData bytes;

	if (!is_comparable(scan, key) && scan->tree.info->kind != TS_KEY_COMPARED)
	{
		scan->recheck = true;
		return;
	}
	scan->nconditions++;
	condition->key = key;
	condition->column = key->sk_attno - 1;
	if (is_null_test(key))
		return;
	condition->strategy = index_strategy(column, key->sk_strategy);
	if (scan->tree.info->kind == TS_KEY_COMPARED)
		return;
	initStringInfo(&bytes);
	ts_encode_column(&bytes, column, OidIsValid(key->sk_subtype) ? key->sk_subtype : column->type,
					 key->sk_argument, false);
	condition->bytes = bytes.data;
	condition->len = bytes.len;
}

/* Make the bounds; marks in `used` the keys that they answer. */
static void
make_bounds(TsScan *scan, int nkeys, ScanKey keys, bool *used)
{
	Bound		start;
	Bound		end;
	bool		go_on = true;

	bound_init(scan, &start);
	bound_init(scan, &end);
	end.after = true;
	for (int i = 0; i < scan->tree.info->ncolumns && go_on; i++)
	{
		ColumnKeys	c = {0};

		for (int k = 0; k < nkeys; k++)
			if (keys[k].sk_attno == i + 1)
				sort_key(scan, &keys[k], &c);
		go_on = c.equal != NULL;
		if (go_on)
		{
			bound_add(scan, &start, i, c.equal);
			bound_add(scan, &end, i, c.equal);
		}
		else
			add_range(scan, i, &c, &start, &end);
		for (int k = 0; k < nkeys; k++)
			used[k] |= &keys[k] == c.equal ||
				(!go_on && (&keys[k] == c.lower || &keys[k] == c.upper || &keys[k] == c.not_null));
	}
	bound_finish(scan, &start, false, &scan->start);
	bound_finish(scan, &end, true, &scan->end);
}

/*
 * Prepare a scan for its keys, arrays aside.  What is made is allocated in the
 * scan's context.
 */
void
ts_scan_prepare(TsScan *scan, int nkeys, ScanKey keys)
{
	MemoryContext old;
	bool	   *used;

	MemoryContextReset(scan->context);
	old = MemoryContextSwitchTo(scan->context);
	scan->prepared = true;
	scan->empty = scan->recheck = false;
	scan->nconditions = 0;
	scan->conditions = palloc(Max(nkeys, 1) * sizeof(TsCondition));
	used = palloc0(Max(nkeys, 1) * sizeof(bool));
	for (int k = 0; k < nkeys; k++)
	{
		if (keys[k].sk_flags & (SK_ROW_HEADER | SK_ORDER_BY))
			elog(ERROR, "tsindex does not support such scan keys");
		/* operators of btree's classes are strict */
		if ((keys[k].sk_flags & SK_ISNULL) && !is_null_test(&keys[k]))
			scan->empty = true;
	}
	if (!scan->empty)
	{
		make_bounds(scan, nkeys, keys, used);
		for (int k = 0; k < nkeys; k++)
			if (!used[k])
				add_condition(scan, &keys[k]);
	}
	MemoryContextSwitchTo(old);
}

/* Does a comparison's result satisfy the strategy? */
static inline bool
strategy_holds(int strategy, int result)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return result < 0;
		case BTLessEqualStrategyNumber:
			return result <= 0;
		case BTEqualStrategyNumber:
			return result == 0;
		case BTGreaterEqualStrategyNumber:
			return result >= 0;
		default:
			return result > 0;
	}
}

static bool
tuple_matches(const TsScan *scan, MinimalTuple tuple, const TsCondition *condition)
{
	HeapTupleData htup;
	ScanKey		key = condition->key;
	Datum		value;
	bool		isnull;

	htup.t_len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
	htup.t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);
	value = heap_getattr(&htup, condition->column + 1, scan->tree.info->desc, &isnull);
	if (is_null_test(key))
		return isnull == ((key->sk_flags & SK_SEARCHNULL) != 0);
	return !isnull && DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation,
													 value, key->sk_argument));
}

static bool
bytes_match(const TsScan *scan, const char *bytes, const TsCondition *condition)
{
	ScanKey		key = condition->key;
	Size		len;
	int			result;

	for (int i = 0; i < condition->column; i++)
		bytes += ts_encoded_length(&scan->tree.info->columns[i], bytes);
	if (is_null_test(key))
		return (bytes[0] != TS_RANK_VALUE) == ((key->sk_flags & SK_SEARCHNULL) != 0);
	if (bytes[0] != TS_RANK_VALUE)
		return false;
	len = ts_encoded_length(&scan->tree.info->columns[condition->column], bytes);
	result = memcmp(bytes, condition->bytes, Min(len, condition->len));
	return strategy_holds(condition->strategy, result);
}

/*
 * Does an entry satisfy the conditions?  Its blob is to be kept in place.  For
 * compared keys, it raises what the operators raise.
 */
bool
ts_entry_matches(const TsScan *scan, const TsEntry *entry)
{
	char		buffer[16];

	for (int i = 0; i < scan->nconditions; i++)
	{
		const TsCondition *condition = &scan->conditions[i];
		bool		matches;

		if (scan->tree.info->kind == TS_KEY_COMPARED)
			matches = tuple_matches(scan, (MinimalTuple) entry->blob->data, condition);
		else
			matches = bytes_match(scan, ts_entry_bytes(scan->tree.info, entry, buffer), condition);
		if (!matches)
			return false;
	}
	return true;
}
