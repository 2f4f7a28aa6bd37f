"""The resources that a worker's activities share.

They open on first use and close when the last worker that uses them ends.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.common.threads import Threads
from orchestrator.errors import (
    FAULTS,
    InvalidConfig,
    InvalidInput,
    ServerUnavailable,
    ToolChanged,
    ToolrouteError,
    Unauthorised,
    UnknownTool,
)
from orchestrator.mcp.calls import Confirm
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.options import Options, default_store
from orchestrator.records.call import ChangePolicy, SyncRequest, ToolCall, ToolResult
from orchestrator.records.tool import Kind, Tool
from orchestrator.runtime.prewarm import servers_to_prewarm
from orchestrator.temporal.worker.executors import Executors, HttpExecutor, Registered
from orchestrator.temporal.worker.results import Results
from orchestrator.temporal.worker.turns import Turns
from orchestrator.trust.audit import Audit, Entry, arguments_digest
from orchestrator.trust.definition_changes import is_quarantined

if TYPE_CHECKING:
    from orchestrator.llm.client import Models
    from orchestrator.mcp.config.parse import ServerSpec
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import SyncReport
    from orchestrator.records.decision import Decision
    from orchestrator.runtime.router import Router

logger = logging.getLogger(__name__)

ServerConfig = McpConfig | Mapping[str, Any] | str | Path
"""An `mcpServers` configuration: a mapping, the path of the JSON file, or an McpConfig."""

MAX_TENANTS = 64
"""The number of tenants whose MCP connections a worker keeps. The least recently used connections close first."""

_ANSWERS_IN_S, _LIMITS_IN_S, _LIMITS_KEPT_S = 30.0, 2.0, 60.0
"""Seconds to wait for a tenant's configuration before a call and after a route, and to keep the limits in it."""
_Limits = tuple[dict[str, dict[str, str]], tuple[str, ...]]
_ROUTING = ("orchestrator.runtime.router", "orchestrator.runtime.staged_route", "jsonschema")
_CONNECTING = (
    "orchestrator.mcp.connections",
    "orchestrator.mcp.connection",
    "orchestrator.mcp.sync",
    "orchestrator.mcp.tasks",
    "mcp.client",
)
"""The modules that are otherwise imported at the first route, and at the first call of an MCP server."""
_NONE_NOW = McpConfig({}, "mcp_servers, which now returns None")


