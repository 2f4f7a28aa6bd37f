"""Change notifications of a connected server: its lists are read again and passed on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio

from orchestrator.mcp import faults
from orchestrator.mcp.listing.offers import Offer
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from mcp import Client

    from orchestrator.common.redact import Secrets

Tools = tuple[Tool, ...]

_GAP_S = 0.5
_MOST_GAP_S = 30.0
"""Seconds before a server is listed again. The pause doubles if nothing changed or the listing failed."""
_LISTEN_AGAIN_S = 2.0
"""Seconds before a stream of notifications is reopened. Proxies often end such streams."""

logger = logging.getLogger(__name__)


class Changes:
    """The changes of one server's tools and offer since they were read."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.streaming = asyncio.Event()
        """Set once the server's own messages arrive over HTTP."""
        self._tools = asyncio.Event()
        self._offer = asyncio.Event()

    def note(self, message: Any) -> None:
        """Note a notification, if it tells of a change."""
        from mcp import types

        if isinstance(message, types.ToolListChangedNotification):
            self._note_all()
        elif isinstance(
            message, types.ResourceListChangedNotification | types.PromptListChangedNotification
        ):
            self._offer.set()

    def _note_all(self) -> None:
        self._tools.set()
        self._offer.set()  # The offer has parts of the tools, too.

    async def follow_tools(
        self,
        listed_tools: Tools,
        pass_on: Callable[[Tools], Awaitable[None]],
        again: Callable[[], Awaitable[Tools]],
        secrets: "Secrets",
        fresh_s: Callable[[], float],
    ) -> None:
        """Pass on the server's tools now, after each change notification, and when the listing has expired.

        Some servers send a notification after each listing, so the interval between listings grows. A list that could
        not be passed on is retried.

        Args:
            listed_tools: The tools as listed on connecting.
            pass_on: Receives the tools.
            again: Lists the server again.
            secrets: Values to redact in error texts.
            fresh_s: Returns the seconds for which the listing may be used, 0 without a limit.
        """
        gap = _GAP_S
        while True:
            try:
                await pass_on(listed_tools)
                await _changed_or_expired(self._tools, gap, fresh_s())
                self._tools.clear()
                tools = await again()
                # A server that reports a change after each listing would be listed without end.
                gap = min(2 * gap, _MOST_GAP_S) if tools == listed_tools else _GAP_S
                listed_tools = tools
            except Exception as error:
                # The listing known so far stays: half of a new one would be worse.
                gap = min(2 * gap, _MOST_GAP_S)
                text = "server %s: its new tool list was not stored, retry in %g s: %s"
                logger.warning(text, self._server, gap, faults.in_words(error, secrets))
                await anyio.sleep(gap)
                self._tools.set()

    async def follow_offer(self, read: Callable[[], Awaitable[Offer]], secrets: "Secrets") -> None:
        """Read the offer now and after each change. The interval grows while nothing new is found."""
        gap = _GAP_S
        last_offer: Offer | None = None
        while True:
            self._offer.clear()
            try:
                offer = await read()
                gap = min(2 * gap, _MOST_GAP_S) if offer == last_offer else _GAP_S
                last_offer = offer
            except Exception as error:
                gap = min(2 * gap, _MOST_GAP_S)
                text = "server %s: its resources and prompts were not listed: %s"
                logger.warning(text, self._server, faults.in_words(error, secrets))
            await _changed_or_expired(self._offer, gap, last_offer.fresh_s if last_offer else 0.0)

    async def listen(self, client: "Client", over_http: bool, doubt: Callable[[], None]) -> None:
        """Subscribe to change notifications (protocol 2026-07-28).

        Older servers send notifications without a subscription, over HTTP once their stream is open. Changes before
        that moment were not received, so the server is listed again.

        Args:
            client: The connected client.
            over_http: True for a server with a URL.
            doubt: Called when a change may have been missed.
        """
        from mcp.client.subscriptions import ListenNotSupportedError

        able = client.server_capabilities
        kinds = {"tools": able.tools, "prompts": able.prompts, "resources": able.resources}
        wanted: Any = {
            f"{kind}_list_changed": True
            for kind, capability in kinds.items()
            if capability and capability.list_changed
        }
        while wanted:
            try:
                async with client.listen(**wanted) as events:
                    self._note_all()
                    async for _ in events:
                        self._note_all()
            except ListenNotSupportedError:
                if over_http:
                    await self.streaming.wait()
                    self._note_all()
                return
            except Exception as error:
                logger.debug(
                    "server %s: no notifications of changes: %s", self._server, type(error).__name__
                )
            await anyio.sleep(_LISTEN_AGAIN_S)
            doubt()  # A server that is gone is found out here.


async def _changed_or_expired(changed: asyncio.Event, gap: float, fresh_s: float) -> None:
    """Wait for a change and then for the gap, or until a listing of limited freshness has expired."""
    with anyio.move_on_after(max(gap, fresh_s) if fresh_s else None):
        await changed.wait()
        await anyio.sleep(gap)
