-- The tpcb-like transaction as one statement: no round trips while the rows are locked.
\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
SELECT bench_tpcb(:aid, :bid, :tid, :delta);
