"""How a connection reaches its server: a child process or streamable HTTP, each watched for its end."""

import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from orchestrator.mcp.launch import Launch
from orchestrator.records.redact import Secrets

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_TAIL_LINES = 3
_TAIL_CHARS = 200
_LONGEST_LINE = 65_536
_LAST_WORDS_S = 0.05
_CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "NODE_USE_SYSTEM_CA", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS"),
)
"""Without them no child reaches anything behind a proxy with certificates of its own."""


class Stderr:
    """The last lines of a child's standard error; the rest is dropped, so that a child that floods it never blocks."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._reader = Thread()

    @contextmanager
    def pipe(self) -> Iterator[TextIO]:
        """Give the end for the child; close it once the child runs."""
        read_end, write_end = os.pipe()
        self._reader = Thread(target=self._read, args=(read_end,), daemon=True)
        self._reader.start()
        with os.fdopen(write_end, "w") as writer:
            yield writer

    def _read(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb") as pipe:
            while line := pipe.readline(_LONGEST_LINE):
                if line.strip():
                    self._lines.append(line)

    def tail(self, secrets: Secrets) -> str:
        """Return the last lines on one line, redacted and then shortened: half of a secret is one too."""
        if self._reader.is_alive():
            self._reader.join(_LAST_WORDS_S)  # What a server said as it died may still lie in the pipe.
        shown = (secrets.redact(line.decode("utf-8", "replace").strip()) for line in list(self._lines))
        return " | ".join(line if len(line) <= _TAIL_CHARS else f"{line[:_TAIL_CHARS]}..." for line in shown)


class Watched:
    """A read stream that shows what arrives to `mend` and reports its end: so a server's death is seen at once."""

    def __init__(self, inner: Any, mend: Callable[[Any], None], ended: Callable[[], None]) -> None:
        self._inner, self._mend, self._ended = inner, mend, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._ended()
            raise
        self._mend(item)
        return item

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> bool | None:
        self._ended()
        return cast("bool | None", await self._inner.__aexit__(*exc))


@asynccontextmanager
async def stdio(launch: Launch, stderr: Stderr) -> AsyncIterator["TransportStreams"]:
    """Run the command with what the entry names, the shell's certificates, and the library's defaults (PATH, HOME)."""
    from mcp import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=launch.executable or launch.command,
        args=list(launch.args),
        env={**{name: os.environ[name] for name in _CERTIFICATES if name in os.environ}, **launch.env},
        cwd=launch.cwd,
        # A byte that is no UTF-8 spoils its line, not the connection.
        encoding_error_handler="replace",
    )
    with stderr.pipe() as errlog:
        async with stdio_client(parameters, errlog=errlog) as streams:
            errlog.close()
            yield streams


@asynccontextmanager
async def http(launch: Launch, streams: Callable[[], None]) -> AsyncIterator["TransportStreams"]:
    """Reach the URL with the entry's headers; `streams` is called once the server's own messages arrive."""
    from mcp.client.streamable_http import streamable_http_client

    from orchestrator.mcp.http_client import MAX_ANSWER_BYTES, GuardedClient

    async with (
        GuardedClient(launch, streams) as client,
        # The library's own limit of 1 MiB refuses results that stdio lets through.
        streamable_http_client(launch.url, http_client=client, max_sse_event_size=MAX_ANSWER_BYTES) as both,
    ):
        yield both
