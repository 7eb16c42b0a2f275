/*-------------------------------------------------------------------------
 *
 * blockimage.c
 *	  The rows of one block as they are on disk.
 *
 * A block image is a BlockHead and, for each slot that is not free, a SlotHead
 * with the tuple's bytes.  It holds the newest committed version of each row.
 * A row of which nothing is committed is dead in the image: entries in indexes
 * may lead to it already.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memory/epoch.h"

#include "durability/blockimage.h"

typedef struct BlockHead
{
	Oid			dboid;
	Oid			filenumber;
	BlockNumber blkno;
	uint32		nslots;
} BlockHead;

typedef struct SlotHead
{
	uint32		xmin;			/* as it is displayed */
	uint32		len;			/* bytes that follow; 0: the slot is dead */
	uint32		index;
} SlotHead;

typedef struct Found
{
	uint32		n;
	uint64		bytes;
	struct
	{
		uint32		index;
		TsVersion  *version;	/* NULL: the slot is dead */
	}			slots[TS_ROWS_PER_BLOCK];
} Found;

/* Look at all rows of a block.  Inside an epoch section. */
static void
find_rows(TsBlock *block, Found *found)
{
	found->n = 0;
	found->bytes = sizeof(BlockHead);
	for (uint32 i = 0; i < TS_ROWS_PER_BLOCK; i++)
	{
		uint64		word = pg_atomic_read_u64(&block->rows[i]) & ~TS_ROW_BITS;
		TsVersion  *v = ts_row_word_version(word);

		if (word == TS_ROW_FREE)
			continue;
		while (v != NULL && ts_creator_is_live(ts_version_creator(v)))
			v = ts_version_prev(v);
		if (v != NULL && (v->flags & TS_V_DELETED))
			v = NULL;
		found->slots[found->n].index = i;
		found->slots[found->n].version = v;
		found->n++;
		found->bytes += sizeof(SlotHead);
		if (v != NULL)
			found->bytes += ts_version_tuple(v)->t_len - TS_TUPLE_SKIPPED;
	}
}

static inline SlotHead
slot_head(const Found *found, uint32 i)
{
	TsVersion  *v = found->slots[i].version;
	SlotHead	head = {.index = found->slots[i].index};

	if (v != NULL)
	{
		head.xmin = v->cid;
		head.len = ts_version_tuple(v)->t_len - TS_TUPLE_SKIPPED;
	}
	return head;
}

static void
encode(const BlockHead *head, const Found *found, char *buffer)
{
	memcpy(buffer, head, sizeof(*head));
	buffer += sizeof(*head);
	for (uint32 i = 0; i < found->n; i++)
	{
		SlotHead	slot = slot_head(found, i);

		memcpy(buffer, &slot, sizeof(slot));
		buffer += sizeof(slot);
		if (slot.len > 0)
			memcpy(buffer, found->slots[i].version->body + TS_TUPLE_SKIPPED, slot.len);
		buffer += slot.len;
	}
}

/* Rows too large for the buffer: straight from the arena. */
static void
write_through(TsImageOutput *out, const BlockHead *head, const Found *found)
{
	ts_output_append(out, head, sizeof(*head));
	for (uint32 i = 0; i < found->n; i++)
	{
		SlotHead	slot = slot_head(found, i);

		ts_output_append(out, &slot, sizeof(slot));
		if (slot.len > 0)
			ts_output_append(out, found->slots[i].version->body + TS_TUPLE_SKIPPED, slot.len);
	}
}

/*
 * Write the image of copy->block and fill in its place and size.  False if the
 * table is not what it was.  `buffer` has TS_BLOCK_BUFFER bytes.  Call it
 * outside epoch sections; raises errors of the file system, which may leave one
 * open.
 */
bool
ts_block_write(TsImageOutput *out, TsBlockCopy *copy, char *buffer)
{
	BlockHead	head = {copy->rnode.dbNode, copy->rnode.relNode, copy->blkno};
	Found		found;

	ts_epoch_enter();
	if (pg_atomic_read_u64(&copy->table->generation) != copy->generation)
	{
		ts_epoch_leave();
		return false;
	}
	find_rows(copy->block, &found);
	head.nslots = found.n;
	copy->place = (TsImagePlace) {0};
	copy->bytes = found.n == 0 ? 0 : found.bytes;
	if (found.n > 0 && found.bytes > TS_BLOCK_BUFFER)
	{
		copy->place = ts_output_begin(out);
		write_through(out, &head, &found);
	}
	else if (found.n > 0)
	{
		/* the section is left before there can be a wait for the disk */
		encode(&head, &found, buffer);
		ts_epoch_leave();
		copy->place = ts_output_begin(out);
		ts_output_append(out, buffer, found.bytes);
		return true;
	}
	ts_epoch_leave();
	return true;
}

