/*-------------------------------------------------------------------------
 *
 * image_views.c
 *	  The functions behind tsengine.stat_checkpoint, tsengine.stat_load and
 *	  tsengine.verify().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "access/access.h"
#include "compat.h"
#include "durability/load.h"
#include "durability/manifest.h"
#include "memory/epoch.h"

TS_FUNCTION_INFO_V1(tsengine_checkpoint_stats);
TS_FUNCTION_INFO_V1(tsengine_load_stats);
TS_FUNCTION_INFO_V1(tsengine_verify);

Datum
tsengine_checkpoint_stats(PG_FUNCTION_ARGS)
{
	TsImageStats s;
	TupleDesc	desc;
	Datum		values[18];
	bool		nulls[18] = {false};
	int			n = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE || desc->natts != 18)
		elog(ERROR, "return type must be a row type of 18 columns");
	LWLockAcquire(ts_image_lock(TS_LOCK_STATS), LW_SHARED);
	s = ts_image_shared->stats;
	LWLockRelease(ts_image_lock(TS_LOCK_STATS));

	values[n++] = CStringGetTextDatum(ts_image_io_method());
	values[n++] = BoolGetDatum(pg_atomic_read_u32(&ts_image_shared->guard_ready) != 0);
	values[n++] = Int64GetDatum(s.images);
	nulls[n] = nulls[n + 1] = nulls[n + 2] = s.images == 0;
	values[n++] = Int64GetDatum((int64) s.generation);
	values[n++] = LSNGetDatum(s.redo);
	values[n++] = LSNGetDatum(s.lsn);
	values[n++] = Int64GetDatum(s.blocks_last);
	values[n++] = Int64GetDatum(s.bytes_last);
	values[n++] = Int64GetDatum(s.blocks_total);
	values[n++] = Int64GetDatum(s.bytes_total);
	nulls[n] = s.images == 0;
	values[n++] = TimestampTzGetDatum(s.last_time);
	values[n++] = Float8GetDatum((double) s.scan_ms_last);
	values[n++] = Float8GetDatum((double) s.sync_ms_last);
	values[n++] = Int64GetDatum(s.files);
	values[n++] = Int64GetDatum(s.disk_bytes);
	values[n++] = Int64GetDatum(s.live_bytes);
	values[n++] = Int64GetDatum(s.failures);
	nulls[n] = s.failures == 0;
	values[n++] = CStringGetTextDatum(s.last_error);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

static const char *
load_name(TsTableLoad load)
{
	switch (load)
	{
		case TS_TABLE_READY:
			return "ready";
		case TS_TABLE_LOADING:
			return "loading";
		case TS_TABLE_SETTLING:
			return "settling";
		case TS_TABLE_DAMAGED:
			return "damaged";
	}
	return "unknown";
}

/* One row for each table but temporary ones, of all databases. */
Datum
tsengine_load_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TsTableRef *refs;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	refs = ts_table_list(&n);
	for (int i = 0; i < n; i++)
	{
		TsTable    *table = refs[i].table;
		int64		blocks = refs[i].nblocks - TS_FIRST_BLOCK;
		int64		left = pg_atomic_read_u32(&table->load_left);
		TsTableLoad load = (TsTableLoad) pg_atomic_read_u32(&table->load);
		Datum		values[6];
		bool		nulls[6] = {false};
		char		path[MAXPGPATH] = "";

		if (load == TS_TABLE_DAMAGED)
			ts_image_file_path(path, table->damaged_file);
		values[0] = ObjectIdGetDatum(refs[i].rnode.dbNode);
		values[1] = ObjectIdGetDatum(refs[i].rnode.relNode);
		values[2] = Int64GetDatum(blocks);
		values[3] = Int64GetDatum(blocks - Min(left, blocks));
		values[4] = CStringGetTextDatum(load_name(load));
		values[5] = CStringGetTextDatum(path);
		nulls[5] = load != TS_TABLE_DAMAGED;
		/* a table dropped since it was listed has no row */
		if (pg_atomic_read_u64(&table->generation) == refs[i].generation)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ---- verify ---- */

static void
put_problem(ReturnSetInfo *rsinfo, const char *file, const char *problem)
{
	Datum		values[2] = {CStringGetTextDatum(file), CStringGetTextDatum(problem)};
	bool		nulls[2] = {false, false};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static const TsManifestFile *
files_of(const TsManifestHeader *header)
{
	return (const TsManifestFile *) ((const char *) header + header->files_at);
}

/* The newest intact manifest, or NULL. */
static TsManifestHeader *
newest_manifest(void)
{
	int			n;
	uint32	   *generations = ts_manifest_list(&n);

	for (int i = 0; i < n; i++)
	{
		TsManifestHeader *header;

		if (ts_manifest_read(generations[i], &header) == NULL)
			return header;
	}
	return NULL;
}

/* Does the newest manifest still name the file?  Others may go as we read them. */
static bool
is_still_needed(uint32 file)
{
	TsManifestHeader *header = newest_manifest();

	for (uint32 i = 0; header != NULL && i < header->nfiles; i++)
		if (files_of(header)[i].file == file)
			return true;
	return false;
}

static void
verify_manifests(ReturnSetInfo *rsinfo)
{
	int			n;
	uint32	   *generations = ts_manifest_list(&n);

	for (int i = 0; i < n; i++)
	{
		TsManifestHeader *header;
		char	   *problem = ts_manifest_read(generations[i], &header);
		char		path[MAXPGPATH];

		ts_manifest_path(path, generations[i]);
		if (problem != NULL && access(path, F_OK) == 0)
			put_problem(rsinfo, path, problem);
	}
}

static void
verify_table(ReturnSetInfo *rsinfo, Oid relid)
{
	Relation	rel = try_table_open(relid, AccessShareLock);

	if (rel == NULL)
		return;					/* dropped meanwhile */
	if (!RELATION_IS_OTHER_TEMP(rel) && ts_relation_is_lost(rel))
		put_problem(rsinfo, TS_IMAGE_DIR,
					psprintf("rows of table \"%s\" are missing", RelationGetRelationName(rel)));
	table_close(rel, AccessShareLock);
}

/* Tables of this database that neither the image nor the WAL knows. */
static void
verify_tables(ReturnSetInfo *rsinfo)
{
	Oid			am = get_table_am_oid("tsengine", false);
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(pg_class, 0, NULL);
	HeapTuple	tuple;
	List	   *relids = NIL;
	ListCell   *cell;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);

		if (class->relam == am)
			relids = lappend_oid(relids, class->oid);
	}
	table_endscan(scan);
	table_close(pg_class, AccessShareLock);
	foreach(cell, relids)
		verify_table(rsinfo, lfirst_oid(cell));
}

/*
 * Read everything the image consists of and tell what is wrong with it, a row
 * for each file, and which tables of this database are not in it.  Waits for no
 * image; one may be written meanwhile.
 */
Datum
tsengine_verify(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TsManifestHeader *header;

	InitMaterializedSRF(fcinfo, 0);
	if (ts_image_state() == TS_IMAGE_BROKEN)
		put_problem(rsinfo, ts_image_shared->broken_file, ts_image_shared->broken_reason);
	verify_manifests(rsinfo);
	if (ts_image_state() == TS_IMAGE_USABLE)
		verify_tables(rsinfo);
	header = newest_manifest();
	for (uint32 i = 0; header != NULL && i < header->nfiles; i++)
	{
		const TsManifestFile *file = &files_of(header)[i];
		char	   *problem;
		char		path[MAXPGPATH];

		CHECK_FOR_INTERRUPTS();
		problem = ts_image_verify_file(file->file, GetSystemIdentifier(), file->pages);
		ts_image_file_path(path, file->file);
		if (problem != NULL && is_still_needed(file->file))
			put_problem(rsinfo, path, problem);
	}
	return (Datum) 0;
}
