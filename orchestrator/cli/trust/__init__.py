"""`toolroute approvals` and `toolroute audit`: the allowed calls, and the log of all calls."""
