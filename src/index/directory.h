/*-------------------------------------------------------------------------
 *
 * directory.h
 *	  Trees in shared memory, by the file of the relation they belong to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_INDEX_DIRECTORY_H
#define TS_INDEX_DIRECTORY_H

#include "postgres.h"

#include "storage/backendid.h"
#include "storage/relfilenode.h"
#include "storage/spin.h"

#include "index/node.h"

typedef struct TsIndex
{
	/* identity; constant */
	RelFileNode rnode;
	BackendId	backend;
	RelFileNode table;			/* file of the table */
	struct TsIndex *hash_next;	/* under the directory lock */

	/* format; constant */
	bool		has_blobs;
	uint16		leaf_max;
	uint16		inner_max;
	uint16		columns;		/* of words in a leaf: 2 or 3 */

	TsLatch		latch;			/* of the root pointer, as a node's */
	pg_atomic_uint64 root;
	pg_atomic_uint32 cycle;		/* counts walks, see walk.c */

	slock_t		mutex;			/* of the list */
	TsNode	   *unused;			/* nodes that are no part of the tree */
	pg_atomic_uint32 walker;	/* not 0: a process removes entries and nodes */

	/* figures */
	pg_atomic_uint64 entries;
	pg_atomic_uint64 bytes;		/* of nodes and blobs, unused ones included */
	pg_atomic_uint64 leaves;
	pg_atomic_uint64 inners;
	pg_atomic_uint64 splits;
	pg_atomic_uint64 restarts;
} TsIndex;

extern void ts_index_request(void);
extern void ts_index_startup(void);

extern TsIndex *ts_index_new(RelFileNode rnode, BackendId backend, RelFileNode table, bool has_blobs);
extern void ts_index_free(TsIndex *index);
extern void ts_index_publish(TsIndex *index);
extern TsIndex *ts_index_find(RelFileNode rnode, BackendId backend);
extern int	ts_index_claim_all(RelFileNode table, TsIndex ***list);
extern void ts_index_drop(RelFileNode rnode, BackendId backend);

#ifdef TSENGINE_TEST
extern int ts_index_fanout;		/* GUC tsengine.index_fanout; 0: as many as fit */
#endif

#endif							/* TS_INDEX_DIRECTORY_H */
