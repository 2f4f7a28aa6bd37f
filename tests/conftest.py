"""Fixtures of every test: the Temporal server, started once a session, and the query sets where they are."""

from tests.shared_data import bench
from tests.temporal import task_queue, temporal_address

__all__ = ["bench", "task_queue", "temporal_address"]
