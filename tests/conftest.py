"""Fixtures of every test: the Temporal server, started once a session."""

from tests.temporal import task_queue, temporal_address

__all__ = ["task_queue", "temporal_address"]
