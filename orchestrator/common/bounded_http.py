"""HTTP clients with a limit of bytes, after unpacking, and of seconds for each answer.

The library reads an answer to its end, and its own timeout starts again with every byte. The limits are set by a hook
on each response, so that they also hold for the requests that a sign-in sends in between:

    client = httpx2.AsyncClient(headers=ACCEPTED, event_hooks={"response": [limit_async(2**20)]})
"""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from threading import Event, Timer
from typing import Any

import httpx2

MOST_BYTES = 64 * 2**20
"""The maximum size of an unpacked answer, in bytes. The largest normal answer, 100 embeddings with 8,192 numbers each,
has 18 MiB."""
ACCEPTED = {"accept-encoding": "gzip"}
"""The header of a client with these hooks, which unpack nothing else."""
_GZIP = zlib.MAX_WBITS | 16
"""zlib's number for data with a gzip header."""
_PIECE = 2**18
"""Bytes that are unpacked at a time. The limit is checked after each piece, so a bomb never fills the memory."""


class AnswerTooLong(httpx2.ReadError):
    """The answer is larger than the limit."""


class BoundedClient(httpx2.Client):
    """Reads each answer within the limits. Otherwise it raises AnswerTooLong or ReadTimeout.

    A late answer also ends the client's other requests, because it closes all connections.
    """

    def __init__(self, *, headers: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__(
            headers={**ACCEPTED, **(headers or {})},
            event_hooks={"response": [limit]},
            **settings,
        )

    def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        is_late = Event()
        timer = Timer(_limit_s(request) or 0, self._drop, (is_late,))
        timer.daemon = True
        if _limit_s(request) is not None:
            timer.start()
        try:
            response = super().send(request, stream=True, **options)
            try:
                response.read()
            finally:
                response.close()
        except httpx2.TransportError:
            if is_late.is_set():
                raise _late(request) from None
            raise
        finally:
            timer.cancel()
        return response

    def _drop(self, is_late: Event) -> None:
        """Close the connections, because nothing else ends a read to which bytes still come."""
        is_late.set()  # First: the read fails in its thread as soon as its connection is closed.
        for transport in (self._transport, *self._mounts.values()):
            if transport is not None:
                transport.close()


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
    """Limit what can be read of a response: the hook of a client without an event loop.

    A stream of events has no end, so its reader has to limit each event.
    """
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return
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


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count // 2**10} KiB"


def _limit_s(request: httpx2.Request) -> float | None:
    """Return the seconds for the whole answer: the read timeout, or None for no limit."""
    limit_s: float | None = request.extensions.get("timeout", {}).get("read")
    return limit_s


def _late(request: httpx2.Request) -> httpx2.ReadTimeout:
    return httpx2.ReadTimeout("the answer took too long", request=request)
