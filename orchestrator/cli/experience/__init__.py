"""`toolroute experience`: the remembered tasks of a tenant."""
