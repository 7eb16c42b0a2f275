/*-------------------------------------------------------------------------
 *
 * tsengine.c
 *	  Module entry: settings, hooks, shared memory, background worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "optimizer/planner.h"
#include "plpgsql.h"
#include "postmaster/bgworker.h"
#include "replication/walsender.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#include "access/access.h"
#include "compat.h"
#include "durability/fault.h"
#include "durability/guard.h"
#include "durability/image.h"
#include "durability/imageio.h"
#include "durability/load.h"
#include "durability/redo.h"
#include "index/command.h"
#include "index/directory.h"
#include "memory/arena.h"
#include "memory/testing.h"
#include "sql/replace.h"
#include "storage/garbage.h"
#include "storage/rowlock.h"
#include "transaction/durable.h"
#include "transaction/horizon.h"
#include "transaction/snapshot.h"
#include "transaction/txn.h"

extern TS_EXPORTED const Pg_magic_struct *PG_MAGIC_FUNCTION_NAME(void);

PG_MODULE_MAGIC;

extern TS_EXPORTED void _PG_init(void);

static shmem_request_hook_type prev_shmem_request = NULL;
static shmem_startup_hook_type prev_shmem_startup = NULL;
static ClientAuthentication_hook_type prev_client_authentication = NULL;
static planner_hook_type prev_planner = NULL;
static ExecutorStart_hook_type prev_executor_start = NULL;
static ExecutorRun_hook_type prev_executor_run = NULL;
static ExecutorEnd_hook_type prev_executor_end = NULL;
static ProcessUtility_hook_type prev_process_utility = NULL;
static PLpgSQL_plugin *prev_plpgsql_plugin = NULL;
static PLpgSQL_plugin plpgsql_plugin;

static void
shmem_request(void)
{
	if (prev_shmem_request)
		prev_shmem_request();
	ts_arena_request();
	ts_table_request();
	ts_rowlock_request();
	ts_garbage_request();
	ts_txn_request();
	ts_snapshot_request();
	ts_horizon_request();
	ts_alias_request();
	ts_durable_request();
	ts_index_request();
	ts_image_request();
	ts_redo_request();
	ts_testing_request();
}

static void
shmem_startup(void)
{
	if (prev_shmem_startup)
		prev_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	ts_arena_startup();
	ts_table_startup();
	ts_rowlock_startup();
	ts_garbage_startup();
	ts_txn_startup();
	ts_snapshot_startup();
	ts_horizon_startup();
	ts_alias_startup();
	ts_durable_startup();
	ts_index_startup();
	ts_image_startup();
	ts_redo_startup();
	ts_testing_startup();
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Runs in the transaction in which a backend authenticates its client, in READ
 * COMMITTED and before any query: the right moment to see where snapmgr.c keeps
 * its snapshots.
 */
static void
client_authentication(struct Port *port, int status)
{
	if (prev_client_authentication)
		prev_client_authentication(port, status);
	if (status == STATUS_OK && !am_walsender)
		ts_snapshot_learn();
}

static inline bool
is_mvcc(Snapshot snapshot)
{
	return snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC;
}

static PlannedStmt *
planner_with_snapshot(Query *parse, const char *query_string, int cursor_options,
					  ParamListInfo params)
{
	PlannedStmt *result = NULL;
	bool		held = ts_snapshot_hold_active(&result);

	if (ts_may_call_replaced(query_string))
		parse = ts_replace_functions(parse);
	if (prev_planner)
		result = prev_planner(parse, query_string, cursor_options, params);
	else
		result = standard_planner(parse, query_string, cursor_options, params);
	if (held)
		ts_snapshot_unhold(&result);
	return result;
}

/*
 * Transition tables that a parent collects need the old versions of rows of
 * tables that have no triggers themselves.
 */
static void
note_transition_tables(QueryDesc *query)
{
	ListCell   *cell;

	if (query->planstate != NULL && IsA(query->planstate, ModifyTableState) &&
		((ModifyTableState *) query->planstate)->mt_transition_capture != NULL)
		ts_alias_everywhere = true;
	foreach(cell, query->estate->es_auxmodifytables)
		if (lfirst_node(ModifyTableState, cell)->mt_transition_capture != NULL)
			ts_alias_everywhere = true;
}

