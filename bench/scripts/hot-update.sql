-- One row, one statement: nothing but the write conflict. The constant 1 makes a lost
-- update visible: afterwards the balance must have grown by the number of transactions.
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;
