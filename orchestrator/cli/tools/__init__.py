"""`toolroute tools`: the tools of a tenant."""
