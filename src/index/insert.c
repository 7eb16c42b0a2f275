/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  Insertion of entries, and unique checks.
 *
 * A unique check reads all entries with the key, asks of each what became of
 * its row, and notes the versions of the leaves it has read.  The entry is
 * inserted only if these are still the same: so check and insertion are one.
 * Two processes that insert the same key meet on the first of these leaves,
 * the one where the lowest entry with the key would be.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "index/index.h"
#include "memory/arena.h"
#include "memory/epoch.h"
#include "storage/table.h"
#include "transaction/visibility.h"

/* A leaf that a unique check has read. */
typedef struct SeenLeaf
{
	TsNode	   *leaf;
	uint64		version;
} SeenLeaf;

typedef struct UniqueCheck
{
	TsTree		tree;
	Relation	relation;		/* the table; NULL where rows are not asked */
	TsTable    *table;			/* once it has been needed */
	TsKey		lower;			/* before all entries with the key */
	TsKey		upper;			/* behind them */
	uint64		own_tid;		/* as in the tail */
	TsPosition	first;			/* where `lower` was found */
	int			nseen;			/* leaves read, the first included */
	int			max_more;
	SeenLeaf   *more;			/* those behind the first */
	int			nequal;
	bool		found_own;

	/* the row that is in the way, if there is one */
	bool		conflict;
	TsRival		rival;
	TransactionId xmin;
	uint32		token;
	ItemPointerData tid;
} UniqueCheck;

/* Does a leaf's entry have the key, whatever its TID?  *valid as usual. */
static bool
is_equal(UniqueCheck *c, TsNode *node, uint64 version, int i, bool *valid)
{
	bool		in_epoch = c->tree.info->kind == TS_KEY_BYTES;
	int			result;

	if (in_epoch)
		ts_epoch_enter();
	result = ts_compare_entry(&c->tree, node, version, i, &c->upper, valid);
	if (in_epoch)
		ts_epoch_leave();
	return result < 0;
}

/* Is the row there, or may it come to be?  Fills in who is in the way. */
static bool
row_conflicts(UniqueCheck *c, uint64 tail)
{
	SnapshotData dirty;
	TsRowRef	ref;
	bool		found;

	ts_tid_of_tail(tail & TS_TAIL_TID, &c->tid);
	if (c->table == NULL)
		c->table = ts_table_find(c->relation->rd_node, c->relation->rd_backend);
	if (!ts_table_row(c->table, &c->tid, &ref))
		return false;
	InitDirtySnapshot(dirty);
	ts_epoch_enter();
	found = ts_row_fetch_dirty(ts_ref_row(ref), &dirty, &c->rival) != NULL;
	ts_epoch_leave();
	c->xmin = dirty.xmin;
	c->token = dirty.speculativeToken;
	return found;
}

/* The row to be inserted: has it been deleted in the meantime? */
static bool
own_row_is_gone(UniqueCheck *c)
{
	ItemPointerData tid;
	TsRowRef	ref;
	bool		gone;

	ts_tid_of_tail(c->own_tid, &tid);
	if (!ts_table_row(c->table, &tid, &ref))
		return true;
	ts_epoch_enter();
	gone = ts_row_fetch(ts_ref_row(ref), SnapshotSelf, NULL) == NULL;
	ts_epoch_leave();
	return gone;
}

static void
note_leaf(UniqueCheck *c, const TsPosition *p)
{
	int			n = c->nseen++ - 1;

	if (n < 0)
		return;					/* the first is in c->first */
	if (n == c->max_more)
	{
		c->max_more = Max(8, c->max_more * 2);
		c->more = c->more == NULL ? palloc(c->max_more * sizeof(SeenLeaf)) :
			repalloc(c->more, c->max_more * sizeof(SeenLeaf));
	}
	c->more[n] = (SeenLeaf) {p->leaf, p->version};
}

/*
 * Look at the entries of one leaf that have the key.  *last is set if behind
 * them there is another, so that no more leaves need be read.  False if the
 * leaf has changed.
 */
