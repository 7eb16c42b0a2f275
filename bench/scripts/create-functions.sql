-- What the scripts here call; created in every pgbench database after loading. The order
-- of the statements is pgbench's own in tpcb-like.
CREATE OR REPLACE FUNCTION bench_tpcb(v_aid int, v_bid int, v_tid int, v_delta int)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	balance int;
BEGIN
	UPDATE pgbench_accounts SET abalance = abalance + v_delta WHERE aid = v_aid;
	SELECT abalance INTO balance FROM pgbench_accounts WHERE aid = v_aid;
	UPDATE pgbench_tellers SET tbalance = tbalance + v_delta WHERE tid = v_tid;
	UPDATE pgbench_branches SET bbalance = bbalance + v_delta WHERE bid = v_bid;
	INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
		VALUES (v_tid, v_bid, v_aid, v_delta, CURRENT_TIMESTAMP);
	RETURN balance;
END
$$;
