/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  The differences between PostgreSQL versions, in one place.
 *
 * PostgreSQL 15 is the base; the code is written against its names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_COMPAT_H
#define TS_COMPAT_H

#include "postgres.h"

#include "access/transam.h"
#include "storage/proc.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 160000
#error "tsengine supports PostgreSQL 15 only, for now"
#endif

/* The library is built with hidden symbols (before 16, PGXS does not do so). */
#define TS_EXPORTED __attribute__((visibility("default")))

/* As PG_FUNCTION_INFO_V1, for a library with hidden symbols. */
#define TS_FUNCTION_INFO_V1(name) \
	extern TS_EXPORTED Datum name(PG_FUNCTION_ARGS); \
	extern TS_EXPORTED const Pg_finfo_record *pg_finfo_##name(void); \
	PG_FUNCTION_INFO_V1(name)

/*
 * From libpq/auth.h, which needs the headers of all authentication methods the
 * server was built with.
 */
struct Port;
typedef void (*ClientAuthentication_hook_type) (struct Port *, int);
extern PGDLLIMPORT ClientAuthentication_hook_type ClientAuthentication_hook;

/* renamed to TransamVariables in 17 */
#define ts_transam_variables	ShmemVariableCache

/* PGPROC.vxid.lxid since 17 */
#define ts_proc_lxid(proc)		((proc)->lxid)
#define ts_proc_backend_id(proc) ((proc)->backendId)

#endif							/* TS_COMPAT_H */
