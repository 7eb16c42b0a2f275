/*-------------------------------------------------------------------------
 *
 * index.h
 *	  What the files of the index access method share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_INDEX_H
#define TS_INDEX_H

#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/relscan.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "utils/rel.h"

#include "index/tree.h"
#include "storage/sweep.h"

/* open.c */
extern TsTree ts_index_tree(Relation index);
extern TsTree ts_index_tree_copy(Relation index);
extern Relation ts_index_load(Oid oid);

/* build.c */
extern IndexBuildResult *ts_index_build(Relation table, Relation index, IndexInfo *info);
extern void ts_index_buildempty(Relation index);
extern void ts_index_rebuild(Relation index);

/* insert.c */
extern bool ts_index_aminsert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
							  Relation table, IndexUniqueCheck check, bool unchanged,
							  IndexInfo *info);
extern bool ts_index_insert_entry(const TsTree *tree, const TsKey *key);
extern bool ts_index_has_entry(const TsTree *tree, const TsKey *key);
extern bool ts_index_has_equal(const TsTree *tree, const TsKey *key);

/* scan.c */
extern IndexScanDesc ts_index_beginscan(Relation index, int nkeys, int norderbys);
extern void ts_index_rescan(IndexScanDesc scan, ScanKey keys, int nkeys,
							ScanKey orderbys, int norderbys);
extern bool ts_index_gettuple(IndexScanDesc scan, ScanDirection direction);
extern int64 ts_index_getbitmap(IndexScanDesc scan, TIDBitmap *tbm);
extern void ts_index_endscan(IndexScanDesc scan);
extern void ts_index_markpos(IndexScanDesc scan);
extern void ts_index_restrpos(IndexScanDesc scan);

/* parallel.c */
extern Size ts_index_estimateparallelscan(void);
extern void ts_index_initparallelscan(void *target);
extern void ts_index_parallelrescan(IndexScanDesc scan);

/* walk.c */
typedef bool (*TsWalkCallback) (ItemPointer tid, void *state);

extern bool ts_index_walk_begin(TsIndex *index, bool wait);
extern void ts_index_walk_end(TsIndex *index);
extern int64 ts_index_walk(TsIndex *index, TsWalkCallback callback, void *state,
						   int64 *entries);

/* vacuum.c */
extern bool ts_index_clean(TsTable *table, RelFileNode rnode, TsSweepCallback is_dead,
						   void *state);
extern IndexBulkDeleteResult *ts_index_bulkdelete(IndexVacuumInfo *info,
												  IndexBulkDeleteResult *stats,
												  IndexBulkDeleteCallback callback, void *state);
extern IndexBulkDeleteResult *ts_index_vacuumcleanup(IndexVacuumInfo *info,
													 IndexBulkDeleteResult *stats);

/* switch.c */
extern Oid	ts_index_am_oid(void);
extern bool ts_index_is_our_table(Oid table);
extern void ts_index_depend_on_am(Oid index, Oid am);

#endif							/* TS_INDEX_H */
