"""What the activities of a worker share: opened on first use, closed when the last worker that holds it ends."""

import asyncio
import inspect
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import FAULTS, InvalidConfig, InvalidInput, ServerUnavailable, ToolrouteError, Unauthorised
from orchestrator.index.threads import Threads
from orchestrator.mcp.config import McpConfig
from orchestrator.records.call import SyncRequest, ToolCall, ToolResult
from orchestrator.records.tool import Kind, Tool
from orchestrator.temporal.executors import Executors, HttpExecutor, Registered

if TYPE_CHECKING:
    from orchestrator.llm.client import Models
    from orchestrator.mcp.config import ServerSpec
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import SyncReport
    from orchestrator.routing.router import Router

ServerConfig = McpConfig | Mapping[str, Any] | str | Path
"""An `mcpServers` configuration: a mapping, or the path of the JSON file, or one already read."""

MAX_TENANTS = 64
"""Tenants whose MCP connections a worker keeps; the least recently used one's are closed."""

_ANSWERS_IN_S = 30.0
_NONE_NOW = McpConfig({}, "mcp_servers, which gives None now")


class Resources:
    """Router, executors and models of one plugin. Nothing is opened before it is asked for.

    Connections belong to one tenant each: `mcp_servers` is a configuration that every tenant gets its own connections
    of, or a function from the tenant to its configuration (None: that tenant has no servers). It is asked again when a
    call names a server that it did not name before, when a server cannot be had, and by a sync; what it names no more
    is closed as soon as no call is in flight. A function is called in a thread, and may wait there for a vault.
    """

    def __init__(
        self,
        make_router: "Callable[[], Router]",
        mcp_servers: "ServerConfig | Callable[[str], ServerConfig | None] | None" = None,
        executors: Mapping[str, Registered] | None = None,
        make_models: "Callable[[], Models | None]" = lambda: None,
    ) -> None:
        self._make_router, self._make_models = make_router, make_models
        self._models: Models | None = None
        for name, given in (("mcp_servers", mcp_servers), ("models", make_models)):
            if inspect.iscoroutinefunction(given):
                raise InvalidConfig(f"{name}={given!r}: give a function that is not async")
        self._mcp_servers = mcp_servers
        self._registered = dict(executors or {})
        self._executors = Executors(self._registered)  # a wrong registration fails where the plugin is made
        self._holders = 0
        self._opening = asyncio.Lock()
        self._router: Router | None = None
        self._tenants: OrderedDict[str, Connections | None] = OrderedDict()
        self._in_flight: Counter[str] = Counter()
        self._threads = Threads(MAX_TENANTS, "toolroute configuration")
        self._asking: dict[str, asyncio.Task[Any]] = {}
        self._open = AsyncExitStack()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Held by each worker or replayer that runs; the last one out closes what was opened."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                await self.close()

    async def router(self) -> "Router":
        """The router, opened once however many ask at the same time."""
        async with self._opening:
            if self._router is None:
                self._router = await self._open.enter_async_context(self._make_router())
            return self._router

    def models(self) -> "Models | None":
        """The language models, None where the worker has none. Each is asked once a time: Temporal tries again."""
        if self._models is None:
            made = self._make_models()
            if made is not None:
                from orchestrator.llm.client import Models

                if not isinstance(made, Models):
                    raise InvalidConfig(
                        f"models gave a {type(made).__name__}: return orchestrator.llm.client.Models or None"
                    )
                made.tries = 1
                self._models = made
                self._open.push_async_callback(made.aclose)
        return self._models

    async def _config_of(self, tenant: str) -> ServerConfig | None:
        """The tenant's configuration, or that the user's function failed: nothing was sent to any server then."""
        if not callable(self._mcp_servers):
            return self._mcp_servers
        try:
            given: Any = await self._ask(self._mcp_servers, tenant)
        except ToolrouteError:
            raise
        except Exception as error:
            told = f"mcp_servers failed for {tenant!r}: {type(error).__name__}: {error}"
            if isinstance(error, FAULTS):
                raise InvalidConfig(f"{told}; let it return None where a tenant has no servers") from error
            raise ServerUnavailable(told) from error  # a vault or a database, say: it may answer again
        if not isinstance(given, McpConfig | Mapping | str | Path | None):
            kind = type(given).__name__
            raise InvalidConfig(f"mcp_servers gave a {kind} for {tenant!r}: return an mcpServers mapping or its path")
        return given

    async def _ask(self, servers_of: "Callable[[str], ServerConfig | None]", tenant: str) -> Any:
        """The function's answer. All who ask for a tenant at the same time share one, and one who is cancelled leaves
        it to the others."""
        asking = self._asking.get(tenant)
        if asking is None:
            asking = self._asking[tenant] = asyncio.create_task(self._threads.run(servers_of, tenant))
            asking.add_done_callback(partial(self._answered, tenant))
        await asyncio.wait([asking], timeout=_ANSWERS_IN_S)
        if not asking.done():
            raise TimeoutError(f"no answer within {_ANSWERS_IN_S:g} s")
        return asking.result()

    def _answered(self, tenant: str, asking: "asyncio.Task[Any]") -> None:
        self._asking.pop(tenant, None)
        if not asking.cancelled():
            asking.exception()  # Whoever still waits gets it; it is no news to asyncio if nobody does.

    async def execute(self, call: ToolCall) -> ToolResult:
        """Carries out a call with its own tenant's connections."""
        connections = await self._connections_for(call)
        entry = connections.config.servers.get(call.tool.server) if connections else None
        self._in_flight[call.tenant] += 1
        try:
            await self._evict()
            return await self._executors.execute(call, connections)
        except (InvalidConfig, ServerUnavailable, Unauthorised):
            # Nothing was done. The entry may be another one by now: credentials expire, addresses change.
            if call.tool.kind is Kind.MCP and connections and await self._has_changed(connections, call, entry):
                return await self._executors.execute(call, connections)
            raise
        finally:
            self._in_flight[call.tenant] -= 1
            if not self._in_flight[call.tenant]:
                del self._in_flight[call.tenant]

    async def _connections_for(self, call: ToolCall) -> "Connections | None":
        """The tenant's. A server that its configuration did not name so far is looked for in it again."""
        tenant, of_mcp = call.tenant, call.tool.kind is Kind.MCP
        connections = self._tenants.get(tenant)
        named = connections is not None and call.tool.server in connections.config.servers
        if tenant not in self._tenants or (of_mcp and not named):
            self._take_over(tenant, await self._config_of(tenant))
        self._tenants.move_to_end(tenant)
        return self._tenants[tenant]

    def _take_over(self, tenant: str, config: ServerConfig | None) -> None:
        """Makes this the tenant's configuration, of connections that there are already as well."""
        connections = self._tenants.get(tenant)
        if connections is not None:
            _follow(connections, config)
        else:
            self._tenants[tenant] = None if config is None else self._connections_of(tenant, config)

    async def _has_changed(self, connections: "Connections", call: ToolCall, entry: "ServerSpec | None") -> bool:
        """Whether the configuration, looked at again, has another entry for the call's server."""
        try:
            _follow(connections, await self._config_of(call.tenant))
        except ToolrouteError:
            return False  # It is broken, or being written: the call's own error says more.
        return connections.config.servers.get(call.tool.server) != entry

    async def _evict(self) -> None:
        """Closes the connections of the tenants used longest ago, beyond the most; never one with a call in flight."""
        idle = [tenant for tenant in self._tenants if not self._in_flight[tenant]]
        # All are taken out before any is waited for: meanwhile others evict too, and any tenant may call again.
        leaving = [self._tenants.pop(tenant) for tenant in idle[: max(0, len(self._tenants) - MAX_TENANTS)]]
        await asyncio.gather(*(connections.close() for connections in leaving if connections is not None))

    def connections(self, tenant: str) -> "Connections | None":
        """The tenant's connections, for showing how they stand; None before its first call."""
        return self._tenants.get(tenant)

    def _connections_of(self, tenant: str, config: ServerConfig) -> "Connections":
        from orchestrator.mcp.connections import Connections

        return Connections(config, on_change=partial(self._renew, tenant), on_connect=partial(self._compare, tenant))

    async def _renew(self, tenant: str, server: str, tools: tuple[Tool, ...]) -> None:
        """A server said that its tools changed: what the store holds of them for this tenant is replaced."""
        from orchestrator.mcp.sync import keep_stored

        router = await self.router()
        if router.store is not None and server in await asyncio.to_thread(router.store.servers, tenant):
            at_hand = partial(router.catalogue_at_hand, tenant)
            await keep_stored(router.store, tenant, at_hand, partial(self._entry, tenant))(server, tools)

    async def _compare(self, tenant: str, server: str, tools: tuple[Tool, ...]) -> None:
        """A server was connected: where it lists other tools than this worker routes by, those are taken over."""
        from orchestrator.mcp.sync import keep_current

        if self._router is not None and self._router.store is not None:
            at_hand = partial(self._router.catalogue_at_hand, tenant)
            await keep_current(self._router.store, tenant, at_hand, partial(self._entry, tenant))(server, tools)

    def _entry(self, tenant: str, server: str) -> str:
        """The identity of the tenant's entry for a server; "" where it has none any more."""
        connections = self.connections(tenant)
        spec = connections.config.servers.get(server) if connections else None
        return spec.identity if spec else ""

    async def sync(self, request: SyncRequest) -> "SyncReport":
        """Lists the tenant's servers over connections of its own, and stores their tools."""
        from orchestrator.mcp.connections import Connections
        from orchestrator.mcp.sync import sync

        config, store = await self._config_of(request.tenant), (await self.router()).store
        if request.tenant in self._tenants:
            self._take_over(request.tenant, config)
        if config is None or store is None:
            lacks = "store: give the plugin store=..." if store is None else "servers: give the plugin mcp_servers=..."
            raise InvalidConfig(f"nothing can be listed for {request.tenant!r}: this worker has no {lacks}")
        async with Connections(config) as connections:
            known = connections.config.servers
            if unknown := [name for name in request.servers if name not in known]:
                raise InvalidInput(connections.config.lacks(unknown[0]))
            return await sync(connections, store, request.tenant, servers=request.servers or None)

    async def close(self) -> None:
        """Closes router, connections and HTTP clients; a later call opens them again."""
        tenants, self._tenants = self._tenants, OrderedDict()
        stack, self._open, self._router, self._models = self._open, AsyncExitStack(), None, None
        for asking in self._asking.values():
            asking.cancel()
        self._threads.close()
        self._executors.close()
        async with stack:
            for connections in tenants.values():
                if connections is not None:
                    stack.push_async_callback(connections.close)
            for executor in self._registered.values():
                if isinstance(executor, HttpExecutor):
                    stack.push_async_callback(executor.aclose)


def _follow(connections: "Connections", config: ServerConfig | None) -> None:
    connections.renew(_NONE_NOW if config is None else config)
