"""An endpoint in OpenAI's form: one client for each event loop, with bounded answers and without retries."""

import asyncio
from typing import TYPE_CHECKING

from orchestrator.common.endpoints import address, secrets_of
from orchestrator.common.redact import Secrets

if TYPE_CHECKING:
    from openai import AsyncOpenAI

UNREADABLE = (
    ArithmeticError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RecursionError,
)
"""The errors of reading an answer in another form. The client does not check what an endpoint answers."""
_CONNECT_S = 5.0
"""Seconds to connect. An endpoint that does not accept a connection in this time is not there."""


class Endpoint:
    """An endpoint in OpenAI's form. Its client opens on first use. In another event loop, a new client opens.

    Args:
        url: The address.
        timeout_s: Seconds for an answer.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def where(self) -> str:
        """The address without a password or a key."""
        return address(self.url)

    def secrets(self, key: str | None) -> Secrets:
        """Return the key and the secrets in the address. No error and no log may show them."""
        return secrets_of(self.url, key)

    def client(self, key: str | None) -> "AsyncOpenAI":
        """Return the client of this event loop, which its connections belong to."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            from openai import AsyncOpenAI, Timeout

            from orchestrator.common.bounded_http import AsyncBoundedClient

            self._loop = loop
            timeout = Timeout(self.timeout_s, connect=min(_CONNECT_S, self.timeout_s))
            self._client = AsyncOpenAI(
                api_key=key or "none",
                base_url=self.url,
                max_retries=0,
                timeout=timeout,
                http_client=AsyncBoundedClient(timeout=timeout, follow_redirects=True),
            )
        return self._client

    async def aclose(self) -> None:
        """Close the client. A later question opens a new one."""
        client = self._client
        # First: a question that comes while the old client closes opens a new one.
        self._client = None
        if client is not None:
            await client.close()
