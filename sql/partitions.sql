-- Partitioned and inherited tables whose members use both access methods:
-- UPDATE that moves rows, also through joins and in one statement for rows of
-- several partitions, defaults, pruning, COPY, triggers on moved rows.
CREATE SCHEMA t_partitions;
SET search_path = t_partitions;

CREATE TABLE p (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) USING heap;
CREATE TABLE p3 (v text, gone int, k int NOT NULL, id int NOT NULL);
ALTER TABLE p3 DROP gone;
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30);
CREATE TABLE pd PARTITION OF p DEFAULT;
CREATE INDEX p_v ON p (v);
INSERT INTO p SELECT g, g, 'v' || g FROM generate_series(0, 34) g;
SELECT tableoid::regclass, count(*), min(k), max(k) FROM p GROUP BY 1 ORDER BY 1;

-- rows move forward and back
BEGIN;
UPDATE p SET k = k + 10 WHERE k < 5;
SELECT tableoid::regclass, count(*), sum(k) FROM p GROUP BY 1 ORDER BY 1;
UPDATE p SET k = k + 10, v = v || '>' WHERE id < 5;
UPDATE p SET k = k + 10 WHERE id < 5;
SELECT tableoid::regclass, id, k, v FROM p WHERE id < 5 ORDER BY id;
SAVEPOINT s;
UPDATE p SET k = 0 WHERE id < 5;
SELECT tableoid::regclass, id, k, v FROM p WHERE id < 5 ORDER BY id;
ROLLBACK TO s;
DELETE FROM p WHERE id = 3;
UPDATE p SET k = 15 WHERE id = 4 RETURNING *;
COMMIT;
SELECT tableoid::regclass, count(*), sum(k) FROM p GROUP BY 1 ORDER BY 1;
UPDATE p1 SET k = 15 WHERE id = 6;
UPDATE p SET k = NULL WHERE id = 6;
UPDATE p SET k = CASE WHEN k < 10 THEN k + 20 WHEN k < 20 THEN k ELSE k - 20 END WHERE k < 30;
SELECT tableoid::regclass, count(*), sum(k), sum(id) FROM p GROUP BY 1 ORDER BY 1;
SELECT id, k FROM p WHERE v = 'v25';

-- self-join and join that move rows, several join matches for one row
UPDATE p a SET k = b.k + 20 FROM p b WHERE a.id = b.id AND b.k BETWEEN 0 AND 3;
SELECT count(*), sum(k) FROM p;
CREATE TABLE s (id int, newk int);
INSERT INTO s VALUES (10, 1), (10, 1), (10, 1), (11, 21), (11, 21), (12, 99), (5, 16), (5, 16);
BEGIN;
UPDATE p SET k = s.newk FROM s WHERE s.id = p.id;
SELECT tableoid::regclass, p.* FROM p WHERE id IN (5, 10, 11, 12) ORDER BY id;
UPDATE p SET k = 29 FROM s WHERE s.id = p.id AND s.newk = p.k;
SELECT tableoid::regclass, p.* FROM p WHERE id IN (5, 10, 11, 12) ORDER BY id;
DELETE FROM p USING s WHERE s.id = p.id;
ROLLBACK;
SELECT count(*), sum(k), sum(id) FROM p;
WITH m AS (UPDATE p SET k = 25 WHERE id = 10 RETURNING *) SELECT m.k, p.k AS old_k, p.tableoid::regclass AS old_p FROM m JOIN p USING (id);
WITH d AS (DELETE FROM p WHERE k >= 30 RETURNING *) INSERT INTO p SELECT id, k - 30, v FROM d;
SELECT tableoid::regclass, count(*), sum(k), sum(id) FROM p GROUP BY 1 ORDER BY 1;
UPDATE p SET k = 26, id = 10 WHERE id = 11;
UPDATE p SET k = 25, id = 10 WHERE id = 11;
SELECT count(*), sum(k), sum(id) FROM p;

-- no partition for the new row; a leaf with its own constraint
CREATE TABLE q (a int, b text) PARTITION BY LIST (a);
CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1) USING heap;
CREATE TABLE q2 PARTITION OF q FOR VALUES IN (2);
ALTER TABLE q2 ADD CHECK (b <> 'bad');
INSERT INTO q VALUES (1, 'one'), (2, 'two'), (1, 'bad');
INSERT INTO q VALUES (3, 'three');
UPDATE q SET a = 3 WHERE b = 'one';
UPDATE q SET a = 2 WHERE a = 1;
UPDATE q SET a = 2 WHERE b = 'one' RETURNING tableoid::regclass, *;
SELECT tableoid::regclass, * FROM q ORDER BY a, b;

