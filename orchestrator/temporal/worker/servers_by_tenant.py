"""The MCP servers of each tenant: the configuration, the connections, and the limits in the configuration."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.common.threads import Threads
from orchestrator.errors import FAULTS, InvalidConfig, ServerUnavailable, ToolrouteError
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.records.call import ToolCall
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from orchestrator.mcp.config.parse import ServerSpec
    from orchestrator.mcp.connections import Connections

ServerConfig = McpConfig | Mapping[str, Any] | str | Path
"""An `mcpServers` configuration: a mapping, the path of the JSON file, or an McpConfig."""
ConfigForTenant = Callable[[str], ServerConfig | None]
"""Returns the configuration of a tenant. None: the tenant has no servers."""
Listed = Callable[[str, str, tuple[Tool, ...]], Awaitable[None]]
"""Gets a tenant, the name of its server, and the tools that the server has listed."""

MAX_TENANTS = 64
"""The number of tenants whose MCP connections a worker keeps. The least recently used connections close first."""
_CONFIG_TIMEOUT_S = 30.0
"""Seconds to wait for a tenant's configuration before a call."""
_LIMITS_TIMEOUT_S = 2.0
"""Seconds to wait for it after a route, which has its matches already."""
_LIMITS_KEPT_S = 60.0
"""Seconds for which limits are kept, because a function for the configuration may ask a vault."""
_NO_SERVERS = McpConfig({}, "mcp_servers, which now returns None")


class Limits(NamedTuple):
    """The limits of a tenant's servers.

    Attributes:
        labels: The limits as labels of tools, by server.
        warnings: Why they could not be read.
    """

    labels: Mapping[str, dict[str, str]]
    warnings: tuple[str, ...] = ()


