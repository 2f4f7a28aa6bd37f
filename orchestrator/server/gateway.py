"""Offer search and call over all configured servers, by tenant: what `toolroute serve` serves as MCP."""

import asyncio
import logging
import stat
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import check_arguments, parameters
from orchestrator.errors import InvalidConfig, InvalidInput, ServerUnavailable, ToolrouteError, UnknownTool
from orchestrator.mcp.calls import Call, OnProgress
from orchestrator.mcp.config import McpConfig
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.results import as_mcp_result
from orchestrator.mcp.sync import ServerReport, keep_current, not_listed, sync
from orchestrator.pipeline import select
from orchestrator.records.request import MAX_LIMIT, RouteHint, RouteRequest
from orchestrator.records.tool import Kind, Match, Tool
from orchestrator.runtime.prewarm import servers_to_prewarm
from orchestrator.runtime.router import Router
from orchestrator.server.outcome_recorder import OutcomeRecorder
from orchestrator.store.store import Store

if TYPE_CHECKING:
    from mcp.types import CallToolResult

logger = logging.getLogger(__name__)

Note = Callable[[str], None]
Allow = Callable[[Tool, Mapping[str, Any]], Awaitable[None]]
"""Returns when the tool may be called with these arguments, and raises where it may not."""

_REMEMBERED = 10_000
_MOST_TOKENS = 8_000
"""Of the definitions that a search shows, as of a call's result."""
_WAIT_S = 20.0
"""How long the first search waits for its servers to be listed."""
_WAIT_KNOWN_S = 2.0
"""The same where other servers are known already."""
_LOOKS = 40
"""How often a catalogue is read again that does not hold yet what was listed."""
_AGAIN_S = 60.0
"""How long after a listing that failed the next one is tried."""


class WatchedConfig:
    """An mcpServers file that is read again when it has changed; InvalidConfig where it cannot be read at first."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self.config = McpConfig.read(path)

    def changed(self) -> McpConfig | None:
        """Return the configuration where the file has changed; one that cannot be read is logged, once."""
        before, self._stamp = self._stamp, _stamp(self._path)
        if self._stamp == before:
            return None
        try:
            self.config = McpConfig.read(self._path).keeping(self.config)
        except InvalidConfig as error:
            logger.warning("%s; what it named before stays in use", error)
            return None
        return self.config


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what differs after each change; nothing for a pipe, which can be read once alone."""
    try:
        found = path.stat()
    except OSError:
        return (0,)
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else ()


