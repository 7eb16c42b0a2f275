/*-------------------------------------------------------------------------
 *
 * tree.h
 *	  The tree: search, insertion, removal.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_INDEX_TREE_H
#define TS_INDEX_TREE_H

#include "postgres.h"

#include "index/directory.h"
#include "index/key.h"
#include "index/node.h"

#define TS_MAX_HEIGHT	24

/* A tree together with what its keys are. */
typedef struct TsTree
{
	TsIndex    *index;
	TsKeyInfo  *info;
} TsTree;

typedef struct TsStep
{
	TsNode	   *node;
	uint64		version;
	int			child;			/* inner nodes: the one that was taken */
} TsStep;

/* Where a search ended: it holds as long as the leaf's version does. */
typedef struct TsPosition
{
	TsNode	   *leaf;
	uint64		version;
	int			index;			/* first entry not below the key */
	uint64		root_version;
	int			height;			/* steps, leaf included */
	TsStep		path[TS_MAX_HEIGHT];
} TsPosition;

/* A separator beside the way that a search took. */
typedef struct TsLimit
{
	TsNode	   *node;			/* where it is; NULL: there is none */
	uint64		version;
	int			index;
	TsEntry		entry;
} TsLimit;

extern bool ts_tree_init(TsIndex *index);
extern void ts_tree_free(TsIndex *index);
extern void ts_tree_free_blob(TsIndex *index, TsBlob *blob);
extern TsBlob *ts_tree_new_blob(TsIndex *index, const char *data, Size len);
extern void ts_node_unuse(TsIndex *index, TsNode *node);

extern void ts_tree_find(const TsTree *tree, const TsKey *key, bool left, TsPosition *position);
extern bool ts_tree_search_leaf(const TsTree *tree, const TsPosition *position,
								const TsKey *key, int *index);
extern bool ts_tree_limits(const TsTree *tree, const TsPosition *position,
						   TsLimit *low, TsLimit *high);
extern int	ts_compare_entry(const TsTree *tree, const TsNode *node, uint64 version,
							 int i, const TsKey *key, bool *valid);
extern void ts_tree_make_room(const TsTree *tree, const TsPosition *position);
extern bool ts_tree_insert(const TsTree *tree, const TsPosition *position, const TsKey *key,
						   TsBlob *blob, bool latched);
extern bool ts_leaf_remove(TsIndex *index, TsNode *leaf, uint64 version,
						   const bool *remove, int n);

static inline int
ts_node_max(const TsIndex *index, int level)
{
	return level == 0 ? index->leaf_max : index->inner_max;
}

/* The column's word of entry i, in a node for `max` entries. */
#define TS_PREFIX(max, i)		(i)
#define TS_TAIL(max, i)			((max) + (i))
#define TS_BLOB(max, i)			(2 * (max) + (i))
#define TS_CHILD(index, max, i)	((index)->columns * (max) + (i))

/* Is there room for one more in the leaf that was found? */
#define ts_tree_has_room(tree, position) \
	((position)->leaf->count < (tree)->index->leaf_max)

/* Entries of a node, at most as many as fit, whatever is being done to it. */
static inline int
ts_node_count(const TsIndex *index, const TsNode *node, int level)
{
	int			count = *(volatile const uint16 *) &node->count;

	pg_read_barrier();
	return Min(count, ts_node_max(index, level));
}

static inline void
ts_node_entry(const TsIndex *index, const TsNode *node, int level, int i, TsEntry *entry)
{
	int			max = ts_node_max(index, level);

	entry->prefix = ts_node_word(node, TS_PREFIX(max, i));
	entry->tail = ts_node_word(node, TS_TAIL(max, i));
	entry->blob = index->has_blobs ?
		(TsBlob *) (uintptr_t) ts_node_word(node, TS_BLOB(max, i)) : NULL;
}

static inline TsNode *
ts_node_child(const TsIndex *index, const TsNode *node, int i)
{
	return (TsNode *) (uintptr_t) ts_node_word(node, TS_CHILD(index, index->inner_max, i));
}

#endif							/* TS_INDEX_TREE_H */
