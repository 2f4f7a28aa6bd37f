"""The servers of one tenant behind the gateway: their connections, their listings, and their tools by name."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.keys import split_key
from orchestrator.common.recent import Recent
from orchestrator.errors import ServerUnavailable, UnknownTool
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.listing.offers import Offer, stored_offer
from orchestrator.mcp.server_requests import Host
from orchestrator.mcp.sync import keep_current, keep_offer
from orchestrator.records.tool import Tool, as_chosen
from orchestrator.runtime.router import Router
from orchestrator.server.initial_sync import InitialSync, Note
from orchestrator.server.sessions.client_profile import current
from orchestrator.server.sessions.clients import Clients
from orchestrator.server.sessions.subscriptions import Subscriptions
from orchestrator.server.uris import shown_uri
from orchestrator.store.store import Store
from orchestrator.trust.definition_changes import as_judged
from orchestrator.trust.server_texts import error_for_model

_MAX_REREADS = 40
_REREAD_INTERVAL_S = 0.05
"""The number of times that a catalogue is read again until it has the newly listed tools, and the seconds between."""
_MAX_SHOWN_TOOLS = 2_000
"""Definitions that clients were shown. An older one is only missing from the report of a change."""
_MAX_HINTS = 3
_MAX_COMPARED_NAMES = 2_000
"""Names that are compared with a misspelt one. To compare all of a large catalogue would block the event loop."""


class TenantServers:
    """The servers of one tenant. A client of the tenant sees only the part in its profile.

    Attributes:
        pool: The connections, through which servers ask and tell only this tenant's clients.
        subscriptions: The subscriptions to resources.
        shown_definitions: The last definition of each tool that clients were shown, by key. A call after a change
            reports it.
    """

    def __init__(
        self,
        tenant: str,
        config: McpConfig,
        store: Store,
        router: Router,
        clients: Clients,
        note: Note,
        limits: Mapping[str, Any],
    ) -> None:
        self.tenant = tenant
        self._config = config
        self._store = store
        self._router = router
        self._clients = clients
        self._note = note
        self.pool = Connections(
            config,
            tenant=tenant,
            on_listed=keep_current(
                store,
                tenant,
                partial(router.engine.loaded_catalogue, tenant),
                self.entry,
                partial(self.tell, ToolsListChanged()),
            ),
            host=Host(
                fallback=clients.over_stdio,
                on_offer=keep_offer(store, tenant, self.entry, self._on_offer_changed),
                on_updated=self._on_resource_updated,
                extensions=clients.stdio_extensions,
                needs_handshake=lambda: clients.over_stdio() is not None,
            ),
            **limits,
        )
        self.subscriptions = Subscriptions(self.pool)
        self.shown_definitions = Recent[str, Tool](_MAX_SHOWN_TOOLS)
        self._initial_sync = InitialSync(self.pool, store, tenant, note)

    async def renew(self, config: McpConfig) -> None:
        """Take another configuration over."""
        self._config = config
        self.pool.renew(config)
        outdated = self._initial_sync
        self._initial_sync = InitialSync(self.pool, self._store, self.tenant, self._note)
        await outdated.close()

    async def close(self) -> None:
        await self.subscriptions.close()
        await self._initial_sync.close()
        await self.pool.close()

    def entry(self, server: str) -> str:
        """Return the identity of a server's entry, or "" if the configuration has none."""
        spec = self._config.servers.get(server)
        return spec.identity if spec else ""

    # --- what is listed

    async def unlisted(self, server: str | None = None) -> dict[str, str]:
        """Return the servers of the profile whose tools are not known yet, with the reason for each.

        Waits for the given server. Without it, waits for the first servers only if none is known.
        """
        # Another configuration may be taken over while it is waited for.
        initial_sync = self._initial_sync
        await initial_sync.listed(server)
        profile = current()
        # A server that is listed from here on is not among the matches, so its warning stays.
        unlisted = {
            name: why for name, why in initial_sync.unlisted.items() if profile.has_server(name)
        }
        await self._read_again(initial_sync)
        return unlisted

    async def _read_again(self, initial_sync: InitialSync) -> None:
        """Wait until the router has read the new listing. A busy store may first return the former one."""
        if not initial_sync.stored:
            return
        for _ in range(_MAX_REREADS):
            if initial_sync.stored <= await self._router.servers(self.tenant):
                break
            await asyncio.sleep(_REREAD_INTERVAL_S)
        initial_sync.stored.clear()

    async def states(self) -> list[dict[str, Any]]:
        """Return the state of the profile's servers: state, tools, idle time, last error."""
        snapshot = await asyncio.to_thread(self._store.snapshot, self.tenant)
        counts = {server: len(tools) for server, tools in snapshot.tools.items()}
        self.pool.restore(counts, snapshot.failures)
        profile = current()
        states = list[dict[str, Any]]()
        for state in self.pool.states():
            if profile.has_server(state.server):
                error = error_for_model(state.last_error)
                states.append(replace(state, last_error=error).to_json())
        return states

    async def offers(self, servers: Iterable[str]) -> dict[str, Offer]:
        """Return the last listed offers of these servers."""
        snapshot = await asyncio.to_thread(self._store.snapshot, self.tenant)
        return {server: stored_offer(snapshot.offers.get(server, "")) for server in servers}

    async def all_offers(self) -> dict[str, Offer]:
        """Return the last listed offer of each server of the profile."""
        await self.unlisted()
        return await self.offers(filter(current().has_server, self._config.servers))

    async def resource_offers(self) -> dict[str, Offer]:
        """Return the offers of the servers whose resources the profile shows."""
        return await self.all_offers() if current().spec.resources else {}

    async def prompt_offers(self) -> dict[str, Offer]:
        """Return the offers of the servers whose prompts the profile shows."""
        return await self.all_offers() if current().spec.prompts else {}

    # --- tools by name

    def can_call(self, tool: Tool) -> bool:
        """Return True if the configuration and the profile have the tool."""
        spec = self._config.servers.get(tool.server)
        is_served = tool.kind.is_served and spec is not None and spec.lists(tool.name)
        return is_served and current().allows(tool)

    async def tool(self, requested: str) -> Tool:
        """Return the tool that a client names.

        Its server is listed first if the store does not have the server's present entry.

        Raises:
            UnknownTool: The client's profile has no such tool. The error names similar tools.
            ServerUnavailable: The tool's server cannot be listed.
        """
        profile = current()
        key = profile.key(requested) or requested
        server, _ = split_key(key)
        if not profile.has_server(server):
            raise UnknownTool(
                f"unknown tool {requested!r}: use `search`, and give the `tool` of a match"
            )
        unlisted = await self.unlisted(server)
        if server in unlisted:
            raise ServerUnavailable(
                f"unknown tool {key}: server {server!r} has not been listed yet: {unlisted[server]}"
            )
        catalogue = await self._catalogue_with(key)
        current_key = catalogue.current(key)
        is_renamed = current_key != key
        if is_renamed:
            self._note(
                f"the tool {key} was renamed to {current_key}: use the new name; calls of the old name still work"
            )
        shown_key = current_key if is_renamed else requested
        if current_key not in catalogue.positions or profile.key(shown_key) != current_key:
            hint = self._similar_tools(requested, catalogue)
            raise UnknownTool(
                f"unknown tool {requested!r}{hint}: use `search`, and give the `tool` of a match"
            )
        tool = catalogue[current_key]
        if not self.can_call(tool):
            raise _cannot_be_called(tool)
        return tool

    async def _catalogue_with(self, key: str) -> Catalogue:
        """Return a catalogue with the tool, if the tenant has it. A call may just have added it."""
        server, _ = split_key(key)
        catalogue = await self._router.engine.catalogue(self.tenant)
        if key not in catalogue.positions and await self.pool.list_after_calls(server):
            catalogue = await self._router.engine.catalogue(self.tenant)
        return catalogue

    def _similar_tools(self, requested: str, catalogue: Catalogue) -> str:
        """Return a hint with the tenant's tools that an unknown key may mean."""
        _, name = split_key(requested)
        keys = [current().shown_key(tool.key) for tool in catalogue if self.can_call(tool)]
        similar = [key for key in keys if split_key(key)[1] == name][:_MAX_HINTS]
        if not similar:
            similar = get_close_matches(requested, keys[:_MAX_COMPARED_NAMES], n=_MAX_HINTS)
        return f" (did you mean {' or '.join(similar)}?)" if similar else ""

    async def tools_of(self, servers: Collection[str]) -> dict[str, Tool]:
        """Return the tools of these servers that can be called, by key."""
        catalogue = await self._router.engine.catalogue(self.tenant)
        return {
            tool.key: tool for tool in catalogue if tool.server in servers and self.can_call(tool)
        }

    async def pinned(self) -> dict[str, Tool]:
        """Return the tools that the profile lists next to `search`, by their listed names.

        A client asks for them when it connects, so the missing servers are listed from here on.
        """
        self._initial_sync.start()
        profile = current()
        if not profile.spec.pinned:
            return {}
        servers = {split_key(key)[0] for key in profile.spec.pinned}
        await asyncio.gather(*map(self.unlisted, servers))
        catalogue = await self._router.engine.catalogue(self.tenant)
        return profile.pinned(tool for tool in catalogue if self.can_call(tool))

    async def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the keys whose server is listed and does not have the tool."""
        snapshot = await asyncio.to_thread(self._store.snapshot, self.tenant)
        return [key for key in sorted(keys) if _is_missing(key, snapshot.tools)]

    # --- definitions of a connected server

    async def listed_now(self, tool: Tool) -> Tool:
        """Return the tool with its server's present definition, quarantined if it is not the accepted one."""
        listed = {tool.name: tool for tool in await self.pool.list_again(tool.server)}
        stored = await asyncio.to_thread(self._store.tool, self.tenant, tool.key) or tool
        live = as_chosen(listed.get(tool.name, stored), stored)
        # The store may not follow this server.
        return as_judged(stored, live, self._store.change_policy)

    async def differing(self, allowed: Tool, live: Tool) -> Tool | None:
        """Return the tool with its server's present definition, if it differs from the allowed one.

        Approvals and profiles are by key. So a tool that replaces this one raises UnknownTool. It is called by its own
        key after the store has it.
        """
        if live.key == allowed.key:
            is_same = as_chosen(live, allowed).hash == allowed.hash
            return None if is_same else await self.listed_now(allowed)
        await self.pool.list_again(allowed.server)
        profile = current()
        former_key = profile.shown_key(allowed.key)
        if not profile.has(live.key):
            raise UnknownTool(
                f"the tool {former_key!r} no longer exists: use `search` to find another"
            )
        raise UnknownTool(
            f"the tool {former_key!r} was renamed to {profile.shown_key(live.key)!r}: use the new name"
        )

    async def tools_beside(self, tool: Tool) -> list[Tool]:
        """Return the present tools of the same server, including this one as given."""
        catalogue = await self._router.engine.catalogue(self.tenant)
        profile = current()
        beside = [
            profile.shown(sibling)
            for sibling in catalogue
            if sibling.server == tool.server and profile.has(sibling.key)
        ]
        return [tool, *(sibling for sibling in beside if sibling.key != tool.key)]

    # --- events for the tenant's clients

    async def tell(self, *events: ServerEvent) -> None:
        """Notify the tenant's clients."""
        await self._clients.publish(self.tenant, *events)

    async def _on_offer_changed(self, before: Offer, after: Offer) -> None:
        had = before.resources, before.templates, before.skills
        if had != (after.resources, after.templates, after.skills):
            await self.tell(ResourcesListChanged())
        if before.prompts != after.prompts:
            await self.tell(PromptsListChanged())

    async def _on_resource_updated(self, server: str, uri: str) -> None:
        await self.tell(ResourceUpdated(uri=shown_uri(server, uri)))


def _cannot_be_called(tool: Tool) -> UnknownTool:
    why = f"its kind is {tool.kind}"
    if tool.kind.is_served:
        why = "the configuration has no server of that name"
    return UnknownTool(
        f"{tool.key!r} cannot be called through the gateway: {why}; use another match"
    )


def _is_missing(key: str, tools: Mapping[str, Mapping[str, str]]) -> bool:
    server, name = split_key(key)
    return server in tools and name not in tools[server]
