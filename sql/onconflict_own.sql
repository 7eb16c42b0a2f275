-- ON CONFLICT against rows that this transaction has changed, in REPEATABLE READ,
-- on a table with AFTER ROW triggers (its foreign key has some).
SET client_min_messages = warning;
CREATE SCHEMA t_onconflict_own;
SET search_path = t_onconflict_own;
CREATE TABLE p (id int PRIMARY KEY);
INSERT INTO p VALUES (1), (2);
CREATE TABLE s (id int PRIMARY KEY, pid int REFERENCES p, v int);
INSERT INTO s VALUES (15, 1, 0);

-- updated without and with a change of the referencing column
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE s SET v = 1 WHERE id = 15;
INSERT INTO s VALUES (15, 1, 9) ON CONFLICT DO NOTHING RETURNING *;
SELECT * FROM s;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE s SET pid = 2 WHERE id = 15;
INSERT INTO s VALUES (15, 1, 9) ON CONFLICT DO NOTHING RETURNING *;
SELECT * FROM s;
COMMIT;

-- deleted, inserted again and updated
BEGIN ISOLATION LEVEL REPEATABLE READ;
DELETE FROM s WHERE id = 15;
INSERT INTO s VALUES (15, 1, 1);
UPDATE s SET v = 2;
INSERT INTO s VALUES (15, 1, 9) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO s VALUES (15, 1, 9) ON CONFLICT (id) DO UPDATE SET v = s.v + excluded.v RETURNING *;
INSERT INTO s VALUES (15, 1, 9), (16, 1, 9) ON CONFLICT (id) DO UPDATE SET v = s.v + excluded.v RETURNING *;
INSERT INTO s VALUES (15, 1, 9), (15, 1, 9) ON CONFLICT (id) DO UPDATE SET v = s.v + excluded.v RETURNING *;
ROLLBACK;
SELECT * FROM s;
DROP SCHEMA t_onconflict_own CASCADE;
