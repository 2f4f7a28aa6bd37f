"""How a server's messages are watched on their way, and how one is reached over HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, cast

import anyio

from orchestrator.mcp.config.launch import Launch

if TYPE_CHECKING:
    from httpx2 import Auth
    from mcp.client._transport import TransportStreams


_BURST = 100.0
_A_SECOND = 100.0
_A_CALL = 50.0


class Pace:
    """Limits the rate at which a server's messages are read: a burst, then a number a second, and more for each call.

    A server that floods waits, so that other work gets its time.
    """

    def __init__(self) -> None:
        self._left = _BURST
        self._at = 0.0

    def allow_call(self) -> None:
        self._left = min(_BURST, self._left + _A_CALL)

    def charge(self, seconds: float) -> None:
        """Charge the time for reading a message, so that one server uses at most a tenth of the event loop's time."""
        self._left -= 10 * seconds * _A_SECOND

    async def take(self) -> None:
        now = anyio.current_time()
        self._left = min(_BURST, self._left + (now - self._at) * _A_SECOND) - 1
        self._at = now
        if self._left < 0:
            await anyio.sleep(-self._left / _A_SECOND)


class _Wrapped:
    """A stream of the MCP library, of which a subclass changes one step."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> bool | None:
        return cast("bool | None", await self._inner.__aexit__(*exc))


class Watched(_Wrapped):
    """A read stream that passes messages through `mend` at a server's `pace`, and reports its end at once."""

    def __init__(
        self,
        inner: Any,
        pace: Pace,
        mend: Callable[[Any], Awaitable[None]],
        ended: Callable[[], None],
    ) -> None:
        super().__init__(inner)
        self._pace = pace
        self._mend = mend
        self._ended = ended

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._ended()
            raise
        await self._pace.take()
        await self._mend(item)
        return item

    async def __aexit__(self, *exc: object) -> bool | None:
        self._ended()
        return await super().__aexit__(*exc)


class Proposing(_Wrapped):
    """A write stream that proposes a protocol version of 2025 or earlier. The library proposes its newest one only."""

    def __init__(self, inner: Any, version: str) -> None:
        super().__init__(inner)
        self._version = version

    async def send(self, item: Any) -> None:
        request = item.message
        if getattr(request, "method", "") == "initialize":
            request.params["protocolVersion"] = self._version
        await self._inner.send(item)


@asynccontextmanager
async def http(
    launch: Launch, streams: Callable[[], None], auth: "Auth | None"
) -> AsyncIterator["TransportStreams"]:
    """Connect to the URL with the entry's headers (streamable HTTP).

    Args:
        launch: The entry with its variables replaced.
        streams: Called when the server's own messages can arrive.
        auth: The sign-in, if any.
    """
    from mcp.client.streamable_http import streamable_http_client

    from orchestrator.mcp.faults import MAX_MESSAGE_BYTES
    from orchestrator.mcp.transports.http_client import GuardedClient

    async with (
        GuardedClient(launch, streams, auth) as client,
        # The library's own limit of 1 MiB refuses results that stdio lets through.
        streamable_http_client(
            launch.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as both,
    ):
        yield both


@asynccontextmanager
async def sse(
    launch: Launch, streams: Callable[[], None], auth: "Auth | None"
) -> AsyncIterator["TransportStreams"]:
    """Connect to the URL with the older SSE transport, where the stream of a GET names the address for messages.

    The library only logs a refused message. Here its request receives the refusal as its answer.

    Args:
        launch: The entry with its variables replaced.
        streams: Called when the server's own messages can arrive.
        auth: The sign-in, if any.
    """
    from mcp.client.sse import sse_client
    from mcp.shared.message import SessionMessage

    from orchestrator.mcp.transports.http_client import SseClient

    incoming, both = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def pass_on(read: Any) -> None:
        async with incoming:
            async for message in read:
                await incoming.send(message)

    sse_http = SseClient(launch, streams, auth, incoming.send)

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> SseClient:
        return sse_http  # It has the entry's headers, and no limit on the time between events.

    async with (
        incoming,
        both,
        sse_client(launch.url, httpx_client_factory=client) as (read, write),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(pass_on, read)
        yield both, write
        tasks.cancel_scope.cancel()
