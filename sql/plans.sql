-- Plans after ANALYZE: look-ups, ranges, joins, aggregates, DML, partitions and
-- index-only scans get the plans that heap gets.
CREATE SCHEMA t_plans;
SET search_path = t_plans;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE cust (id int PRIMARY KEY, name text, region int) WITH (autovacuum_enabled = off);
CREATE TABLE ord (id int PRIMARY KEY, cust int REFERENCES cust, day date, total numeric, note text) WITH (autovacuum_enabled = off);
INSERT INTO cust SELECT g, 'cust ' || g, g % 20 FROM generate_series(1, 2000) g;
INSERT INTO ord SELECT g, g * 7 % 2000 + 1, date '2024-01-01' + g % 365, g % 1000, repeat('n', 50) FROM generate_series(1, 20000) g;
CREATE INDEX ord_cust ON ord (cust);
CREATE INDEX ord_day ON ord (day, total);
CREATE INDEX ord_big ON ord (total) WHERE total > 990;
CREATE INDEX cust_lower ON cust (lower(name));
VACUUM ANALYZE cust;
VACUUM ANALYZE ord;

-- look-ups and ranges
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE id IN (5, 6, 7);
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE cust = 5;
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE cust BETWEEN 10 AND 30;
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE id > 10;
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE total > 995;
EXPLAIN (COSTS OFF) SELECT * FROM cust WHERE lower(name) = 'cust 7';
EXPLAIN (COSTS OFF) SELECT * FROM cust WHERE region = 3;
EXPLAIN (COSTS OFF) SELECT * FROM ord ORDER BY id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT * FROM ord ORDER BY id DESC LIMIT 10;
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE day = '2024-05-05' ORDER BY total DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM ord ORDER BY note LIMIT 10;
EXPLAIN (COSTS OFF) SELECT max(id), min(id) FROM ord;
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE cust = 5 OR day = '2024-05-05';
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE ctid = '(1,1)';
-- joins
EXPLAIN (COSTS OFF) SELECT * FROM cust c JOIN ord o ON o.cust = c.id WHERE c.id = 5;
EXPLAIN (COSTS OFF) SELECT * FROM cust c JOIN ord o ON o.cust = c.id;
EXPLAIN (COSTS OFF) SELECT * FROM cust c LEFT JOIN ord o ON o.cust = c.id AND o.total > 900 WHERE c.region = 3;
EXPLAIN (COSTS OFF) SELECT * FROM ord o JOIN cust c ON c.id = o.cust WHERE o.id BETWEEN 1 AND 5;
EXPLAIN (COSTS OFF) SELECT * FROM cust c WHERE EXISTS (SELECT FROM ord o WHERE o.cust = c.id AND o.id < 10);
EXPLAIN (COSTS OFF) SELECT * FROM cust c WHERE NOT EXISTS (SELECT FROM ord o WHERE o.cust = c.id);
EXPLAIN (COSTS OFF) SELECT * FROM ord a JOIN ord b ON a.id = b.id + 1;
-- aggregates, windows, set operations
EXPLAIN (COSTS OFF) SELECT region, count(*) FROM cust GROUP BY region;
EXPLAIN (COSTS OFF) SELECT cust, sum(total) FROM ord GROUP BY cust;
EXPLAIN (COSTS OFF) SELECT c.region, sum(o.total) FROM cust c JOIN ord o ON o.cust = c.id GROUP BY c.region ORDER BY 2 DESC;
EXPLAIN (COSTS OFF) SELECT DISTINCT day FROM ord;
EXPLAIN (COSTS OFF) SELECT id, row_number() OVER (PARTITION BY region ORDER BY name) FROM cust;
EXPLAIN (COSTS OFF) SELECT id FROM cust EXCEPT SELECT cust FROM ord;
-- changes
EXPLAIN (COSTS OFF) UPDATE ord SET total = 0 WHERE id = 5;
EXPLAIN (COSTS OFF) UPDATE ord SET total = 0 FROM cust c WHERE c.id = cust AND c.name = 'cust 5';
EXPLAIN (COSTS OFF) DELETE FROM ord WHERE cust = 7;
EXPLAIN (COSTS OFF) INSERT INTO cust VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET name = excluded.name;
EXPLAIN (COSTS OFF) MERGE INTO cust c USING (VALUES (1), (2)) s (id) ON c.id = s.id
	WHEN MATCHED THEN UPDATE SET region = 0 WHEN NOT MATCHED THEN INSERT VALUES (s.id);
EXPLAIN (COSTS OFF) SELECT * FROM ord WHERE cust = 5 FOR UPDATE;
-- index-only scans
EXPLAIN (COSTS OFF) SELECT id FROM ord WHERE id BETWEEN 100 AND 110;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ord WHERE cust = 5;
EXPLAIN (COSTS OFF) SELECT total FROM ord WHERE day = '2024-05-05';
-- prepared, generic
PREPARE p (int) AS SELECT * FROM ord WHERE id = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE p (1);
RESET plan_cache_mode;
-- forced kinds of join
SET enable_hashjoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM cust c JOIN ord o ON o.cust = c.id;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(o.note) FROM cust c JOIN ord o ON o.cust = c.id WHERE c.region = 3;
RESET enable_hashjoin; RESET enable_mergejoin;
-- parallel
SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0.001;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ord WHERE note LIKE 'x%';
EXPLAIN (COSTS OFF) SELECT sum(o.total) FROM cust c JOIN ord o ON o.cust = c.id WHERE c.name LIKE '%9';
RESET max_parallel_workers_per_gather;
SET max_parallel_workers_per_gather = 0;
-- partitions: pruning and ordered append
CREATE TABLE pt (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (1000);
CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (1000) TO (2000) USING heap;
CREATE INDEX ON pt (id);
INSERT INTO pt SELECT g, 'v' FROM generate_series(0, 1999) g;
ANALYZE pt;
EXPLAIN (COSTS OFF) SELECT * FROM pt WHERE id = 1500;
EXPLAIN (COSTS OFF) SELECT * FROM pt WHERE id BETWEEN 990 AND 1010 ORDER BY id;
EXPLAIN (COSTS OFF) UPDATE pt SET v = 'x' WHERE id = 5;
-- a truthful EXPLAIN ANALYZE
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT * FROM ord WHERE id < 5 AND total > 2;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) UPDATE cust SET region = 50 WHERE id <= 3;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM cust WHERE region = 50;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) INSERT INTO cust VALUES (1), (9001) ON CONFLICT DO NOTHING;

SET client_min_messages = warning;
DROP SCHEMA t_plans CASCADE;
