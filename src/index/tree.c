/*-------------------------------------------------------------------------
 *
 * tree.c
 *	  The tree: search, insertion, removal.
 *
 * A B+-tree without links between nodes: who wants to go on behind a leaf's end
 * searches for the separator that ended it.  So every change of structure
 * touches a node, its parent, and nothing else.
 *
 * Nodes are read without latches.  Whatever was read may be nonsense until the
 * node's version is found unchanged, so nothing is followed before that: not a
 * child, not a blob.  Blobs are looked at inside epoch sections only.
 *
 * Nothing that may fail or wait is done while a latch is held.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/s_lock.h"

#include "index/tree.h"
#include "memory/arena.h"
#include "memory/epoch.h"

/* Wait until nobody is inside; returns the version. */
uint64
ts_latch_wait(TsLatch *latch)
{
	SpinDelayStatus delay;
	uint64		version;

	init_local_spin_delay(&delay);
	while ((version = pg_atomic_read_u64(latch)) & TS_LATCHED)
		perform_spin_delay(&delay);
	finish_spin_delay(&delay);
	return version;
}

/* ---- memory ---- */

/* A node that is no part of the tree yet, or NULL. */
static TsNode *
node_new(TsIndex *index, int level)
{
	TsNode	   *node;

	SpinLockAcquire(&index->mutex);
	node = index->unused;
	if (node != NULL)
		index->unused = node->right;
	SpinLockRelease(&index->mutex);
	if (node == NULL)
	{
		node = ts_alloc(TS_NODE_BYTES, TS_ALLOC_NORMAL);
		if (node == NULL)
			return NULL;
		pg_atomic_init_u64(&node->latch, 0);
		pg_atomic_fetch_add_u64(&index->bytes, TS_NODE_BYTES);
	}
	else
		/* who still has a pointer from its former life sees that it changed */
		pg_atomic_write_u64(&node->latch,
							(pg_atomic_read_u64(&node->latch) & ~TS_OBSOLETE) + TS_LATCH_STEP);
	node->level = level;
	node->count = 0;
	node->cycle = 0;
	node->right = NULL;
	return node;
}

/* Keep a node that is no part of the tree, for reuse. */
void
ts_node_unuse(TsIndex *index, TsNode *node)
{
	SpinLockAcquire(&index->mutex);
	node->right = index->unused;
	index->unused = node;
	SpinLockRelease(&index->mutex);
}

/* An empty tree.  False if there is no memory. */
bool
ts_tree_init(TsIndex *index)
{
	TsNode	   *root = node_new(index, 0);

	if (root == NULL)
		return false;
	pg_atomic_write_u64(&index->root, (uint64) (uintptr_t) root);
	pg_atomic_write_u64(&index->leaves, 1);
	return true;
}

/* A copy of a long key, or NULL if there is no memory. */
TsBlob *
ts_tree_new_blob(TsIndex *index, const char *data, Size len)
{
	TsBlob	   *blob = ts_alloc(ts_blob_size(len), TS_ALLOC_NORMAL);

	if (blob == NULL)
		return NULL;
	blob->len = len;
	memcpy(blob->data, data, len);
	pg_atomic_fetch_add_u64(&index->bytes, ts_blob_size(len));
	return blob;
}

/* Somebody may still be looking at it. */
void
ts_tree_free_blob(TsIndex *index, TsBlob *blob)
{
	if (blob == NULL)
		return;
	pg_atomic_fetch_sub_u64(&index->bytes, ts_blob_size(blob->len));
	ts_retire(blob, ts_blob_size(blob->len));
}

static void
free_subtree(TsIndex *index, TsNode *node)
{
	for (int i = 0; i < node->count && index->has_blobs; i++)
	{
		TsEntry		entry;

		ts_node_entry(index, node, node->level, i, &entry);
		ts_tree_free_blob(index, entry.blob);
	}
	for (int i = 0; i <= node->count && node->level > 0; i++)
		free_subtree(index, ts_node_child(index, node, i));
	ts_retire(node, TS_NODE_BYTES);
}

/* Free all nodes of a tree that is not used any more.  No error. */
void
ts_tree_free(TsIndex *index)
{
	free_subtree(index, (TsNode *) (uintptr_t) pg_atomic_read_u64(&index->root));
	while (index->unused != NULL)
	{
		TsNode	   *next = index->unused->right;

		ts_retire(index->unused, TS_NODE_BYTES);
		index->unused = next;
	}
}

