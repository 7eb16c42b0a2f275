/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  Walks through all leaves, to remove entries, and nodes left empty.
 *
 * A walk compares no keys: it goes from the root down through all children.
 * A node that is split after its parent was read has moved entries to a node the
 * walk does not know of; so who splits a node notes in it the number of the walk
 * under way and where the entries went, and the walk goes there as well.
 *
 * Only one process walks an index at a time, and only walks make nodes obsolete.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "index/index.h"

typedef struct Walk
{
	TsIndex    *index;
	uint32		cycle;
	TsWalkCallback callback;
	void	   *state;
	HTAB	   *visited;
	int64		entries;		/* that stay */
	int64		removed;
	int64		empty;			/* leaves */
} Walk;

/* What is read of a node at once. */
typedef struct NodeView
{
	uint64		version;
	int			level;
	int			count;
	uint32		cycle;
	TsNode	   *right;
	uint64		words[TS_NODE_WORDS];	/* tails, or children */
} NodeView;

/*
 * Become the one that walks the index.  False if another does, and `wait` is
 * false.  To be undone by ts_index_walk_end(), on errors too.
 */
bool
ts_index_walk_begin(TsIndex *index, bool wait)
{
	for (;;)
	{
		uint32		nobody = 0;

		if (pg_atomic_compare_exchange_u32(&index->walker, &nobody, MyProc->pgprocno + 1))
			return true;
		if (!wait)
			return false;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
}

void
ts_index_walk_end(TsIndex *index)
{
	pg_memory_barrier();
	pg_atomic_write_u32(&index->walker, 0);
}

static void
view_node(const TsIndex *index, TsNode *node, NodeView *view)
{
	do
	{
		int			first;
		int			n;

		view->version = ts_latch_read(&node->latch);
		view->level = *(volatile uint16 *) &node->level;
		view->count = ts_node_count(index, node, view->level);
		view->cycle = *(volatile uint32 *) &node->cycle;
		view->right = *(TsNode *volatile *) &node->right;
		first = view->level == 0 ? TS_TAIL(index->leaf_max, 0) :
			TS_CHILD(index, index->inner_max, 0);
		n = view->level == 0 ? view->count : view->count + 1;
		for (int i = 0; i < n; i++)
			view->words[i] = ts_node_word(node, first + i);
	} while (!ts_latch_valid(&node->latch, view->version));
}

/* Ask of each entry of a leaf, and remove those that are to go. */
static void
visit_leaf(Walk *walk, TsNode *leaf, NodeView *view)
{
	bool		remove[TS_NODE_WORDS];
	int			nremove;

	do
	{
		view_node(walk->index, leaf, view);
		nremove = 0;
		for (int i = 0; i < view->count; i++)
		{
			ItemPointerData tid;

			ts_tid_of_tail(view->words[i] & TS_TAIL_TID, &tid);
			remove[i] = walk->callback != NULL && walk->callback(&tid, walk->state);
			nremove += remove[i];
		}
	} while (nremove > 0 &&
			 !ts_leaf_remove(walk->index, leaf, view->version, remove, view->count));
	walk->removed += nremove;
	walk->entries += view->count - nremove;
	if (view->count == nremove)
		walk->empty++;
}

static void
visit(Walk *walk, TsNode *node)
{
	NodeView   *view = palloc(sizeof(NodeView));

	check_stack_depth();
	for (;;)
	{
		bool		seen;

		CHECK_FOR_INTERRUPTS();
		(void) hash_search(walk->visited, &node, HASH_ENTER, &seen);
		if (seen)
			break;
		view_node(walk->index, node, view);
		if (view->level == 0)
			visit_leaf(walk, node, view);
		else
			for (int i = 0; i <= view->count; i++)
				visit(walk, (TsNode *) (uintptr_t) view->words[i]);
		if (view->cycle != walk->cycle)
			break;
		node = view->right;
	}
	pfree(view);
}

/* ---- nodes left empty ---- */

static void
latch_wait_and_take(TsLatch *latch)
{
	while (!ts_latch_upgrade(latch, ts_latch_read(latch)))
		;
}

/* Can the subtree go: are there no entries in it, and only one leaf? */
static bool
is_bare(const TsIndex *index, TsNode *node)
{
	while (node->count == 0 && node->level > 0)
		node = ts_node_child(index, node, 0);
	return node->count == 0;
}

/* Latch a bare subtree from the top down; false, with nothing latched, if it is not. */
static bool
latch_bare(const TsIndex *index, TsNode *node)
{
	latch_wait_and_take(&node->latch);
	if (node->count == 0 &&
		(node->level == 0 || latch_bare(index, ts_node_child(index, node, 0))))
		return true;
	ts_latch_release(&node->latch, false);
	return false;
}

/* A latched bare subtree is no part of the tree any more. */
static void
retire_bare(TsIndex *index, TsNode *node)
{
	while (node != NULL)
	{
		TsNode	   *child = node->level > 0 ? ts_node_child(index, node, 0) : NULL;
		uint64		version = pg_atomic_read_u64(&node->latch) & ~TS_LATCHED;

		pg_atomic_fetch_sub_u64(node->level == 0 ? &index->leaves : &index->inners, 1);
		pg_write_barrier();
		pg_atomic_write_u64(&node->latch, (version + TS_LATCH_STEP) | TS_OBSOLETE);
		ts_node_unuse(index, node);
		node = child;
	}
}

/*
 * Take child i and a separator out of a latched node: its neighbour is
 * responsible for its keys from now on.
 */
static void
remove_child(TsIndex *index, TsNode *node, int i)
{
	int			max = index->inner_max;
	int			separator = Max(i - 1, 0);
	int			behind = node->count - separator - 1;
	TsEntry		entry;

	ts_node_entry(index, node, node->level, separator, &entry);
	for (int column = 0; column < index->columns; column++)
	{
		pg_atomic_uint64 *word = &node->words[column * max + separator];

		memmove(word, word + 1, behind * sizeof(uint64));
	}
	memmove(&node->words[TS_CHILD(index, max, i)], &node->words[TS_CHILD(index, max, i + 1)],
			(node->count - i) * sizeof(uint64));
	node->count--;
	ts_tree_free_blob(index, entry.blob);
}

/* Remove a child that is bare, unless it is the only one. */
static void
unlink_child(TsIndex *index, TsNode *node, TsNode *child)
{
	int			i = 0;
	bool		done = false;

	latch_wait_and_take(&node->latch);
	while (i <= node->count && ts_node_child(index, node, i) != child)
		i++;
	if (node->count > 0 && i <= node->count && latch_bare(index, child))
	{
		remove_child(index, node, i);
		done = true;
	}
	ts_latch_release(&node->latch, done);
	if (done)
		retire_bare(index, child);
}

static void
purge(TsIndex *index, TsNode *node)
{
	NodeView   *view = palloc(sizeof(NodeView));

	CHECK_FOR_INTERRUPTS();
	view_node(index, node, view);
	for (int i = view->count; view->level > 0 && i >= 0; i--)
	{
		TsNode	   *child = (TsNode *) (uintptr_t) view->words[i];

		if (view->level > 1)
			purge(index, child);
		if (is_bare(index, child))
			unlink_child(index, node, child);
	}
	pfree(view);
}

/* A root with one child is none. */
static void
lower_root(TsIndex *index)
{
	for (;;)
	{
		TsNode	   *root;

		latch_wait_and_take(&index->latch);
		root = (TsNode *) (uintptr_t) pg_atomic_read_u64(&index->root);
		latch_wait_and_take(&root->latch);
		if (root->level == 0 || root->count > 0)
		{
			ts_latch_release(&root->latch, false);
			ts_latch_release(&index->latch, false);
			return;
		}
		pg_atomic_write_u64(&index->root, (uint64) (uintptr_t) ts_node_child(index, root, 0));
		pg_write_barrier();
		pg_atomic_write_u64(&root->latch,
							((pg_atomic_read_u64(&root->latch) & ~TS_LATCHED) + TS_LATCH_STEP) |
							TS_OBSOLETE);
		ts_latch_release(&index->latch, true);
		pg_atomic_fetch_sub_u64(&index->inners, 1);
		ts_node_unuse(index, root);
	}
}

/*
 * Visit all entries that are there from beginning to end, and remove those of
 * which the callback says so (NULL: none); then the leaves left empty.  Returns
 * how many were removed, and in *entries how many stayed.  The callback may be
 * asked twice of an entry, and may raise errors; nothing is latched then.
 * Call it between ts_index_walk_begin() and ts_index_walk_end().
 */
int64
ts_index_walk(TsIndex *index, TsWalkCallback callback, void *state, int64 *entries)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "tsindex walk",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	HASHCTL		ctl = {.keysize = sizeof(TsNode *),.entrysize = sizeof(TsNode *),
	.hcxt = context};
	Walk		walk = {.index = index,.callback = callback,.state = state};

	walk.visited = hash_create("tsindex nodes", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	walk.cycle = pg_atomic_add_fetch_u32(&index->cycle, 1);
	/* before the first node is read: see move_right() */
	pg_memory_barrier();
	visit(&walk, (TsNode *) (uintptr_t) pg_atomic_read_u64(&index->root));
	if (walk.empty > 0)
	{
		purge(index, (TsNode *) (uintptr_t) pg_atomic_read_u64(&index->root));
		lower_root(index);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (entries != NULL)
		*entries = walk.entries;
	return walk.removed;
}