static void
executor_start(QueryDesc *query, int eflags)
{
	if (is_mvcc(query->snapshot))
		ts_snapshot_hold(query, query->snapshot);
	if (prev_executor_start)
		prev_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	ts_stop_prefetch_in_plan(query->planstate);
	if (query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE)
	{
		note_transition_tables(query);
		ts_index_open_for_conflicts(query, eflags);
	}
}

/* The end of a statement, or of one inside of it. */
static void
wait_for_statement_reads(void)
{
	if (ts_read_durability == TS_READ_DURABLE_STATEMENT)
		ts_durable_wait();
}

static void
run_query(QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once)
{
	if (prev_executor_run)
		prev_executor_run(query, direction, count, execute_once);
	else
		standard_ExecutorRun(query, direction, count, execute_once);
}

/* With ON CONFLICT on partitions, core wants their indexes to be btrees. */
static void
run_disguised(QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once,
			  List *indexes)
{
	List	   *volatile disguised = ts_index_disguise(indexes);

	PG_TRY();
	{
		run_query(query, direction, count, execute_once);
	}
	PG_CATCH();
	{
		ts_index_undisguise(disguised, true);
		PG_RE_THROW();
	}
	PG_END_TRY();
	ts_index_undisguise(disguised, false);
}

static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once)
{
	List	   *partition_indexes = NIL;

	if (query->plannedstmt->parallelModeNeeded)
	{
		/*
		 * Workers find the count of their snapshot in our entry, where there
		 * is room for one: so none are started from within a parallel query.
		 */
		if (IsInParallelMode())
			execute_once = false;
		else if (is_mvcc(query->snapshot))
			ts_snapshot_set_parallel(query->snapshot);
	}
	if (query->operation == CMD_INSERT || query->plannedstmt->hasModifyingCTE)
		partition_indexes = ts_index_in_partitions(query);
	if (partition_indexes != NIL)
		run_disguised(query, direction, count, execute_once, partition_indexes);
	else
		run_query(query, direction, count, execute_once);
	wait_for_statement_reads();
}

static void
executor_end(QueryDesc *query)
{
	if (prev_executor_end)
		prev_executor_end(query);
	else
		standard_ExecutorEnd(query);
	ts_snapshot_unhold(query);
}

static bool
is_concurrent_index_command(Node *stmt)
{
	if (IsA(stmt, IndexStmt))
		return ((IndexStmt *) stmt)->concurrent;
	if (IsA(stmt, ReindexStmt))
	{
		ListCell   *cell;

		foreach(cell, ((ReindexStmt *) stmt)->params)
			if (strcmp(lfirst_node(DefElem, cell)->defname, "concurrently") == 0)
				return defGetBoolean(lfirst_node(DefElem, cell));
	}
	return false;
}

/* The id in SET TRANSACTION SNAPSHOT 'id', or NULL. */
static const char *
imported_snapshot(Node *stmt)
{
	VariableSetStmt *set = (VariableSetStmt *) stmt;

	if (!IsA(stmt, VariableSetStmt) || set->kind != VAR_SET_MULTI ||
		strcmp(set->name, "TRANSACTION SNAPSHOT") != 0)
		return NULL;
	return strVal(&linitial_node(A_Const, set->args)->val);
}

static void
run_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_process_utility)
		prev_process_utility(pstmt, query_string, read_only_tree, context, params,
							 query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params,
								query_env, dest, qc);
}

/* Run a command that may make indexes. */
static void
run_index_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
				  ProcessUtilityContext context, ParamListInfo params,
				  QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	TsIndexCommand command;

	if (!ts_index_command_begin(&pstmt, context == PROCESS_UTILITY_SUBCOMMAND, &command))
	{
		run_utility(pstmt, query_string, read_only_tree, context, params,
					query_env, dest, qc);
		return;
	}
	PG_TRY();
	{
		run_utility(pstmt, query_string, read_only_tree, context, params,
					query_env, dest, qc);
	}
	PG_CATCH();
	{
		ts_index_command_end(&command, true);
		PG_RE_THROW();
	}
	PG_END_TRY();
	ts_index_command_end(&command, false);
}

