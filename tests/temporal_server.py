"""One Temporal server for a whole test run: started by the process that pytest began in, which stops it at the end."""

import asyncio
import signal
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from orchestrator.errors import Unavailable
from orchestrator.temporal.client.devserver import Say, dev_server
from tests.build_temporal import provide
from tests.shared_data import skip_or_fail

ADDRESS = pytest.StashKey[str]()
FAILURE = pytest.StashKey[str]()
"""Why there is no server."""
FIXTURES = {"task_queue", "temporal_address"}


def needs_server(items: Iterable[pytest.Item]) -> bool:
    return any(FIXTURES.intersection(item.fixturenames) for item in items if isinstance(item, pytest.Function))


def start_server(config: pytest.Config) -> None:
    """Start a server before the first test, because a build takes longer than a test may. Stop it after the run."""
    if ADDRESS in config.stash or FAILURE in config.stash:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Else a run that is ended so leaves it behind.
    runner, held = asyncio.Runner(), AsyncExitStack()
    say: Say = config.get_terminal_writer().line
    try:
        provide(say)
        config.stash[ADDRESS] = runner.run(held.enter_async_context(dev_server(say=say)))
    except Unavailable as error:
        config.stash[FAILURE] = str(error)

    def stop() -> None:
        runner.run(held.aclose())
        runner.close()

    config.add_cleanup(stop)


def hand_over(config: pytest.Config, workerinput: dict[str, Any]) -> None:
    """Tell a worker of pytest-xdist where the server of its controller is."""
    workerinput["temporal"] = config.stash.get(ADDRESS, ""), config.stash.get(FAILURE, "")


def take_over(config: pytest.Config, workerinput: dict[str, Any]) -> None:
    config.stash[ADDRESS], config.stash[FAILURE] = workerinput["temporal"]


@pytest.fixture(scope="session")
def temporal_address(request: pytest.FixtureRequest) -> str:
    """Return the address of the run's server."""
    address = request.config.stash.get(ADDRESS, "")
    if not address:
        skip_or_fail(request.config.stash.get(FAILURE, "no Temporal server was started"))
    return address
