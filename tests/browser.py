"""A real browser for the pages: Chromium as npm brought it, pinned, with the libraries and fonts that it needs."""

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import portalocker
import pytest

from tests.servers.real import NODE_MODULES, node
from tests.shared_data import skip_or_fail

if TYPE_CHECKING:
    from playwright.async_api import Browser

_PACKAGE = NODE_MODULES / "@sparticuz" / "chromium"
_UNPACK = "import chromium from '@sparticuz/chromium'; console.log(await chromium.executablePath())"
_ARGUMENTS = ["--no-sandbox", "--no-zygote", "--disable-gpu", "--font-render-hinting=none"]


def unpacked() -> Path:
    """Return the folder with Chromium, ready to run. It is unpacked once per machine."""
    if node is None or not _PACKAGE.is_dir():
        skip_or_fail("no browser: `make node-servers` brings one")
    version = (_PACKAGE / "package.json").stat().st_mtime_ns
    folder = Path(tempfile.gettempdir()) / f"toolroute-tests-chromium-{os.getuid()}-{version}"
    folder.mkdir(exist_ok=True, mode=0o700)
    # As on the system that it was made for, so that its libraries are unpacked, too.
    environ = {**os.environ, "TMPDIR": str(folder), "AWS_LAMBDA_JS_RUNTIME": "nodejs22.x"}
    with portalocker.Lock(folder / "lock", timeout=120):
        subprocess.run(
            [node, "--input-type=module", "-e", _UNPACK],
            cwd=NODE_MODULES.parent,
            env=environ,
            check=True,
            timeout=120,
            capture_output=True,
        )
    return folder


@asynccontextmanager
async def chromium() -> AsyncIterator["Browser"]:
    """A running browser."""
    from playwright.async_api import async_playwright  # Every test run reads this file, and few need it.

    folder = unpacked()
    libraries = {"LD_LIBRARY_PATH": str(folder / "al2023" / "lib")}
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=str(folder / "chromium"), args=_ARGUMENTS, env={**os.environ, **libraries}
        )
        try:
            yield started
        finally:
            await started.close()


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator["Browser"]:
    async with chromium() as started:
        yield started
