"""The runtime: the Router, its caches, recording, staged routes and large tenants."""
