"""Search and calls over all configured servers, by tenant. `toolroute serve` offers them as an MCP server."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from mcp import MCPError
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types import URL_ELICITATION_REQUIRED

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import check_arguments
from orchestrator.common.keys import split_key
from orchestrator.errors import InvalidInput, ServerUnavailable, ToolrouteError, UnknownTool
from orchestrator.mcp.calls import MAX_RESULT_TOKENS, Call, OnProgress
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.listing.offers import Offer, stored_offer
from orchestrator.mcp.results import Answered, as_mcp_result
from orchestrator.mcp.server_requests import Host
from orchestrator.mcp.sync import keep_current, keep_offer
from orchestrator.pipeline import capacity
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Use
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Kind, Match, Tool, as_chosen
from orchestrator.runtime.prewarm import servers_to_prewarm
from orchestrator.runtime.router import Router
from orchestrator.server import search_answer as shown_tools
from orchestrator.server.initial_sync import InitialSync, Note
from orchestrator.server.masking import masked_progress, masking
from orchestrator.server.sessions.client_profile import current, fitting
from orchestrator.server.sessions.clients import Clients
from orchestrator.server.sessions.kept_results import KeptResults
from orchestrator.server.sessions.outcome_recorder import Conversation, OutcomeRecorder
from orchestrator.server.sessions.questions import Questions
from orchestrator.server.sessions.sign_in_links import SignInLink, SignInLinks
from orchestrator.server.sessions.subscriptions import Subscriptions
from orchestrator.server.uris import shown_uri, with_shown_links
from orchestrator.telemetry import TOOL_ERROR
from orchestrator.trust.approval_rules import ASKED
from orchestrator.trust.audit import Audit, Entry, arguments_digest
from orchestrator.trust.definition_changes import as_judged, is_quarantined
from orchestrator.trust.server_texts import error_for_model

if TYPE_CHECKING:
    from mcp.types import CallToolResult

Allow = Callable[[Tool, Mapping[str, Any]], Awaitable[str]]
"""Returns the reason why the tool may be called with these arguments. Raises an error if it may not."""

_REMEMBERED = 10_000
_MOST_TOKENS = 8_000
"""The maximum number of tokens of the definitions in a search's answer, the same as for a call's result."""
_PINNED_S = 20.0
"""Seconds that a list of tools waits until the servers of pinned tools are listed."""
_READY_S = 5.0
_WATCH_S = 2.0
"""Seconds between two checks of the configuration file, while clients are connected that are notified of changes."""
_LOOKS = 40
"""The number of times that a catalogue is read again until it has the newly listed tools."""


class Gateway:
    """Searches a store's tools and calls those of the configured servers. Each tenant has its own connections.

    A tenant's servers that the store does not know are listed before its first search is answered. Servers that fail
    are named in a warning and retried. While the model thinks, up to `warm` servers that the matches probably need are
    connected. `changed` is called before each request and returns a new configuration after a change.
    """

    def __init__(
        self,
        config: McpConfig,
        router: Router,
        *,
        warm: int = 0,
        changed: Callable[[], McpConfig | None] = lambda: None,
        note: Note = lambda _: None,
        max_result_tokens: int = MAX_RESULT_TOKENS,
        audit: Audit | None = None,
        **limits: Any,
    ) -> None:
        if router.store is None:
            raise InvalidInput("a Gateway needs a Router with a store: give Router(store=...)")
        self.config = config
        self._store, self._router = router.store, router
        router.see(config.entries)
        self._warm, self._changed, self._note, self._limits = warm, changed, note, limits
        self._audit = audit
        self._pools: dict[str, Connections] = {}
        self._initial_syncs: dict[str, InitialSync] = {}
        self._offered: OrderedDict[tuple[str, str], Tool] = OrderedDict()
        self._links = SignInLinks()
        self.sessions = Clients()
        self.questions = Questions()
        self.results = KeptResults(max_result_tokens)
        self._subscriptions: dict[str, Subscriptions] = {}
        self._watching: asyncio.Task[None] | None = None
        self._following = asyncio.Lock()
        self._outcomes = OutcomeRecorder(router, note)
        self._named_as_missing: set[str] = set()

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(0)
        await self._router.aclose()

    async def stop(self, after_s: float) -> None:
        """End, after these seconds, the calls that are still under way, and all connections."""
        await asyncio.sleep(after_s)
        await self._links.close()
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(*(own.close() for own in self._subscriptions.values()))
        await asyncio.gather(*(initial.close() for initial in self._initial_syncs.values()))
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        await self._outcomes.close()

    async def search(
        self, tenant: str, query: str, limit: int, hint: RouteHint, actor: str = "", session: str = ""
    ) -> dict[str, Any]:
        """Return the best tools for a task as JSON, with their schemas, probabilities and reasons, and the confidence.

        Args:
            tenant: The tenant.
            query: The task in words.
            limit: The maximum number of tools.
            hint: The searches to run.
            actor: The client.
            session: The client's session, or "".
        """
        began = time.perf_counter()
        await self._follow()
        profile = current()
        # Taken before routing: a server that is listed meanwhile is not among the matches, so its warning stays.
        listed = await self._listed(tenant)
        unlisted = {server: why for server, why in listed.why.items() if profile.has_server(server)}
        await self._read_again(tenant, listed)
        asked = RouteRequest(
            query=query,
            tenant=tenant,
            limit=limit,
            route_hint=hint,
            token_cap=3 * _MOST_TOKENS,  # A warning below names the definitions that do not fit.
            filters={"kind": Kind.MCP},  # Agents and integrations cannot be called here.
            only=profile.patterns,
        )
        decision = await self._router.route(asked)
        # The stored tools of a server that is not listed yet belong to another entry of that name.
        usable = [one for one in decision.matches if self._callable(one.tool) and one.tool.server not in unlisted]
        best, dropped = capacity.fit(usable[:1], _MOST_TOKENS, capacity.definition_tokens)
        matches = [*(best or dropped), *usable[1:limit]]
        named = self._outcomes.searched(
            decision, {match.tool.key for match in usable[:limit]}, Conversation(tenant, actor, session)
        )
        for match in matches:
            self._remember(tenant, match.tool)
        self.pool(tenant).warm(servers_to_prewarm(usable, self._warm))
        warnings = [
            f"the tools of server {name!r} were not searched: {error_for_model(why)}" for name, why in unlisted.items()
        ]
        if dropped:
            long = ", ".join(profile.shown_key(match.tool.key) for match in dropped)
            warnings.append(
                f"{long}: the definition has more than {_MOST_TOKENS:,} tokens, so only required parameters are shown"
            )
        ms = (time.perf_counter() - began) * 1000
        self.audit(Entry(event="search", tenant=tenant, actor=actor, decision=named, ms=ms))
        warnings = [*fitting(decision.warnings, profile, self.config.servers), *warnings]
        return await self._found(tenant, decision, matches, warnings, first_whole=bool(best))

    async def _found(
        self, tenant: str, decision: Decision, matches: Sequence[Match], warnings: Sequence[str], *, first_whole: bool
    ) -> dict[str, Any]:
        """Return a search's answer as JSON, with the names that the profile shows."""
        profile, shown = current(), {match.tool.key for match in matches}
        matching = sorted({match.tool.server for match in matches})
        return {
            "matches": shown_tools.matches(
                [replace(match, tool=profile.shown(match.tool)) for match in matches],
                await self._stored_offers(tenant, matching),
                first_whole=first_whole,
            ),
            "recommended": [profile.shown_key(key) for key in decision.recommended if key in shown],
            "stage": str(decision.stage),
            "confidence": round(decision.confidence, 4),
            "semantic_ran": decision.semantic_ran,
            "servers": [server for server in decision.servers if server in matching],
            "warnings": [*warnings, *map(error_for_model, self.pool(tenant).refusals(matching))],
        }

    async def describe(self, tenant: str, keys: Sequence[str], actor: str = "") -> dict[str, Any]:
        """Return the whole definitions of the tenant's tools within the token limit. A warning names each unknown tool.
        Raises UnknownTool if all are unknown.
        """
        await self._follow()
        with self.audited(Entry(event="describe", tenant=tenant, actor=actor)) as line:
            found = await self._described(tenant, keys)
            line |= {"result": "ok", "tool": " ".join(own["tool"] for own in found["tools"])}
        return found

    async def _described(self, tenant: str, keys: Sequence[str]) -> dict[str, Any]:
        tools, unknown = list[Tool](), list[ToolrouteError]()
        for key in dict.fromkeys(keys):
            try:
                tools.append(await self._tool(tenant, key))
            except ToolrouteError as error:
                unknown.append(error)
        if unknown and not tools:
            raise unknown[0]
        fitting, dropped = capacity.fit(
            [Match(tool=tool, score=1) for tool in tools], _MOST_TOKENS, capacity.definition_tokens
        )
        offers = await self._stored_offers(tenant, {tool.server for tool in tools})
        profile = current()
        found = [
            shown_tools.whole(profile.shown(match.tool), offers.get(match.tool.server, Offer())) for match in fitting
        ]
        left = ", ".join(profile.shown_key(match.tool.key) for match in dropped)
        warnings = [error_for_model(str(error)) for error in unknown]
        if left:
            warnings.append(f"{left}: the limit of {_MOST_TOKENS:,} tokens is reached; describe these tools separately")
        return {"tools": found, "warnings": warnings}

    async def call(
        self,
        tenant: str,
        key: str,
        arguments: Mapping[str, Any],
        *,
        actor: str = "",
        session: str = "",
        allow: Allow | None = None,
        idempotency_key: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> "CallToolResult":
        """Call a tool of the tenant's present catalogue after `allow` has returned for it.

        Args:
            tenant: The tenant.
            key: The tool's key.
            arguments: The arguments.
            actor: The client.
            session: The client's session, or "".
            allow: Asks for approval, and raises if the call is not allowed.
            idempotency_key: A key for servers that recognise repeated calls.
            on_progress: Receives the server's progress.

        Raises:
            UnknownTool: The tenant has no such tool.
            InvalidArguments: The arguments do not fit. `allow` and `Connections.call` may raise further errors.
        """
        await self._follow()
        who = Conversation(tenant, actor, session)
        entry = Entry(event="call", tenant=tenant, actor=actor, arguments=arguments_digest(arguments))
        try:
            tool, chosen, given = await self._wanted(tenant, key, arguments)
        except ToolrouteError as error:
            named = "" if isinstance(error, UnknownTool) else key  # A name that is no tool's name may be any text.
            self.audit(replace(entry, tool=named, approval="not asked", result=type(error).__name__))
            raise
        fixed, decision = current().fixed(tool), self._outcomes.search_of(who, tool.key)
        entry = replace(entry, server=tool.server, tool=tool.key, arguments=arguments_digest(given), decision=decision)
        with self._outcomes.call(who, tool.key) as used, self.audited(entry) as line:
            if allow is not None:
                line["approval"] = await allow(tool, given)
                if line["approval"] in ASKED:
                    tool, line["approval"] = await self._confirmed(tenant, tool, given, allow, line["approval"])

            async def confirm(live: Tool) -> None:
                if (now := await self._defined_otherwise(tenant, tool, live)) is not None and allow is not None:
                    line["approval"] = await allow(now, given)

            call = replace(
                Call.of(chosen, {**given, **fixed}, idempotency_key),
                on_progress=masked_progress(on_progress, fixed),
                confirm=confirm,
                max_tokens=self.results.max_tokens,
            )
            began = time.perf_counter()
            with masking(fixed) as masked:
                answered = masked(await self.pool(tenant).exchange(call))
            line["result"] = TOOL_ERROR  # Unless it is an answer.
            _raise_if_links(answered)
            first = not self.results.has_any((tenant, actor))
            result = as_mcp_result(answered, partial(self.results.keep, (tenant, actor)))
            if first and self.results.has_any((tenant, actor)):
                await self._tell(tenant, ToolsListChanged())  # `read_result` is there now.
            result.content = [with_shown_links(tool.server, block) for block in result.content]
            used(Use(tool=tool.key, ok=not result.is_error, ms=(time.perf_counter() - began) * 1000))
            line |= {"result": TOOL_ERROR if result.is_error else "ok", "bytes": _size(result)}
        return result

    async def _confirmed(
        self, tenant: str, tool: Tool, arguments: Mapping[str, Any], allow: Allow, approval: str
    ) -> tuple[Tool, str]:
        """Return the tool as its server defines it after its person has answered, and the last approval.

        The definition may have changed, without a notification, while the person thought. Then the person is asked
        about the new one.
        """
        while True:
            live = await self.listed_now(tenant, tool)
            if live.hash == tool.hash:
                return tool, approval
            tool = live
            approval = await allow(tool, arguments)

    async def _wanted(self, tenant: str, key: str, arguments: Mapping[str, Any]) -> tuple[Tool, Tool, dict[str, Any]]:
        """Return the tool of a call, the definition that its client was shown, and the checked arguments."""
        tool, profile = await self._tool(tenant, key), current()
        profile.check(tool, arguments)
        if is_quarantined(tool):
            tool = await self.listed_now(tenant, tool)
        chosen = self._offered.get((tenant, tool.key), tool)
        if chosen.hash != tool.hash:
            return tool, chosen, dict(arguments)
        # In a thread, because a stranger's schema may take seconds, and others are served meanwhile.
        return tool, chosen, await asyncio.to_thread(check_arguments, profile.shown(tool), arguments)

    async def _defined_otherwise(self, tenant: str, tool: Tool, live: Tool) -> Tool | None:
        """Return the tool with its server's present definition, if it differs from the allowed one.

        Approvals and profiles are by key. So a tool that replaces this one raises UnknownTool. It is called by its own
        key after the store has it.
        """
        profile = current()
        if live.key == tool.key:
            return await self.listed_now(tenant, tool) if as_chosen(live, tool).hash != tool.hash else None
        await self.pool(tenant).list_again(tool.server)
        known = profile.shown_key(tool.key)
        if not profile.has(live.key):
            raise UnknownTool(f"the tool {known!r} no longer exists: use `search` to find another")
        raise UnknownTool(f"the tool {known!r} was renamed to {profile.shown_key(live.key)!r}: use the new name")

    def audit(self, entry: Entry) -> None:
        """Write a line into the audit log, if there is one."""
        if self._audit is not None:
            self._audit.note(replace(entry, profile=current().name))

    @contextmanager
    def audited(self, entry: Entry) -> Iterator[dict[str, Any]]:
        """Write the line of a request at its end, with the fields that are set in the yielded dict.

        A call for which the client has to ask its user first comes again, and is written then.
        """
        began, line = time.perf_counter(), dict[str, Any](approval="not asked")
        try:
            yield line
        except (ToolrouteError, MCPError, asyncio.CancelledError) as error:
            line |= {"result": type(error).__name__, "approval": getattr(error, "approval", line["approval"])}
            raise
        finally:
            if "result" in line:
                self.audit(replace(entry, ms=(time.perf_counter() - began) * 1000, **line))

    def sign_in(self, tenant: str, key: str) -> SignInLink | None:
        """Start or continue a sign-in to a tool's server. Returns None if the server did not refuse the credentials,
        or a sign-in exists.
        """
        spec = self.config.servers.get(key.partition(":")[0])
        if spec is None or not self.pool(tenant).refusals([spec.name]) or not spec.launch().signs_in:
            return None
        return self._links.of(tenant, spec)

    async def tools_beside(self, tenant: str, tool: Tool) -> list[Tool]:
        """Return the tenant's present tools of the same server, including this one as given."""
        catalogue = (await self._router._index(tenant)).catalogue
        profile = current()
        beside = [profile.shown(own) for own in catalogue if own.server == tool.server and profile.has(own.key)]
        return [tool, *(own for own in beside if own.key != tool.key)]

    async def listed_now(self, tenant: str, tool: Tool) -> Tool:
        """Return the tool with its server's present definition, quarantined if it is not the accepted one."""
        listed = await self.pool(tenant).list_again(tool.server)
        held = await asyncio.to_thread(self._store.tool, tenant, tool.key) or tool
        live = next((as_chosen(own, held) for own in listed if own.name == tool.name), held)
        return as_judged(held, live, self._store.change_policy)  # The store may not follow this server.

    async def _tool(self, tenant: str, key: str) -> Tool:
        """Return the tool. Its server is listed first if the store does not have the server's present entry."""
        shown, key = key, current().key(key) or key
        server, _ = split_key(key)
        if not current().has_server(server):
            raise UnknownTool(f"unknown tool {shown!r}: use `search`, and give the `tool` of a match")
        listed = await self._listed(tenant, server)
        why = listed.why.get(server)
        await self._read_again(tenant, listed)
        catalogue = (await self._router._index(tenant)).catalogue
        if why:
            raise ServerUnavailable(f"unknown tool {key}: server {server!r} has not been listed yet: {why}")
        if key not in catalogue.positions and await self.pool(tenant).list_after_calls(server):
            catalogue = (await self._router._index(tenant)).catalogue
        former, key = key, catalogue.current(key)
        if former != key:
            self._note(f"the tool {former} was renamed to {key}: use the new name; calls of the old name still work")
        if key not in catalogue.positions or current().key(shown if former == key else key) != key:
            meant = self._meant(shown, catalogue)
            raise UnknownTool(f"unknown tool {shown!r}{meant}: use `search`, and give the `tool` of a match")
        tool = catalogue[key]
        if not self._callable(tool):
            is_mcp = tool.kind is Kind.MCP
            reason = "the configuration has no server of that name" if is_mcp else f"its kind is {tool.kind}"
            raise UnknownTool(f"{key!r} cannot be called through the gateway: {reason}; use another match")
        return tool

    async def _read_again(self, tenant: str, listed: InitialSync) -> None:
        """Wait until the router has read the new listing. A busy store may first return the former one."""
        for _ in range(_LOOKS if listed.stored else 0):
            if listed.stored <= await self._router.servers(tenant):
                break
            await asyncio.sleep(0.05)
        listed.stored.clear()

    def _meant(self, key: str, catalogue: Catalogue) -> str:
        """Return a hint with the tenant's tools that an unknown key may mean."""
        _, name = split_key(key)
        own = [split_key(current().shown_key(tool.key)) for tool in catalogue if self._callable(tool)]
        near = [":".join(one) for one in own if one[1] == name][:3]
        near = near or get_close_matches(key, [":".join(one) for one in own][:2_000], n=3)
        return f" (did you mean {' or '.join(near)}?)" if near else ""

    async def states(self, tenant: str) -> list[dict[str, Any]]:
        """Return the state of the tenant's servers: state, tools, idle time, last error."""
        await self._follow()
        pool = self.pool(tenant)
        counts = await asyncio.to_thread(self._store.servers, tenant)
        pool.restore(counts, await asyncio.to_thread(self._store.failures, tenant))
        return [state.to_json() for state in pool.states() if current().has_server(state.server)]

    async def pinned(self, tenant: str) -> dict[str, Tool]:
        """Return the tools that the profile lists beside `search`, by their listed names."""
        profile = current()
        if not profile.spec.pinned:
            return {}
        await self._follow()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PINNED_S):
                await self._read_again(tenant, await self._listed(tenant))
        catalogue = (await self._router._index(tenant)).catalogue
        return profile.pinned(tool for tool in catalogue if self._callable(tool))

    async def note_missing(self, tenant: str) -> None:
        """Name once each pinned or changed tool of the profile that its listed server does not have."""
        profile = current()
        keys = {*profile.spec.pinned, *profile.spec.overrides} - self._named_as_missing
        if not keys:
            return
        listed = await asyncio.to_thread(self._store.servers, tenant)
        known = (await self._router._index(tenant)).catalogue.positions
        missing = [key for key in sorted(keys) if key not in known and key.partition(":")[0] in listed]
        self._named_as_missing.update(missing)
        for key in missing:
            self._note(f"{profile.source}: profile {profile.name!r}: its server has no tool {key!r}: correct the name")

    async def ready(self) -> bool:
        """Return True if the store answers."""
        try:
            async with asyncio.timeout(_READY_S):
                await asyncio.to_thread(self._store.servers, "local")
        except (ToolrouteError, TimeoutError):
            return False
        return True

    async def _follow(self) -> None:
        """Use a changed configuration. New servers are listed before the next search."""
        async with self._following:
            # In a thread, because the file may be on a network drive.
            config = await asyncio.to_thread(self._changed)
            if config is not None:
                await self._take_over(config)

    async def _take_over(self, config: McpConfig) -> None:
        was, self.config = self.config, config
        self._audit_changes(was, config)
        self._router.see(config.entries)
        for pool in self._pools.values():
            pool.renew(config)
        outdated, self._initial_syncs = self._initial_syncs, {}
        await asyncio.gather(*(initial.close() for initial in outdated.values()))
        for tenant in self.sessions.tenants:
            await self.sessions.publish(tenant, ToolsListChanged(), ResourcesListChanged(), PromptsListChanged())

    async def _watch(self) -> None:
        """Use a changed configuration also between requests, so that connected clients are notified."""
        while True:
            await asyncio.sleep(_WATCH_S)
            if self.sessions.tenants:
                await self._follow()

    async def offers(self, tenant: str) -> dict[str, Offer]:
        """Return the last listed offer of each of the tenant's servers."""
        await self._follow()
        await self._listed(tenant)
        return await self._stored_offers(tenant, filter(current().has_server, self.config.servers))

    async def _stored_offers(self, tenant: str, servers: Iterable[str]) -> dict[str, Offer]:
        entries = {server: self._entry(server) for server in servers}
        stored = await asyncio.to_thread(self._store.offers, tenant, entries)
        return {server: stored_offer(stored.get(server, "")) for server in entries}

    def _audit_changes(self, was: McpConfig, now: McpConfig) -> None:
        """Write an audit line for each server whose entry was added, changed or removed."""
        for server in dict.fromkeys([*was.entries, *now.entries]):
            before, after = was.entries.get(server), now.entries.get(server)
            if before != after:
                result = "added" if before is None else "removed" if after is None else "changed"
                self.audit(Entry(event="configuration", tenant="", server=server, result=result))

    def _callable(self, tool: Tool) -> bool:
        spec = self.config.servers.get(tool.server)
        return tool.kind is Kind.MCP and spec is not None and spec.lists(tool.name) and current().has(tool.key)

    def _entry(self, server: str) -> str:
        spec = self.config.servers.get(server)
        return spec.identity if spec else ""

    def _remember(self, tenant: str, tool: Tool) -> None:
        """Remember the definition that a client was shown, so that a call after a change can report it."""
        self._offered[tenant, tool.key] = tool
        self._offered.move_to_end((tenant, tool.key))
        while len(self._offered) > _REMEMBERED:
            self._offered.popitem(last=False)

    async def _listed(self, tenant: str, server: str | None = None) -> InitialSync:
        """Wait until the tenant's missing servers are listed: all of them, or the one that is needed."""
        if tenant not in self._initial_syncs:
            self._initial_syncs[tenant] = InitialSync(self.pool(tenant), self._store, tenant, self._note)
        initial = self._initial_syncs[tenant]  # Another configuration may be taken over while it is waited for.
        await initial.listed(server)
        return initial

    def subscriptions(self, tenant: str) -> Subscriptions:
        """Return the tenant's subscriptions to resources."""
        return self._subscriptions.setdefault(tenant, Subscriptions(self.pool(tenant)))

    def pool(self, tenant: str) -> Connections:
        """Return the tenant's connections, through which servers ask and tell only this tenant's clients."""
        if tenant not in self._pools:
            at_hand = partial(self._router._catalogue_at_hand, tenant)
            on_listed = keep_current(
                self._store, tenant, at_hand, self._entry, partial(self._tell, tenant, ToolsListChanged())
            )
            host = Host(
                fallback=self.sessions.over_stdio,
                on_offer=keep_offer(self._store, tenant, self._entry, partial(self._offer_changed, tenant)),
                on_updated=partial(self._updated, tenant),
                needs_handshake=lambda: self.sessions.over_stdio() is not None,
            )
            self._pools[tenant] = Connections(
                self.config, tenant=tenant, on_listed=on_listed, host=host, **self._limits
            )
        return self._pools[tenant]

    async def _tell(self, tenant: str, *events: ServerEvent) -> None:
        await self.sessions.publish(tenant, *events)

    async def _offer_changed(self, tenant: str, before: Offer, now: Offer) -> None:
        if (before.resources, before.templates) != (now.resources, now.templates):
            await self._tell(tenant, ResourcesListChanged())
        if before.prompts != now.prompts:
            await self._tell(tenant, PromptsListChanged())

    async def _updated(self, tenant: str, server: str, uri: str) -> None:
        await self._tell(tenant, ResourceUpdated(uri=shown_uri(server, uri)))


def _raise_if_links(answered: Answered) -> None:
    """Pass on the error that names the links a user has to visit first: clients show these."""
    error, clear = answered.answer, answered.secrets
    if isinstance(error, MCPError) and error.code == URL_ELICITATION_REQUIRED:
        raise MCPError(error.code, clear.redact(error.message), clear.redact_json(error.data))


def _size(result: "CallToolResult") -> int:
    """Return the bytes of an answer's texts and files."""
    return sum(len(getattr(block, "text", getattr(block, "data", ""))) for block in result.content)
