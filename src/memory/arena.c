/*-------------------------------------------------------------------------
 *
 * arena.c
 *	  Arena in shared memory with a size-class allocator.
 *
 * Three levels (after J. Bonwick and J. Adams, Magazines and Vmem, 2001):
 *
 *	- PostgreSQL's FreePageManager hands out runs of 4 kB pages, under one
 *	  LWLock;
 *	- a span is a run of pages cut into objects of one size class.  Spans with
 *	  free objects are linked per class, under one LWLock a class;
 *	- a magazine is a process's own list of free objects of a class.  The
 *	  common allocation and the common free touch nothing else.
 *
 * A span whose objects are all free gives its pages back, so memory moves
 * between classes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/freepage.h"

#include "memory/arena.h"
#include "memory/epoch.h"
#include "memory/process.h"

#define SPAN_PAGES		16
#define SPAN_BYTES		(SPAN_PAGES * FPM_PAGE_SIZE)
#define MAGAZINE_BYTES	4096	/* what a refill moves, roughly */
#define MAGAZINE_MAX	64
#define MIN_RESERVE		(256 * 1024)
#define BORROW_CLASSES		24	/* up to eight times the size, from 128 bytes on */
#define PRESSURE_ROUNDS	200		/* before an allocation fails */
#define PRESSURE_WAIT_USEC 1000

/* header of a span, at its first byte */
typedef struct Span
{
	dlist_node	link;			/* in Class.partial while nfree > 0 */
	void	   *free_list;
	uint32		nfree;			/* on free_list or not yet carved */
	uint32		carved;			/* objects handed out at least once */
	uint32		capacity;
	uint32		class_index;
} Span;

#define SPAN_HEADER		CACHELINEALIGN(sizeof(Span))

typedef struct Class
{
	dlist_head	partial;
} Class;

typedef struct Arena
{
	Size		npages;
	Size		reserve_pages;
	pg_atomic_uint64 free_pages;	/* written under the arena lock */
	uint32	   *span_of_page;	/* first page of the span a page is part of */
	Class		classes[TS_NUM_CLASSES];
	FreePageManager fpm;		/* its base is this struct's address */
} Arena;

int			ts_memory_kb = 256 * 1024;
TsPressure	(*ts_arena_pressure_hook) (void) = NULL;

static Arena *arena;
static char *arena_base;
static LWLockPadded *locks;		/* [0] pages, [1 + class] spans of a class */

#define page_lock			(&locks[0].lock)
#define class_lock(c)		(&locks[1 + (c)].lock)

TsProcess  *ts_my_process = NULL;
TsProcess  *ts_processes = NULL;
int			ts_num_processes = 0;

/*
 * Upper bound of pgprocno + 1, valid once the postmaster has read its
 * configuration.
 */
int
ts_max_processes(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + max_prepared_xacts;
}

static Size
arena_bytes(void)
{
	return TYPEALIGN(FPM_PAGE_SIZE, (Size) ts_memory_kb * 1024);
}

/* To be called from shmem_request_hook. */
void
ts_arena_request(void)
{
	RequestAddinShmemSpace(add_size(arena_bytes(), FPM_PAGE_SIZE));
	RequestAddinShmemSpace(mul_size(ts_max_processes(), sizeof(TsProcess)));
	RequestAddinShmemSpace(sizeof(TsEpochShared));
	RequestNamedLWLockTranche("TsengineArena", 1 + TS_NUM_CLASSES);
	RequestNamedLWLockTranche("TsengineEpoch", 1);
}

static void
arena_init(char *memory)
{
	Size		npages = arena_bytes() / FPM_PAGE_SIZE;
	Size		first;

	arena_base = (char *) TYPEALIGN(FPM_PAGE_SIZE, memory);
	arena = (Arena *) arena_base;
	arena->npages = npages;
	arena->span_of_page = (uint32 *) (arena_base + MAXALIGN(sizeof(Arena)));
	first = fpm_size_to_pages(MAXALIGN(sizeof(Arena)) + npages * sizeof(uint32));
	for (int c = 0; c < TS_NUM_CLASSES; c++)
		dlist_init(&arena->classes[c].partial);
	FreePageManagerInitialize(&arena->fpm, arena_base);
	FreePageManagerPut(&arena->fpm, first, npages - first);
	pg_atomic_init_u64(&arena->free_pages, npages - first);
	arena->reserve_pages = Max(MIN_RESERVE / FPM_PAGE_SIZE, npages / 20);
}

