"""Fixtures of every test: the Temporal server, started once a session, and the query sets where they are."""

from tests.shared_data import bench
from tests.stores import place, store
from tests.temporal import task_queue, temporal_address

__all__ = ["bench", "place", "store", "task_queue", "temporal_address"]
