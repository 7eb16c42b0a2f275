/*-------------------------------------------------------------------------
 *
 * key.c
 *	  Keys: their encoding and comparison.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/nbtree.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

#include "index/key.h"

/* The encoding whose order is that of a comparison function. */
static TsEncoding
encoding_of_function(Oid function, Oid collation)
{
	switch (function)
	{
		case F_BTINT2CMP:
		case F_BTINT4CMP:
		case F_BTINT8CMP:
			return TS_ENCODE_INTEGER;
		case F_BTBOOLCMP:
			return TS_ENCODE_BOOL;
		case F_BTCHARCMP:
			return TS_ENCODE_CHAR;
		case F_BTOIDCMP:
			return TS_ENCODE_OID;
		case F_BTFLOAT4CMP:
		case F_BTFLOAT8CMP:
			return TS_ENCODE_FLOAT;
		case F_DATE_CMP:
			return TS_ENCODE_DATE;
		case F_TIME_CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
		case F_CASH_CMP:
			return TS_ENCODE_INT64;
		case F_XID8CMP:
			return TS_ENCODE_UINT64;
		case F_UUID_CMP:
			return TS_ENCODE_UUID;
		case F_BTTEXTCMP:
			return OidIsValid(collation) && lc_collate_is_c(collation) ?
				TS_ENCODE_TEXT : TS_ENCODE_NONE;
		case F_BTTEXT_PATTERN_CMP:
			return TS_ENCODE_TEXT;
		case F_BPCHARCMP:
			return OidIsValid(collation) && lc_collate_is_c(collation) ?
				TS_ENCODE_BPCHAR : TS_ENCODE_NONE;
		case F_BTBPCHAR_PATTERN_CMP:
			return TS_ENCODE_BPCHAR;
		case F_BTNAMECMP:
			return OidIsValid(collation) && lc_collate_is_c(collation) ?
				TS_ENCODE_NAME : TS_ENCODE_NONE;
		case F_BYTEACMP:
			return TS_ENCODE_BYTEA;
		default:
			return TS_ENCODE_NONE;
	}
}

static inline bool
is_number(TsEncoding encoding)
{
	return encoding >= TS_ENCODE_INTEGER && encoding <= TS_ENCODE_UINT64;
}

/* Bytes that ts_key_info_init() fills. */
Size
ts_key_info_size(Relation index)
{
	return offsetof(TsKeyInfo, columns) +
		IndexRelationGetNumberOfKeyAttributes(index) * sizeof(TsKeyColumn);
}

/*
 * What is to be known of an index's keys.  It points to things that live as
 * long as the relation is open, or in `context`.
 */
void
ts_key_info_init(TsKeyInfo *info, Relation index, MemoryContext context)
{
	int			n = IndexRelationGetNumberOfKeyAttributes(index);

	info->size = ts_key_info_size(index);
	info->desc = RelationGetDescr(index);
	info->ncolumns = n;
	info->kind = TS_KEY_BYTES;
	for (int i = 0; i < n; i++)
	{
		TsKeyColumn *column = &info->columns[i];

		column->type = index->rd_opcintype[i];
		column->desc = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
		column->nulls_first = (index->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
		column->collation = index->rd_indcollation[i];
		fmgr_info_copy(&column->compare, index_getprocinfo(index, i + 1, BTORDER_PROC), context);
		column->encoding = encoding_of_function(column->compare.fn_oid, column->collation);
		if (column->encoding == TS_ENCODE_NONE)
			info->kind = TS_KEY_COMPARED;
	}
	if (n == 1 && is_number(info->columns[0].encoding))
		info->kind = TS_KEY_SHORT;
}

/*
 * The encoding for a value of some type that is compared with the column, or
 * TS_ENCODE_NONE if their comparison is not that of the encodings.
 */
TsEncoding
ts_encoding_for(const TsKeyColumn *column, Oid type)
{
	TsEncoding	e = column->encoding;

	if (type == InvalidOid || type == column->type)
		return e;
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return e == TS_ENCODE_INTEGER ? e : TS_ENCODE_NONE;
		case FLOAT4OID:
		case FLOAT8OID:
			return e == TS_ENCODE_FLOAT ? e : TS_ENCODE_NONE;
		case TEXTOID:
			return e == TS_ENCODE_TEXT || e == TS_ENCODE_NAME ? TS_ENCODE_TEXT : TS_ENCODE_NONE;
		case NAMEOID:
			return e == TS_ENCODE_TEXT || e == TS_ENCODE_NAME ? TS_ENCODE_NAME : TS_ENCODE_NONE;
		default:
			return TS_ENCODE_NONE;
	}
}