/* To be called from shmem_startup_hook, with AddinShmemInitLock held. */
void
ts_arena_startup(void)
{
	bool		found;
	char	   *memory;

	ts_num_processes = ts_max_processes();
	locks = GetNamedLWLockTranche("TsengineArena");
	ts_processes = ShmemInitStruct("tsengine processes",
								   mul_size(ts_num_processes, sizeof(TsProcess)),
								   &found);
	if (!found)
	{
		memset(ts_processes, 0, ts_num_processes * sizeof(TsProcess));
		for (int i = 0; i < ts_num_processes; i++)
			pg_atomic_init_u64(&ts_processes[i].epoch, 0);
	}
	ts_epoch_shared = ShmemInitStruct("tsengine epoch", sizeof(TsEpochShared), &found);
	if (!found)
	{
		memset(ts_epoch_shared, 0, sizeof(TsEpochShared));
		pg_atomic_init_u64(&ts_epoch_shared->global, 1);
		pg_atomic_init_u64(&ts_epoch_shared->leaked_bytes, 0);
	}
	memory = ShmemInitStruct("tsengine arena",
							 add_size(arena_bytes(), FPM_PAGE_SIZE), &found);
	if (!found)
		arena_init(memory);
	else
	{
		arena_base = (char *) TYPEALIGN(FPM_PAGE_SIZE, memory);
		arena = (Arena *) arena_base;
	}
}

/*
 * Size classes: 8-byte steps up to 128, then eight steps per doubling, so at
 * most an eighth of an object is lost to rounding.
 */
static inline int
class_of_size(Size size)
{
	int			shift;

	if (size <= 128)
		return size <= 8 ? 0 : (int) ((size - 1) >> 3);
	shift = pg_leftmost_one_pos64(size - 1);	/* 7 for 129..256 */
	return 16 + (shift - 7) * 8 + (int) (((size - 1) >> (shift - 3)) & 7);
}

static inline Size
size_of_class(int class_index)
{
	int			doubling;

	if (class_index < 16)
		return (class_index + 1) * 8;
	doubling = (class_index - 16) / 8;
	return ((Size) 128 << doubling) + (((class_index - 16) % 8) + 1) * ((Size) 16 << doubling);
}

static inline int
magazine_batch(int class_index)
{
	return Max(1, Min(MAGAZINE_MAX, (int) (MAGAZINE_BYTES / size_of_class(class_index))));
}

/* A run of pages, or NULL. */
static void *
pages_get(Size npages, TsAllocMode mode)
{
	Size		first;
	Size		keep = mode == TS_ALLOC_NORMAL ? arena->reserve_pages : 0;
	bool		ok = false;

	LWLockAcquire(page_lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&arena->free_pages) >= npages + keep &&
		FreePageManagerGet(&arena->fpm, npages, &first))
	{
		pg_atomic_write_u64(&arena->free_pages,
							pg_atomic_read_u64(&arena->free_pages) - npages);
		ok = true;
	}
	LWLockRelease(page_lock);
	return ok ? fpm_page_to_pointer(arena_base, first) : NULL;
}

static void
pages_put(void *ptr, Size npages)
{
	LWLockAcquire(page_lock, LW_EXCLUSIVE);
	FreePageManagerPut(&arena->fpm, fpm_pointer_to_page(arena_base, ptr), npages);
	pg_atomic_write_u64(&arena->free_pages,
						pg_atomic_read_u64(&arena->free_pages) + npages);
	LWLockRelease(page_lock);
}

static Span *
span_create(int class_index, TsAllocMode mode)
{
	Span	   *span = pages_get(SPAN_PAGES, mode);
	Size		first;

	if (span == NULL)
		return NULL;
	first = fpm_pointer_to_page(arena_base, span);
	for (Size i = 0; i < SPAN_PAGES; i++)
		arena->span_of_page[first + i] = (uint32) first;
	span->free_list = NULL;
	span->capacity = (SPAN_BYTES - SPAN_HEADER) / size_of_class(class_index);
	span->nfree = span->capacity;
	span->carved = 0;
	span->class_index = class_index;
	return span;
}

static inline Span *
span_of_object(void *ptr)
{
	return (Span *) fpm_page_to_pointer(arena_base,
										(Size) arena->span_of_page[fpm_pointer_to_page(arena_base, ptr)]);
}