class Gateway:
    """Searches a store's tools and calls those of the configured servers; each tenant has its own connections.

    A tenant's servers that the store does not know are listed before its first search is answered; those that fail are
    named in a warning and tried again. As many as `warm` servers, those that a search's matches probably need, are
    connected while the model thinks. `changed` is asked before each request, and gives another configuration where
    there is one.
    """

    def __init__(
        self,
        config: McpConfig,
        router: Router,
        *,
        warm: int = 0,
        changed: Callable[[], McpConfig | None] = lambda: None,
        note: Note = lambda _: None,
        **limits: Any,
    ) -> None:
        if router.store is None:
            raise InvalidInput("a Gateway needs a Router over a store")
        self.config = config
        self._store, self._router = router.store, router
        self._warm, self._changed, self._note, self._limits = warm, changed, note, limits
        self._pools: dict[str, Connections] = {}
        self._unlisted: dict[str, InitialSync] = {}
        self._offered: OrderedDict[tuple[str, str], Tool] = OrderedDict()
        self._learner = OutcomeRecorder(router, note)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(0)
        await self._router.aclose()

    async def stop(self, after_s: float) -> None:
        """End, after these seconds, the calls that are still under way, and all connections."""
        await asyncio.sleep(after_s)
        await asyncio.gather(*(unlisted.close() for unlisted in self._unlisted.values()))
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        await self._learner.close()

    async def search(self, tenant: str, query: str, limit: int, hint: RouteHint, actor: str = "") -> dict[str, Any]:
        """Return the best tools for a task as JSON, each with its schema, score and why, and how sure the whole is.

        `actor`: the client that asks.
        """
        await self._follow()
        # Taken before routing: a server that is listed meanwhile is not among the matches, so its warning stays.
        listed = await self._listed(tenant)
        unlisted = dict(listed.why)
        await self._read_again(tenant, listed)
        # Tools that cannot be called here (agents, integrations) are skipped, so more matches are asked for.
        all_callable = await self._router.servers(tenant) <= self.config.servers.keys()
        width = limit if all_callable else min(MAX_LIMIT, 3 * limit)
        cap = _MOST_TOKENS * width // limit
        asked = RouteRequest(query=query, tenant=tenant, limit=width, route_hint=hint, token_cap=cap)
        decision = await self._router.route(asked)
        self._learner.searched(decision, actor)
        # What is stored of a server that is yet to be listed belongs to another entry of that name.
        usable = [one for one in decision.matches if self._callable(one.tool) and one.tool.server not in unlisted]
        matches, dropped = select.fit(usable[:limit], _MOST_TOKENS, select.definition_tokens)
        for match in matches:
            self._remember(tenant, match.tool)
        shown, matching = {match.tool.key for match in matches}, {match.tool.server for match in matches}
        self._pool(tenant).warm(servers_to_prewarm(usable, self._warm))
        warnings = [f"the tools of server {name!r} are not among these: {why}" for name, why in unlisted.items()]
        if dropped:
            named = ", ".join(match.tool.key for match in dropped)
            warnings.append(f"{named}: left out, no more fits into {_MOST_TOKENS:,} tokens; `call_tool` takes them")
        return {
            "matches": [_match_json(match) for match in matches],
            "recommended": [key for key in decision.recommended if key in shown],
            "stage": str(decision.stage),
            "confidence": round(decision.confidence, 4),
            "semantic_ran": decision.semantic_ran,
            "servers": [server for server in decision.servers if server in matching],
            "warnings": [*decision.warnings, *warnings],
        }

    async def call(
        self,
        tenant: str,
        key: str,
        arguments: Mapping[str, Any],
        *,
        actor: str = "",
        allow: Allow | None = None,
        idempotency_key: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> "CallToolResult":
        """Call a tool of the tenant's present catalogue, once `allow` has returned for it.

        Raises UnknownTool, InvalidArguments, and what `allow` and Connections.call raise.
        """
        await self._follow()
        tool = await self._tool(tenant, key)
        chosen = self._offered.get((tenant, tool.key), tool)
        given = dict(arguments) if chosen.hash != tool.hash else check_arguments(tool, arguments)
        if allow is not None:
            await allow(tool, given)
        call = replace(Call.of(chosen, given, idempotency_key), on_progress=on_progress)
        began = time.perf_counter()
        result = as_mcp_result(await self._pool(tenant).exchange(call))
        took = (time.perf_counter() - began) * 1000
        self._learner.called(tenant, actor, tool.key, ok=not result.is_error, ms=took)
        return result

    async def _tool(self, tenant: str, key: str) -> Tool:
        """Return the tool, whose server is listed first where the store does not hold what its entry names."""
        server = key.partition(":")[0]
        listed = await self._listed(tenant, server)
        why = listed.why.get(server)
        await self._read_again(tenant, listed)
        catalogue = (await self._router.index(tenant, key)).catalogue
        if why:
            raise ServerUnavailable(f"{key} is not known yet, as nothing is of server {server!r}: {why}")
        former, key = key, catalogue.current(key)
        if former != key:
            self._note(f"{former} is called {key} now; a call of the former name is answered for the time being")
        if key not in catalogue.positions:
            meant = self._meant(key, catalogue)
            raise UnknownTool(f"no tool {key!r}{meant}: use `search`, and give a match's `tool` as it stands there")
        tool = catalogue[key]
        if not self._callable(tool):
            is_mcp = tool.kind is Kind.MCP
            reason = "it is not among the servers' tools here" if is_mcp else f"its kind is {tool.kind}"
            raise UnknownTool(f"{key!r} is not called through MCP servers: {reason}")
        return tool

    async def _read_again(self, tenant: str, listed: "InitialSync") -> None:
        """Wait until the router has read what was just listed: a busy store first answers with what it had before."""
        for _ in range(_LOOKS if listed.stored else 0):
            if listed.stored <= await self._router.servers(tenant):
                break
            await asyncio.sleep(0.05)
        listed.stored.clear()

    def _meant(self, key: str, catalogue: Catalogue) -> str:
        """Return which of the tenant's tools may be meant by a key that none has."""
        name = key.rpartition(":")[2]
        own = [tool for tool in catalogue if self._callable(tool)]
        near = [tool.key for tool in own if tool.name == name][:3]
        near = near or get_close_matches(key, [tool.key for tool in own][:2_000], n=3)
        return f" (did you mean {' or '.join(near)}?)" if near else ""

    async def states(self, tenant: str) -> list[dict[str, Any]]:
        """Return how the tenant's servers stand here: state, tools, idle time, last error."""
        await self._follow()
        pool = self._pool(tenant)
        counts = await asyncio.to_thread(self._store.servers, tenant)
        pool.know(counts, await asyncio.to_thread(self._store.failures, tenant))
        return [state.to_json() for state in pool.states()]

    async def _follow(self) -> None:
        """Take a changed configuration over; what the store lacks of it is listed before the next search."""
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
        """Keep which definition a client was shown, so that a call of one that has changed since can say so."""
        self._offered[tenant, tool.key] = tool
        self._offered.move_to_end((tenant, tool.key))
        while len(self._offered) > _REMEMBERED:
            self._offered.popitem(last=False)

    async def _listed(self, tenant: str, server: str | None = None) -> "InitialSync":
        """Wait for what the store lacks of the tenant's servers: all, or the one that is needed."""
        if tenant not in self._unlisted:
            self._unlisted[tenant] = InitialSync(self._pool(tenant), self._store, tenant, self._note)
        unlisted = self._unlisted[tenant]  # Another configuration may be taken over while it is waited for.
        await unlisted.listed(server)
        return unlisted

    def _pool(self, tenant: str) -> Connections:
        if tenant not in self._pools:
            at_hand = partial(self._router.catalogue_at_hand, tenant)
            on_listed = keep_current(self._store, tenant, at_hand, self._entry)
            self._pools[tenant] = Connections(self.config, on_listed=on_listed, **self._limits)
        return self._pools[tenant]


def _match_json(match: Match) -> dict[str, Any]:
    return {
        "tool": match.tool.key,
        "description": match.tool.description,
        "input_schema": parameters(match.tool),
        "score": round(match.score, 4),
        "why": match.why,
    }


class InitialSync:
    """The servers that one tenant's store does not hold: listed before its first search, and again where one fails.

    Later listings, a minute or more after one that failed, run while searches are answered.
    """

    def __init__(self, pool: Connections, store: Store, tenant: str, note: Note) -> None:
        self._pool, self._store, self._tenant, self._note = pool, store, tenant, note
        self.why: dict[str, str] = {}
        """The servers whose tools the store does not hold now, each with the reason."""
        self.stored: set[str] = set()
        """Servers that were listed since the catalogue was last read, and have tools."""
        self._missing: set[str] = set()
        self._noted: set[str] = set()
        self._listing: asyncio.Task[None] | None = None
        self._until: tuple[float, ...] = ()
        self._again_at = 0.0
        self._looked = asyncio.Event()
        self._some_known = self._complete = False

    async def listed(self, server: str | None = None) -> None:
        """Return when what could be listed is stored, or has taken too long; what is late is stored all the same.

        For one `server`: at once where it is stored, else when it is, whatever others take.
        """
        now = asyncio.get_running_loop().time()
        if self._listing is None or (self._listing.done() and not self._complete and now >= self._again_at):
            self._until = self._until or (now + _WAIT_S, now + _WAIT_KNOWN_S)
            self._listing = asyncio.create_task(self._list())
        await self._looked.wait()
        if server is not None and server not in self._missing:
            return
        left_s = self._until[self._some_known and server is None] - asyncio.get_running_loop().time()
        if not self._listing.done() and left_s > 0:
            await asyncio.wait([self._listing], timeout=left_s)

    async def close(self) -> None:
        self._looked.set()
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    async def _list(self) -> None:
        try:
            self._pool.know(await asyncio.to_thread(self._store.servers, self._tenant))
            missing = await asyncio.to_thread(not_listed, self._pool.config, self._store, self._tenant)
            unknown = [server for server, some_known in missing.items() if not some_known]
            self.why = {server: self.why.get(server, "it is still being listed") for server in unknown}
            self._some_known, self._missing = len(unknown) < len(self._pool.config.servers), set(missing)
            self._looked.set()
            if missing:
                await sync(self._pool, self._store, self._tenant, self._listed_one, list(missing))
                self._pool.let_go(missing)  # From here on a server is connected when one of its tools is called.
            self._complete = not self._missing
        except ToolrouteError as error:
            self._note(f"the servers could not be listed: {error}")
        finally:
            self._looked.set()
            self._again_at = asyncio.get_running_loop().time() + _AGAIN_S

    def _listed_one(self, report: ServerReport) -> None:
        if not report.error:
            self.stored.update([report.server] if report.tools else [])
            self._missing.discard(report.server)
            self.why.pop(report.server, None)
        elif report.server in self.why:
            self.why[report.server] = f"it could not be listed ({without_name(report.server, report.error)})"
        if not report.error or report.server not in self._noted:  # That it fails again is no news.
            self._noted.add(report.server)
            self._note(report.line)
