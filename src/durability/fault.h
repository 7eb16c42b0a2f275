/*-------------------------------------------------------------------------
 *
 * fault.h
 *	  Faults on demand in file operations, in test builds.
 *
 * The setting tsengine.fault is a list like 'write:3:ENOSPC,fsync:1+:EIO':
 * operation, which one counted from when the setting was made ("+": and all
 * later ones), and the error, or "short" for a transfer of half the bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_FAULT_H
#define TS_FAULT_H

#include "postgres.h"

typedef enum TsFaultOperation
{
	TS_FAULT_OPEN,
	TS_FAULT_READ,
	TS_FAULT_WRITE,
	TS_FAULT_TRUNCATE,
	TS_FAULT_FSYNC,
	TS_FAULT_RENAME,
	TS_FAULT_UNLINK,
	TS_NUM_FAULT_OPERATIONS
} TsFaultOperation;

/* what ts_fault returns for a short transfer, beside 0 and errnos */
#define TS_FAULT_SHORT		(-1)

#ifdef TSENGINE_TEST
extern void ts_fault_define_setting(void);
extern int	ts_fault(TsFaultOperation operation);
extern void ts_fault_slow_manifest(void);
extern void ts_fault_slow_load(void);
#else
#define ts_fault_slow_manifest()	((void) 0)
#define ts_fault_slow_load()		((void) 0)
#define ts_fault_define_setting()	((void) 0)
#define ts_fault(operation)			0
#endif

#endif							/* TS_FAULT_H */
