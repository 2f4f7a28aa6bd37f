"""MCP Apps (`io.modelcontextprotocol/ui`): tools with a user interface, which the client's host shows.

A server's tool names its interface, a resource with the scheme `ui://`:

    {"name": "get_time", "_meta": {"ui": {"resourceUri": "ui://clock/app.html", "visibility": ["model", "app"]}}}

The host reads the resource and shows it. The app then calls its server's tools by their plain names, such as
`get_time`, because it does not know the gateway.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.common.recent import Recent
from orchestrator.errors import UnknownTool
from orchestrator.mcp.listing.offers import Offer
from orchestrator.records.tool import Tool
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.server.uris import split_uri, with_shown_ui

_MAX_CONVERSATIONS = 1_000
"""Conversations whose servers are remembered. A client does not say when one ends, so the oldest goes."""


def tool_meta(tool: Tool, offer: Offer) -> dict[str, Any]:
    """Return the `_meta` of a tool as clients see it."""
    meta = offer.tools.get(tool.name, {}).get("_meta")
    return with_shown_ui(tool.server, meta) if isinstance(meta, dict) else {}


def interface(tool: Tool, offer: Offer) -> dict[str, Any]:
    """Return the `ui` part of a tool's `_meta` as clients see it."""
    ui = tool_meta(tool, offer).get("ui")
    return ui if isinstance(ui, dict) else {}


def is_visible_to(audience: str, tool: Tool, offer: Offer) -> bool:
    """Return True if the tool's server shows it to this audience. A tool without a list of audiences is for both.

    Args:
        audience: `model` or `app`.
        tool: The tool.
        offer: The stored offer of the tool's server.
    """
    visibility = interface(tool, offer).get("visibility")
    return not isinstance(visibility, list) or audience in visibility


class OpenApps:
    """The servers whose apps each conversation has opened. Their plain tool names are known there."""

    def __init__(self) -> None:
        self._servers = Recent[Conversation, set[str]](_MAX_CONVERSATIONS)

    def opened(self, who: Conversation, uri: str) -> None:
        """Remember that a client has read a resource, if it is an app."""
        located = split_uri(uri)
        if located is None or not uri.startswith("ui://"):
            return
        server, _ = located
        self._servers[who] = {*self.servers(who), server}

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
        keys = list[str]()
        for server in self.servers(who):
            tool = tools.get(f"{server}:{name}")
            if tool is not None and is_visible_to("app", tool, offers.get(server, Offer())):
                keys.append(tool.key)
        if not keys:
            raise UnknownTool(
                f"the open app's server has no tool {name!r} for apps: an app calls its own server's tools"
            )
        if len(keys) > 1:
            several = " and ".join(keys)
            raise UnknownTool(f"the tool {name!r} may be {several}: give one of these keys")
        return keys[0]