static void *
span_take(Span *span)
{
	void	   *obj = span->free_list;

	if (obj != NULL)
		span->free_list = *(void **) obj;
	else
		obj = (char *) span + SPAN_HEADER +
			span->carved++ * size_of_class(span->class_index);
	span->nfree--;
	return obj;
}

/* Fill an empty magazine; false if there is no memory. */
static bool
magazine_refill(int class_index, TsAllocMode mode)
{
	TsMagazine *mag = &ts_my_process->magazine[class_index];
	Class	   *cls = &arena->classes[class_index];
	int			want = magazine_batch(class_index);

	LWLockAcquire(class_lock(class_index), LW_EXCLUSIVE);
	if (dlist_is_empty(&cls->partial))
	{
		Span	   *span = span_create(class_index, mode);

		if (span != NULL)
			dlist_push_head(&cls->partial, &span->link);
	}
	while (want > 0 && !dlist_is_empty(&cls->partial))
	{
		Span	   *span = dlist_head_element(Span, link, &cls->partial);

		while (want > 0 && span->nfree > 0)
		{
			void	   *obj = span_take(span);

			*(void **) obj = mag->head;
			mag->head = obj;
			mag->count++;
			want--;
		}
		if (span->nfree == 0)
			dlist_delete(&span->link);
	}
	LWLockRelease(class_lock(class_index));
	return mag->head != NULL;
}

/* Return an object to its span, with the lock of the span's class held. */
static void
span_give(Span *span, void *obj)
{
	*(void **) obj = span->free_list;
	span->free_list = obj;
	if (span->nfree++ == 0)
		dlist_push_head(&arena->classes[span->class_index].partial, &span->link);
	if (span->nfree == span->capacity)
	{
		dlist_delete(&span->link);
		pages_put(span, SPAN_PAGES);
	}
}

/*
 * Return objects to their spans until only `keep` are left.  Borrowed ones go
 * back to spans of other classes, under the locks of those.
 */
static void
magazine_flush(int class_index, uint32 keep)
{
	TsMagazine *mag = &ts_my_process->magazine[class_index];
	void	   *borrowed = NULL;

	LWLockAcquire(class_lock(class_index), LW_EXCLUSIVE);
	while (mag->count > keep)
	{
		void	   *obj = mag->head;
		Span	   *span = span_of_object(obj);

		mag->head = *(void **) obj;
		mag->count--;
		if (unlikely(span->class_index != class_index))
		{
			*(void **) obj = borrowed;
			borrowed = obj;
		}
		else
			span_give(span, obj);
	}
	LWLockRelease(class_lock(class_index));
	while (unlikely(borrowed != NULL))
	{
		void	   *obj = borrowed;
		Span	   *span = span_of_object(obj);
		int			owner = span->class_index;

		borrowed = *(void **) obj;
		LWLockAcquire(class_lock(owner), LW_EXCLUSIVE);
		span_give(span, obj);
		LWLockRelease(class_lock(owner));
	}
}

/*
 * In a full arena each class has but the spans it has.  An object may then be
 * taken from a class of larger ones; it is freed like any of its own size, and
 * finds its way back when a magazine is flushed.
 */
static void *
borrow(Size size)
{
	int			first = class_of_size(size) + 1;
	void	   *obj = NULL;

	for (int c = first; obj == NULL && c < Min(first + BORROW_CLASSES, TS_NUM_CLASSES); c++)
	{
		LWLockAcquire(class_lock(c), LW_EXCLUSIVE);
		if (!dlist_is_empty(&arena->classes[c].partial))
		{
			Span	   *span = dlist_head_element(Span, link, &arena->classes[c].partial);

			obj = span_take(span);
			if (span->nfree == 0)
				dlist_delete(&span->link);
		}
		LWLockRelease(class_lock(c));
	}
	return obj;
}

/* Return all objects this process keeps for itself. */
void
ts_arena_flush_magazines(void)
{
	for (int c = 0; c < TS_NUM_CLASSES; c++)
		if (ts_my_process->magazine[c].count > 0)
			magazine_flush(c, 0);
}

static void *
alloc_small(Size size, TsAllocMode mode)
{
	int			class_index = class_of_size(size);
	TsMagazine *mag = &ts_my_process->magazine[class_index];
	void	   *obj;

	if (mag->head == NULL && !magazine_refill(class_index, mode))
		return NULL;
	obj = mag->head;
	mag->head = *(void **) obj;
	mag->count--;
	__builtin_prefetch(mag->head, 1);	/* for the next call */
	return obj;
}

