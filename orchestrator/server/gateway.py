"""What `toolroute serve` offers, apart from the protocol: search and call over all configured servers, by tenant."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import check_arguments, parameters
from orchestrator.errors import ServerUnavailable, StoreUnavailable, Unauthorised, UnknownTool
from orchestrator.mcp.calls import Call, OnProgress
from orchestrator.mcp.config import McpConfig
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.results import as_mcp_result
from orchestrator.mcp.sync import keep_current
from orchestrator.records.digests import same_server
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Kind, Match, Tool
from orchestrator.routing import select
from orchestrator.routing.costs import definition_tokens
from orchestrator.routing.router import Router
from orchestrator.server.notices import Notices
from orchestrator.server.unlisted import Unlisted
from orchestrator.store.store import Store

if TYPE_CHECKING:
    from mcp.types import CallToolResult

_REMEMBERED = 10_000
_MOST = 50
_MOST_COMPARED = 2_000
_MOST_TOKENS = 8_000
"""Of the definitions that a search shows, as of a call's result."""


class Gateway:
    """Searches a store's tools and calls those of the configured servers; each tenant has its own connections.

    A tenant's servers that the store does not know are listed and stored before its first search is answered, which
    waits up to 20 s for that, 2 s where it knows others; those that fail are named in a warning and tried again. A tool
    that is known is called without any of that. With `warm`, the servers of recommended tools are connected while the
    model thinks. `changed` is asked before all of it, and gives another configuration where there is one.
    """

    def __init__(
        self,
        config: McpConfig,
        store: Store,
        router: Router,
        *,
        warm: bool = False,
        changed: Callable[[], McpConfig | None] = lambda: None,
        note: Callable[[str], None] = lambda _: None,
        **limits: Any,
    ) -> None:
        self.config = config
        self._store, self._router = store, router
        self._warm, self._changed, self._note, self._limits = warm, changed, note, limits
        self._pools: dict[str, Connections] = {}
        self._unlisted: dict[str, Unlisted] = {}
        self._entries: dict[str, tuple[str, dict[str, str]]] = {}
        self._offered: OrderedDict[tuple[str, str], Tool] = OrderedDict()
        self.notices = Notices(self.always)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(0)
        await self._router.aclose()

    async def stop(self, after_s: float) -> None:
        """Ends the streams of notices at once, and after so many seconds the calls that are still under way."""
        await self.notices.close()
        await asyncio.sleep(after_s)
        await asyncio.gather(*(unlisted.close() for unlisted in self._unlisted.values()))
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    async def search(self, tenant: str, query: str, limit: int, hint: RouteHint) -> dict[str, Any]:
        """The best tools for a task as JSON: each with its schema, score and why; and how sure the whole is."""
        await self._follow()
        # Taken before routing: a server that is listed meanwhile is not among the matches, so its warning stays.
        unlisted = (await self._listed(tenant)).reasons()
        catalogue = (await self._router.index(tenant)).whole
        # Tools that only other faces can call (agents, integrations) are passed by, so more are asked for.
        width = limit if all(map(self._callable, catalogue)) else min(_MOST, 3 * limit)
        request = RouteRequest(
            query=query, tenant=tenant, limit=width, route_hint=hint, token_cap=_MOST_TOKENS * width // limit
        )
        decision = await self._router.route(request)
        # What is stored of a server that is yet to be listed is another one's of that name.
        found = [match for match in decision.matches if self._callable(match.tool)]
        found = [match for match in found if match.tool.server not in unlisted][:limit]
        # The wider request had a wider cap: what others took of it is not these tools' to fill.
        matches, dropped = select.fit(found, _MOST_TOKENS, definition_tokens)
        shown = {match.tool.key for match in matches}
        for match in matches:
            self._remember(tenant, match.tool)
        servers = [server for server in decision.servers if any(match.tool.server == server for match in matches)]
        if self._warm:
            self._pool(tenant).warm(servers)
        return {
            "matches": [_match_json(match) for match in matches],
            "recommended": [key for key in decision.recommended if key in shown],
            "stage": str(decision.stage),
            "confidence": round(decision.confidence, 4),
            "semantic_ran": decision.semantic_ran,
            "servers": servers,
            "warnings": [*decision.warnings, *_left_out(dropped), *_not_among(unlisted)],
        }

    async def call(
        self,
        tenant: str,
        key: str,
        arguments: Mapping[str, Any],
        idempotency_key: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> "CallToolResult":
        """Calls a tool of the tenant's present catalogue; what was found by another tenant or earlier counts nothing.

        Raises UnknownTool, InvalidArguments, and what Connections.call raises.
        """
        await self._follow()
        tool = await self._tool(tenant, key)
        if not self._callable(tool):
            of_mcp = tool.kind is Kind.MCP
            why = "it is not among the servers' tools here" if of_mcp else f"its kind is {tool.kind}"
            raise UnknownTool(f"{key!r} is not called through MCP servers: {why}")
        chosen = self._offered.get((tenant, key), tool)
        given = dict(arguments) if chosen.hash != tool.hash else check_arguments(tool, arguments)
        call = replace(Call.of(chosen, given, idempotency_key), on_progress=on_progress)
        return as_mcp_result(await self._pool(tenant).exchange(call))

    async def _tool(self, tenant: str, key: str) -> Tool:
        """From the tenant's present catalogue; only what is not in it has its server listed first.

        A server whose name another entry's has in the store is asked itself: that one's tools are not its own.
        """
        catalogue = (await self._router.index(tenant)).whole
        server, _, name = key.partition(":")
        if await self._is_anothers(tenant, server, catalogue.fingerprint):
            catalogue = Catalogue(tool for tool in await self._pool(tenant).tools(server) if tool.name == name)
        if key in catalogue.positions:
            return catalogue[key]
        unlisted = await self._listed(tenant, server)
        catalogue = (await self._router.index(tenant)).whole
        if key in catalogue.positions:
            return catalogue[key]
        if why := unlisted.why(server):
            raise ServerUnavailable(f"{key} is not known yet, as nothing is of server {server!r}: {why}")
        meant = self._meant(key, catalogue)
        raise UnknownTool(f"no tool {key!r}{meant}: use `search`, and give a match's `tool` as it stands there")

    def _meant(self, key: str, catalogue: Catalogue) -> str:
        """Which of the tenant's tools may be meant by a key that none has: those of that name, else the likest ones."""
        server, _, name = key.rpartition(":")
        own = [tool for tool in catalogue if self._callable(tool)]
        named = [tool.key for tool in own if tool.name == name]
        likely = [tool.key for tool in own if tool.server == server] or [tool.key for tool in own]
        near = named[:3] or get_close_matches(key, likely[:_MOST_COMPARED], n=3)
        return f" (did you mean {' or '.join(near)}?)" if near else ""

    async def _is_anothers(self, tenant: str, server: str, fingerprint: str) -> bool:
        """Whether what is stored of a configured server was listed by another entry of its name: projects may share a
        store. Asked once a catalogue; a store that is away takes no call away."""
        spec = self.config.servers.get(server)
        known, entries = self._entries.get(tenant, ("", {}))
        if spec is not None and known != fingerprint:
            with suppress(StoreUnavailable, Unauthorised):
                entries = await asyncio.to_thread(self._store.entries, tenant)
                self._entries[tenant] = fingerprint, entries
        return spec is not None and not same_server(entries.get(server, spec.identity), spec.identity)

    async def always(self, tenant: str) -> tuple[Tool, ...]:
        """The always-available tools that this tenant has and that can be called here."""
        await self._follow()
        index = await self._router.index(tenant)
        return tuple(filter(self._callable, (index.catalogue.tools[position] for position in index.always.tools)))

    async def states(self, tenant: str) -> list[dict[str, Any]]:
        """How the tenant's servers stand here: state, tools, idle time, last error."""
        await self._follow()
        pool = self._pool(tenant)
        pool.know(await asyncio.to_thread(self._store.servers, tenant))
        return [state.to_json() for state in pool.states()]

    async def _follow(self) -> None:
        """Takes another configuration over; what the store lacks of it is listed before the next search."""
        config = self._changed()
        if config is not None:
            self.config = config
            for pool in self._pools.values():
                pool.renew(config)
            outdated, self._unlisted = self._unlisted, {}
            await asyncio.gather(*(unlisted.close() for unlisted in outdated.values()))

    def _callable(self, tool: Tool) -> bool:
        spec = self.config.servers.get(tool.server)
        return tool.kind is Kind.MCP and spec is not None and spec.lists(tool.name)

    def _entry(self, server: str) -> str:
        spec = self.config.servers.get(server)
        return spec.identity if spec else ""

    def _remember(self, tenant: str, tool: Tool) -> None:
        """Keeps which definition a client was shown, so that a call of one that has changed since can say so."""
        self._offered[tenant, tool.key] = tool
        self._offered.move_to_end((tenant, tool.key))
        while len(self._offered) > _REMEMBERED:
            self._offered.popitem(last=False)

    async def _listed(self, tenant: str, server: str | None = None) -> Unlisted:
        """What the store lacks of the tenant's servers, when it has been waited for: all, or the one that is needed."""
        if tenant not in self._unlisted:
            self._unlisted[tenant] = Unlisted(self._pool(tenant), self._store, tenant, self._note)
        unlisted = self._unlisted[tenant]  # Another configuration may be taken over while it is waited for.
        await unlisted.listed(server)
        return unlisted

    def _pool(self, tenant: str) -> Connections:
        if tenant not in self._pools:
            at_hand = partial(self._router.catalogue_at_hand, tenant)
            self._pools[tenant] = Connections(
                self.config,
                on_listed=keep_current(self._store, tenant, at_hand, self._entry),
                **self._limits,
            )
        return self._pools[tenant]


def _left_out(dropped: Sequence[Match]) -> list[str]:
    if not dropped:
        return []
    keys = ", ".join(match.tool.key for match in dropped)
    return [f"{keys}: left out, as no more fits into {_MOST_TOKENS:,} tokens; `call_tool` takes them all the same"]


def _not_among(unlisted: Mapping[str, str]) -> list[str]:
    return [f"the tools of server {name!r} are not among these: {why}" for name, why in unlisted.items()]


def _match_json(match: Match) -> dict[str, Any]:
    return {
        "tool": match.tool.key,
        "description": match.tool.description,
        "input_schema": parameters(match.tool),
        "score": round(match.score, 4),
        "why": match.why,
    }
