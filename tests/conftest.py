"""Fixtures of every test: the Temporal server, started once a session, and the query sets where they are."""

from tests.catalogues import router
from tests.command_line import route, toolroute
from tests.scripted import model
from tests.shared_data import bench
from tests.stores import place, store
from tests.temporal import task_queue, temporal_address

__all__ = ["bench", "model", "place", "route", "router", "store", "task_queue", "temporal_address", "toolroute"]
