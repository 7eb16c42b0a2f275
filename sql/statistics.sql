-- Activity counters: pg_stat_user_tables, its transaction view and index
-- counters move as they do for heap, aborted work included.
CREATE SCHEMA t_statistics;
SET search_path = t_statistics;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE t (id int PRIMARY KEY, v text, x int) WITH (autovacuum_enabled = off);
CREATE INDEX t_x ON t (x);
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, seq_scan >= 0 AS seq FROM pg_stat_user_tables WHERE relid = 't'::regclass;
INSERT INTO t SELECT g, 'v', g FROM generate_series(1, 1000) g;
UPDATE t SET v = 'upd' WHERE id <= 100;
UPDATE t SET x = -x WHERE id <= 10;
DELETE FROM t WHERE id > 900;
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, n_tup_hot_upd <= n_tup_upd AS hot, n_mod_since_analyze, n_ins_since_vacuum
	FROM pg_stat_user_tables WHERE relid = 't'::regclass;
-- aborted work is counted as well, live rows are not
BEGIN;
INSERT INTO t SELECT g FROM generate_series(2001, 2050) g;
UPDATE t SET v = 'undone' WHERE id <= 20;
DELETE FROM t WHERE id <= 30;
ROLLBACK;
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup FROM pg_stat_user_tables WHERE relid = 't'::regclass;
BEGIN;
INSERT INTO t SELECT g FROM generate_series(3001, 3005) g;
SAVEPOINT s;
INSERT INTO t SELECT g FROM generate_series(3006, 3010) g;
DELETE FROM t WHERE id = 3001;
ROLLBACK TO s;
COMMIT;
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup FROM pg_stat_user_tables WHERE relid = 't'::regclass;

-- within the transaction
BEGIN;
INSERT INTO t VALUES (5001), (5002);
UPDATE t SET v = 'x' WHERE id = 5001;
DELETE FROM t WHERE id = 5002;
SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables WHERE relid = 't'::regclass;
ROLLBACK;
-- COPY, MERGE, ON CONFLICT, TRUNCATE
CREATE TABLE m (id int PRIMARY KEY, n int) WITH (autovacuum_enabled = off);
COPY m FROM stdin;
1	1
2	2
3	3
\.
INSERT INTO m VALUES (1, 10), (4, 10) ON CONFLICT (id) DO UPDATE SET n = excluded.n;
INSERT INTO m VALUES (1, 10), (5, 10) ON CONFLICT DO NOTHING;
MERGE INTO m USING generate_series(1, 6) s (id) ON m.id = s.id
	WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 0 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1);
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup FROM pg_stat_user_tables WHERE relid = 'm'::regclass;
BEGIN;
INSERT INTO m VALUES (100, 1);
TRUNCATE m;
INSERT INTO m VALUES (200, 1);
ROLLBACK;
SELECT pg_stat_force_next_flush();
SELECT n_live_tup FROM pg_stat_user_tables WHERE relid = 'm'::regclass;
TRUNCATE m;
SELECT pg_stat_force_next_flush();
INSERT INTO m VALUES (1, 1);
SELECT pg_stat_force_next_flush();
SELECT n_live_tup FROM pg_stat_user_tables WHERE relid = 'm'::regclass;

-- scans: sequential, index, bitmap
SELECT pg_stat_force_next_flush();
SELECT seq_scan AS s0, seq_tup_read AS r0, idx_scan AS i0, idx_tup_fetch AS f0 FROM pg_stat_user_tables WHERE relid = 't'::regclass \gset
SELECT idx_scan AS x0, idx_tup_read AS xr0, idx_tup_fetch AS xf0 FROM pg_stat_user_indexes WHERE indexrelid = 't_x'::regclass \gset
SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT count(*) FROM t;
SELECT count(*) FROM t WHERE x = 150;
RESET enable_indexscan;
SET enable_seqscan = off;
SELECT v FROM t WHERE x = 150;
SELECT count(v) FROM t WHERE x BETWEEN 160 AND 169;
RESET enable_bitmapscan;
SET enable_indexscan = off;
SELECT count(v) FROM t WHERE x BETWEEN 170 AND 179;
RESET enable_seqscan; RESET enable_indexscan; RESET enable_indexonlyscan;
SELECT pg_stat_force_next_flush();
SELECT seq_scan - :s0 AS seq, seq_tup_read - :r0 AS seq_rows, idx_scan - :i0 AS idx, idx_tup_fetch - :f0 AS idx_rows
	FROM pg_stat_user_tables WHERE relid = 't'::regclass;
SELECT idx_scan - :x0 AS scans, idx_tup_read - :xr0 AS read, idx_tup_fetch - :xf0 AS fetched FROM pg_stat_user_indexes WHERE indexrelid = 't_x'::regclass;

-- VACUUM and ANALYZE
ANALYZE t;
VACUUM t;
SELECT pg_stat_force_next_flush();
SELECT analyze_count, vacuum_count, last_analyze IS NOT NULL AS a, last_vacuum IS NOT NULL AS v, n_live_tup, n_dead_tup, n_mod_since_analyze
	FROM pg_stat_user_tables WHERE relid = 't'::regclass;
DELETE FROM t;
SELECT pg_stat_force_next_flush();
VACUUM ANALYZE t;
SELECT pg_stat_force_next_flush();
SELECT analyze_count, vacuum_count, n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE relid = 't'::regclass;
SELECT pg_stat_reset_single_table_counters('t'::regclass);
SELECT n_tup_ins, n_live_tup FROM pg_stat_user_tables WHERE relid = 't'::regclass;
-- a temporary table and partitions
CREATE TEMP TABLE tmp (id int);
INSERT INTO tmp SELECT generate_series(1, 7);
CREATE TABLE p (id int) PARTITION BY LIST (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
INSERT INTO p VALUES (1), (1), (2);
UPDATE p SET id = 2 WHERE id = 1;
SELECT pg_stat_force_next_flush();
SELECT relname, n_tup_ins, n_tup_upd, n_tup_del, n_live_tup FROM pg_stat_user_tables WHERE relid IN ('tmp'::regclass, 'p1'::regclass, 'p2'::regclass) ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA t_statistics CASCADE;