static uint64
encode_float(double value)
{
	uint64		bits;

	if (isnan(value))
		return PG_UINT64_MAX;	/* above all, equal to itself */
	if (value == 0)
		value = 0;				/* -0 is equal to 0 */
	memcpy(&bits, &value, sizeof(bits));
	return (bits >> 63) ? ~bits : bits | (UINT64CONST(1) << 63);
}

#define SIGN_BIT	(UINT64CONST(1) << 63)

/* A value of a type that is encoded as a number. */
uint64
ts_encode_number(TsEncoding encoding, Oid type, Datum value)
{
	switch (encoding)
	{
		case TS_ENCODE_INTEGER:
			if (type == INT8OID)
				return (uint64) DatumGetInt64(value) ^ SIGN_BIT;
			return (uint64) (int64) (type == INT2OID ? DatumGetInt16(value) :
									 DatumGetInt32(value)) ^ SIGN_BIT;
		case TS_ENCODE_BOOL:
			return DatumGetBool(value) ? 1 : 0;
		case TS_ENCODE_CHAR:
			return (uint8) DatumGetChar(value);
		case TS_ENCODE_OID:
			return DatumGetObjectId(value);
		case TS_ENCODE_FLOAT:
			return encode_float(type == FLOAT4OID ? DatumGetFloat4(value) : DatumGetFloat8(value));
		case TS_ENCODE_DATE:
			return (uint64) (int64) DatumGetDateADT(value) ^ SIGN_BIT;
		case TS_ENCODE_INT64:
			return (uint64) DatumGetInt64(value) ^ SIGN_BIT;
		default:
			return DatumGetUInt64(value);
	}
}

static void
encode_bytea(StringInfo out, const char *data, Size len)
{
	for (Size i = 0; i < len; i++)
	{
		appendStringInfoCharMacro(out, data[i]);
		if (data[i] == 0)
			appendStringInfoCharMacro(out, (char) 0xFF);
	}
	appendStringInfoCharMacro(out, 0);
	appendStringInfoCharMacro(out, 0);
}

static void
encode_value(StringInfo out, TsEncoding encoding, Oid type, Datum value)
{
	struct varlena *v;
	int			len;

	switch (encoding)
	{
		case TS_ENCODE_UUID:
			appendBinaryStringInfo(out, (char *) DatumGetUUIDP(value)->data, UUID_LEN);
			return;
		case TS_ENCODE_NAME:
			/* opclass name_ops keeps C strings; both end with a zero */
			appendBinaryStringInfo(out, DatumGetCString(value),
								   strnlen(DatumGetCString(value), NAMEDATALEN));
			appendStringInfoCharMacro(out, 0);
			return;
		case TS_ENCODE_TEXT:
		case TS_ENCODE_BPCHAR:
		case TS_ENCODE_BYTEA:
			v = PG_DETOAST_DATUM_PACKED(value);
			len = VARSIZE_ANY_EXHDR(v);
			if (encoding == TS_ENCODE_BYTEA)
				encode_bytea(out, VARDATA_ANY(v), len);
			else
			{
				if (encoding == TS_ENCODE_BPCHAR)
					len = bpchartruelen(VARDATA_ANY(v), len);
				appendBinaryStringInfo(out, VARDATA_ANY(v), len);
				appendStringInfoCharMacro(out, 0);
			}
			if ((Pointer) v != DatumGetPointer(value))
				pfree(v);
			return;
		default:
			{
				uint64		number = pg_hton64(ts_encode_number(encoding, type, value));

				appendBinaryStringInfo(out, (char *) &number, sizeof(number));
			}
	}
}

/*
 * Append a column's bytes: its rank, and the value unless it is NULL.  `type`
 * is that of the value.  Raises errors (detoasting, memory).
 */
void
ts_encode_column(StringInfo out, const TsKeyColumn *column, Oid type, Datum value, bool isnull)
{
	TsEncoding	encoding = column->encoding;
	int			start;

	if (isnull)
	{
		appendStringInfoCharMacro(out, column->nulls_first ? TS_RANK_NULL_FIRST : TS_RANK_NULL_LAST);
		return;
	}
	if (type == NAMEOID || type == CSTRINGOID)
		encoding = TS_ENCODE_NAME;
	else if (encoding == TS_ENCODE_NAME && type == TEXTOID)
		encoding = TS_ENCODE_TEXT;
	appendStringInfoCharMacro(out, TS_RANK_VALUE);
	start = out->len;
	encode_value(out, encoding, type, value);
	if (column->desc)
		for (int i = start; i < out->len; i++)
			out->data[i] = ~out->data[i];
}

