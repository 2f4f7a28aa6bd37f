"""HTTP clients for model endpoints, with a limit of bytes and of time for each answer.

The library reads an answer to its end, and its own timeout starts again with every byte.
"""

import time
from typing import Any

import httpx2

MOST_BYTES = 64 * 2**20
"""The maximum size of an unpacked answer, in bytes. The largest normal answer, 100 embeddings with 8,192 numbers each,
has 18 MiB."""
_OF_THE_TRANSFER = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class AnswerTooLong(httpx2.ReadError):
    """The answer is larger than MOST_BYTES."""


class BoundedClient(httpx2.Client):
    """Reads the whole body of an answer within the limits. Otherwise it raises AnswerTooLong or ReadTimeout."""

    def send(self, request: httpx2.Request, *, stream: bool = False, **given: Any) -> httpx2.Response:
        response = super().send(request, stream=True, **given)
        body = _Body(request)
        try:
            for chunk in response.iter_bytes():
                body.add(chunk)
        finally:
            response.close()
        return body.of(response)


class AsyncBoundedClient(httpx2.AsyncClient):
    """A BoundedClient for an event loop."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **given: Any) -> httpx2.Response:
        response = await super().send(request, stream=True, **given)
        body = _Body(request)
        try:
            async for chunk in response.aiter_bytes():
                body.add(chunk)
        finally:
            await response.aclose()
        return body.of(response)


class _Body:
    def __init__(self, request: httpx2.Request) -> None:
        self._request, self._content = request, bytearray()
        limit_s = request.extensions.get("timeout", {}).get("read")
        self._ends = None if limit_s is None else time.monotonic() + limit_s

    def add(self, chunk: bytes) -> None:
        self._content += chunk
        if len(self._content) > MOST_BYTES:
            raise AnswerTooLong(f"the answer has more than {MOST_BYTES // 2**20} MiB", request=self._request)
        if self._ends is not None and time.monotonic() > self._ends:
            raise httpx2.ReadTimeout("the answer took too long", request=self._request)

    def of(self, response: httpx2.Response) -> httpx2.Response:
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_TRANSFER]
        return httpx2.Response(
            response.status_code, headers=headers, content=bytes(self._content), request=response.request
        )
