"""`toolroute ui` in a process of its own. A test visits its pages as a browser does."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

_LINK = re.compile(rb"open (http://127\.0\.0\.1:\d+/\?token=\S+)")


@asynccontextmanager
async def started(folder: Path, *options: object) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """Run `toolroute ui` in the folder: its link, and the process."""
    command = (sys.executable, "-m", "orchestrator", "ui", *map(str, options))
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(120):
            while not (match := _LINK.search(line := await process.stderr.readline())):
                assert line, "it ended"
        yield match[1].decode(), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def base_of(link: str) -> str:
    """The address of the pages, without a path."""
    parts = urlsplit(link)
    return f"{parts.scheme}://{parts.netloc}"


def visiting(link: str, **settings: Any) -> httpx2.AsyncClient:
    """A browser that has not opened the link yet."""
    return httpx2.AsyncClient(**{"base_url": base_of(link), "timeout": 120, **settings})


@asynccontextmanager
async def visitor_of(link: str, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that has opened the link."""
    async with visiting(link, **settings) as browser:
        await browser.get(link)
        yield browser
