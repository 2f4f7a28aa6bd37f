"""HTTP clients for model endpoints, with a limit of bytes and of time for each answer.

The library reads an answer to its end, and its own timeout starts again with every byte.
"""

import asyncio
from threading import Event, Timer
from typing import Any

import httpx2

MOST_BYTES = 64 * 2**20
"""The maximum size of an unpacked answer, in bytes. The largest normal answer, 100 embeddings with 8,192 numbers each,
has 18 MiB."""
_OF_THE_TRANSFER = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class AnswerTooLong(httpx2.ReadError):
    """The answer is larger than MOST_BYTES."""


class BoundedClient(httpx2.Client):
    """Reads the whole answer within the limits. Otherwise it raises AnswerTooLong or ReadTimeout."""

    def send(self, request: httpx2.Request, *, stream: bool = False, **given: Any) -> httpx2.Response:
        body, is_late = _Body(request), Event()
        timer = Timer(_limit_s(request) or 0, self._drop, (is_late,))
        timer.daemon = True
        if _limit_s(request) is not None:
            timer.start()
        try:
            response = super().send(request, stream=True, **given)
            try:
                for chunk in response.iter_bytes():
                    body.add(chunk)
            finally:
                response.close()
        except httpx2.TransportError:
            if is_late.is_set():
                raise _late(request) from None
            raise
        finally:
            timer.cancel()
        return body.of(response)

    def _drop(self, is_late: Event) -> None:
        """Close the connections, because nothing else ends a read to which bytes still come."""
        is_late.set()  # First: the read fails in its thread as soon as its connection is closed.
        for transport in (self._transport, *self._mounts.values()):
            if transport is not None:
                transport.close()


class AsyncBoundedClient(httpx2.AsyncClient):
    """A BoundedClient for an event loop."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **given: Any) -> httpx2.Response:
        body = _Body(request)
        try:
            async with asyncio.timeout(_limit_s(request)):
                response = await super().send(request, stream=True, **given)
                try:
                    async for chunk in response.aiter_bytes():
                        body.add(chunk)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise _late(request) from None
        return body.of(response)


def _limit_s(request: httpx2.Request) -> float | None:
    """Return the seconds for the whole answer: the read timeout, or None for no limit."""
    limit_s: float | None = request.extensions.get("timeout", {}).get("read")
    return limit_s


def _late(request: httpx2.Request) -> httpx2.ReadTimeout:
    return httpx2.ReadTimeout("the answer took too long", request=request)


class _Body:
    def __init__(self, request: httpx2.Request) -> None:
        self._request, self._content = request, bytearray()

    def add(self, chunk: bytes) -> None:
        self._content += chunk
        if len(self._content) > MOST_BYTES:
            raise AnswerTooLong(f"the answer has more than {MOST_BYTES // 2**20} MiB", request=self._request)

    def of(self, response: httpx2.Response) -> httpx2.Response:
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_TRANSFER]
        return httpx2.Response(
            response.status_code, headers=headers, content=bytes(self._content), request=response.request
        )
