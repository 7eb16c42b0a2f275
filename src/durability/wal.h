/*-------------------------------------------------------------------------
 *
 * wal.h
 *	  Format of tsengine's WAL records.
 *
 * Integers of variable length are little-endian groups of seven bits, the top
 * bit saying that more follow.  All else is as the machine has it, unaligned.
 * See README.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_WAL_H
#define TS_WAL_H

#include "postgres.h"

#include "access/xlog_internal.h"

#define TS_RMGR_ID			151
#define TS_RMGR_NAME		"tsengine"

/* record types, in the upper four bits of xl_info */
#define TS_WAL_PURE			0x00	/* TsWalPure, rows; is the commit itself */
#define TS_WAL_MIXED		0x10	/* TsWalMixed, rows; counts if its xid commits */
#define TS_WAL_CREATE		0x20	/* TsWalTable */
#define TS_WAL_EMPTY		0x30	/* TsWalTable */
#define TS_WAL_EXTEND		0x40	/* TsWalTable */
#define TS_WAL_INDEXED		0x50	/* TsWalTable */
#define TS_WAL_PREPARE		0x60	/* TsWalPrepare */

typedef struct TsWalTable
{
	RelFileNode rnode;
	uint32		argument;		/* creator's xid, or number of blocks */
} TsWalTable;

/*
 * Rows follow in groups: relNode (4 bytes), number of rows (2 bytes), then as
 * many rows: block number (variable), index in the block (1 byte), kind (1
 * byte), and what the kind says.  All tables of a record are of one database.
 */
typedef struct TsWalPure
{
	uint32		xmin;			/* to be shown as xmin */
	Oid			database;
} TsWalPure;

typedef struct TsWalMixed
{
	TransactionId xid;			/* of the (sub)transaction */
	TransactionId top_xid;
	Oid			database;
} TsWalMixed;

/* kinds of rows */
#define TS_WAL_KIND			0x07
#define TS_WAL_DELETE		0		/* nothing more */
#define TS_WAL_FULL			1		/* length, tuple */
#define TS_WAL_PATCH		2		/* length of the tuple, offset, length, bytes */
#define TS_WAL_FRAGMENT		3		/* length of the tuple, offset, length, bytes */
#define TS_WAL_INSERTED		0x10	/* first version of its row */
#define TS_WAL_HAS_XMIN		0x20	/* copied rows: 4 bytes, xmin to be shown */
#define TS_WAL_BASE_MINE	0x40	/* the version below is the same transaction's */

/* TS_WAL_PREPARE: locks, then relation files to be dropped at commit, at abort */
typedef struct TsWalPrepare
{
	TransactionId xid;
	int			ncommit_drops;
	int			nabort_drops;
	int64		nlocks;
} TsWalPrepare;

typedef struct TsWalLock
{
	RelFileNode rnode;
	BlockNumber blkno;
	uint16		index;
	uint16		tag;
	uint16		mode;
} TsWalLock;

/* A record is cut into pieces where it would grow beyond this. */
#define TS_WAL_RECORD_BYTES	(1024 * 1024)
#define TS_WAL_FRAGMENT_BYTES	(8 * 1024 * 1024)

#endif							/* TS_WAL_H */
