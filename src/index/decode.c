/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  From stored keys back to values, for index-only scans.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/uuid.h"

#include "index/key.h"

#define SIGN_BIT	(UINT64CONST(1) << 63)

/*
 * Is the value of a column of the index in its entries as it was given?  -0 and
 * blanks at the end of a char(n) are not, nor are columns that are no keys.
 */
bool
ts_column_is_exact(const TsKeyInfo *info, int i)
{
	if (info->kind == TS_KEY_COMPARED)
		return true;
	return i < info->ncolumns && info->columns[i].encoding != TS_ENCODE_FLOAT &&
		info->columns[i].encoding != TS_ENCODE_BPCHAR;
}

static Datum
decode_number(const TsKeyColumn *column, uint64 number)
{
	int64		value = (int64) (number ^ SIGN_BIT);

	switch (column->encoding)
	{
		case TS_ENCODE_INTEGER:
			return column->type == INT2OID ? Int16GetDatum((int16) value) :
				column->type == INT4OID ? Int32GetDatum((int32) value) : Int64GetDatum(value);
		case TS_ENCODE_BOOL:
			return BoolGetDatum(number != 0);
		case TS_ENCODE_CHAR:
			return CharGetDatum((char) number);
		case TS_ENCODE_OID:
			return ObjectIdGetDatum((Oid) number);
		case TS_ENCODE_DATE:
			return DateADTGetDatum((DateADT) value);
		case TS_ENCODE_INT64:
			return Int64GetDatum(value);
		default:
			return UInt64GetDatum(number);
	}
}

/* Take escapes out of a bytea's bytes, in place; returns the length. */
static int
unescape(char *bytes, int len)
{
	int			n = 0;

	for (int i = 0; i < len; i++)
	{
		bytes[n++] = bytes[i];
		if (bytes[i] == 0)
			i++;
	}
	return n;
}

/* A column's value; `bytes` begin with its rank and are `len` with that. */
static Datum
decode_column(const TsKeyColumn *column, const char *bytes, Size len)
{
	Size		n = len - 1;
	char	   *copy = palloc0(Max(n + 1, NAMEDATALEN));
	uint64		number;

	for (Size i = 0; i < n; i++)
		copy[i] = column->desc ? ~bytes[1 + i] : bytes[1 + i];
	switch (column->encoding)
	{
		case TS_ENCODE_UUID:
		case TS_ENCODE_NAME:
			return PointerGetDatum(copy);
		case TS_ENCODE_TEXT:
		case TS_ENCODE_BPCHAR:
			return PointerGetDatum(cstring_to_text_with_len(copy, n - 1));
		case TS_ENCODE_BYTEA:
			return PointerGetDatum(cstring_to_text_with_len(copy, unescape(copy, n - 2)));
		default:
			memcpy(&number, copy, sizeof(number));
			return decode_number(column, pg_ntoh64(number));
	}
}

/*
 * The values of all columns of an index entry, allocated in the current context
 * or pointing into its blob; NULL for columns that are not in it.
 */
void
ts_decode_entry(const TsKeyInfo *info, const TsEntry *entry, Datum *values, bool *isnull)
{
	char		buffer[16];
	const char *bytes;

	if (info->kind == TS_KEY_COMPARED)
	{
		MinimalTuple tuple = (MinimalTuple) entry->blob->data;
		HeapTupleData htup;

		htup.t_len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
		htup.t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);
		heap_deform_tuple(&htup, info->desc, values, isnull);
		return;
	}
	bytes = ts_entry_bytes(info, entry, buffer);
	for (int i = 0; i < info->desc->natts; i++)
	{
		Size		len;

		isnull[i] = true;
		values[i] = (Datum) 0;
		if (i >= info->ncolumns)
			continue;
		len = ts_encoded_length(&info->columns[i], bytes);
		if (bytes[0] == TS_RANK_VALUE && ts_column_is_exact(info, i))
		{
			isnull[i] = false;
			values[i] = decode_column(&info->columns[i], bytes, len);
		}
		bytes += len;
	}
}