/* Length of the column's bytes, rank included, that begin at `bytes`. */
Size
ts_encoded_length(const TsKeyColumn *column, const char *bytes)
{
	char		zero = column->desc ? (char) 0xFF : 0;
	const char *p = bytes + 1;

	if (bytes[0] != TS_RANK_VALUE)
		return 1;
	switch (column->encoding)
	{
		case TS_ENCODE_UUID:
			return 1 + UUID_LEN;
		case TS_ENCODE_TEXT:
		case TS_ENCODE_BPCHAR:
		case TS_ENCODE_NAME:
			while (*p != zero)
				p++;
			return p + 1 - bytes;
		case TS_ENCODE_BYTEA:
			while (p[0] != zero || p[1] != zero)
				p += p[0] == zero ? 2 : 1;
			return p + 2 - bytes;
		default:
			return 1 + sizeof(uint64);
	}
}

/*
 * Complete a key of kind bytes.  The rest of a short one's prefix is filled so
 * that it stands where the tail says.  The bytes stay the caller's.
 */
void
ts_key_finish_bytes(TsKey *key, const char *bytes, Size len, bool after)
{
	uint64		prefix = after ? PG_UINT64_MAX : 0;

	memcpy(&prefix, bytes, Min(len, sizeof(prefix)));
	key->prefix = pg_ntoh64(prefix);
	key->bytes = bytes;
	key->len = len;
}

/* With equal prefixes: an entry's bytes against a key's, then the tails. */
int
ts_compare_bytes(const TsEntry *entry, const TsKey *key)
{
	if (entry->blob != NULL && key->len > sizeof(uint64))
	{
		Size		len = Min(entry->blob->len, key->len);
		int			result = memcmp(entry->blob->data, key->bytes, len);

		if (result != 0)
			return result;
	}
	/* encodings tell where they end: now the columns are equal */
	return entry->tail < key->tail ? -1 : entry->tail > key->tail;
}

static int
compare_column(const TsKeyInfo *info, int i, Datum a, bool a_isnull, const TsKey *key)
{
	const TsKeyColumn *column = &info->columns[i];
	FmgrInfo   *compare;
	int32		result;

	if (key->past_null && i == key->ncolumns - 1)
		return !a_isnull ? 0 : column->nulls_first ? -1 : 1;
	if (a_isnull || key->isnull[i])
	{
		if (a_isnull && key->isnull[i])
			return 0;
		return a_isnull == column->nulls_first ? -1 : 1;
	}
	compare = key->compare != NULL && key->compare[i] != NULL ? key->compare[i] :
		(FmgrInfo *) &column->compare;
	result = DatumGetInt32(FunctionCall2Coll(compare, column->collation, a, key->values[i]));
	if (column->desc)
		INVERT_COMPARE_RESULT(result);
	return result;
}

/*
 * A tuple's columns against a key's, without the tails.  Calls the operator
 * classes' functions, so call it outside of epoch sections.
 */
int
ts_compare_columns(const TsKeyInfo *info, MinimalTuple tuple, const TsKey *key)
{
	HeapTupleData htup;

	htup.t_len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
	htup.t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);
	for (int i = 0; i < key->ncolumns; i++)
	{
		bool		isnull;
		Datum		value = heap_getattr(&htup, i + 1, info->desc, &isnull);
		int			result = compare_column(info, i, value, isnull, key);

		if (result != 0)
			return result;
	}
	return 0;
}

/*
 * The encoded columns of an entry of kind short or bytes, in the entry or in
 * `buffer`, which has room for 16 bytes.
 */
const char *
ts_entry_bytes(const TsKeyInfo *info, const TsEntry *entry, char *buffer)
{
	uint64		prefix = pg_hton64(entry->prefix);

	if (entry->blob != NULL)
		return entry->blob->data;
	if (info->kind == TS_KEY_SHORT)
	{
		buffer[0] = (char) (entry->tail >> 56);
		memcpy(buffer + 1, &prefix, sizeof(prefix));
	}
	else
		memcpy(buffer, &prefix, sizeof(prefix));
	return buffer;
}