class ServersByTenant:
    """The connections of each tenant, which follow its configuration.

    The configuration is read again when a call names a new server, when a server refuses a call or cannot be connected,
    and at a sync. A server that it no longer names closes when no call uses it.

    Args:
        mcp_servers: One configuration for all tenants, or a function from the tenant to its configuration. A function
            runs in a thread, so it may wait, for example for a vault. None: no tenant has servers.
        on_listed: Is called with the tools that a server lists when it connects or after a change.
        is_calling: Returns whether a call of a tenant is running, so that its connections stay open.
    """

    def __init__(
        self,
        mcp_servers: ServerConfig | ConfigForTenant | None,
        on_listed: Listed,
        is_calling: Callable[[str], bool],
    ) -> None:
        self._mcp_servers = mcp_servers
        self._on_listed = on_listed
        self._is_calling = is_calling
        self._connections: OrderedDict[str, Connections | None] = OrderedDict()
        self._warming = set[asyncio.Task[None]]()
        self._threads = Threads(MAX_TENANTS, "toolroute configuration")
        self._limits: dict[str, Limits] = {}
        self._limits_read_at = 0.0

    @property
    def are_configured(self) -> bool:
        """True if the worker has a configuration or a function for it."""
        return self._mcp_servers is not None

    def connections(self, tenant: str) -> "Connections | None":
        """Return the tenant's connections. None before its first call."""
        return self._connections.get(tenant)

    async def configuration(self, tenant: str) -> McpConfig:
        """Read the tenant's configuration. It has no server if the tenant has no configuration."""
        return McpConfig.of(await self.read(tenant) or _NO_SERVERS)

    async def read(self, tenant: str) -> ServerConfig | None:
        """Read the tenant's configuration. An error of the function means that nothing was sent to a server.

        Raises:
            InvalidConfig: The function has a fault, or does not return a configuration.
            ServerUnavailable: The function failed in another way, or did not answer in time.
        """
        if not callable(self._mcp_servers):
            return self._mcp_servers
        try:
            async with asyncio.timeout(_CONFIG_TIMEOUT_S):
                config: Any = await self._threads.run(self._mcp_servers, tenant)
        except ToolrouteError:
            raise
        except Exception as error:
            raise _failure(tenant, error) from error
        if not isinstance(config, McpConfig | Mapping | str | Path | None):
            kind = type(config).__name__
            raise InvalidConfig(
                f"mcp_servers returned a {kind} for {tenant!r}: return an mcpServers mapping or its path"
            )
        return config

    async def connections_for(self, call: ToolCall) -> "Connections | None":
        """Return the connections of the call's tenant.

        If they do not have the call's server, the configuration is read again first.
        """
        tenant = call.tenant
        is_served = call.tool.kind.is_served
        if tenant not in self._connections or (
            is_served and not self.entry(tenant, call.tool.server)
        ):
            self.renew(tenant, await self.read(tenant))
        self._connections.move_to_end(tenant)
        return self._connections[tenant]

    def renew(self, tenant: str, config: ServerConfig | None) -> None:
        """Make this the tenant's configuration, also for existing connections."""
        connections = self._connections.get(tenant)
        if connections is not None:
            connections.renew(_NO_SERVERS if config is None else config)
        elif config is None:
            self._connections[tenant] = None
        else:
            from orchestrator.mcp.connections import Connections

            on_listed = partial(self._on_listed, tenant)
            self._connections[tenant] = Connections(config, tenant=tenant, on_listed=on_listed)

    async def has_changed(
        self, connections: "Connections", call: ToolCall, before: "ServerSpec | None"
    ) -> bool:
        """Read the configuration again, and return True if the entry of the call's server has changed.

        Args:
            connections: The tenant's connections. They take the new configuration.
            call: The call that failed.
            before: The entry that the call used. None: the server had none.

        Returns:
            False, too, if the configuration cannot be read.
        """
        try:
            config = await self.read(call.tenant)
            connections.renew(_NO_SERVERS if config is None else config)
        except ToolrouteError:
            # The configuration is broken or being written. The call's own error is better.
            return False
        return connections.config.servers.get(call.tool.server) != before

    def entry(self, tenant: str, server: str) -> str:
        """Return the identity of the tenant's entry for a server. Otherwise empty."""
        connections = self._connections.get(tenant)
        spec = connections.config.servers.get(server) if connections else None
        return spec.identity if spec else ""

    async def evict(self) -> None:
        """Close the connections of the least recently used tenants, above the maximum.

        Connections with a running call stay.
        """
        idle = [tenant for tenant in self._connections if not self._is_calling(tenant)]
        surplus = max(0, len(self._connections) - MAX_TENANTS)
        # All are removed before the first wait, because other calls evict too, and any tenant may call again.
        leaving = [self._connections.pop(tenant) for tenant in idle[:surplus]]
        await asyncio.gather(*(connections.close() for connections in leaving if connections))

    def warm(self, tenant: str, servers: Sequence[str]) -> None:
        """Begin to connect servers of a tenant. A later call reports an error."""
        task = asyncio.create_task(self._connect(tenant, servers))
        self._warming.add(task)
        task.add_done_callback(self._warming.discard)

    async def _connect(self, tenant: str, servers: Sequence[str]) -> None:
        # Nobody waits for this task, and the call that needs a server reports its error.
        with suppress(ToolrouteError):
            if tenant not in self._connections:
                self.renew(tenant, await self.read(tenant))
            if connections := self._connections[tenant]:
                connections.warm(servers)
            await self.evict()

    async def limits(self, tenant: str) -> Limits:
        """Return the limits of the tenant's servers. They are read at most once a minute."""
        if not self.are_configured:
            return Limits({})
        if time.monotonic() - self._limits_read_at > _LIMITS_KEPT_S:
            self._limits = {}
            self._limits_read_at = time.monotonic()
        if tenant not in self._limits:
            self._limits[tenant] = await self._read_limits(tenant)
        return self._limits[tenant]

    async def _read_limits(self, tenant: str) -> Limits:
        try:
            async with asyncio.timeout(_LIMITS_TIMEOUT_S):
                config = await self.configuration(tenant)
        except (ToolrouteError, TimeoutError) as error:
            why = str(error) or f"mcp_servers did not return within {_LIMITS_TIMEOUT_S:g} seconds"
            return Limits({}, (f"the limits of the servers' entries are not applied: {why}",))
        labels = {name: spec.limits.labels for name, spec in config.servers.items()}
        return Limits({name: limits for name, limits in labels.items() if limits})

    async def close(self) -> None:
        """Close all connections. A later call opens them again."""
        for task in self._warming:
            task.cancel()
        await asyncio.gather(*self._warming, return_exceptions=True)
        leaving = list(self._connections.values())
        self._connections = OrderedDict()  # Calls that come during the close open new ones.
        self._threads.close()
        async with AsyncExitStack() as stack:  # One that fails does not keep the others open.
            for connections in filter(None, leaving):
                stack.push_async_callback(connections.close)


def _failure(tenant: str, error: Exception) -> ToolrouteError:
    """Return the error of a call or a route whose function for the configuration failed."""
    reason = str(error)
    if isinstance(error, TimeoutError):
        reason = f"no answer within {_CONFIG_TIMEOUT_S:g} seconds"
    failed = f"mcp_servers failed for {tenant!r}: {type(error).__name__}: {reason}"
    if isinstance(error, FAULTS):
        return InvalidConfig(f"{failed}; return None for a tenant without servers")
    return ServerUnavailable(failed)  # A vault or a database may answer again.
