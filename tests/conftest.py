"""Fixtures of every test: the Temporal server, started once a session, and the query sets where they are."""

import pytest

from tests.catalogues import router
from tests.command_line import route, toolroute
from tests.scripted import model
from tests.shared_data import bench
from tests.stores import place, store
from tests.temporal import bring_server, task_queue, temporal_address

__all__ = ["bench", "model", "place", "route", "router", "store", "task_queue", "temporal_address", "toolroute"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Brings the Temporal server before the first test: on a new machine it is built, longer than a test may take."""
    used = {name for item in session.items if isinstance(item, pytest.Function) for name in item.fixturenames}
    if not session.config.option.collectonly and used & {"task_queue", "temporal_address"}:
        bring_server(session.config.get_terminal_writer().line)
