"""HTTP clients with a limit of bytes, after unpacking, of values, and of seconds for each answer.

The library reads an answer to its end, and its own timeout starts again with every byte. A hook on each response sets
the limits, so that they also apply to the requests of a sign-in:

    client = httpx2.AsyncClient(headers=ACCEPTED, event_hooks={"response": [limit_async(2**20)]})
"""

import asyncio
import logging
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import httpx2

from orchestrator.common.json_input import JsonSize

logger = logging.getLogger(__name__)

MOST_BYTES = 24 * 2**20
"""The maximum size of an unpacked answer, in bytes. An answer takes three times its size while it is decoded. A reader
of records, and the embedder, ask for fewer at a time if an answer is larger."""
MOST_VALUES = 500_000
"""The maximum number of texts, lists and objects in an answer: 24 MiB of empty lists would take .6 GB."""
MOST_NUMBERS = 2_000_000
"""The maximum number of commas in an answer. 512 embeddings with 3,072 numbers each have 1.6 million. A number takes 32
bytes."""
ACCEPTED = {"accept-encoding": "gzip"}
"""The header of a client with these hooks, which unpack nothing else."""
_GZIP = zlib.MAX_WBITS | 16
"""zlib's number for data with a gzip header."""
_PIECE = 2**18
"""Bytes that are unpacked or sent at a time. The limits are checked at each piece, so a bomb never fills the memory."""
_deadline: ContextVar[float | None] = ContextVar("_deadline", default=None)
"""The time (monotonic) at which the request that this thread makes has to end, or None for no limit."""


class AnswerTooLong(httpx2.ReadError):
    """The answer is larger than the limit."""


