/*-------------------------------------------------------------------------
 *
 * key.h
 *	  Keys: their encoding and comparison.
 *
 * There are three kinds of index:
 *	- short: one column of a type whose order is that of 64-bit numbers.  The
 *	  number is the prefix; that it is NULL is told by the tail's top byte.
 *	- bytes: all columns have encodings that sort by memcmp and tell themselves
 *	  where they end.
 *	- compared: any other.  Keys are tuples, compared column by column by the
 *	  operator classes' functions, which may do anything and raise errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_INDEX_KEY_H
#define TS_INDEX_KEY_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/rel.h"

#include "index/node.h"

typedef enum TsKeyKind
{
	TS_KEY_SHORT,
	TS_KEY_BYTES,
	TS_KEY_COMPARED
} TsKeyKind;

/* byte encodings of a column */
typedef enum TsEncoding
{
	TS_ENCODE_NONE,
	/* as a 64-bit number */
	TS_ENCODE_INTEGER,
	TS_ENCODE_BOOL,
	TS_ENCODE_CHAR,
	TS_ENCODE_OID,
	TS_ENCODE_FLOAT,
	TS_ENCODE_DATE,
	TS_ENCODE_INT64,			/* time, timestamp, timestamptz, money */
	TS_ENCODE_UINT64,			/* xid8 */
	/* 16 bytes */
	TS_ENCODE_UUID,
	/* ended by a zero byte */
	TS_ENCODE_TEXT,
	TS_ENCODE_BPCHAR,
	TS_ENCODE_NAME,
	/* zero bytes are escaped */
	TS_ENCODE_BYTEA
} TsEncoding;

/* where NULL stands among the values, as a byte before them */
#define TS_RANK_NULL_FIRST	0
#define TS_RANK_VALUE		1
#define TS_RANK_NULL_LAST	2

#define TS_TAIL_RANK(rank)	((uint64) (rank) << 56)
#define TS_TAIL_LAST		((UINT64CONST(1) << 56) - 1)
#define TS_TAIL_TID			((UINT64CONST(1) << 48) - 1)

typedef struct TsKeyColumn
{
	TsEncoding	encoding;
	Oid			type;			/* the operator class's input type */
	bool		desc;
	bool		nulls_first;
	Oid			collation;
	FmgrInfo	compare;		/* of two values of the column's type */
} TsKeyColumn;

/* What is to be known of an index's keys. */
typedef struct TsKeyInfo
{
	TsKeyKind	kind;
	int			ncolumns;
	TupleDesc	desc;			/* the index relation's */
	Size		size;			/* of this struct, for copies */
	TsKeyColumn columns[FLEXIBLE_ARRAY_MEMBER];
} TsKeyInfo;

/*
 * A key to look for: a whole one, or a bound, which stands before or after all
 * keys that begin with its columns.
 */
typedef struct TsKey
{
	uint64		prefix;
	uint64		tail;
	/* kind bytes */
	const char *bytes;
	Size		len;
	/* kind compared: the first `ncolumns` columns */
	int			ncolumns;
	bool		past_null;		/* the last column stands for any value but NULL */
	Datum	   *values;
	bool	   *isnull;
	FmgrInfo  **compare;		/* per column, NULL for the index's own */
} TsKey;

extern Size ts_key_info_size(Relation index);
extern void ts_key_info_init(TsKeyInfo *info, Relation index, MemoryContext context);
extern TsEncoding ts_encoding_for(const TsKeyColumn *column, Oid type);
extern uint64 ts_encode_number(TsEncoding encoding, Oid type, Datum value);
extern void ts_encode_column(StringInfo out, const TsKeyColumn *column, Oid type,
							 Datum value, bool isnull);
extern Size ts_encoded_length(const TsKeyColumn *column, const char *bytes);
extern void ts_key_finish_bytes(TsKey *key, const char *bytes, Size len, bool after);
extern int	ts_compare_bytes(const TsEntry *entry, const TsKey *key);
extern int	ts_compare_columns(const TsKeyInfo *info, MinimalTuple tuple, const TsKey *key);
extern const char *ts_entry_bytes(const TsKeyInfo *info, const TsEntry *entry, char *buffer);
extern void ts_key_form(const TsKeyInfo *info, Datum *values, bool *isnull,
						ItemPointer tid, TsKey *key);
extern void ts_key_of_entry(const TsKeyInfo *info, const TsEntry *entry, TsKey *key);
extern int	ts_compare_copied(const TsKeyInfo *info, const TsEntry *entry, const TsKey *key);
extern bool ts_column_is_exact(const TsKeyInfo *info, int i);
extern void ts_decode_entry(const TsKeyInfo *info, const TsEntry *entry, Datum *values,
							bool *isnull);
extern bool ts_key_has_null(const TsKeyInfo *info, const bool *isnull);

#endif							/* TS_INDEX_KEY_H */
