"""`toolroute approvals` and `toolroute audit`: who allowed a call, and what was called."""