bool
ts_key_has_null(const TsKeyInfo *info, const bool *isnull)
{
	for (int i = 0; i < info->ncolumns; i++)
		if (isnull[i])
			return true;
	return false;
}

static void
form_short(const TsKeyInfo *info, Datum value, bool isnull, TsKey *key)
{
	const TsKeyColumn *column = &info->columns[0];

	if (isnull)
	{
		key->prefix = column->nulls_first ? 0 : PG_UINT64_MAX;
		key->tail = TS_TAIL_RANK(column->nulls_first ? TS_RANK_NULL_FIRST : TS_RANK_NULL_LAST);
		return;
	}
	key->prefix = ts_encode_number(column->encoding, column->type, value);
	if (column->desc)
		key->prefix = ~key->prefix;
	key->tail = TS_TAIL_RANK(TS_RANK_VALUE);
}

/* The columns of a compared key from its tuple, in which the values lie. */
static void
key_columns(const TsKeyInfo *info, MinimalTuple tuple, TsKey *key)
{
	HeapTupleData htup;
	int			natts = info->desc->natts;

	htup.t_len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
	htup.t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);
	key->ncolumns = info->ncolumns;
	key->values = palloc(natts * sizeof(Datum));
	key->isnull = palloc(natts * sizeof(bool));
	heap_deform_tuple(&htup, info->desc, key->values, key->isnull);
}

static void
form_tuple(const TsKeyInfo *info, Datum *values, bool *isnull, TsKey *key)
{
	Datum	   *inlined = palloc(info->desc->natts * sizeof(Datum));
	MinimalTuple tuple;

	for (int i = 0; i < info->desc->natts; i++)
	{
		inlined[i] = values[i];
		if (!isnull[i] && TupleDescAttr(info->desc, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			inlined[i] = PointerGetDatum(detoast_external_attr((struct varlena *)
															   DatumGetPointer(values[i])));
	}
	tuple = heap_form_minimal_tuple(info->desc, inlined, isnull);
	key->prefix = 0;
	key->bytes = (char *) tuple;
	key->len = tuple->t_len;
	key_columns(info, tuple, key);
}

/*
 * The key of an index entry.  It may point to memory allocated in the current
 * context.  Raises errors (detoasting, memory).
 */
void
ts_key_form(const TsKeyInfo *info, Datum *values, bool *isnull, ItemPointer tid, TsKey *key)
{
	StringInfoData bytes;

	memset(key, 0, sizeof(TsKey));
	switch (info->kind)
	{
		case TS_KEY_SHORT:
			form_short(info, values[0], isnull[0], key);
			break;
		case TS_KEY_BYTES:
			initStringInfo(&bytes);
			for (int i = 0; i < info->ncolumns; i++)
				ts_encode_column(&bytes, &info->columns[i], info->columns[i].type,
								 values[i], isnull[i]);
			ts_key_finish_bytes(key, bytes.data, bytes.len, false);
			break;
		case TS_KEY_COMPARED:
			form_tuple(info, values, isnull, key);
			break;
	}
	key->tail |= ts_tail_of_tid(tid);
}

/* A key from an entry, of which it takes copies in the current context. */
void
ts_key_of_entry(const TsKeyInfo *info, const TsEntry *entry, TsKey *key)
{
	memset(key, 0, sizeof(TsKey));
	key->prefix = entry->prefix;
	key->tail = entry->tail;
	if (entry->blob == NULL)
		return;
	key->len = entry->blob->len;
	key->bytes = memcpy(palloc_extended(key->len, MCXT_ALLOC_HUGE), entry->blob->data, key->len);
	if (info->kind == TS_KEY_COMPARED)
		key_columns(info, (MinimalTuple) key->bytes, key);
}

/* An entry that is a copy against a key; outside of epoch sections. */
int
ts_compare_copied(const TsKeyInfo *info, const TsEntry *entry, const TsKey *key)
{
	int			result;

	if (info->kind == TS_KEY_COMPARED)
	{
		result = ts_compare_columns(info, (MinimalTuple) entry->blob->data, key);
		if (result != 0)
			return result;
	}
	else if (entry->prefix != key->prefix)
		return entry->prefix < key->prefix ? -1 : 1;
	else if (info->kind == TS_KEY_BYTES)
		return ts_compare_bytes(entry, key);
	return entry->tail < key->tail ? -1 : entry->tail > key->tail;
}