static bool
check_leaf(UniqueCheck *c, const TsPosition *p, bool *last)
{
	int			count = ts_node_count(c->tree.index, p->leaf, 0);

	for (int i = p->index; i < count; i++)
	{
		bool		valid;
		uint64		tail;

		if (!is_equal(c, p->leaf, p->version, i, &valid))
		{
			*last = true;
			return valid;
		}
		tail = ts_node_word(p->leaf, TS_TAIL(c->tree.index->leaf_max, i));
		if (!valid || !ts_latch_valid(&p->leaf->latch, p->version))
			return false;
		c->nequal++;
		if ((tail & TS_TAIL_TID) == c->own_tid)
			c->found_own = true;
		else if (row_conflicts(c, tail))
		{
			/* as long as the entry is there, the row is the one it was made for */
			c->conflict = true;
			return ts_latch_valid(&p->leaf->latch, p->version);
		}
	}
	return true;
}

/*
 * Does the separator that ends the leaf have the key as well?  Then go on with
 * its tail.  False if something has changed.
 */
static bool
next_leaf(UniqueCheck *c, const TsPosition *p, TsKey *next, bool *last)
{
	TsLimit		low;
	TsLimit		high;
	bool		valid;

	if (!ts_tree_limits(&c->tree, p, &low, &high))
		return false;
	if (high.node == NULL)
	{
		*last = true;
		return true;
	}
	*last = !is_equal(c, high.node, high.version, high.index, &valid);
	next->tail = high.entry.tail;
	return valid && ts_latch_valid(&high.node->latch, high.version);
}

/* One attempt at check_unique; false if something changed on the way. */
static bool
try_check_unique(UniqueCheck *c)
{
	TsPosition	more;
	TsPosition *p = &c->first;
	TsKey		next = c->lower;
	bool		last = false;

	c->nseen = c->nequal = 0;
	c->conflict = c->found_own = false;
	for (;;)
	{
		ts_tree_find(&c->tree, &next, false, p);
		note_leaf(c, p);
		if (!check_leaf(c, p, &last))
			return false;
		if (c->conflict || last)
			return true;
		if (!next_leaf(c, p, &next, &last))
			return false;
		if (last)
			return true;
		p = &more;
	}
}

static void
check_unique(UniqueCheck *c)
{
	while (!try_check_unique(c))
		CHECK_FOR_INTERRUPTS();
}

static void
unique_check_begin(UniqueCheck *c, const TsTree *tree, const TsKey *key)
{
	c->tree = *tree;
	c->relation = NULL;
	c->table = NULL;
	c->max_more = 0;
	c->more = NULL;
	c->own_tid = key->tail & TS_TAIL_TID;
	c->lower = c->upper = *key;
	if (tree->info->kind == TS_KEY_SHORT)
	{
		c->lower.tail &= ~TS_TAIL_LAST;
		c->upper.tail |= TS_TAIL_LAST;
	}
	else
	{
		c->lower.tail = 0;
		c->upper.tail = PG_UINT64_MAX;
	}
}

/* Have the leaves behind the first stayed as the check saw them? */
static bool
rest_unchanged(const UniqueCheck *c)
{
	for (int i = 0; i < c->nseen - 1; i++)
		if (!ts_latch_valid(&c->more[i].leaf->latch, c->more[i].version))
			return false;
	return true;
}

/* Is entry p->index the very one that is to be inserted?  *valid as usual. */
static bool
is_present(const TsTree *tree, const TsPosition *p, const TsKey *key, bool *valid)
{
	bool		in_epoch = tree->info->kind == TS_KEY_BYTES;
	int			result = 1;

	*valid = true;
	if (p->index >= ts_node_count(tree->index, p->leaf, 0) ||
		ts_node_word(p->leaf, TS_TAIL(tree->index->leaf_max, p->index)) != key->tail)
		return false;
	if (in_epoch)
		ts_epoch_enter();
	result = ts_compare_entry(tree, p->leaf, p->version, p->index, key, valid);
	if (in_epoch)
		ts_epoch_leave();
	return result == 0;
}

/* The blob a new entry needs, or NULL.  Raises 53200. */
static TsBlob *
blob_for(const TsTree *tree, const TsKey *key)
{
	TsBlob	   *blob;

	if (tree->info->kind == TS_KEY_SHORT ||
		(tree->info->kind == TS_KEY_BYTES && key->len <= sizeof(uint64)))
		return NULL;
	blob = ts_tree_new_blob(tree->index, key->bytes, key->len);
	if (blob == NULL)
		ts_arena_out_of_memory(ts_blob_size(key->len));
	return blob;
}