-- triggers on moved rows
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % % old=% new=%', TG_TABLE_NAME, TG_WHEN, TG_OP,
		CASE WHEN TG_OP <> 'INSERT' THEN OLD::text END, CASE WHEN TG_OP <> 'DELETE' THEN NEW::text END;
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON q FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON q FOR EACH ROW EXECUTE FUNCTION tell();
UPDATE q SET a = 1, b = 'moved' WHERE b = 'two';
BEGIN;
UPDATE q SET a = 2 WHERE b = 'moved';
UPDATE q SET b = 'stays' WHERE b = 'moved';
UPDATE q SET a = 1 WHERE b = 'stays';
ROLLBACK;
CREATE FUNCTION refuse_delete() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER zz BEFORE DELETE ON q1 FOR EACH ROW EXECUTE FUNCTION refuse_delete();
UPDATE q SET a = 2 WHERE b = 'moved';
SELECT tableoid::regclass, * FROM q ORDER BY a, b;
DROP TABLE q;

-- two levels, hash and list, foreign column orders, every access method mix
CREATE TABLE h (id int, c text, n int DEFAULT 1) PARTITION BY HASH (id);
CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0) PARTITION BY LIST (c);
CREATE TABLE h0a PARTITION OF h0 FOR VALUES IN ('a') USING heap;
CREATE TABLE h0x PARTITION OF h0 DEFAULT;
CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO h SELECT g, chr(97 + g % 3) FROM generate_series(1, 60) g;
SELECT sum(id), sum(n), count(*) FROM h;
UPDATE h SET id = id + 1, c = CASE c WHEN 'a' THEN 'b' ELSE 'a' END, n = n + 1;
SELECT c, sum(id), sum(n), count(*) FROM h GROUP BY c ORDER BY c;
UPDATE h SET n = n + 1 WHERE id IN (SELECT id FROM h WHERE c = 'a');
SELECT sum(n), count(*) FROM h;
TRUNCATE h0;
SELECT count(*) > 0 AS h1_left, (SELECT count(*) FROM h0) AS h0 FROM h1;
DELETE FROM h;
SELECT count(*) FROM h;

-- inheritance with both access methods
CREATE TABLE par (id int, v text DEFAULT 'par') USING heap;
CREATE TABLE kid1 (x int) INHERITS (par);
CREATE TABLE kid2 (y int) INHERITS (par) USING heap;
CREATE TABLE grandkid () INHERITS (kid1, kid2);
INSERT INTO par VALUES (1); INSERT INTO kid1 VALUES (2, 'k1', 20); INSERT INTO kid2 VALUES (3, 'k2', 30);
INSERT INTO grandkid VALUES (4, 'g', 40, 41);
SELECT tableoid::regclass, * FROM par ORDER BY id;
SELECT tableoid::regclass, * FROM ONLY par ORDER BY id;
BEGIN;
UPDATE par SET v = v || '+', id = id + 10;
UPDATE par SET v = v || '*' WHERE id > 11;
SELECT tableoid::regclass, * FROM par ORDER BY id;
UPDATE ONLY kid1 SET v = 'only';
DELETE FROM par USING kid2 WHERE par.id = kid2.id;
SELECT tableoid::regclass, * FROM par ORDER BY id;
SAVEPOINT s;
TRUNCATE par;
ROLLBACK TO s;
SELECT count(*) FROM par;
ROLLBACK;
SELECT tableoid::regclass, * FROM par ORDER BY id;
UPDATE par SET v = k.y::text FROM kid2 k WHERE k.id = par.id;
SELECT * FROM par ORDER BY id;
SELECT * FROM grandkid;
SELECT * FROM par WHERE id > 1 ORDER BY id FOR UPDATE;
WITH r AS (DELETE FROM par WHERE id > 2 RETURNING tableoid::regclass AS t, *) SELECT * FROM r ORDER BY id;

-- partition-wise joins, ordered appends, pruning at run time
SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on;
SELECT count(*), sum(a.id + b.k) FROM p a JOIN p b USING (k);
SELECT k, count(*) FROM p GROUP BY k HAVING count(*) > 1 ORDER BY k LIMIT 3;
SELECT id, k FROM p ORDER BY k, id LIMIT 4;
PREPARE q (int) AS SELECT count(*) FROM p WHERE k = $1;
EXECUTE q (25);
EXECUTE q (5);
SELECT count(*) FROM p WHERE k = (SELECT max(k) FROM p);
DEALLOCATE q;
-- many small partitions of alternating access method, one row each, shifted by one
DO $$ BEGIN
	CREATE TABLE mp (k int, v int) PARTITION BY LIST (k);
	FOR i IN 0..15 LOOP
		EXECUTE format('CREATE TABLE mp%s PARTITION OF mp FOR VALUES IN (%s) %s', i, i, CASE WHEN i % 2 = 0 THEN 'USING heap' ELSE '' END);
	END LOOP;
END $$;
INSERT INTO mp SELECT g, g * g FROM generate_series(0, 15) g;
UPDATE mp SET k = (k + 1) % 16;
SELECT count(*), sum(k * v), bool_and(tableoid::regclass::text = 'mp' || k) AS all_in_place FROM mp;
UPDATE mp SET k = (k + 5) % 16, v = v + 1 WHERE v > 20;
SELECT count(*), sum(k * v), bool_and(tableoid::regclass::text = 'mp' || k) AS all_in_place FROM mp;

SET client_min_messages = warning;
DROP SCHEMA t_partitions CASCADE;
