/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  Trees in shared memory, by the file of the relation they belong to.
 *
 * As tables do, a tree follows the life of its relation's file: it is dropped
 * when that is.  Nothing of it is logged or in an image, so after a restart it
 * is missing, and is built again by whoever needs it first (open.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "index/index.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/garbage.h"
#include "storage/table.h"

#define DIRECTORY_BUCKETS	1024

typedef struct IndexDirectory
{
	TsIndex    *dropped;		/* to be freed, linked by hash_next */
	TsIndex    *buckets[DIRECTORY_BUCKETS];
} IndexDirectory;

static IndexDirectory *directory;
static LWLock *directory_lock;

#ifdef TSENGINE_TEST
int			ts_index_fanout = 0;
#endif

static void drop_database(Oid database);
static bool free_dropped(void);

void
ts_index_request(void)
{
	RequestAddinShmemSpace(sizeof(IndexDirectory));
	RequestNamedLWLockTranche("TsengineIndexDirectory", 1);
}

void
ts_index_startup(void)
{
	bool		found;

	directory_lock = &GetNamedLWLockTranche("TsengineIndexDirectory")->lock;
	directory = ShmemInitStruct("tsengine indexes", sizeof(IndexDirectory), &found);
	if (!found)
		memset(directory, 0, sizeof(IndexDirectory));
	ts_file_dropped_hook = ts_index_drop;
	ts_database_dropped_hook = drop_database;
	ts_free_dropped_hook = free_dropped;
	ts_clean_indexes_hook = ts_index_clean;
}

static TsIndex **
bucket_of(RelFileNode rnode)
{
	uint32		h = rnode.relNode * 0x9E3779B1u ^ rnode.dbNode * 0x85EBCA77u;

	return &directory->buckets[(h ^ h >> 16) % DIRECTORY_BUCKETS];
}

static inline bool
is_index_of(const TsIndex *index, RelFileNode rnode, BackendId backend)
{
	return index->rnode.relNode == rnode.relNode && index->rnode.dbNode == rnode.dbNode &&
		index->backend == backend;
}

/*
 * An empty tree that nobody else knows.  The caller frees or publishes it.
 * Raises 53200.
 */
TsIndex *
ts_index_new(RelFileNode rnode, BackendId backend, RelFileNode table, bool has_blobs)
{
	TsIndex    *index = ts_alloc_or_error(sizeof(TsIndex), TS_ALLOC_NORMAL);
	int			fanout = TS_NODE_WORDS;

	memset(index, 0, sizeof(TsIndex));
	index->rnode = rnode;
	index->backend = backend;
	index->table = table;
	index->has_blobs = has_blobs;
	index->columns = has_blobs ? 3 : 2;
#ifdef TSENGINE_TEST
	if (ts_index_fanout > 0)
		fanout = ts_index_fanout;
#endif
	index->leaf_max = Min(TS_NODE_WORDS / index->columns, fanout);
	index->inner_max = Min((TS_NODE_WORDS - 1) / (index->columns + 1), fanout);
	pg_atomic_init_u64(&index->latch, 0);
	pg_atomic_init_u64(&index->root, 0);
	pg_atomic_init_u32(&index->cycle, 0);
	SpinLockInit(&index->mutex);
	pg_atomic_init_u32(&index->walker, 0);
	pg_atomic_init_u64(&index->entries, 0);
	pg_atomic_init_u64(&index->bytes, 0);
	pg_atomic_init_u64(&index->leaves, 0);
	pg_atomic_init_u64(&index->inners, 0);
	pg_atomic_init_u64(&index->splits, 0);
	pg_atomic_init_u64(&index->restarts, 0);
	if (!ts_tree_init(index))
	{
		ts_free(index, sizeof(TsIndex));
		ts_arena_out_of_memory(TS_NODE_BYTES);
	}
	return index;
}

/* Free a tree that nobody can reach any more; readers may still be leaving. */
void
ts_index_free(TsIndex *index)
{
	ts_tree_free(index);
	ts_retire(index, sizeof(TsIndex));
}

/* With the directory lock held: out of the directory. */
static TsIndex *
unlink_index(RelFileNode rnode, BackendId backend)
{
	TsIndex   **link = bucket_of(rnode);
	TsIndex    *index;

	while (*link != NULL && !is_index_of(*link, rnode, backend))
		link = &(*link)->hash_next;
	index = *link;
	if (index != NULL)
		*link = index->hash_next;
	return index;
}

/* With the directory lock held: let the garbage collector free a tree. */
static void
drop_index(TsIndex *index)
{
	index->hash_next = directory->dropped;
	directory->dropped = index;
}

/*
 * Make a tree the one of its relation file, in place of another if there was
 * one.  The caller keeps all others out.
 */
void
ts_index_publish(TsIndex *index)
{
	TsIndex   **bucket = bucket_of(index->rnode);
	TsIndex    *old;

	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	old = unlink_index(index->rnode, index->backend);
	index->hash_next = *bucket;
	*bucket = index;
	if (old != NULL)
		drop_index(old);
	LWLockRelease(directory_lock);
}

/*
 * The tree of a relation file, or NULL.  A lock on the relation keeps it from
 * going away.
 */
TsIndex *
ts_index_find(RelFileNode rnode, BackendId backend)
{
	TsIndex    *index;

	LWLockAcquire(directory_lock, LW_SHARED);
	index = *bucket_of(rnode);
	while (index != NULL && !is_index_of(index, rnode, backend))
		index = index->hash_next;
	LWLockRelease(directory_lock);
	return index;
}

/*
 * The relation's file goes: so does its tree, if it has one.  Processes that do
 * not use tsengine come here as well.  No error.
 */
void
ts_index_drop(RelFileNode rnode, BackendId backend)
{
	TsIndex    *index;

	if (*(TsIndex *volatile *) bucket_of(rnode) == NULL)
		return;					/* if it were ours, nobody could be adding it */
	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	index = unlink_index(rnode, backend);
	if (index != NULL)
		drop_index(index);
	LWLockRelease(directory_lock);
}

static void
drop_database(Oid database)
{
	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	for (int i = 0; i < DIRECTORY_BUCKETS; i++)
	{
		TsIndex   **link = &directory->buckets[i];

		while (*link != NULL)
		{
			TsIndex    *index = *link;

			if (index->rnode.dbNode != database)
			{
				link = &index->hash_next;
				continue;
			}
			*link = index->hash_next;
			drop_index(index);
		}
	}
	LWLockRelease(directory_lock);
}

/*
 * The trees of a table that nobody walks, for the caller to walk: he ends that
 * with ts_index_walk_end().  Returns how many, or -1 if somebody walks one.
 * *list is palloc'd.
 */
int
ts_index_claim_all(RelFileNode table, TsIndex ***list)
{
	int			n = 0;
	int			max = 16;
	bool		busy = false;
	TsIndex   **found = palloc(max * sizeof(TsIndex *));

	LWLockAcquire(directory_lock, LW_SHARED);
	for (int i = 0; i < DIRECTORY_BUCKETS && !busy; i++)
	{
		for (TsIndex *index = directory->buckets[i]; index != NULL && !busy; index = index->hash_next)
		{
			if (index->table.relNode != table.relNode || index->table.dbNode != table.dbNode)
				continue;
			if (n == max)
			{
				max *= 2;
				found = repalloc(found, max * sizeof(TsIndex *));
			}
			busy = !ts_index_walk_begin(index, false);
			if (!busy)
				found[n++] = index;
		}
	}
	LWLockRelease(directory_lock);
	if (busy)
	{
		while (n > 0)
			ts_index_walk_end(found[--n]);
		pfree(found);
		return -1;
	}
	*list = found;
	return n;
}

/* Free dropped trees; called by the garbage collector and when memory is short. */
static bool
free_dropped(void)
{
	TsIndex   **link;
	TsIndex    *index;

	if (*(TsIndex *volatile *) &directory->dropped == NULL)
		return false;
	LWLockAcquire(directory_lock, LW_EXCLUSIVE);
	/* whoever walks one is about to end that */
	for (link = &directory->dropped; (index = *link) != NULL; link = &index->hash_next)
		if (ts_index_walk_begin(index, false))
		{
			*link = index->hash_next;
			break;
		}
	LWLockRelease(directory_lock);
	if (index != NULL)
		ts_index_free(index);
	return index != NULL;
}