/*
 * Is the place where the check began the one for the entry?  Where a separator
 * has the key, there are several.
 */
static inline bool
is_alone(const UniqueCheck *check)
{
	return check->nequal == 0 && check->nseen == 1;
}

/*
 * Put an entry where its key was found, if that leaf and those that `check` has
 * read are unchanged.
 */
static bool
insert_at(const TsTree *tree, const TsPosition *p, const TsKey *key,
		  const UniqueCheck *check, TsBlob *blob)
{
	TsLatch    *first;
	bool		done;

	if (check == NULL || is_alone(check))
		return ts_tree_insert(tree, p, key, blob, false);

	/* the first leaf that was read stands for the key */
	first = &check->first.leaf->latch;
	if (!ts_latch_upgrade(first, check->first.version))
		return false;
	done = rest_unchanged(check);
	if (done && p->leaf == check->first.leaf)
		done = p->version == check->first.version && ts_tree_insert(tree, p, key, blob, true);
	else if (done)
		done = ts_tree_insert(tree, p, key, blob, false);
	ts_latch_release(first, done);
	return done;
}

typedef enum InsertResult
{
	INSERT_DONE,
	INSERT_PRESENT,				/* it was there already */
	INSERT_RETRY				/* something has changed */
} InsertResult;

/*
 * Try to insert an entry; if `check` is given, only if that still holds.  May
 * raise what comparing raises, and 53200.
 */
static InsertResult
try_insert(const TsTree *tree, const TsKey *key, const UniqueCheck *check)
{
	TsPosition	found;
	const TsPosition *p = &found;
	TsBlob	   *blob;
	bool		valid = true;

	if (check != NULL && is_alone(check))
		p = &check->first;		/* what is there is above the key */
	else
	{
		ts_tree_find(tree, key, false, &found);
		if (is_present(tree, p, key, &valid) && valid)
			return INSERT_PRESENT;
		if (!valid)
			return INSERT_RETRY;
	}
	if (!ts_tree_has_room(tree, p))
	{
		ts_tree_make_room(tree, p);
		return INSERT_RETRY;
	}
	/* this last: then nothing fails that could lose it */
	blob = blob_for(tree, key);
	if (insert_at(tree, p, key, check, blob))
		return INSERT_DONE;
	ts_tree_free_blob(tree->index, blob);
	return INSERT_RETRY;
}

/*
 * Insert an entry without a unique check; false if it is there already.  Raises
 * 53200 and what comparing raises.
 */
bool
ts_index_insert_entry(const TsTree *tree, const TsKey *key)
{
	InsertResult result;

	while ((result = try_insert(tree, key, NULL)) == INSERT_RETRY)
		CHECK_FOR_INTERRUPTS();
	return result == INSERT_DONE;
}

/* For builds: is there an entry with the key already, whatever its TID? */
bool
ts_index_has_equal(const TsTree *tree, const TsKey *key)
{
	UniqueCheck c;
	TsPosition	p;
	TsKey		next;
	bool		last = false;
	bool		valid;

	unique_check_begin(&c, tree, key);
	next = c.lower;
	while (!last)
	{
		ts_tree_find(tree, &next, false, &p);
		if (p.index < ts_node_count(tree->index, p.leaf, 0))
			return is_equal(&c, p.leaf, p.version, p.index, &valid);
		(void) next_leaf(&c, &p, &next, &last);
	}
	return false;
}

/* For checks: is there just this entry? */
bool
ts_index_has_entry(const TsTree *tree, const TsKey *key)
{
	TsPosition	p;
	bool		valid;
	bool		present;

	do
	{
		CHECK_FOR_INTERRUPTS();
		ts_tree_find(tree, key, false, &p);
		present = is_present(tree, &p, key, &valid);
	} while (!valid || !ts_latch_valid(&p.leaf->latch, p.version));
	return present;
}

static void
unique_violation(Relation index, Relation table, Datum *values, bool *isnull)
{
	char	   *description = BuildIndexValueDescription(index, values, isnull);

	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"",
					RelationGetRelationName(index)),
			 description ? errdetail("Key %s already exists.", description) : 0,
			 errtableconstraint(table, RelationGetRelationName(index))));
}

