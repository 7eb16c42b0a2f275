/*-------------------------------------------------------------------------
 *
 * process.h
 *	  What the memory layer keeps for each process, in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_PROCESS_H
#define TS_PROCESS_H

#include "memory/arena.h"
#include "memory/testing.h"

/* A list of free objects of one size class that this process alone uses. */
typedef struct TsMagazine
{
	void	   *head;			/* linked through the objects' first word */
	uint32		count;
} TsMagazine;

/* A batch of retired objects.  Sized to fill a kilobyte. */
#define TS_BAG_ITEMS	62

typedef struct TsBag
{
	struct TsBag *next;
	uint64		epoch;			/* global epoch after the last addition; 0: not
								 * dated yet */
	int			count;
	struct
	{
		void	   *ptr;
		Size		size;
	}			items[TS_BAG_ITEMS];
} TsBag;

typedef struct TsProcess
{
	/*
	 * Epoch in which this process reads the arena; 0 while it does not.
	 * Written by the owner only.  The store must be globally visible before
	 * any pointer is read (full barrier in ts_epoch_enter) and may become so
	 * any time after the last read (release in ts_epoch_leave).
	 */
	pg_atomic_uint64 epoch;

	/* The rest is written by the owner only. */
	uint64		retired_bytes;	/* in the limbo bags */
	TsBag	   *limbo_head;		/* oldest bag */
	TsBag	   *limbo_tail;		/* bag being filled */
	TsMagazine	magazine[TS_NUM_CLASSES];
} TsProcess;

/*
 * This process's entry; NULL until ts_process_attach().  Indexed by pgprocno,
 * so an entry is never used by two live processes.
 */
extern TsProcess *ts_my_process;
extern TsProcess *ts_processes;
extern int ts_num_processes;

extern int	ts_max_processes(void);
extern void ts_process_attach(void);

#endif							/* TS_PROCESS_H */
