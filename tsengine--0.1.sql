/* tsengine--0.1.sql */

\echo Use "CREATE EXTENSION tsengine" to load this file. \quit

CREATE FUNCTION tsengine_handler(internal) RETURNS table_am_handler
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE ACCESS METHOD tsengine TYPE TABLE HANDLER tsengine_handler;
COMMENT ON ACCESS METHOD tsengine IS 'in-memory row store';

CREATE FUNCTION tsindex_handler(internal) RETURNS index_am_handler
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE ACCESS METHOD tsindex TYPE INDEX HANDLER tsindex_handler;
COMMENT ON ACCESS METHOD tsindex IS 'ordered in-memory index of tsengine tables';

CREATE FUNCTION memory_stats(
	OUT arena_bytes bigint, OUT used_bytes bigint, OUT free_bytes bigint,
	OUT reserve_bytes bigint, OUT retired_bytes bigint,
	OUT garbage_rows bigint, OUT leaked_bytes bigint)
AS 'MODULE_PATHNAME', 'tsengine_memory_stats' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION table_stats(
	relid regclass,
	OUT blocks bigint, OUT live_rows bigint, OUT dead_rows bigint,
	OUT versions bigint, OUT bytes bigint)
AS 'MODULE_PATHNAME', 'tsengine_table_stats' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION index_stats(
	indexrelid regclass,
	OUT entries bigint, OUT height bigint, OUT leaves bigint, OUT inner_nodes bigint,
	OUT fill_percent bigint, OUT bytes bigint, OUT splits bigint, OUT restarts bigint)
AS 'MODULE_PATHNAME', 'tsengine_index_stats' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION transaction_stats(
	OUT commits_pure bigint, OUT commits_mixed bigint, OUT aborts bigint,
	OUT waits bigint, OUT late_xid bigint, OUT snapshot_missing bigint)
AS 'MODULE_PATHNAME', 'tsengine_transaction_stats' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION checkpoint_stats(
	OUT io_method text, OUT guard_ready boolean, OUT images bigint,
	OUT generation bigint, OUT redo_lsn pg_lsn, OUT image_lsn pg_lsn,
	OUT last_blocks bigint, OUT last_bytes bigint,
	OUT total_blocks bigint, OUT total_bytes bigint, OUT last_time timestamptz,
	OUT last_write_time double precision, OUT last_sync_time double precision,
	OUT files bigint, OUT disk_bytes bigint, OUT live_bytes bigint,
	OUT failures bigint, OUT last_error text)
AS 'MODULE_PATHNAME', 'tsengine_checkpoint_stats' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION load_stats(
	OUT database oid, OUT relfilenode oid, OUT blocks bigint, OUT blocks_loaded bigint,
	OUT state text, OUT damaged_file text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'tsengine_load_stats' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION verify(OUT file text, OUT problem text) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'tsengine_verify' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION verify() IS
	'reads the checkpoint image of tsengine tables and returns a row for each file that is damaged';
REVOKE EXECUTE ON FUNCTION verify() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION verify() TO pg_monitor;

CREATE FUNCTION check_index(index regclass) RETURNS SETOF text
AS 'MODULE_PATHNAME', 'tsengine_check_index' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION check_index(regclass) IS
	'compares a tsindex with its table and returns a row for each thing that is wrong';

CREATE VIEW stat_memory AS SELECT * FROM memory_stats();
COMMENT ON VIEW stat_memory IS 'use of the memory that holds tsengine tables';

CREATE VIEW stat_tables AS
	SELECT c.oid::regclass AS relid, n.nspname AS schemaname, c.relname, s.*
	FROM pg_class c
	JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_am a ON a.oid = c.relam AND a.amname = 'tsengine'
	CROSS JOIN LATERAL table_stats(c.oid) s
	WHERE c.relkind IN ('r', 'm') AND NOT pg_is_other_temp_schema(c.relnamespace)
		AND s.blocks IS NOT NULL;
COMMENT ON VIEW stat_tables IS 'rows, versions and memory of tsengine tables';

CREATE VIEW stat_indexes AS
	SELECT i.indrelid::regclass AS relid, c.oid::regclass AS indexrelid, n.nspname AS schemaname,
		c.relname AS indexrelname, s.*
	FROM pg_class c
	JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_am a ON a.oid = c.relam AND a.amname = 'tsindex'
	JOIN pg_index i ON i.indexrelid = c.oid
	CROSS JOIN LATERAL index_stats(c.oid) s
	WHERE s.entries IS NOT NULL;
COMMENT ON VIEW stat_indexes IS 'entries, shape and memory of the tsindexes that are in memory';

CREATE VIEW stat_transactions AS SELECT * FROM transaction_stats();
COMMENT ON VIEW stat_transactions IS 'outcomes of transactions that changed tsengine tables';

CREATE VIEW stat_checkpoint AS SELECT * FROM checkpoint_stats();
COMMENT ON VIEW stat_checkpoint IS 'checkpoint images of tsengine tables since the server started';

CREATE VIEW stat_load AS SELECT * FROM load_stats();
COMMENT ON VIEW stat_load IS 'loading of tsengine tables after the server was started, in all databases';

GRANT USAGE ON SCHEMA @extschema@ TO PUBLIC;
GRANT SELECT ON stat_memory, stat_tables, stat_indexes, stat_transactions, stat_checkpoint, stat_load TO PUBLIC;

/*
 * Calls of core's pg_relation_size() and so on, of pg_notify() and of
 * pg_export_snapshot() are replaced by calls of these when a query is planned.
 */
CREATE FUNCTION relation_size(regclass, text) RETURNS bigint
AS 'MODULE_PATHNAME', 'tsengine_relation_size' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE FUNCTION table_size(regclass) RETURNS bigint
AS 'MODULE_PATHNAME', 'tsengine_table_size' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE FUNCTION total_relation_size(regclass) RETURNS bigint
AS 'MODULE_PATHNAME', 'tsengine_total_relation_size' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE FUNCTION notify(text, text) RETURNS void
AS 'MODULE_PATHNAME', 'tsengine_notify' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION export_snapshot() RETURNS text
AS 'MODULE_PATHNAME', 'tsengine_export_snapshot' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
