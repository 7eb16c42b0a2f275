/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  The process that lets no checkpoint complete before its image is durable.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_GUARD_H
#define TS_GUARD_H

#include "postgres.h"

#include "compat.h"

/*
 * May tsengine tables be changed?  Only while the guard holds checkpoints back.
 *
 * Who writes must publish that it does (its descriptor is not FREE) before it
 * asks, with a full barrier between: at shutdown the guard withdraws the
 * permission, and then waits until no descriptor is in use.
 */
extern bool ts_guard_writable(void);

/* Is the guard there, or about to come, so that it is worth to wait for it? */
extern bool ts_guard_expected(void);

extern TS_EXPORTED void ts_guard_main(Datum arg) pg_attribute_noreturn();

#endif							/* TS_GUARD_H */
