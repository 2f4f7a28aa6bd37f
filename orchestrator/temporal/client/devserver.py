"""A Temporal server on loopback for experiments and tests. It is found or downloaded once, and stops afterwards.

The search order is: the address in TEMPORAL_ADDRESS (used, not started), `temporal` on the PATH, the program in the
user's cache folder, and the SDK's download.
"""

import asyncio
import gc
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from orchestrator.errors import Unavailable
from orchestrator.mcp.transports.child import watched
from orchestrator.options import Options

START_TIMEOUT_S = 60
"""Seconds for the server to start, also on a busy machine."""

SETTINGS = (
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    "history.visibilityProcessorMaxPollRPS=2000",
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)
"""Without the first three settings, a dev server dispatches every 50 ms after a burst.

A workflow with one activity then takes 150 ms instead of 30 (measured). With several partitions, an activity sometimes
stalls for 2 seconds.
"""

Say = Callable[[str], None]


def say_on_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@asynccontextmanager
async def dev_server(
    *,
    database: Path | None = None,
    port: int | None = None,
    namespace: str = "default",
    say: Say = say_on_stderr,
) -> AsyncIterator[str]:
    """Yield the address of a running server. A server that was started here stops at the end.

    Args:
        database: A file for the server's state. TEMPORAL_ADDRESS is then ignored.
        port: The port. Default: a free one.
        namespace: The namespace.
        say: Prints a line before a download.

    Raises:
        Unavailable: No server can be started. The message has the remedy.
    """
    running = Options.from_env().temporal_address
    if running and database is None:
        yield running
        return
    address = f"127.0.0.1:{port or _free_port()}"
    server = await _start(await _binary(say), address, namespace, database)
    with watched(server.pid):
        try:
            await _answers(server, address, namespace)
            yield address
        finally:
            if server.returncode is None:
                server.terminate()
            await server.wait()
            await settle()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def settle() -> None:
    """Wait before the end of a process that used temporalio. Without it, one process in five crashes at shutdown."""
    gc.collect()
    await asyncio.sleep(0.5)


async def _start(
    binary: str, address: str, namespace: str, database: Path | None
) -> asyncio.subprocess.Process:
    """Start the server in its own session.

    A terminal sends Ctrl-C to a whole group of processes, but a run has to be cancelled before its server ends.
    """
    host, _, port = address.rpartition(":")
    arguments = [
        "--headless",
        "--ip",
        host,
        "--port",
        port,
        "--namespace",
        namespace,
        "--log-level",
        "error",
    ]
    for setting in SETTINGS:
        arguments += ["--dynamic-config-value", setting]
    if database:
        arguments += ["--db-filename", str(database)]
    nowhere = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        *(binary, "server", "start-dev", *arguments),
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
    )


async def _answers(server: asyncio.subprocess.Process, address: str, namespace: str) -> None:
    """Return when the server serves the namespace."""
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.client import Client
    from temporalio.service import RPCError

    request = DescribeNamespaceRequest(namespace=namespace)
    loop = asyncio.get_running_loop()
    until = loop.time() + START_TIMEOUT_S
    while server.returncode is None and loop.time() < until:
        try:
            await (await Client.connect(address)).workflow_service.describe_namespace(request)
        except (RuntimeError, RPCError):
            await asyncio.sleep(0.05)
        else:
            return
    raise Unavailable(
        f"the Temporal server at {address} did not start (exit code {server.returncode})"
    )


async def _binary(say: Say) -> str:
    """Return the path of a server, which is downloaded if there is none."""
    return shutil.which("temporal") or cached_binary() or await bring(say)


async def bring(say: Say) -> str:
    """Let the SDK download a server into the cache folder, and return its path.

    Raises:
        Unavailable: The download failed. The message has the remedy.
    """
    cache_folder().mkdir(parents=True, exist_ok=True)
    say(f"downloading the Temporal dev server (once), into {cache_folder()} ...")
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        try:
            await _download(folder)
            return _moved_from(folder)
        except (RuntimeError, OSError, ValueError) as error:
            raise Unavailable(
                "no Temporal server can be started: set TEMPORAL_ADDRESS to a running server, or install the Temporal "
                f"CLI (https://docs.temporal.io/cli). Its download failed: {error}"
            ) from error


def cache_folder() -> Path:
    """Return the user's cache folder for programs."""
    from platformdirs import user_cache_path

    return user_cache_path("toolroute") / "bin"


def binary_path() -> Path:
    """Return the path of the server in the cache folder. The file need not exist."""
    return cache_folder() / ("temporal.exe" if os.name == "nt" else "temporal")


def cached_binary() -> str | None:
    """Return the path of the server in the cache folder, or None."""
    path = binary_path()
    return str(path) if path.is_file() and os.access(path, os.X_OK) else None


def _moved_from(folder: str) -> str:
    """Move the only file of a folder to its final path in one step, and return the path."""
    (downloaded,) = Path(folder).iterdir()
    return str(downloaded.replace(binary_path()))


async def _download(folder: str) -> None:
    """Let the SDK download the server. It does so when it starts one."""
    from temporalio.testing import WorkflowEnvironment

    await (
        await WorkflowEnvironment.start_local(
            download_dest_dir=folder, dev_server_log_level="error"
        )
    ).shutdown()
