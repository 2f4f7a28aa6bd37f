"""How a connection reaches its server: a child process or streamable HTTP, each watched for its end."""

import asyncio
import os
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO
from urllib.parse import urlsplit

from orchestrator.mcp.child import attended
from orchestrator.mcp.launch import Launch
from orchestrator.mcp.repairs import Repairs

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_TAIL_LINES = 3
_TAIL_CHARS = 200
_CHUNK = 65_536


class Stderr:
    """The last lines of a child's standard error. The rest is read and dropped, so a child that floods it never blocks
    and never reaches the terminal."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._rest = b""
        self._read: Callable[[], None] | None = None
        """Reads what the pipe holds; None where there is none."""

    @contextmanager
    def pipe(self) -> Iterator[TextIO]:
        """The end to give to the child; close it once the child runs."""
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        loop = asyncio.get_running_loop()
        self._read = read = partial(self._drain, loop, read_end)
        loop.add_reader(read_end, read)
        try:
            with os.fdopen(write_end, "w") as writer:
                yield writer
        finally:
            read()
            self._read = None
            loop.remove_reader(read_end)
            os.close(read_end)

    def _drain(self, loop: asyncio.AbstractEventLoop, read_end: int) -> None:
        try:
            chunk = os.read(read_end, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            loop.remove_reader(read_end)
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._lines.extend(line for line in lines if line.strip())
        self._rest = rest[-_CHUNK:]

    def tail(self, scrub: Callable[[str], str]) -> str:
        """The last lines on one line, scrubbed of secrets and then shortened: half of a secret is one too.

        What a server said as it died may still lie in the pipe when its end is seen.
        """
        if self._read is not None:
            self._read()
        lines = [*self._lines, self._rest] if self._rest.strip() else list(self._lines)
        shown = (scrub(line.decode("utf-8", "replace").strip()) for line in lines[-_TAIL_LINES:])
        return " | ".join(line if len(line) <= _TAIL_CHARS else f"{line[:_TAIL_CHARS]}..." for line in shown)


class _Watched:
    """A read stream that shows what arrives to `repairs`, and reports its end, which is how a server's death is seen
    before anyone calls it."""

    def __init__(self, inner: Any, ended: Callable[[], None], repairs: Repairs) -> None:
        self._inner, self._ended, self._repairs = inner, ended, repairs

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> "_Watched":
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._ended()
            raise
        self._repairs.received(item)
        return item

    async def receive(self) -> Any:
        return await self._inner.receive()

    async def aclose(self) -> None:
        self._ended()
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> bool | None:
        self._ended()
        left: bool | None = await self._inner.__aexit__(*exc)
        return left


class _Shown:
    """A write stream that shows what is sent to `repairs`."""

    def __init__(self, inner: Any, repairs: Repairs) -> None:
        self._inner, self._repairs = inner, repairs

    async def send(self, item: Any) -> None:
        self._repairs.sent(item)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> bool | None:
        left: bool | None = await self._inner.__aexit__(*exc)
        return left


@asynccontextmanager
async def stdio(
    launch: Launch, stderr: Stderr, ended: Callable[[], None], unread: Callable[[], None], repairs: Repairs
) -> AsyncIterator["TransportStreams"]:
    """Runs the command. Its environment is what the entry names, and HOME, LOGNAME, PATH, SHELL, TERM and USER."""
    from mcp import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=executable(launch) or launch.command,
        args=list(launch.args),
        env=launch.env,
        cwd=launch.cwd,
        # A byte that is no UTF-8 spoils its line, not the connection.
        encoding_error_handler="replace",
    )
    with stderr.pipe() as errlog:
        async with attended(stdio_client(parameters, errlog=errlog), unread) as (read, write):
            errlog.close()
            yield _Watched(read, ended, repairs), _Shown(write, repairs)


@asynccontextmanager
async def http(
    launch: Launch, ended: Callable[[], None], streams: Callable[[], None], repairs: Repairs
) -> AsyncIterator["TransportStreams"]:
    """Reaches the URL with the entry's headers. No read timeout: deadlines are each call's own."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from orchestrator.mcp.http_guard import MAX_ANSWER_BYTES, guarded_client

    loopback = urlsplit(launch.url).hostname in {"localhost", "127.0.0.1", "::1"}
    timeout = httpx2.Timeout(30.0, read=None)
    client = guarded_client(
        streams, launch.secrets.scrub, headers=launch.headers, timeout=timeout, trust_env=not loopback
    )
    async with (
        client,
        # The library's own limit of 1 MiB refuses results that stdio lets through.
        streamable_http_client(launch.url, http_client=client, max_sse_event_size=MAX_ANSWER_BYTES) as (read, write),
    ):
        yield _Watched(read, ended, repairs), _Shown(write, repairs)


def executable(launch: Launch) -> str | None:
    """The command as it is started, None where it is not there: one that is installed beside toolroute is found
    without its folder being on the PATH."""
    command = launch.command
    if os.sep in command:
        return command if shutil.which(Path(launch.cwd or "", command)) else None
    search = launch.env.get("PATH") or os.defpath if "PATH" in launch.env else None
    beside = Path(sys.executable).parent / command
    return command if shutil.which(command, path=search) else shutil.which(str(beside))