class BoundedClient(httpx2.Client):
    """Reads each answer within the limits. Otherwise it raises AnswerTooLong or ReadTimeout."""

    def __init__(self, *, headers: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(
            headers={**ACCEPTED, **(headers or {})},
            event_hooks={"response": [limit]},
            **settings,
        )
        for transport in (self._transport, *self._mounts.values()):
            if isinstance(transport, httpx2.HTTPTransport):
                _time_connections(transport)

    def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        limit_s = _limit_s(request)
        before = _deadline.set(None if limit_s is None else time.monotonic() + limit_s)
        try:
            response = super().send(request, stream=True, **options)
            try:
                response.read()
            finally:
                response.close()
        except (httpx2.ReadTimeout, httpx2.WriteTimeout):
            raise _late(request) from None
        finally:
            _deadline.reset(before)
        return response


def _time_connections(transport: httpx2.HTTPTransport) -> None:
    """Let the requests of a transport end at their deadlines. httpx2 has no public way to its connections."""
    pool: Any = getattr(transport, "_pool", None)
    if not hasattr(pool, "_network_backend"):
        logger.warning(
            "httpx2 %s is unknown to toolroute: an answer whose headers never end is not ended. Install httpx2 2.16",
            httpx2.__version__,
        )
        return
    pool._network_backend = _TimedNetwork(pool._network_backend)  # noqa: SLF001


class _TimedNetwork:
    """Opens connections on which a request ends at its deadline, also while bytes still come."""

    def __init__(self, network: Any) -> None:
        self._network = network

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def connect_tcp(self, *place: Any, **options: Any) -> "_TimedConnection":
        return _TimedConnection(self._network.connect_tcp(*place, **options))


class _TimedConnection:
    """A connection that serves one request after the other, each until the deadline of its thread."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        received: bytes = self._connection.read(max_bytes, _left_s(timeout))
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _PIECE):
            self._connection.write(buffer[start : start + _PIECE], _left_s(timeout))

    def start_tls(self, *context: Any, **options: Any) -> "_TimedConnection":
        return _TimedConnection(self._connection.start_tls(*context, **options))


def _left_s(timeout: float | None) -> float | None:
    """Return the seconds that one step of a request may take."""
    deadline = _deadline.get()
    if deadline is None:
        return timeout
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise httpx2.ReadTimeout("the deadline has passed")
    return left_s if timeout is None else min(timeout, left_s)


class AsyncBoundedClient(httpx2.AsyncClient):
    """A BoundedClient for an event loop."""

    def __init__(self, *, most_bytes: int | None = None, **settings: Any) -> None:
        super().__init__(
            headers=ACCEPTED, event_hooks={"response": [limit_async(most_bytes)]}, **settings
        )

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        try:
            async with asyncio.timeout(_limit_s(request)):
                response = await super().send(request, stream=True, **options)
                try:
                    await response.aread()
                finally:
                    await response.aclose()
        except TimeoutError:
            raise _late(request) from None
        return response


def limit_async(most_bytes: int | None = None) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a hook that limits each answer. The default limit is MOST_BYTES."""

    async def hook(response: httpx2.Response) -> None:
        limit(response, most_bytes)

    return hook


def limit(response: httpx2.Response, most_bytes: int | None = None) -> None:
    """Limit the bytes and the time of a response: the hook of a client without an event loop.

    A stream of events has no end, so its reader has to limit each event.
    """
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return
    # Without these headers, httpx2 neither unpacks the content again nor expects its packed length.
    packing = response.headers.pop("content-encoding", "identity").strip().lower()
    if packing != "identity":
        response.headers.pop("content-length", None)
    response.stream = _LimitedStream(
        response, packing, MOST_BYTES if most_bytes is None else most_bytes
    )


class _LimitedStream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """Unpacks a stream in small pieces, and raises an error at the limit of bytes or seconds."""

    def __init__(self, response: httpx2.Response, packing: str, most_bytes: int) -> None:
        self._stream: Any = response.stream
        self._request = response.request
        self._packing = packing
        self._most_bytes = most_bytes
        self._unpacker = zlib.decompressobj(_GZIP)
        self._bytes_left = most_bytes
        self._size = JsonSize()
        limit_s = _limit_s(response.request)
        self._deadline = None if limit_s is None else time.monotonic() + limit_s

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            yield from self._unpacked(chunk)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            for piece in self._unpacked(chunk):
                yield piece

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        for piece in self._pieces(chunk):
            self._bytes_left -= len(piece)
            if self._bytes_left < 0:
                raise AnswerTooLong(
                    f"the answer has more than {_size(self._most_bytes)}", request=self._request
                )
            self._size.add(piece)
            too_many = _too_many(self._size)
            if too_many:
                raise AnswerTooLong(f"the answer has more than {too_many}", request=self._request)
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise _late(self._request)
            yield piece

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        if self._packing == "identity":
            yield chunk
            return
        if self._packing not in ("gzip", "x-gzip"):
            raise httpx2.DecodingError(
                f"the answer is packed as {self._packing!r:.40}", request=self._request
            )
        try:
            while chunk and not self._unpacker.eof:
                yield self._unpacker.decompress(chunk, _PIECE)
                chunk = self._unpacker.unconsumed_tail
        except zlib.error as error:
            raise httpx2.DecodingError(
                f"the answer cannot be unpacked ({error})", request=self._request
            ) from None


def _too_many(size: JsonSize) -> str:
    """Return the limit of values that an answer exceeds, or ""."""
    if size.brackets + size.quotes // 2 > MOST_VALUES:
        return f"{MOST_VALUES:,} texts, lists and objects"
    if size.commas > MOST_NUMBERS:
        return f"{MOST_NUMBERS:,} numbers"
    return ""


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count // 2**10} KiB"


def _limit_s(request: httpx2.Request) -> float | None:
    """Return the seconds for the whole answer: the read timeout, or None for no limit."""
    limit_s: float | None = request.extensions.get("timeout", {}).get("read")
    return limit_s


def _late(request: httpx2.Request) -> httpx2.ReadTimeout:
    return httpx2.ReadTimeout("the answer took too long", request=request)
