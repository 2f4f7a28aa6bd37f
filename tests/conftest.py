"""Fixtures of every test: the Temporal server, started once a session, and the query sets where they are."""

import pytest

from tests.catalogues import router
from tests.command_line import mcp_file, route, toolroute
from tests.runner import runner
from tests.scripted import model
from tests.shared_data import bench
from tests.stores import place, store
from tests.temporal import bring_server, task_queue, temporal_address
from tests.user import user

__all__ = ["bench", "mcp_file", "model", "place", "route", "router", "runner", "store"]
__all__ += ["task_queue", "temporal_address", "toolroute", "user"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Brings the Temporal server before the first test: on a new machine it is built, longer than a test may take."""
    used = {name for item in session.items if isinstance(item, pytest.Function) for name in item.fixturenames}
    if not session.config.option.collectonly and used & {"task_queue", "temporal_address"}:
        bring_server(session.config.get_terminal_writer().line)
