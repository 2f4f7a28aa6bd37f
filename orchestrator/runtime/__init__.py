"""The runtime: the Router, its caches, the recording of outcomes, staged routes and large tenants."""
