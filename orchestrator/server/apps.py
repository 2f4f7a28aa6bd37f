"""MCP Apps (`io.modelcontextprotocol/ui`): tools with a user interface, which the client's host shows.

A server's tool names its interface, a resource with the scheme `ui://`:

    {"name": "get_time", "_meta": {"ui": {"resourceUri": "ui://clock/app.html", "visibility": ["model", "app"]}}}

The host reads the resource and shows it. The app then calls tools of its own server by their plain names, such as
`get_time`, because it does not know the gateway.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from orchestrator.errors import UnknownTool
from orchestrator.mcp.listing.offers import Offer
from orchestrator.records.tool import Tool
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.server.uris import split_uri, with_shown_ui

EXTENSION = "io.modelcontextprotocol/ui"
_MAX_CONVERSATIONS = 1_000
"""Conversations whose servers are remembered. A client does not say when one ends, so the oldest goes."""


def tool_meta(tool: Tool, offer: Offer) -> dict[str, Any] | None:
    """Return the `_meta` of a tool as clients see it."""
    meta = offer.tools.get(tool.name, {}).get("_meta")
    return with_shown_ui(tool.server, meta) if isinstance(meta, dict) else None


def interface(tool: Tool, offer: Offer) -> dict[str, Any] | None:
    """Return the `ui` part of a tool's `_meta` as clients see it."""
    meta = tool_meta(tool, offer) or {}
    ui = meta.get("ui")
    return ui if isinstance(ui, dict) else None


def is_visible_to(audience: str, tool: Tool, offer: Offer) -> bool:
    """Return True if the tool's server shows it to this audience, `model` or `app`."""
    visibility = (interface(tool, offer) or {}).get("visibility")
    return not isinstance(visibility, list) or audience in visibility


class OpenApps:
    """The servers whose apps each conversation has opened. Their plain tool names are known there."""

    def __init__(self) -> None:
        self._servers: OrderedDict[Conversation, set[str]] = OrderedDict()

    def opened(self, who: Conversation, uri: str) -> None:
        """Remember that a client has read a resource, if it is an app."""
        located = split_uri(uri)
        if located is None or not uri.startswith("ui://"):
            return
        server, _ = located
        self._servers.setdefault(who, set()).add(server)
        self._servers.move_to_end(who)
        if len(self._servers) > _MAX_CONVERSATIONS:
            self._servers.popitem(last=False)

    def servers(self, who: Conversation) -> list[str]:
        return sorted(self._servers.get(who, ()))

    def key_of(
        self, name: str, who: Conversation, offers: Mapping[str, Offer], tools: Mapping[str, Tool]
    ) -> str:
        """Return the key of the tool that an app calls by its plain name.

        Args:
            name: The plain name.
            who: The conversation in which the app is open.
            offers: The offers of the servers whose apps are open.
            tools: The tools of these servers by key.

        Raises:
            UnknownTool: No server with an open app has the tool for apps, or several have.
        """
        keys = [f"{server}:{name}" for server in self.servers(who)]
        callable_keys = [
            key
            for key in keys
            if key in tools
            and is_visible_to("app", tools[key], offers.get(tools[key].server, Offer()))
        ]
        if len(callable_keys) == 1:
            return callable_keys[0]
        if callable_keys:
            several = " and ".join(callable_keys)
            raise UnknownTool(f"the tool {name!r} may be {several}: give one of these keys")
        raise UnknownTool(
            f"the open app's server has no tool {name!r} for apps: an app calls its own server's tools"
        )
