/*-------------------------------------------------------------------------
 *
 * alias.c
 *	  Alias TIDs: names for single versions, within a transaction.
 *
 * Core's trigger queue and transition tables name a version of a row by its TID
 * alone.  A row of ours keeps its TID when it is updated, so where such
 * triggers exist each version this transaction writes, but for the first
 * version of a row it inserts, also gets a TID from a range of its own.  It is
 * known to this transaction only and never used again (for years, at any rate:
 * there are 2^42 of them).
 *
 * The same is done for a version that a row lock has brought up and that the
 * statement's snapshot does not see (EvalPlanQual, ON CONFLICT): the executor
 * goes on with it by TID, while the row's own TID goes on to mean what the
 * snapshot sees.  It stays the newest committed one while the lock is held: only
 * locks stronger than KEY SHARE get aliases.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "access/access.h"

#define OFFSETS_PER_BLOCK	2047
#define ALIAS_BLOCKS		(UINT64CONST(0x7FFFFFF0))
#define ALIASES_PER_GRAB	1024

typedef struct AliasEntry
{
	uint64		key;			/* alias number, or version address */
	uint64		number;
	TsRowRef	ref;
	TsVersion  *version;
} AliasEntry;

bool		ts_alias_everywhere = false;

static pg_atomic_uint64 *next_number;
static uint64 my_next = 0;
static uint64 my_end = 0;
static HTAB *by_number = NULL;
static HTAB *by_version = NULL;

void
ts_alias_request(void)
{
	RequestAddinShmemSpace(sizeof(pg_atomic_uint64));
}

static HTAB *
create_table(const char *name)
{
	HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(AliasEntry),
	.hcxt = TopTransactionContext};

	return hash_create(name, 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
number_to_tid(uint64 number, ItemPointer tid)
{
	ItemPointerSet(tid,
				   TS_ALIAS_FIRST_BLOCK + (BlockNumber) ((number / OFFSETS_PER_BLOCK) % ALIAS_BLOCKS),
				   (OffsetNumber) (number % OFFSETS_PER_BLOCK + 1));
}

static uint64
tid_to_number(ItemPointer tid)
{
	return (uint64) (ItemPointerGetBlockNumberNoCheck(tid) - TS_ALIAS_FIRST_BLOCK) *
		OFFSETS_PER_BLOCK + ItemPointerGetOffsetNumberNoCheck(tid) - 1;
}

/* The transaction has ended: its memory context takes the tables along. */
static void
end_transaction(void)
{
	ts_forget_fetched_dirty();
	by_number = by_version = NULL;
	ts_alias_everywhere = false;
}

/* A version of mine is undone: its alias names nothing any more. */
static void
version_undone(TsVersion *version)
{
	uint64		key = (uint64) (uintptr_t) version;
	AliasEntry *entry;

	ts_forget_fetched_dirty();
	if (by_version == NULL)
		return;
	entry = hash_search(by_version, &key, HASH_FIND, NULL);
	if (entry == NULL)
		return;
	(void) hash_search(by_number, &entry->number, HASH_REMOVE, NULL);
	(void) hash_search(by_version, &key, HASH_REMOVE, NULL);
}


void
ts_alias_startup(void)
{
	bool		found;

	next_number = ShmemInitStruct("tsengine aliases", sizeof(pg_atomic_uint64), &found);
	if (!found)
		pg_atomic_init_u64(next_number, 0);
	ts_version_undone_hook = version_undone;
	ts_txn_end_hook = end_transaction;
}

/*
 * The alias of a version that this transaction wrote or has locked; made if it
 * has none yet.  Leaves
 * *tid alone in parallel workers, which change nothing.
 */
void
ts_alias_of_version(TsRowRef ref, TsVersion *version, ItemPointer tid)
{
	uint64		key = (uint64) (uintptr_t) version;
	AliasEntry *entry;
	bool		found;

	if (IsParallelWorker())
		return;
	if (by_number == NULL)
	{
		by_version = create_table("tsengine aliases by version");
		by_number = create_table("tsengine aliases by number");
	}
	entry = hash_search(by_version, &key, HASH_ENTER, &found);
	if (found && (entry->ref.block != ref.block || entry->ref.index != ref.index))
	{
		/* a version that was locked is gone, and its memory was used again */
		(void) hash_search(by_number, &entry->number, HASH_REMOVE, NULL);
		found = false;
	}
	if (!found)
	{
		AliasEntry *numbered;

		if (my_next == my_end)
		{
			my_next = pg_atomic_fetch_add_u64(next_number, ALIASES_PER_GRAB);
			my_end = my_next + ALIASES_PER_GRAB;
		}
		number_to_tid(my_next++, tid);
		entry->number = tid_to_number(tid);
		entry->ref = ref;
		entry->version = version;
		numbered = hash_search(by_number, &entry->number, HASH_ENTER, NULL);
		numbered->number = entry->number;
		numbered->ref = ref;
		numbered->version = version;
	}
	number_to_tid(entry->number, tid);
}

/* The version an alias names; false if this transaction knows none. */
bool
ts_alias_resolve(ItemPointer tid, TsRowRef *ref, TsVersion **version)
{
	uint64		number = tid_to_number(tid);
	AliasEntry *entry;

	if (by_number == NULL)
		return false;
	entry = hash_search(by_number, &number, HASH_FIND, NULL);
	if (entry == NULL)
		return false;
	*ref = entry->ref;
	*version = entry->version;
	return true;
}