/* ---- search ---- */

/*
 * Compared keys: copy the blob, compare outside of the epoch section.  *valid
 * is set to false if the node has changed.
 */
static int
compare_blob(const TsTree *tree, const TsNode *node, uint64 version, const TsEntry *entry,
			 const TsKey *key, bool *valid)
{
	char	   *copy = NULL;
	int			result;

	ts_epoch_enter();
	if (ts_latch_valid((TsLatch *) &node->latch, version))
	{
		copy = palloc_extended(entry->blob->len, MCXT_ALLOC_HUGE);
		memcpy(copy, entry->blob->data, entry->blob->len);
	}
	ts_epoch_leave();
	*valid = copy != NULL;
	if (copy == NULL)
		return 0;
	result = ts_compare_columns(tree->info, (MinimalTuple) copy, key);
	pfree(copy);
	return result;
}

/*
 * Compare entry i of a node with a key, tails included.  *valid tells whether
 * the node was unchanged.  For keys of kind bytes call it in an epoch section,
 * for compared ones outside of one: it may raise errors then.
 */
int
ts_compare_entry(const TsTree *tree, const TsNode *node, uint64 version, int i,
				 const TsKey *key, bool *valid)
{
	TsEntry		entry;
	int			result = 0;

	ts_node_entry(tree->index, node, *(volatile const uint16 *) &node->level, i, &entry);
	if (tree->info->kind == TS_KEY_COMPARED)
	{
		result = compare_blob(tree, node, version, &entry, key, valid);
		if (result != 0 || !*valid)
			return result;
		return entry.tail < key->tail ? -1 : entry.tail > key->tail;
	}
	*valid = true;
	if (entry.prefix != key->prefix)
		return entry.prefix < key->prefix ? -1 : 1;
	if (tree->info->kind == TS_KEY_BYTES)
	{
		*valid = ts_latch_valid((TsLatch *) &node->latch, version);
		return *valid ? ts_compare_bytes(&entry, key) : 0;
	}
	return entry.tail < key->tail ? -1 : entry.tail > key->tail;
}

/* First entry that is not below the key, or with `above`, that is above it. */
static int
search_short(const TsNode *node, int max, int count, const TsKey *key, bool above)
{
	int			low = 0;

	while (count > 0)
	{
		int			half = count / 2;
		int			mid = low + half;
		uint64		prefix = ts_node_word(node, TS_PREFIX(max, mid));
		bool		right = prefix < key->prefix;

		if (unlikely(prefix == key->prefix))
		{
			uint64		tail = ts_node_word(node, TS_TAIL(max, mid));

			right = tail < key->tail || (above && tail == key->tail);
		}
		low = right ? mid + 1 : low;
		count = right ? count - half - 1 : half;
	}
	return low;
}

static int
search_long(const TsTree *tree, const TsNode *node, uint64 version, int count,
			const TsKey *key, bool above, bool *valid)
{
	int			low = 0;

	*valid = true;
	while (low < count)
	{
		int			mid = (low + count) / 2;
		int			result = ts_compare_entry(tree, node, version, mid, key, valid);

		if (!*valid)
			return 0;
		if (result < 0 || (above && result == 0))
			low = mid + 1;
		else
			count = mid;
	}
	return low;
}

/* One attempt at ts_tree_find; false if something changed on the way. */
static bool
try_find(const TsTree *tree, const TsKey *key, bool left, TsPosition *p)
{
	TsIndex    *index = tree->index;
	TsLatch    *above_latch = &index->latch;
	uint64		above = ts_latch_read(above_latch);
	TsNode	   *node = (TsNode *) (uintptr_t) pg_atomic_read_u64(&index->root);

	p->root_version = above;
	p->height = 0;
	for (;;)
	{
		uint64		version = ts_latch_read(&node->latch);
		int			level = *(volatile uint16 *) &node->level;
		int			count = ts_node_count(index, node, level);
		bool		valid = true;
		int			i;

		/* the node is still what its parent, as we saw that, leads to */
		if ((version & TS_OBSOLETE) || !ts_latch_valid(above_latch, above) ||
			p->height == TS_MAX_HEIGHT)
			return false;
		if (tree->info->kind == TS_KEY_SHORT)
			i = search_short(node, ts_node_max(index, level), count, key, level > 0 && !left);
		else
			i = search_long(tree, node, version, count, key, level > 0 && !left, &valid);
		p->path[p->height++] = (TsStep) {node, version, i};
		if (level == 0)
		{
			p->leaf = node;
			p->version = version;
			p->index = i;
			return valid && ts_latch_valid(&node->latch, version);
		}
		above_latch = &node->latch;
		above = version;
		node = ts_node_child(index, node, i);
		if (!valid || !ts_latch_valid(above_latch, above))
			return false;
	}
}