class Resources:
    """The router, the executors and the models of one plugin. Nothing opens before it is needed.

    Each tenant has its own connections. `mcp_servers` is one configuration for all tenants, or a function from the
    tenant to its configuration (None: the tenant has no servers). It is read again when a call names a new server, when
    a server refuses a call or cannot be connected, and at a sync. A server that it no longer names closes when no call
    uses it. A function runs in a thread, so it may wait, for example for a vault.
    """

    def __init__(
        self,
        make_router: "Callable[[], Router]",
        mcp_servers: "ServerConfig | Callable[[str], ServerConfig | None] | None" = None,
        executors: Mapping[str, Registered] | None = None,
        make_models: "Callable[[], Models | None]" = lambda: None,
        results_in: Callable[[], str | Path] = default_store,
        warm: int = 0,
        changes: Callable[[], ChangePolicy] = lambda: "safe",
        *,
        lists_servers: bool = False,
    ) -> None:
        self.changes = changes
        """Returns the policy for changed definitions that wait until somebody accepts them."""
        self._make_router, self._make_models, self._mcp_servers = (
            make_router,
            make_models,
            mcp_servers,
        )
        self._registered = dict(executors or {})
        self.results = Results(results_in)
        # A wrong registration fails here, when the plugin is created.
        self._executors = Executors(self._registered, self.results.keep)
        self._models: Models | None = None
        self._router: Router | None = None
        self._tenants: OrderedDict[str, Connections | None] = OrderedDict()
        self._turns: dict[str, Turns] = {}
        self._lists_servers = lists_servers
        self._listed: set[str] = set()
        self._limits: dict[str, _Limits] = {}
        self._limits_read = 0.0
        self._warm, self._warming = warm, set[asyncio.Task[None]]()
        self._threads = Threads(MAX_TENANTS, "toolroute configuration")
        # A worker may have no user folder.
        audit_folder = Options.from_env().audit
        self._audit = Audit.named(audit_folder) if audit_folder else None
        self._holders, self._opening, self._open = 0, asyncio.Lock(), AsyncExitStack()

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
        """Import what routes and calls need, in a thread. At the first call it would block the event loop for .7 s."""
        modules = _ROUTING if self._mcp_servers is None else (*_ROUTING, *_CONNECTING)
        with suppress(ImportError):  # The first call that needs a missing package names it.
            await asyncio.to_thread(lambda: [import_module(name) for name in modules])

    async def router(self) -> "Router":
        """Return the router. Concurrent callers open it once."""
        async with self._opening:
            if self._router is None:
                self._router = await self._open.enter_async_context(self._make_router())
                by_name = [name for name in self._registered if name not in tuple(Kind)]
                self._router.engine.expected.expect("executors", by_name)
            return self._router

    def models(self) -> "Models | None":
        """Return the language models, or None. A request is tried once, because Temporal repeats it."""
        from orchestrator.llm.client import Models

        made: Any = None if self._models else self._make_models()
        if made is not None:
            if not isinstance(made, Models):
                kind = type(made).__name__
                raise InvalidConfig(f"models returned a {kind}: return orchestrator.Models or None")
            made.tries = 1
            self._models = made
            self._open.push_async_callback(made.aclose)
        return self._models

    async def present(self, call: ToolCall) -> Tool:
        """Return the call's tool as its server defines it now. Raise an error if the call cannot be carried out."""
        call = replace(call, arguments=await self.results.expand(call.tenant, call.arguments))
        connections = await self._connections_for(call) if call.tool.kind.is_served else None
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
        connections = await self._connections_for(call)
        entry = connections.config.servers.get(call.tool.server) if connections else None
        await self._evict()
        try:
            return await self._executors.execute(call, connections, confirm)
        except (InvalidConfig, ServerUnavailable, Unauthorised):
            # Nothing was sent. The entry may have changed, because credentials expire and addresses move.
            if (
                call.tool.kind.is_served
                and connections
                and await self._has_changed(connections, call, entry)
            ):
                return await self._executors.execute(call, connections, confirm)
            raise

    async def list_servers(self, tenant: str) -> None:
        """List the tenant's servers that its store does not know yet, once in this process. Failures are logged."""
        if not self._lists_servers or tenant in self._listed:
            return
        self._listed.add(tenant)
        try:
            config = McpConfig.of(await self._config_of(tenant) or _NONE_NOW)
            stored = await (await self.router()).servers(tenant)
            unlisted = tuple(name for name in config.servers if name not in stored)
            if unlisted:
                report = await self.sync(SyncRequest(tenant=tenant, servers=unlisted))
                for server in report.servers:
                    if server.error:
                        logger.warning(
                            "server %r of tenant %r has no tools: %s",
                            server.server,
                            tenant,
                            server.error,
                        )
        except ToolrouteError as error:
            self._listed.discard(tenant)
            logger.warning("the servers of tenant %r could not be listed: %s", tenant, error)

    async def limited(self, decision: "Decision") -> "Decision":
        """Return the Decision with its servers' limits as labels of its tools. A tool's own labels take precedence.

        Afterwards, up to `warm` servers that the matches probably need begin to connect. If the configuration cannot be
        read in time, the Decision gets a warning, and a later call reports the error.
        """
        has_mcp_tool = any(match.tool.kind.is_served for match in decision.matches)
        if self._mcp_servers is None or not has_mcp_tool:
            return decision
        self._begin_to_warm(decision)
        labels, unread = await self._limits_at_hand(decision.tenant)
        warnings = [*decision.warnings, *unread]
        connections = self._tenants.get(decision.tenant)
        if connections is not None:
            servers = {match.tool.server for match in decision.matches}
            warnings += connections.refusals(sorted(servers))
        matches = [replace(match, tool=_limited(match.tool, labels)) for match in decision.matches]
        return replace(decision, matches=tuple(matches), warnings=tuple(warnings))

    async def of_catalogue(self, call: ToolCall) -> ToolCall:
        """Return the call with the tool from the tenant's catalogue, because a caller may have invented a definition.

        Raises:
            UnknownTool: The tenant has no such tool.
            ToolChanged: The tool's definition has changed, or its change waits to be accepted.
        """
        router, key = await self.router(), call.tool.key
        tool = (await router.engine.catalogue(call.tenant))[key]
        if not router.engine.serves(tool):
            raise UnknownTool(
                f"tool {key!r} belongs to a server that this worker does not offer (only_servers)"
            )
        if tool.hash != call.tool.hash or is_quarantined(tool):
            raise ToolChanged(
                f"tool {key!r} has changed since it was routed, or its change is not accepted yet: route the task again"
            )
        labels, _ = (
            ({}, ()) if self._mcp_servers is None else await self._limits_at_hand(call.tenant)
        )
        return replace(call, tool=_limited(tool, labels))

    def _begin_to_warm(self, decision: "Decision") -> None:
        if servers := servers_to_prewarm(decision.matches, self._warm):
            task = asyncio.create_task(self._connect(decision.tenant, servers))
            self._warming.add(task)
            task.add_done_callback(self._warming.discard)

    async def _connect(self, tenant: str, servers: Sequence[str]) -> None:
        with suppress(ToolrouteError):  # A later call reports the error.
            if tenant not in self._tenants:
                self._take_over(tenant, await self._config_of(tenant))
            if connections := self._tenants[tenant]:
                connections.warm(servers)
            await self._evict()

    async def _limits_at_hand(self, tenant: str) -> _Limits:
        """Return the limits of the tenant's servers. They are read at most once a minute."""
        if time.monotonic() - self._limits_read > _LIMITS_KEPT_S:
            self._limits, self._limits_read = {}, time.monotonic()
        if (found := self._limits.get(tenant)) is None:
            found = self._limits[tenant] = await self._limits_of(tenant)
        return found

    async def _limits_of(self, tenant: str) -> _Limits:
        """Return the limits of the tenant's servers as labels, by server, and a warning if they cannot be read."""
        try:
            async with asyncio.timeout(_LIMITS_IN_S):
                config = McpConfig.of(await self._config_of(tenant) or _NONE_NOW)
        except (ToolrouteError, TimeoutError) as error:
            why = str(error) or f"mcp_servers did not return within {_LIMITS_IN_S:g} seconds"
            return {}, (f"the limits of the servers' entries are not applied: {why}",)
        return {
            name: spec.limits.labels for name, spec in config.servers.items() if spec.limits.labels
        }, ()

    async def sync(self, request: SyncRequest) -> "SyncReport":
        """List the tenant's servers over new connections, and store their tools."""
        from orchestrator.mcp.connections import Connections
        from orchestrator.mcp.sync import sync

        config, store = await self._config_of(request.tenant), (await self.router()).store
        if request.tenant in self._tenants:
            self._take_over(request.tenant, config)
        if config is None or store is None:
            missing = "store" if store is None else "mcp_servers"
            nothing = f"the servers of {request.tenant!r} cannot be listed"
            raise InvalidConfig(
                f"{nothing}: this worker has no {missing}; give the plugin {missing}=..."
            )
        async with Connections(config, tenant=request.tenant) as connections:
            if unknown := [
                name for name in request.servers if name not in connections.config.servers
            ]:
                raise InvalidInput(connections.config.lacks(unknown[0]))
            return await sync(connections, store, request.tenant, servers=request.servers or None)

    def connections(self, tenant: str) -> "Connections | None":
        """Return the tenant's connections, to show their state. None before the tenant's first call."""
        return self._tenants.get(tenant)

    async def close(self) -> None:
        """Close the router, the connections and the HTTP clients. A later call opens them again."""
        for task in self._warming:
            task.cancel()
        await asyncio.gather(*self._warming, return_exceptions=True)
        tenants, self._tenants = self._tenants, OrderedDict()
        stack, self._open, self._router, self._models = self._open, AsyncExitStack(), None, None
        self._threads.close()
        self._executors.close()
        if self._audit is not None:
            await asyncio.to_thread(self._audit.flush)
        async with stack:
            for connections in filter(None, tenants.values()):
                stack.push_async_callback(connections.close)
            for executor in self._registered.values():
                if isinstance(executor, HttpExecutor):
                    stack.push_async_callback(executor.aclose)

    async def _config_of(self, tenant: str) -> ServerConfig | None:
        """Return the tenant's configuration. An error of the function means that nothing was sent to a server."""
        if not callable(self._mcp_servers):
            return self._mcp_servers
        try:
            async with asyncio.timeout(_ANSWERS_IN_S):
                config: Any = await self._threads.run(self._mcp_servers, tenant)
        except ToolrouteError:
            raise
        except Exception as error:
            remedy = (
                f"no answer within {_ANSWERS_IN_S:g} seconds"
                if isinstance(error, TimeoutError)
                else str(error)
            )
            failed = f"mcp_servers failed for {tenant!r}: {type(error).__name__}: {remedy}"
            if isinstance(error, FAULTS):
                raise InvalidConfig(
                    f"{failed}; return None for a tenant without servers"
                ) from error
            raise ServerUnavailable(failed) from error  # A vault or a database may answer again.
        if not isinstance(config, McpConfig | Mapping | str | Path | None):
            kind = type(config).__name__
            raise InvalidConfig(
                f"mcp_servers returned a {kind} for {tenant!r}: return an mcpServers mapping or its path"
            )
        return config

    async def _connections_for(self, call: ToolCall) -> "Connections | None":
        """Return the tenant's connections.

        If they do not have the call's server, the configuration is read again first.
        """
        tenant = call.tenant
        is_known = tenant in self._tenants and (
            not call.tool.kind.is_served or self._entry(tenant, call.tool.server)
        )
        if not is_known:
            self._take_over(tenant, await self._config_of(tenant))
        self._tenants.move_to_end(tenant)
        return self._tenants[tenant]

    def _take_over(self, tenant: str, config: ServerConfig | None) -> None:
        """Make this the tenant's configuration, also for existing connections."""
        if (connections := self._tenants.get(tenant)) is not None:
            connections.renew(_NONE_NOW if config is None else config)
            return
        from orchestrator.mcp.connections import Connections

        made = (
            None
            if config is None
            else Connections(config, tenant=tenant, on_listed=partial(self._keep, tenant))
        )
        self._tenants[tenant] = made

    async def _has_changed(
        self, connections: "Connections", call: ToolCall, entry: "ServerSpec | None"
    ) -> bool:
        """Read the configuration again and return True if the entry of the call's server has changed."""
        try:
            config = await self._config_of(call.tenant)
            connections.renew(_NONE_NOW if config is None else config)
        except ToolrouteError:
            # The configuration is broken or being written. The call's own error is better.
            return False
        return connections.config.servers.get(call.tool.server) != entry

    async def _evict(self) -> None:
        """Close the connections of the least recently used tenants, above the maximum.

        Connections with a running call stay.
        """
        idle = [tenant for tenant in self._tenants if not self._is_calling(tenant)]
        # All are removed before the first wait, because other calls evict too, and any tenant may call again.
        leaving = [
            self._tenants.pop(tenant) for tenant in idle[: max(0, len(self._tenants) - MAX_TENANTS)]
        ]
        await asyncio.gather(
            *(connections.close() for connections in leaving if connections is not None)
        )

    def _is_calling(self, tenant: str) -> bool:
        return any(turns.running(tenant) for turns in self._turns.values())

    async def _keep(self, tenant: str, server: str, tools: tuple[Tool, ...]) -> None:
        """Store the tools that a server lists when it connects or after a change, if the store knows the server."""
        from orchestrator.mcp.sync import keep_current

        router = await self.router()
        if router.store is not None:
            at_hand = partial(router.engine.loaded_catalogue, tenant)
            await keep_current(router.store, tenant, at_hand, partial(self._entry, tenant))(
                server, tools
            )

    def _entry(self, tenant: str, server: str) -> str:
        """Return the identity of the tenant's entry for a server. Otherwise empty."""
        connections = self._tenants.get(tenant)
        spec = connections.config.servers.get(server) if connections else None
        return spec.identity if spec else ""


def _limited(tool: Tool, labels: Mapping[str, dict[str, str]]) -> Tool:
    """Return the tool with its server's labels. The tool's own labels take precedence."""
    of_server = labels.get(tool.server) if tool.kind.is_served else None
    return replace(tool, labels={**of_server, **tool.labels}) if of_server else tool
