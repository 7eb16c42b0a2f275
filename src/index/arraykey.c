/*-------------------------------------------------------------------------
 *
 * arraykey.c
 *	  Scan keys with arrays: column = ANY (array), and other operators.
 *
 * The scan runs once for each combination of the arrays' elements, in index
 * order.  An array of another operator than "=" is answered by its largest or
 * smallest element.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "index/scan.h"

typedef struct ElementOrder
{
	FmgrInfo	function;
	Oid			collation;
	bool		reverse;
} ElementOrder;

static int
compare_elements(const void *a, const void *b, void *arg)
{
	ElementOrder *order = arg;
	int32		result = DatumGetInt32(FunctionCall2Coll(&order->function, order->collation,
														 *(const Datum *) a, *(const Datum *) b));

	if (order->reverse)
		INVERT_COMPARE_RESULT(result);
	return result;
}

/* How the elements are ordered among themselves. */
static void
element_order(Relation index, ScanKey key, Oid elemtype, ElementOrder *order)
{
	int			i = key->sk_attno - 1;
	Oid			type = OidIsValid(key->sk_subtype) ? elemtype : index->rd_opcintype[i];
	Oid			function;

	if (type == index->rd_opcintype[i] || key->sk_subtype == index->rd_opcintype[i])
		function = index_getprocid(index, i + 1, BTORDER_PROC);
	else
		function = get_opfamily_proc(index->rd_opfamily[i], type, type, BTORDER_PROC);
	if (!RegProcedureIsValid(function))
		elog(ERROR, "missing support function %d(%u,%u) for attribute %d of index \"%s\"",
			 BTORDER_PROC, type, type, key->sk_attno, RelationGetRelationName(index));
	fmgr_info(function, &order->function);
	order->collation = key->sk_collation;
	order->reverse = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
}

/* The elements of a key's array that are not NULL. */
static Datum *
elements_of(ScanKey key, Oid *elemtype, int *n)
{
	ArrayType  *array = DatumGetArrayTypeP(key->sk_argument);
	int16		elmlen;
	bool		elmbyval;
	char		elmalign;
	Datum	   *elems;
	bool	   *nulls;
	int			total;

	*elemtype = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(*elemtype, &elmlen, &elmbyval, &elmalign);
	deconstruct_array(array, *elemtype, elmlen, elmbyval, elmalign, &elems, &nulls, &total);
	*n = 0;
	for (int i = 0; i < total; i++)
		if (!nulls[i])
			elems[(*n)++] = elems[i];
	return elems;
}

/* Sort, and leave one of each; returns how many there are. */
static int
sort_unique(Datum *elems, int n, ElementOrder *order)
{
	int			kept = 1;

	qsort_arg(elems, n, sizeof(Datum), compare_elements, order);
	for (int i = 1; i < n; i++)
		if (compare_elements(&elems[kept - 1], &elems[i], order) != 0)
			elems[kept++] = elems[i];
	return kept;
}

/* Take in one array key; false if nothing can match it. */
static bool
collect_array(TsScan *scan, int k)
{
	ScanKey		key = &scan->keys[k];
	TsArrayKey *array;
	ElementOrder order;
	Oid			elemtype;
	Datum	   *elems;
	int			n;

	if (key->sk_flags & SK_ISNULL)
		return false;
	elems = elements_of(key, &elemtype, &n);
	if (n == 0)
		return false;
	element_order(scan->index, key, elemtype, &order);
	key->sk_flags &= ~SK_SEARCHARRAY;
	switch (key->sk_strategy)
	{
		case BTLessStrategyNumber:
		case BTLessEqualStrategyNumber:
			order.reverse = false;
			n = sort_unique(elems, n, &order);
			key->sk_argument = elems[n - 1];
			return true;
		case BTGreaterStrategyNumber:
		case BTGreaterEqualStrategyNumber:
			order.reverse = false;
			(void) sort_unique(elems, n, &order);
			key->sk_argument = elems[0];
			return true;
		default:
			break;
	}
	array = &scan->arrays[scan->narrays++];
	array->key = k;
	array->elems = elems;
	array->nelems = sort_unique(elems, n, &order);
	array->at = array->marked = 0;
	return true;
}

/*
 * Look for array keys.  Afterwards scan->narrays is 0 if there are none, else
 * scan->keys are to be used in place of the scan's own, with elements put in;
 * an array without elements leaves a key that nothing matches.
 */
void
ts_scan_collect_arrays(IndexScanDesc desc)
{
	TsScan	   *scan = desc->opaque;
	MemoryContext old;
	bool		any = false;

	scan->narrays = 0;
	for (int k = 0; k < desc->numberOfKeys; k++)
		any |= (desc->keyData[k].sk_flags & SK_SEARCHARRAY) != 0;
	if (!any)
		return;
	if (scan->array_context == NULL)
		scan->array_context = AllocSetContextCreate(GetMemoryChunkContext(scan),
													"tsindex array keys", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(scan->array_context);
	old = MemoryContextSwitchTo(scan->array_context);
	scan->keys = palloc(desc->numberOfKeys * sizeof(ScanKeyData));
	memcpy(scan->keys, desc->keyData, desc->numberOfKeys * sizeof(ScanKeyData));
	/* one more, so that there is an array even if all were reduced */
	scan->arrays = palloc0((desc->numberOfKeys + 1) * sizeof(TsArrayKey));
	for (int k = 0; k < desc->numberOfKeys; k++)
		if ((scan->keys[k].sk_flags & SK_SEARCHARRAY) && !collect_array(scan, k))
			scan->keys[k].sk_flags = (scan->keys[k].sk_flags & ~SK_SEARCHARRAY) | SK_ISNULL;
	if (scan->narrays == 0)
	{
		TsArrayKey *only = &scan->arrays[scan->narrays++];

		only->key = 0;
		only->nelems = 1;
		only->elems = palloc(sizeof(Datum));
		only->elems[0] = scan->keys[0].sk_argument;
	}
	MemoryContextSwitchTo(old);
}

static void
put_element(TsScan *scan, TsArrayKey *array)
{
	scan->keys[array->key].sk_argument = array->elems[array->at];
}

/* To the first combination in the scan's direction. */
void
ts_scan_start_arrays(IndexScanDesc desc, ScanDirection direction)
{
	TsScan	   *scan = desc->opaque;

	for (int i = 0; i < scan->narrays; i++)
	{
		TsArrayKey *array = &scan->arrays[i];

		array->at = ScanDirectionIsForward(direction) ? 0 : array->nelems - 1;
		put_element(scan, array);
	}
}

/*
 * To the next combination; the last array turns fastest, as its column comes
 * last.  At the end, false, and the scan stays where it is.
 */
bool
ts_scan_advance_arrays(IndexScanDesc desc, ScanDirection direction)
{
	TsScan	   *scan = desc->opaque;
	int			by = ScanDirectionIsForward(direction) ? 1 : -1;
	int			i = scan->narrays - 1;

	while (i >= 0 && (scan->arrays[i].at + by < 0 ||
					  scan->arrays[i].at + by >= scan->arrays[i].nelems))
		i--;
	if (i < 0)
		return false;
	scan->arrays[i].at += by;
	put_element(scan, &scan->arrays[i]);
	for (int j = i + 1; j < scan->narrays; j++)
	{
		scan->arrays[j].at = by > 0 ? 0 : scan->arrays[j].nelems - 1;
		put_element(scan, &scan->arrays[j]);
	}
	return true;
}
