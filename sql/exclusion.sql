-- Exclusion constraints: overlap, partial, expression, deferrable, several
-- changes in one transaction, adding to a table with rows, partitions' own.
CREATE SCHEMA t_exclusion;
SET search_path = t_exclusion;
SET jit = off;

CREATE TABLE room (id int PRIMARY KEY, during int4range, free bool DEFAULT false,
	CONSTRAINT no_overlap EXCLUDE USING gist (during WITH &&) WHERE (NOT free));
INSERT INTO room VALUES (1, '[1,5)'), (2, '[5,8)');
INSERT INTO room VALUES (3, '[4,6)');
INSERT INTO room VALUES (3, '[4,6)', true), (4, '[20,30)', false), (5, NULL, false), (6, 'empty', false);
INSERT INTO room VALUES (7, '[40,50)'), (8, '[45,46)');
UPDATE room SET during = '[7,9)' WHERE id = 1;
UPDATE room SET free = false WHERE id = 3;
UPDATE room SET during = '[2,5)' WHERE id = 1;
UPDATE room SET during = during WHERE id = 1;
UPDATE room SET id = 100 WHERE id = 1;
SELECT * FROM room ORDER BY id;
-- several changes of one row, and a place given up in the same transaction
BEGIN;
UPDATE room SET during = '[50,60)' WHERE id = 4;
INSERT INTO room VALUES (9, '[20,30)');
UPDATE room SET during = '[60,70)' WHERE id = 4;
UPDATE room SET free = true WHERE id = 9;
UPDATE room SET during = '[20,30)' WHERE id = 4;
SAVEPOINT s;
UPDATE room SET free = false WHERE id = 9;
ROLLBACK TO s;
DELETE FROM room WHERE id = 4;
UPDATE room SET free = false WHERE id = 9;
SAVEPOINT s2;
DELETE FROM room WHERE id = 9;
INSERT INTO room VALUES (10, '[25,26)');
ROLLBACK TO s2;
INSERT INTO room VALUES (10, '[25,26)');
ROLLBACK;
SELECT * FROM room WHERE id IN (4, 9, 10) ORDER BY id;
BEGIN;
INSERT INTO room VALUES (11, '[100,110)');
ROLLBACK;
INSERT INTO room VALUES (12, '[105,106)');
DO $$ BEGIN FOR i IN 1..50 LOOP
	BEGIN INSERT INTO room VALUES (13, '[200,210)'); RAISE EXCEPTION 'x';
	EXCEPTION WHEN raise_exception THEN NULL; END;
END LOOP; END $$;
INSERT INTO room VALUES (14, '[205,206)') RETURNING id;
INSERT INTO room VALUES (15, '[205,206)') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO room SELECT 300 + g, int4range(1000 + g, 1003 + g) FROM generate_series(1, 30) g ON CONFLICT ON CONSTRAINT no_overlap DO NOTHING;
SELECT count(*), min(id), max(id) FROM room WHERE id > 300;

-- deferrable
CREATE TABLE def (id int, r int4range, EXCLUDE USING gist (r WITH &&) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO def VALUES (1, '[1,5)'), (2, '[10,15)');
BEGIN;
UPDATE def SET r = '[10,15)' WHERE id = 1;
UPDATE def SET r = '[1,5)' WHERE id = 2;
SELECT * FROM def ORDER BY id;
ROLLBACK;
BEGIN;
INSERT INTO def VALUES (3, '[2,3)');
UPDATE def SET id = 33 WHERE id = 3;
COMMIT;
BEGIN;
INSERT INTO def VALUES (3, '[2,3)');
UPDATE def SET id = 33 WHERE id = 3;
DELETE FROM def WHERE id = 1;
COMMIT;
BEGIN;
INSERT INTO def VALUES (4, '[2,3)');
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
SELECT * FROM def ORDER BY id;

-- with btree_gist where equality is part of it
SET client_min_messages = warning;
CREATE EXTENSION btree_gist;
RESET client_min_messages;
CREATE TABLE booking (hotel int, room text, stay daterange,
	EXCLUDE USING gist (hotel WITH =, room WITH =, stay WITH &&));
INSERT INTO booking VALUES (1, 'a', '[2024-01-01,2024-01-05)'), (1, 'b', '[2024-01-01,2024-01-05)'), (2, 'a', '[2024-01-03,2024-01-04)');
INSERT INTO booking VALUES (1, 'a', '[2024-01-04,2024-01-09)');
UPDATE booking SET room = 'a' WHERE room = 'b';
UPDATE booking SET hotel = 3 WHERE hotel = 1 AND room = 'a';
UPDATE booking SET room = 'a' WHERE room = 'b';
CREATE TABLE neq (id int, kind int, EXCLUDE USING gist (id WITH =, kind WITH <>));
INSERT INTO neq VALUES (1, 1), (1, 1), (2, 5);
INSERT INTO neq VALUES (1, 2);
UPDATE neq SET kind = 2 WHERE id = 1;
UPDATE neq SET kind = 3 WHERE id = 2 RETURNING *;
-- btree and hash methods
CREATE TABLE eq (a int, b text, EXCLUDE USING btree (a WITH =), EXCLUDE USING hash (b WITH =));
INSERT INTO eq VALUES (1, 'x');
INSERT INTO eq VALUES (1, 'y');
INSERT INTO eq VALUES (2, 'x');
UPDATE eq SET a = 2, b = 'z' RETURNING *;
INSERT INTO eq VALUES (1, 'x') RETURNING *;

-- expression; added to a table with rows; REINDEX; row order of violations does not matter
CREATE TABLE ex (id int, a int, b int);
INSERT INTO ex VALUES (1, 1, 5), (2, 5, 9), (3, 8, 10);
ALTER TABLE ex ADD CONSTRAINT ab EXCLUDE USING gist (int4range(a, b) WITH &&);
UPDATE ex SET a = 9 WHERE id = 3;
ALTER TABLE ex ADD CONSTRAINT ab EXCLUDE USING gist (int4range(a, b) WITH &&);
INSERT INTO ex VALUES (4, 4, 6);
REINDEX TABLE ex;
UPDATE ex SET b = 6 WHERE id = 1;
SELECT * FROM ex WHERE int4range(a, b) && '[4,5]' ORDER BY id;
SET enable_seqscan = off;
SELECT * FROM ex WHERE int4range(a, b) && '[4,5]' ORDER BY id;
RESET enable_seqscan;
ALTER TABLE ex ALTER a TYPE bigint USING a + 1;
ALTER TABLE ex DROP CONSTRAINT ab;
ALTER TABLE ex ADD CONSTRAINT ab EXCLUDE USING spgist (int4range(a, b) WITH &&);
INSERT INTO ex VALUES (4, 4, 6);

SET client_min_messages = warning;
DROP SCHEMA t_exclusion CASCADE;
DROP EXTENSION IF EXISTS btree_gist;