static inline void *
alloc_once(Size size, TsAllocMode mode)
{
	if (size <= TS_SMALL_MAX)
		return alloc_small(size, mode);
	return pages_get(fpm_size_to_pages(size), mode);
}

/*
 * The arena is full.  Inside an epoch section only this process's own retired
 * memory can help; elsewhere garbage is collected, and what waits for readers
 * to move on is waited for.
 */
static void *
alloc_under_pressure(Size size, TsAllocMode mode)
{
	void	   *obj = NULL;
	bool		more = true;

	for (int round = 0; obj == NULL && more && round < PRESSURE_ROUNDS; round++)
	{
		TsPressure	state = TS_PRESSURE_NOTHING;

		ts_reclaim();
		if (ts_epoch_depth == 0 && ts_arena_pressure_hook != NULL)
			state = ts_arena_pressure_hook();
		if (state != TS_PRESSURE_FREED)
			ts_arena_flush_magazines(); /* whole spans back */
		if (state == TS_PRESSURE_PENDING)
			pg_usleep(PRESSURE_WAIT_USEC);
		more = state != TS_PRESSURE_NOTHING;
		obj = alloc_once(size, mode);
	}
	if (obj == NULL && size <= TS_SMALL_MAX)
		obj = borrow(size);
	return obj;
}

/*
 * Allocate `size` bytes, MAXALIGNed, contents undefined.  NULL if the arena is
 * full.  The caller owns the memory and frees it with ts_free() if it was
 * never published, else with ts_retire(); a failed transaction does not free
 * it by itself.
 *
 * Raises no error.  Takes LWLocks of this layer for refills and large sizes
 * only.  Call it outside epoch sections where possible: inside of one, no
 * garbage is collected to make room.
 */
void *
ts_alloc(Size size, TsAllocMode mode)
{
	void	   *obj;

	if (unlikely(ts_my_process == NULL))
		ts_process_attach();
	obj = alloc_once(size, mode);
	if (unlikely(obj == NULL))
		obj = alloc_under_pressure(size, mode);
	return obj;
}

/* As ts_alloc, but raises 53200 instead of returning NULL. */
void *
ts_alloc_or_error(Size size, TsAllocMode mode)
{
	void	   *obj = ts_alloc(size, mode);

	if (unlikely(obj == NULL))
		ts_arena_out_of_memory(size);
	return obj;
}

void
ts_arena_out_of_memory(Size request)
{
	TsArenaStats stats;

	ts_arena_get_stats(&stats);
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("tsengine memory is full"),
			 errdetail("Failed on a request of %zu bytes; %zu kB of %zu kB are in use, %zu kB are kept in reserve for deletes and rollback.",
					   request, stats.used_bytes / 1024, stats.arena_bytes / 1024,
					   stats.reserve_bytes / 1024),
			 errhint("Delete rows, end old transactions, or increase \"tsengine.memory\" and restart the server.")));
}

/*
 * Give back memory that no other process can reach (never published, or past
 * its grace period).  `size` is what was asked for.  Raises no error.
 */
void
ts_free(void *ptr, Size size)
{
	int			class_index;
	TsMagazine *mag;
	uint32		batch;

	if (size > TS_SMALL_MAX)
	{
		pages_put(ptr, fpm_size_to_pages(size));
		return;
	}
	class_index = class_of_size(size);
#ifdef TSENGINE_TEST
	memset(ptr, 0x7f, size_of_class(class_index));
#endif
	mag = &ts_my_process->magazine[class_index];
	*(void **) ptr = mag->head;
	mag->head = ptr;
	batch = magazine_batch(class_index);
	if (++mag->count >= 2 * batch)
		magazine_flush(class_index, batch);
}

/* Is less than a quarter of the arena free?  Then no process hoards memory. */
bool
ts_arena_is_tight(void)
{
	return pg_atomic_read_u64(&arena->free_pages) * 4 < arena->npages;
}

void
ts_arena_get_stats(TsArenaStats *stats)
{
	Size		head = fpm_size_to_pages(MAXALIGN(sizeof(Arena)) +
										 arena->npages * sizeof(uint32));

	stats->arena_bytes = (arena->npages - head) * FPM_PAGE_SIZE;
	stats->free_bytes = pg_atomic_read_u64(&arena->free_pages) * FPM_PAGE_SIZE;
	stats->used_bytes = stats->arena_bytes - stats->free_bytes;
	stats->reserve_bytes = arena->reserve_pages * FPM_PAGE_SIZE;
	stats->retired_bytes = ts_epoch_retired_bytes();
}
