/*-------------------------------------------------------------------------
 *
 * open.c
 *	  The tree of an open index relation; built again if it is missing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "index/index.h"
#include "transaction/txn.h"

/*
 * Cached in rd_amcache, and in the relation's index context.  While the index is
 * disguised as a btree (command.c), the planner may take this for btree's meta
 * page, of which it wants the level of the fast root: that is 0 then.
 */
typedef struct OpenIndex
{
	char		meta_page[sizeof(BTMetaPageData)];
	TsIndex    *index;
	TsKeyInfo	info;
} OpenIndex;

/*
 * The tree is missing: after a restart, or the relation's index was made while
 * the library was not loaded.  The first to come builds it, others wait.
 */
static TsIndex *
rebuild_missing(Relation rel)
{
	TsIndex    *index;

	LockPage(rel, 0, ExclusiveLock);
	index = ts_index_find(rel->rd_node, rel->rd_backend);
	if (index == NULL)
	{
		ts_index_rebuild(rel);
		index = ts_index_find(rel->rd_node, rel->rd_backend);
	}
	UnlockPage(rel, 0, ExclusiveLock);
	return index;
}

static OpenIndex *
open_index(Relation rel)
{
	TsIndex    *index;
	OpenIndex  *open;

	ts_txn_attach();
	index = ts_index_find(rel->rd_node, rel->rd_backend);
	if (index == NULL)
		index = rebuild_missing(rel);
	open = MemoryContextAlloc(rel->rd_indexcxt,
							  offsetof(OpenIndex, info) + ts_key_info_size(rel));
	memset(open->meta_page, 0, sizeof(open->meta_page));
	open->index = index;
	ts_key_info_init(&open->info, rel, rel->rd_indexcxt);
	/* the look-ups above may have made core forget an older entry */
	if (rel->rd_amcache != NULL)
		pfree(rel->rd_amcache);
	rel->rd_amcache = open;
	return open;
}

/*
 * The tree of an open index.  Its key information is valid until catalog
 * changes are noticed.  May build the tree, so it raises all kinds of errors;
 * call it outside of epoch sections.
 */
TsTree
ts_index_tree(Relation rel)
{
	OpenIndex  *open = rel->rd_amcache;

	if (unlikely(open == NULL))
		open = open_index(rel);
	return (TsTree) {open->index, &open->info};
}

/*
 * The same with a copy of the key information in the current context: it lasts
 * as long as that, while comparison functions run and notice catalog changes.
 */
TsTree
ts_index_tree_copy(Relation rel)
{
	TsTree		tree = ts_index_tree(rel);
	TsKeyInfo  *copy = palloc(tree.info->size);

	memcpy(copy, tree.info, tree.info->size);
	tree.info = copy;
	return tree;
}

/* Open an index on which the caller has a lock, and see to it that it has a tree. */
Relation
ts_index_load(Oid oid)
{
	Relation	index = index_open(oid, NoLock);

	(void) ts_index_tree(index);
	return index;
}
