/*-------------------------------------------------------------------------
 *
 * arena.h
 *	  The shared-memory arena that holds all rows, and its allocator.
 *
 * The arena lies in PostgreSQL's main shared memory segment, so its addresses
 * are the same in every process and raw pointers may be stored inside it.
 * See README in this folder.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_ARENA_H
#define TS_ARENA_H

#include "postgres.h"

#include "port/atomics.h"
#include "port/pg_bitutils.h"

/* Objects up to this size come from size classes, larger ones from pages. */
#define TS_SMALL_MAX		8192
#define TS_NUM_CLASSES		64

/* What an allocation may use once the arena is nearly full. */
typedef enum TsAllocMode
{
	TS_ALLOC_NORMAL,			/* leave the reserve alone */
	TS_ALLOC_RESERVE			/* deletes, rollback, bookkeeping of garbage */
} TsAllocMode;

/* Figures for tsengine.stat_memory, all in bytes. */
typedef struct TsArenaStats
{
	Size		arena_bytes;	/* usable by rows, page tables excluded */
	Size		used_bytes;		/* pages handed out */
	Size		free_bytes;
	Size		reserve_bytes;	/* part of free_bytes only TS_ALLOC_RESERVE gets */
	Size		retired_bytes;	/* unlinked, waiting for readers to move on */
} TsArenaStats;

/* GUC tsengine.memory, in kilobytes */
extern int ts_memory_kb;

/* What can be done about a full arena. */
typedef enum TsPressure
{
	TS_PRESSURE_FREED,			/* something was freed: try again */
	TS_PRESSURE_PENDING,		/* something will be, once readers move on */
	TS_PRESSURE_NOTHING
} TsPressure;

/*
 * Called when an allocation is about to fail, to free what can be.  Set by the
 * layer that knows how to collect garbage.
 */
extern TsPressure (*ts_arena_pressure_hook) (void);

extern void ts_arena_request(void);
extern void ts_arena_startup(void);

extern void *ts_alloc(Size size, TsAllocMode mode);
extern void *ts_alloc_or_error(Size size, TsAllocMode mode);
extern void ts_free(void *ptr, Size size);
extern void ts_arena_out_of_memory(Size request) pg_attribute_noreturn();
extern bool ts_arena_is_tight(void);
extern void ts_arena_get_stats(TsArenaStats *stats);

/* for process exit */
extern void ts_arena_flush_magazines(void);

#endif							/* TS_ARENA_H */