/* Another transaction's row is in the way: wait until its fate is decided. */
static void
wait_for_rival(const UniqueCheck *c, Relation table, ItemPointer tid)
{
	if (c->token != 0 && TransactionIdIsValid(c->xmin))
		SpeculativeInsertionWait(c->xmin, c->token);
	else
		(void) ts_txn_wait(c->rival.word, c->rival.tag, LockWaitBlock, table, tid,
						   XLTW_InsertIndex);
}

/* What an insertion with a unique check is about. */
typedef struct Insertion
{
	Relation	index;
	Relation	table;
	Datum	   *values;
	bool	   *isnull;
	ItemPointer tid;
	IndexUniqueCheck mode;
} Insertion;

/*
 * One attempt at a checked insertion.  False: again, from the start.  Else
 * *is_unique says whether no other row has the key.
 */
static bool
insert_unique(const Insertion *insertion, const TsTree *tree, const TsKey *key, bool *is_unique)
{
	UniqueCheck c;
	InsertResult result;

	unique_check_begin(&c, tree, key);
	c.relation = insertion->table;
	check_unique(&c);
	*is_unique = !c.conflict;
	if (c.conflict && insertion->mode != UNIQUE_CHECK_PARTIAL)
	{
		if (c.rival.word != 0)
		{
			wait_for_rival(&c, insertion->table, insertion->tid);
			return false;
		}
		/* CREATE INDEX CONCURRENTLY may come late with a row that has gone */
		if (!own_row_is_gone(&c))
			unique_violation(insertion->index, insertion->table, insertion->values,
							 insertion->isnull);
		*is_unique = true;
	}
	if (insertion->mode == UNIQUE_CHECK_EXISTING)
	{
		if (!c.found_own && !c.conflict)
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("failed to re-find tuple within index \"%s\"",
							RelationGetRelationName(insertion->index)),
					 errhint("This may be because of a non-immutable index expression."),
					 errtableconstraint(insertion->table,
										RelationGetRelationName(insertion->index))));
		return true;
	}
	result = try_insert(tree, key, c.conflict ? NULL : &c);
	if (c.more != NULL)
		pfree(c.more);
	return result != INSERT_RETRY;
}

/* aminsert with a key at hand, in a context for what is allocated on the way. */
static bool
insert_checked(const Insertion *insertion, TsTree *tree)
{
	TsKey		key;
	bool		is_unique = true;
	Form_pg_index form = insertion->index->rd_index;

	ts_key_form(tree->info, insertion->values, insertion->isnull, insertion->tid, &key);
	if (insertion->mode == UNIQUE_CHECK_NO ||
		(!form->indnullsnotdistinct && ts_key_has_null(tree->info, insertion->isnull)))
	{
		if (insertion->mode != UNIQUE_CHECK_EXISTING)
			(void) ts_index_insert_entry(tree, &key);
		return true;
	}
	while (!insert_unique(insertion, tree, &key, &is_unique))
	{
		CHECK_FOR_INTERRUPTS();
		/* catalog changes may have been noticed while it waited */
		if (tree->info->kind != TS_KEY_COMPARED)
			*tree = ts_index_tree(insertion->index);
	}
	return is_unique;
}

/*
 * aminsert: add an entry for a row, which is in the table already.  With
 * UNIQUE_CHECK_PARTIAL, returns whether no other row has or may come to have
 * its key; waits for rivals in the other modes.  Raises 23505, 53200, and what
 * waiting and comparing raise.
 */
bool
ts_index_aminsert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
				  Relation table, IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	Insertion	insertion = {index, table, values, isnull, tid, check};
	TsTree		tree = ts_index_tree(index);
	MemoryContext context;
	MemoryContext old;
	bool		result;

	if (tree.info->kind == TS_KEY_SHORT)
		return insert_checked(&insertion, &tree);
	context = AllocSetContextCreate(CurrentMemoryContext, "tsindex insertion",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	if (tree.info->kind == TS_KEY_COMPARED)
		tree = ts_index_tree_copy(index);
	result = insert_checked(&insertion, &tree);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return result;
}
