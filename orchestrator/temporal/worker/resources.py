"""The resources that a worker's activities share.

They open on first use and close when the last worker that uses them ends.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from orchestrator.errors import (
    InvalidConfig,
    InvalidInput,
    ServerUnavailable,
    ToolChanged,
    ToolrouteError,
    Unauthorised,
    UnknownTool,
)
from orchestrator.mcp.calls import Confirm
from orchestrator.mcp.listing.waits import LISTING_WAIT_S, STILL_LISTED
from orchestrator.options import Options
from orchestrator.records.call import ChangePolicy, SyncRequest, ToolCall, ToolResult
from orchestrator.records.tool import Kind, Tool
from orchestrator.runtime.prewarm import servers_to_prewarm
from orchestrator.temporal.worker.executors import Executors
from orchestrator.temporal.worker.http_executor import HttpExecutor
from orchestrator.temporal.worker.plugin_settings import PluginSettings
from orchestrator.temporal.worker.servers_by_tenant import ServersByTenant
from orchestrator.temporal.worker.turns import Turns
from orchestrator.temporal.worker.whole_results import Results
from orchestrator.trust.audit import Audit, Entry, arguments_digest
from orchestrator.trust.definition_changes import is_quarantined

if TYPE_CHECKING:
    from orchestrator.llm.client import Models
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import ServerReport, SyncReport
    from orchestrator.records.decision import Decision
    from orchestrator.runtime.router import Router

logger = logging.getLogger(__name__)

_ROUTING = ("orchestrator.runtime.router", "orchestrator.runtime.staged_route", "jsonschema")
_CONNECTING = (
    "orchestrator.mcp.connections",
    "orchestrator.mcp.connection",
    "orchestrator.mcp.sync",
    "orchestrator.mcp.tasks",
    "mcp.client",
)
"""The modules that are otherwise imported at the first route, and at the first call of an MCP server."""


@dataclass(slots=True)
class _Listing:
    """A running listing of a tenant's servers.

    Attributes:
        task: The task.
        wait_until: The time of the event loop until which the tenant's routes wait for it.
        unlisted: The servers that are not listed yet. None: they are not known yet.
    """

    task: asyncio.Task[None]
    wait_until: float
    unlisted: set[str] | None = None

    def lacks(self, server: str) -> bool:
        """Return True if the server may have tools that are not listed yet."""
        return self.unlisted is None or server in self.unlisted


class Resources:
    """The router, the executors, the MCP servers and the models of one plugin. Nothing opens before it is needed."""

    def __init__(self, settings: PluginSettings) -> None:
        self._settings = settings
        self.results = Results(settings.results_in)
        # A wrong registration fails here, when the plugin is created.
        self._executors = Executors(settings.executors, self.results.keep)
        self._servers = ServersByTenant(settings.mcp_servers, self._keep_listed, self._is_calling)
        self._models: Models | None = None
        self._router: Router | None = None
        self._turns: dict[str, Turns] = {}
        self._listings: dict[str, _Listing] = {}
        """The listings that are running, by tenant."""
        self._listed: set[str] = set()
        """The tenants whose servers have been listed."""
        # A worker may have no user folder.
        audit_folder = Options.from_env().audit
        self._audit = Audit.named(audit_folder) if audit_folder else None
        self._holders = 0
        self._opening = asyncio.Lock()
        self._open = AsyncExitStack()

    def changes(self) -> ChangePolicy:
        """Return the policy for changed definitions that wait until somebody accepts them."""
        return self._settings.options.changes

    @contextmanager
    def audited(self, call: ToolCall, run: str) -> Iterator[dict[str, Any]]:
        """Write a line for the call into the audit log, if TOOLROUTE_AUDIT names one.

        The caller sets its fields in the dict.
        """
        began = time.monotonic()
        line: dict[str, Any] = {"approval": f"policy {call.approve}" if call.approve else ""}
        try:
            yield line
        except BaseException as error:
            line["result"] = type(error).__name__
            raise
        finally:
            if self._audit is not None:
                entry = Entry(
                    event="call",
                    actor=f"run {run}",
                    tenant=call.tenant,
                    server=call.tool.server,
                    tool=call.tool.key,
                    arguments=arguments_digest(call.arguments),
                    ms=(time.monotonic() - began) * 1000,
                    **line,
                )
                self._audit.note(entry)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Use the resources, as each running worker or replayer does. The last one closes them."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                await self.close()

    async def load_modules(self) -> None:
        """Import the modules for routes and calls, in a thread. Later, it would block the event loop for .7 s."""
        modules = (*_ROUTING, *_CONNECTING) if self._servers.are_configured else _ROUTING
        with suppress(ImportError):  # The first call that needs a missing package names it.
            await asyncio.to_thread(lambda: [import_module(name) for name in modules])

    async def router(self) -> "Router":
        """Return the router. Concurrent callers open it once."""
        async with self._opening:
            if self._router is None:
                router = self._settings.make_router(self.models)
                self._router = await self._open.enter_async_context(router)
                by_name = [name for name in self._settings.executors if name not in tuple(Kind)]
                self._router.engine.expected.expect("executors", by_name)
            return self._router

    def models(self) -> "Models | None":
        """Return the language models, or None. A request is tried once, because Temporal repeats it."""
        from orchestrator.llm.client import Models

        models: Any = None if self._models else self._settings.make_models()
        if models is not None:
            if not isinstance(models, Models):
                kind = type(models).__name__
                raise InvalidConfig(f"models returned a {kind}: return orchestrator.Models or None")
            models.tries = 1
            self._models = models
            self._open.push_async_callback(models.aclose)
        return self._models

    async def present(self, call: ToolCall) -> Tool:
        """Return the call's tool as its server defines it now. Raise an error if the call cannot be carried out."""
        call = replace(call, arguments=await self.results.expand(call.tenant, call.arguments))
        is_served = call.tool.kind.is_served
        connections = await self._servers.connections_for(call) if is_served else None
        return await self._executors.present(call, connections)

    def share_slots(self, task_queue: str, turns: Turns) -> None:
        """Let the tenants' calls of a task queue share the slots of its worker."""
        self._turns[task_queue] = turns

    async def execute(
        self,
        call: ToolCall,
        confirm: Confirm | None = None,
        task_queue: str = "",
        *,
        must_run: bool = False,
    ) -> ToolResult:
        """Carry out a call with the connections of its tenant.

        Args:
            call: The call.
            confirm: Is called with an MCP server's own definition before the call, and may raise.
            task_queue: The task queue from which the call came.
            must_run: Whether the call cannot go back to the queue.

        Raises:
            NoTurn: The worker has no slot for this tenant now.
        """
        turns = self._turns.setdefault(task_queue, Turns(None))
        give_back = turns.take(call.tenant, must_run=must_run)
        try:
            call = replace(call, arguments=await self.results.expand(call.tenant, call.arguments))
            return await self._execute(call, confirm)
        finally:
            give_back()

    async def _execute(self, call: ToolCall, confirm: Confirm | None) -> ToolResult:
        connections = await self._servers.connections_for(call)
        entry = connections.config.servers.get(call.tool.server) if connections else None
        await self._servers.evict()
        try:
            return await self._executors.execute(call, connections, confirm)
        except (InvalidConfig, ServerUnavailable, Unauthorised):
            # Nothing was sent. The entry may have changed, because credentials expire and addresses move.
            if not call.tool.kind.is_served or connections is None:
                raise
            if not await self._servers.has_changed(connections, call, entry):
                raise
        return await self._executors.execute(call, connections, confirm)

    async def router_awaiting_listing(self, tenant: str) -> "Router":
        """Return the router, for a use of the tenant's catalogue.

        Servers that the store does not know are listed first, once in this process. All callers in its first
        LISTING_WAIT_S wait for the listing. Later callers do not, because a staged route or a call would wait many
        times for a server that hangs. The listing goes on, and failures of servers are logged.
        """
        await self.router()  # Opening it is not part of the wait.
        if self._settings.lists_servers and tenant not in self._listed:
            listing = self._listings.get(tenant)
            if listing is None:
                listing = self._begin_listing(tenant)
            # The listing goes on for the other routes if this one is cancelled.
            seconds = max(0.0, listing.wait_until - asyncio.get_running_loop().time())
            ended, _ = await asyncio.wait([listing.task], timeout=seconds)
            for task in ended:
                task.result()
        return await self.router()

    def _begin_listing(self, tenant: str) -> _Listing:
        task = asyncio.create_task(self._list_servers(tenant))
        task.add_done_callback(partial(self._end_listing, tenant))
        wait_until = asyncio.get_running_loop().time() + LISTING_WAIT_S
        listing = self._listings[tenant] = _Listing(task, wait_until)
        return listing

    async def _list_servers(self, tenant: str) -> None:
        """List the servers without stored tools. Only errors that are no ToolrouteErrors are raised."""
        try:
            config = await self._servers.configuration(tenant)
            stored = await (await self.router()).servers(tenant)
            not_stored = tuple(name for name in config.servers if name not in stored)
            unlisted = set(not_stored)
            self._listings[tenant].unlisted = unlisted

            def on_report(report: "ServerReport") -> None:
                unlisted.discard(report.server)
                if report.error:
                    reason = report.error
                    logger.warning(
                        "server %r of tenant %r has no tools: %s", report.server, tenant, reason
                    )

            if not_stored:
                await self.sync(SyncRequest(tenant=tenant, servers=not_stored), on_report)
            self._listed.add(tenant)
        except ToolrouteError as error:
            logger.warning("the servers of tenant %r could not be listed: %s", tenant, error)

    def _end_listing(self, tenant: str, listing: asyncio.Task[None]) -> None:
        del self._listings[tenant]
        error = None if listing.cancelled() else listing.exception()
        if error is not None:  # Perhaps no route waits for it any more.
            logger.warning("the servers of tenant %r could not be listed", tenant, exc_info=error)

    def _listing_warnings(self, tenant: str) -> list[str]:
        """Return a warning for each server that is still being listed."""
        listing = self._listings.get(tenant)
        if listing is None:
            return []
        if listing.unlisted is None:
            return [
                "new servers were not searched: mcp_servers has not returned yet; try again soon"
            ]
        return [
            f"the tools of server {server!r} were not searched: {STILL_LISTED}"
            for server in sorted(listing.unlisted)
        ]

    async def limited(self, decision: "Decision") -> "Decision":
        """Return the Decision with its servers' limits as labels of its tools. A tool's own labels take precedence.

        A warning names each of the tenant's servers that is still being listed.

        Afterwards, up to `warm` servers that the matches probably need begin to connect. If the configuration cannot be
        read in time, the Decision gets a warning, and a later call reports the error.
        """
        listing_warnings = self._listing_warnings(decision.tenant)
        if listing_warnings:
            decision = replace(decision, warnings=(*decision.warnings, *listing_warnings))
        has_mcp_tool = any(match.tool.kind.is_served for match in decision.matches)
        if not self._servers.are_configured or not has_mcp_tool:
            return decision
        likely = servers_to_prewarm(decision.matches, self._settings.warm)
        if likely:
            self._servers.warm(decision.tenant, likely)
        limits = await self._servers.limits(decision.tenant)
        warnings = [*decision.warnings, *limits.warnings]
        connections = self._servers.connections(decision.tenant)
        if connections is not None:
            servers = {match.tool.server for match in decision.matches}
            warnings += connections.refusals(sorted(servers))
        matches = [
            replace(match, tool=_limited(match.tool, limits.labels)) for match in decision.matches
        ]
        return replace(decision, matches=tuple(matches), warnings=tuple(warnings))

    async def of_catalogue(self, call: ToolCall) -> ToolCall:
        """Return the call with the tool from the tenant's catalogue, because a caller may have invented a definition.

        Raises:
            UnknownTool: The tenant has no such tool.
            ServerUnavailable: The tool's server is still being listed.
            ToolChanged: The tool's definition has changed, or its change waits to be accepted.
        """
        router = await self.router_awaiting_listing(call.tenant)
        key = call.tool.key
        # Before the catalogue is read, because the listing may end meanwhile.
        listing = self._listings.get(call.tenant)
        catalogue = await router.engine.catalogue(call.tenant)
        try:
            tool = catalogue[key]
        except UnknownTool:
            server = call.tool.server
            if listing is not None and listing.lacks(server):
                raise ServerUnavailable(
                    f"server {server!r} was not called: {STILL_LISTED}"
                ) from None
            raise
        if not router.engine.serves(tool):
            raise UnknownTool(
                f"tool {key!r} belongs to a server that this worker does not offer (only_servers)"
            )
        if tool.hash != call.tool.hash or is_quarantined(tool):
            raise ToolChanged(
                f"tool {key!r} has changed since it was routed, or its change is not accepted yet: route the task again"
            )
        limits = await self._servers.limits(call.tenant)
        return replace(call, tool=_limited(tool, limits.labels))

    async def sync(
        self,
        request: SyncRequest,
        on_progress: "Callable[[ServerReport], None] | None" = None,
    ) -> "SyncReport":
        """List the tenant's servers over new connections, and store their tools.

        Args:
            request: The tenant and the names of the servers.
            on_progress: Is called with each server's report.
        """
        from orchestrator.mcp.connections import Connections
        from orchestrator.mcp.sync import sync

        tenant = request.tenant
        config = await self._servers.read(tenant)
        store = (await self.router()).store
        if self._servers.connections(tenant) is not None:
            self._servers.renew(tenant, config)
        if config is None or store is None:
            missing = "store" if store is None else "mcp_servers"
            raise InvalidConfig(
                f"the servers of {tenant!r} cannot be listed: this worker has no {missing}; give the plugin "
                f"{missing}=..."
            )
        async with Connections(config, tenant=tenant) as connections:
            for name in request.servers:
                if name not in connections.config.servers:
                    raise InvalidInput(connections.config.lacks(name))
            return await sync(
                connections, store, tenant, on_progress, servers=request.servers or None
            )

    def connections(self, tenant: str) -> "Connections | None":
        """Return the tenant's connections, to show their state. None before the tenant's first call."""
        return self._servers.connections(tenant)

    async def close(self) -> None:
        """Close the router, the connections and the HTTP clients. A later call opens them again."""
        self._executors.close()
        listings = [listing.task for listing in self._listings.values()]
        for listing in listings:
            listing.cancel()
        await asyncio.gather(*listings, return_exceptions=True)
        stack = self._open
        self._open = AsyncExitStack()
        self._router = None
        self._models = None
        if self._audit is not None:
            await asyncio.to_thread(self._audit.flush)
        async with stack:
            stack.push_async_callback(self._servers.close)
            for executor in self._settings.executors.values():
                if isinstance(executor, HttpExecutor):
                    stack.push_async_callback(executor.aclose)

    def _is_calling(self, tenant: str) -> bool:
        return any(turns.running(tenant) for turns in self._turns.values())

    async def _keep_listed(self, tenant: str, server: str, tools: tuple[Tool, ...]) -> None:
        """Store the tools that a server lists when it connects or after a change, if the store knows the server."""
        from orchestrator.mcp.sync import keep_current

        router = await self.router()
        if router.store is not None:
            at_hand = partial(router.engine.loaded_catalogue, tenant)
            entry = partial(self._servers.entry, tenant)
            await keep_current(router.store, tenant, at_hand, entry)(server, tools)


def _limited(tool: Tool, labels: Mapping[str, dict[str, str]]) -> Tool:
    """Return the tool with its server's labels. The tool's own labels take precedence."""
    of_server = labels.get(tool.server) if tool.kind.is_served else None
    return replace(tool, labels={**of_server, **tool.labels}) if of_server else tool