/* Bytes of one block image, buffered if it is small. */
typedef struct Source
{
	TsImageReader *reader;
	char	   *next;			/* NULL: not buffered */
	uint64		left;
} Source;

static inline void
take(Source *source, void *dst, uint64 len)
{
	if (unlikely(len > source->left))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block image is shorter than it says")));
	source->left -= len;
	if (source->next == NULL)
	{
		ts_image_reader_read(source->reader, dst, len);
		return;
	}
	memcpy(dst, source->next, len);
	source->next += len;
}

static TsVersion *
read_version(const SlotHead *slot)
{
	Size		tuple_len = (Size) slot->len + TS_TUPLE_SKIPPED;
	TsVersion  *v = ts_alloc_or_error(TS_VERSION_HEADER + tuple_len, TS_ALLOC_RESERVE);
	MinimalTuple tuple = ts_version_tuple(v);

	pg_atomic_init_u64(&v->creator, 1);
	pg_atomic_init_u64(&v->prev, 0);
	v->cid = slot->xmin;
	v->flags = TS_V_INSERTED;
	v->aux = 0;
	memset(tuple, 0, TS_TUPLE_SKIPPED);
	tuple->t_len = (uint32) tuple_len;
	return v;
}

static void
check_head(const BlockHead *head, const TsBlockCopy *copy)
{
	char		path[MAXPGPATH];

	if (head->dboid == copy->rnode.dbNode && head->filenumber == copy->rnode.relNode &&
		head->blkno == copy->blkno && head->nslots <= TS_ROWS_PER_BLOCK)
		return;
	ts_image_file_path(path, copy->place.file);
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("file \"%s\" holds another block at page %u, offset %u",
					path, copy->place.page, copy->place.offset)));
}

/*
 * Read the image of a block from where the reader stands.  What was in memory
 * before the restart fits again, if need be with the reserve.  Raises errors of
 * the reader and 53200; what is in `content` then is to be freed as well.
 */
void
ts_block_read(TsImageReader *reader, const TsBlockCopy *copy, char *buffer,
			  TsBlockContent *content)
{
	Source		source = {reader, NULL, copy->bytes};
	BlockHead	head;

	content->n = content->nrows = 0;
	if (copy->bytes <= TS_BLOCK_BUFFER)
	{
		ts_image_reader_read(reader, buffer, copy->bytes);
		source.next = buffer;
	}
	take(&source, &head, sizeof(head));
	check_head(&head, copy);
	for (uint32 i = 0; i < head.nslots; i++)
	{
		SlotHead	slot;
		TsVersion  *v = NULL;

		take(&source, &slot, sizeof(slot));
		if (slot.index >= TS_ROWS_PER_BLOCK || slot.len > source.left)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("invalid row in block image")));
		if (slot.len > 0)
			v = read_version(&slot);
		content->slots[content->n].index = slot.index;
		content->slots[content->n].version = v;
		content->n++;
		if (v == NULL)
			continue;
		content->nrows++;
		take(&source, v->body + TS_TUPLE_SKIPPED, slot.len);
	}
}

/*
 * Put rows that were read into a block that is TS_BLOCK_LOADING by this process,
 * and declare it loaded.  Inside an epoch section.
 */
void
ts_block_install(TsBlock *block, const TsBlockContent *content)
{
	for (uint32 i = 0; i < content->n; i++)
	{
		TsVersion  *v = content->slots[i].version;
		uint64		word = v != NULL ? (uint64) (uintptr_t) v : TS_ROW_DEAD;

		pg_atomic_write_u64(&block->rows[content->slots[i].index], word);
	}
	ts_table_add_rows(block->table, content->nrows);
	pg_write_barrier();
	pg_atomic_write_u32(&block->load, TS_BLOCK_LOADED);
}

/* Free rows that found no place. */
void
ts_block_content_free(TsBlockContent *content)
{
	for (uint32 i = 0; i < content->n; i++)
	{
		TsVersion  *v = content->slots[i].version;

		if (v != NULL)
			ts_free(v, ts_version_size(v));
	}
	content->n = content->nrows = 0;
}
