"""Fixtures of every test: the Temporal server, started once a run, and the query sets where they are."""

import os
from typing import Any

import pytest

from tests import temporal_server
from tests.browser import browser
from tests.catalogues import router
from tests.command_line import mcp_file, route, toolroute
from tests.gateway import own_settings
from tests.runner import runner, serve
from tests.scripted import default_model, model
from tests.servers.signed_in import accounts, own_sign_ins, web
from tests.shared_data import bench
from tests.stores import place, store
from tests.temporal import give_workflows_time, task_queue
from tests.temporal_server import temporal_address
from tests.user import user

__all__ = ["accounts", "bench", "browser", "default_model", "mcp_file", "model", "own_settings", "own_sign_ins"]
__all__ += ["place", "route", "router", "runner", "serve", "store", "task_queue", "temporal_address", "toolroute"]
__all__ += ["user", "web"]


def pytest_configure(config: pytest.Config) -> None:
    os.environ["TOOLROUTE_LANGUAGES"] = "off"  # The encoder opens in seconds; its own tests switch it on.
    os.environ["TOOLROUTE_AUDIT"] = "off"  # Tests write nothing among the user's data; those of the log name a folder.
    give_workflows_time()
    if hasattr(config, "workerinput"):
        temporal_server.take_over(config, config.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called by pytest-xdist in its controller, for each worker that it starts."""
    temporal_server.start_server(node.config)
    temporal_server.hand_over(node.config, node.workerinput)


def pytest_collection_finish(session: pytest.Session) -> None:
    is_worker = hasattr(session.config, "workerinput")
    if not is_worker and not session.config.option.collectonly and temporal_server.needs_server(session.items):
        temporal_server.start_server(session.config)