/*
 * Find the leaf where a key is or belongs, and the first entry there that is
 * not below it; with `left`, the leaf that ends at or behind the key, so that
 * what is next below the key is in it or to the left of it.  For compared keys, raises what comparing raises; call it
 * outside of epoch sections then.
 */
void
ts_tree_find(const TsTree *tree, const TsKey *key, bool left, TsPosition *position)
{
	bool		in_epoch = tree->info->kind == TS_KEY_BYTES;
	bool		found;

	for (;;)
	{
		if (in_epoch)
			ts_epoch_enter();
		found = try_find(tree, key, left, position);
		if (in_epoch)
			ts_epoch_leave();
		if (found)
			return;
		pg_atomic_fetch_add_u64(&tree->index->restarts, 1);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * The first entry of a leaf found before that is not below another key.  False
 * if the leaf has changed since.
 */
bool
ts_tree_search_leaf(const TsTree *tree, const TsPosition *position, const TsKey *key, int *index)
{
	int			count = ts_node_count(tree->index, position->leaf, 0);
	bool		valid = true;

	if (tree->info->kind == TS_KEY_SHORT)
		*index = search_short(position->leaf, tree->index->leaf_max, count, key, false);
	else
	{
		bool		in_epoch = tree->info->kind == TS_KEY_BYTES;

		if (in_epoch)
			ts_epoch_enter();
		*index = search_long(tree, position->leaf, position->version, count, key, false, &valid);
		if (in_epoch)
			ts_epoch_leave();
	}
	return valid && ts_latch_valid(&position->leaf->latch, position->version);
}

/*
 * The separators between which a leaf's keys lie: those from `low` on and below
 * `high`.  False if something has changed since the search.  Call it in an
 * epoch section if there are blobs, and copy those before it ends.
 */
bool
ts_tree_limits(const TsTree *tree, const TsPosition *position, TsLimit *low, TsLimit *high)
{
	low->node = high->node = NULL;
	for (int d = position->height - 2; d >= 0 && (low->node == NULL || high->node == NULL); d--)
	{
		const TsStep *step = &position->path[d];
		TsLimit		limit = {step->node, step->version};

		if (low->node == NULL && step->child > 0)
		{
			limit.index = step->child - 1;
			ts_node_entry(tree->index, step->node, 1, limit.index, &limit.entry);
			*low = limit;
		}
		if (high->node == NULL && step->child < ts_node_count(tree->index, step->node, 1))
		{
			limit.index = step->child;
			ts_node_entry(tree->index, step->node, 1, limit.index, &limit.entry);
			*high = limit;
		}
		if (!ts_latch_valid(&step->node->latch, step->version))
			return false;
	}
	return ts_latch_valid(&position->leaf->latch, position->version);
}

/* ---- insertion ---- */

static void
open_gap(TsNode *node, int from, int count)
{
	memmove(&node->words[from + 1], &node->words[from], count * sizeof(uint64));
}

/* Put an entry at i into a latched node that has room. */
static void
put_entry(TsIndex *index, TsNode *node, int i, const TsEntry *entry)
{
	int			max = ts_node_max(index, node->level);
	int			behind = node->count - i;

	open_gap(node, TS_PREFIX(max, i), behind);
	open_gap(node, TS_TAIL(max, i), behind);
	ts_node_set_word(node, TS_PREFIX(max, i), entry->prefix);
	ts_node_set_word(node, TS_TAIL(max, i), entry->tail);
	if (index->has_blobs)
	{
		open_gap(node, TS_BLOB(max, i), behind);
		ts_node_set_word(node, TS_BLOB(max, i), (uint64) (uintptr_t) entry->blob);
	}
}

static void
set_child(TsIndex *index, TsNode *node, int i, TsNode *child)
{
	ts_node_set_word(node, TS_CHILD(index, index->inner_max, i), (uint64) (uintptr_t) child);
}

/* A split under way, with all the memory it needs. */
typedef struct Split
{
	TsNode	   *node;
	int			level;
	int			count;
	int			mid;			/* first entry to go right, or separator to go up */
	TsEntry		separator;
	TsNode	   *right;
	TsNode	   *root;			/* the new one, if the root is split */
} Split;

/* Move the upper part of a latched node to its new right neighbour. */
static void
move_right(TsIndex *index, const Split *s)
{
	int			max = ts_node_max(index, s->level);
	int			from = s->level == 0 ? s->mid : s->mid + 1;
	int			n = s->count - from;

	for (int column = 0; column < index->columns; column++)
		memcpy(&s->right->words[column * max], &s->node->words[column * max + from],
			   n * sizeof(uint64));
	if (s->level > 0)
		memcpy(&s->right->words[TS_CHILD(index, max, 0)],
			   &s->node->words[TS_CHILD(index, max, from)], (n + 1) * sizeof(uint64));
	s->right->count = n;
	s->right->right = s->node->right;
	s->right->cycle = s->node->cycle;
	pg_write_barrier();
	s->node->count = s->mid;
	/* a walk under way may have seen our parent without the new child */
	s->node->right = s->right;
	s->node->cycle = pg_atomic_read_u32(&index->cycle);
}

/* Make the right neighbour known to the latched parent, or to a new root. */
static void
link_right(TsIndex *index, const Split *s, const TsStep *parent)
{
	if (parent == NULL)
	{
		put_entry(index, s->root, 0, &s->separator);
		set_child(index, s->root, 0, s->node);
		set_child(index, s->root, 1, s->right);
		s->root->count = 1;
		pg_write_barrier();
		pg_atomic_write_u64(&index->root, (uint64) (uintptr_t) s->root);
		pg_atomic_fetch_add_u64(&index->inners, 1);
	}
	else
	{
		TsNode	   *node = parent->node;

		put_entry(index, node, parent->child, &s->separator);
		open_gap(node, TS_CHILD(index, index->inner_max, parent->child + 1),
				 node->count - parent->child);
		set_child(index, node, parent->child + 1, s->right);
		pg_write_barrier();
		node->count++;
	}
	pg_atomic_fetch_add_u64(s->level == 0 ? &index->leaves : &index->inners, 1);
	pg_atomic_fetch_add_u64(&index->splits, 1);
}

/*
 * Where to split.  A node at the right edge that grows there is left nearly
 * full, as no more will come to it.
 */
static int
split_point(const TsIndex *index, const TsPosition *position, int depth, int count)
{
	bool		at_end = position->index >= ts_node_count(index, position->leaf, 0);

	for (int d = 0; d < position->height - 1 && at_end; d++)
		at_end = position->path[d].child == ts_node_count(index, position->path[d].node, 1);
	if (!at_end || count < 4)
		return count / 2;
	return depth == position->height - 1 ? count - 1 : count - 2;
}

/* A leaf's separator is a copy: the entry may go before it. */
static bool
copy_separator(TsIndex *index, Split *s, uint64 version)
{
	bool		valid;

	ts_node_entry(index, s->node, s->level, s->mid, &s->separator);
	if (s->level > 0 || s->separator.blob == NULL)
		return ts_latch_valid(&s->node->latch, version);
	ts_epoch_enter();
	valid = ts_latch_valid(&s->node->latch, version);
	if (valid)
	{
		s->separator.blob = ts_tree_new_blob(index, s->separator.blob->data,
											 s->separator.blob->len);
		valid = s->separator.blob != NULL;
	}
	else
		s->separator.blob = NULL;
	ts_epoch_leave();
	return valid;
}

static void
abandon_split(TsIndex *index, Split *s)
{
	if (s->right != NULL)
		ts_node_unuse(index, s->right);
	if (s->root != NULL)
		ts_node_unuse(index, s->root);
	if (s->level == 0)
		ts_tree_free_blob(index, s->separator.blob);
}

/* Split the node at a depth of the path; its parent has room.  Raises 53200. */
static void
split_node(TsIndex *index, const TsPosition *position, int depth)
{
	const TsStep *step = &position->path[depth];
	const TsStep *parent = depth > 0 ? step - 1 : NULL;
	TsLatch    *above = parent != NULL ? &parent->node->latch : &index->latch;
	uint64		above_version = parent != NULL ? parent->version : position->root_version;
	Split		s = {.node = step->node,.level = position->height - 1 - depth};

	s.count = ts_node_count(index, s.node, s.level);
	s.mid = split_point(index, position, depth, s.count);
	if (!ts_latch_valid(&s.node->latch, step->version))
		return;
	s.right = node_new(index, s.level);
	if (s.right != NULL && parent == NULL)
		s.root = node_new(index, s.level + 1);
	if (s.right == NULL || (parent == NULL && s.root == NULL))
	{
		abandon_split(index, &s);
		ts_arena_out_of_memory(TS_NODE_BYTES);
	}
	if (!copy_separator(index, &s, step->version))
	{
		bool		changed = !ts_latch_valid(&s.node->latch, step->version);

		s.separator.blob = NULL;
		abandon_split(index, &s);
		if (!changed)
			ts_arena_out_of_memory(TS_NODE_BYTES);
		return;
	}
	if (!ts_latch_upgrade(above, above_version))
	{
		abandon_split(index, &s);
		return;
	}
	if (!ts_latch_upgrade(&s.node->latch, step->version))
	{
		ts_latch_release(above, false);
		abandon_split(index, &s);
		return;
	}
	move_right(index, &s);
	link_right(index, &s, parent);
	ts_latch_release(&s.node->latch, true);
	ts_latch_release(above, true);
}

/*
 * The leaf found is full: split it, or what has to be split first, unless that
 * has changed; then search again.  Raises 53200; call it outside of epoch
 * sections.
 */
void
ts_tree_make_room(const TsTree *tree, const TsPosition *position)
{
	TsIndex    *index = tree->index;
	int			depth = position->height - 1;

	while (depth > 0 &&
		   ts_node_count(index, position->path[depth - 1].node, 1) == index->inner_max)
		depth--;
	if (depth == 0 && position->height == TS_MAX_HEIGHT)
		elog(ERROR, "index tree is too high");
	split_node(index, position, depth);
}

/*
 * Insert an entry where its key was found, unless that leaf has changed since:
 * false then.  With `latched`, the caller holds the leaf's latch, which stays
 * held.  The leaf has room.  The blob becomes the tree's.
 */
bool
ts_tree_insert(const TsTree *tree, const TsPosition *position, const TsKey *key,
			   TsBlob *blob, bool latched)
{
	TsEntry		entry = {key->prefix, key->tail, blob};
	TsNode	   *leaf = position->leaf;

	if (!latched && !ts_latch_upgrade(&leaf->latch, position->version))
		return false;
	put_entry(tree->index, leaf, position->index, &entry);
	pg_write_barrier();
	leaf->count++;
	if (!latched)
		ts_latch_release(&leaf->latch, true);
	pg_atomic_fetch_add_u64(&tree->index->entries, 1);
	return true;
}

/* ---- removal ---- */

/*
 * Remove the marked ones of a leaf's n entries, unless it has changed since
 * `version`: false then.  No error.
 */
bool
ts_leaf_remove(TsIndex *index, TsNode *leaf, uint64 version, const bool *remove, int n)
{
	TsBlob	   *blobs[TS_NODE_WORDS];
	int			nblobs = 0;
	int			kept = 0;
	int			max = index->leaf_max;

	if (!ts_latch_upgrade(&leaf->latch, version))
		return false;
	for (int i = 0; i < n; i++)
	{
		TsEntry		entry;

		ts_node_entry(index, leaf, 0, i, &entry);
		if (remove[i])
		{
			blobs[nblobs++] = entry.blob;
			continue;
		}
		ts_node_set_word(leaf, TS_PREFIX(max, kept), entry.prefix);
		ts_node_set_word(leaf, TS_TAIL(max, kept), entry.tail);
		if (index->has_blobs)
			ts_node_set_word(leaf, TS_BLOB(max, kept), (uint64) (uintptr_t) entry.blob);
		kept++;
	}
	leaf->count = kept;
	ts_latch_release(&leaf->latch, true);
	pg_atomic_fetch_sub_u64(&index->entries, nblobs);
	for (int i = 0; i < nblobs; i++)
		ts_tree_free_blob(index, blobs[i]);
	return true;
}