/* The option's value in CREATE DATABASE, or NULL. */
static const char *
database_option(CreatedbStmt *stmt, const char *name)
{
	ListCell   *cell;

	foreach(cell, stmt->options)
		if (strcmp(lfirst_node(DefElem, cell)->defname, name) == 0 &&
			lfirst_node(DefElem, cell)->arg != NULL)
			return defGetString(lfirst_node(DefElem, cell));
	return NULL;
}

/* CREATE DATABASE has copied a template's files; its tsengine tables follow. */
static void
copy_template_tables(const char *name, const char *template)
{
	Oid			database;

	CommandCounterIncrement();
	database = get_database_oid(name, false);
	PG_TRY();
	{
		ts_copy_database(get_database_oid(template, false), database);
	}
	PG_CATCH();
	{
		ts_table_drop_database(database);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* What is to be done after a command, whose tree may be gone by then. */
typedef struct Afterwards
{
	const char *import;			/* SET TRANSACTION SNAPSHOT */
	bool		ends_prepared;	/* COMMIT PREPARED, ROLLBACK PREPARED */
	Oid			dropped_database;
	const char *new_database;
	const char *template;
} Afterwards;

static void
plan_afterwards(Node *stmt, Afterwards *after)
{
	const char *import = imported_snapshot(stmt);

	memset(after, 0, sizeof(*after));
	if (import != NULL)
		after->import = pstrdup(import);
	else if (IsA(stmt, TransactionStmt))
		after->ends_prepared =
			((TransactionStmt *) stmt)->kind == TRANS_STMT_COMMIT_PREPARED ||
			((TransactionStmt *) stmt)->kind == TRANS_STMT_ROLLBACK_PREPARED;
	else if (IsA(stmt, DropdbStmt))
		after->dropped_database = get_database_oid(((DropdbStmt *) stmt)->dbname, true);
	else if (IsA(stmt, CreatedbStmt))
	{
		const char *template = database_option((CreatedbStmt *) stmt, "template");

		after->new_database = pstrdup(((CreatedbStmt *) stmt)->dbname);
		after->template = pstrdup(template != NULL ? template : "template1");
	}
}

static void
do_afterwards(const Afterwards *after)
{
	if (after->import != NULL)
		ts_snapshot_import(after->import);
	if (after->ends_prepared)
		ts_prepared_finish_all();
	if (OidIsValid(after->dropped_database))
		ts_table_drop_database(after->dropped_database);
	if (after->new_database != NULL)
		copy_template_tables(after->new_database, after->template);
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		held = ts_snapshot_hold_active(&stmt);
	bool		concurrent_index = is_concurrent_index_command(stmt);
	Afterwards	after;

	plan_afterwards(stmt, &after);
	/* listeners must not hear of a commit before its rows are visible */
	if (IsA(stmt, NotifyStmt))
		(void) GetTopTransactionId();

	ts_resume_prefetch();
	if (IsA(stmt, VacuumStmt))
		ts_stop_prefetch_in_analyze();
	if (concurrent_index)
		ts_txn_force_mixed(true);	/* switched off by an abort, too */
	run_index_utility(pstmt, query_string, read_only_tree, context, params,
					  query_env, dest, qc);
	if (concurrent_index)
		ts_txn_force_mixed(false);
	ts_resume_prefetch();
	if (held)
		ts_snapshot_unhold(&stmt);
	do_afterwards(&after);
	wait_for_statement_reads(); /* COPY reads without an executor */
}

/*
 * A PL/pgSQL function begins.  If it was called from an expression of another
 * one, the active snapshot was pushed for that, and no hook has seen it yet.
 */
static void
plpgsql_function_begins(PLpgSQL_execstate *estate, PLpgSQL_function *func)
{
	(void) ts_snapshot_hold_active(estate);
	if (prev_plpgsql_plugin == NULL)
		return;
	/* what PL/pgSQL has put into our struct for the plugin's use */
	prev_plpgsql_plugin->error_callback = plpgsql_plugin.error_callback;
	prev_plpgsql_plugin->assign_expr = plpgsql_plugin.assign_expr;
	prev_plpgsql_plugin->assign_value = plpgsql_plugin.assign_value;
	prev_plpgsql_plugin->eval_datum = plpgsql_plugin.eval_datum;
	prev_plpgsql_plugin->cast_value = plpgsql_plugin.cast_value;
	if (prev_plpgsql_plugin->func_beg != NULL)
		prev_plpgsql_plugin->func_beg(estate, func);
}

/* (After an error, the abort of its subtransaction ends what it held.) */
static void
plpgsql_function_ends(PLpgSQL_execstate *estate, PLpgSQL_function *func)
{
	ts_snapshot_unhold(estate);
	if (prev_plpgsql_plugin != NULL && prev_plpgsql_plugin->func_end != NULL)
		prev_plpgsql_plugin->func_end(estate, func);
}

static void
hook_plpgsql(void)
{
	PLpgSQL_plugin **plugin = (PLpgSQL_plugin **) find_rendezvous_variable("PLpgSQL_plugin");

	prev_plpgsql_plugin = *plugin;
	if (prev_plpgsql_plugin != NULL)
		plpgsql_plugin = *prev_plpgsql_plugin;
	plpgsql_plugin.func_beg = plpgsql_function_begins;
	plpgsql_plugin.func_end = plpgsql_function_ends;
	*plugin = &plpgsql_plugin;
}

static const struct config_enum_entry read_durability_options[] = {
	{"transaction", TS_READ_DURABLE_TRANSACTION, false},
	{"statement", TS_READ_DURABLE_STATEMENT, false},
	{NULL, 0, false}
};

static const struct config_enum_entry index_defaults[] = {
	{"memory", TS_INDEX_MEMORY, false},
	{"btree", TS_INDEX_BTREE, false},
	{NULL, 0, false}
};

static void
define_settings(void)
{
	DefineCustomIntVariable("tsengine.memory",
							"Size of the shared memory that holds the rows of tsengine tables.",
							NULL,
							&ts_memory_kb,
							256 * 1024, 16 * 1024, MAX_KILOBYTES,
							PGC_POSTMASTER, GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomEnumVariable("tsengine.io_method",
							 "How image files are read and written.",
							 "\"auto\" means io_uring where the system allows it.",
							 &ts_io_method,
							 TS_IO_AUTO, ts_io_method_options,
							 PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("tsengine.load_workers",
							"Number of processes that load tables when the server starts.",
							NULL,
							&ts_load_workers,
							2, 0, 64,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomEnumVariable("tsengine.read_durability",
							 "When to wait for the commits that were read to be on disk.",
							 "Changes are visible before they are flushed; nothing that rests on them is reported as done before.",
							 &ts_read_durability,
							 TS_READ_DURABLE_TRANSACTION, read_durability_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("tsengine.commit_marker_interval",
							"Time after which a commit is made to leave a transaction record.",
							"Recovery to a point in time and recovery_min_apply_delay see these records only. 0 disables it.",
							&ts_commit_marker_interval,
							100, 0, 60000,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomEnumVariable("tsengine.index",
							 "Sets what new indexes of tsengine tables become that are declared as btree.",
							 NULL, &ts_index_default, TS_INDEX_BTREE, index_defaults,
							 PGC_USERSET, 0, NULL, NULL, NULL);
#ifdef TSENGINE_TEST
	DefineCustomIntVariable("tsengine.index_fanout",
							"Sets how many entries a node of a new tsindex has at most; 0 for as many as fit.",
							NULL, &ts_index_fanout, 0, 0, 1000,
							PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
#endif
	ts_fault_define_setting();
	MarkGUCPrefixReserved("tsengine");
}

/* A background worker without a database, from the postmaster's start on. */
static void
register_worker(const char *name, const char *function)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS,
		.bgw_start_time = BgWorkerStart_PostmasterStart,
		.bgw_restart_time = 1,
		.bgw_library_name = "tsengine"
	};

	strlcpy(worker.bgw_name, name, BGW_MAXLEN);
	strlcpy(worker.bgw_type, name, BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, function, BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tsengine must be loaded via shared_preload_libraries"),
				 errhint("Add tsengine to \"shared_preload_libraries\" and restart the server.")));
	define_settings();
	ts_slot_init_ops();
	ts_txn_init_callbacks();
	register_worker("tsengine garbage collector", "ts_garbage_worker_main");
	register_worker("tsengine guard", "ts_guard_main");
	ts_redo_register();
	hook_plpgsql();
	ts_index_install_hooks();

	prev_shmem_request = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
	prev_client_authentication = ClientAuthentication_hook;
	ClientAuthentication_hook = client_authentication;
	prev_planner = planner_hook;
	planner_hook = planner_with_snapshot;
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	prev_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
