"""The gateway: search and calls over all configured servers, by tenant. `toolroute serve` offers it to MCP clients."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

from orchestrator.errors import InvalidInput, ToolrouteError
from orchestrator.mcp.calls import MAX_RESULT_TOKENS
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.runtime.router import Router
from orchestrator.server.apps import OpenApps
from orchestrator.server.audit_trail import AuditTrail
from orchestrator.server.initial_sync import Note
from orchestrator.server.sessions.client_profile import current
from orchestrator.server.sessions.clients import Clients
from orchestrator.server.sessions.kept_results import KeptResults
from orchestrator.server.sessions.outcome_recorder import OutcomeRecorder
from orchestrator.server.sessions.questions import Questions
from orchestrator.server.sessions.sign_in import SignIn, SignIns
from orchestrator.server.sessions.task_handles import TaskHandles
from orchestrator.server.tenant_servers import TenantServers
from orchestrator.server.tool_calls import ToolCalls
from orchestrator.server.tool_search import ToolSearch
from orchestrator.trust.audit import Audit

_READY_TIMEOUT_S = 5.0
"""Seconds for the store to answer `/readyz`. A probe that gets no answer learns nothing."""
_WATCH_INTERVAL_S = 2.0
"""Seconds between two checks of the configuration file, while clients are connected that are notified of changes."""


class Gateway:
    """Searches a store's tools and calls those of the configured servers. Each tenant has its own connections.

    A tenant's servers that the store does not know are listed when its first client connects. Until then, searches are
    answered with a warning that names these servers. Servers that fail are retried.

    Args:
        config: The configuration.
        router: A Router with a store.
        warm: The maximum number of servers that a search connects while the model thinks.
        changed: Is called before each request. Returns a new configuration after a change.
        note: Receives messages for the operator.
        max_result_tokens: The tokens after which a result is cut.
        audit: The audit log.
        limits: The limits of each tenant's Connections.
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
        self.store = router.store
        self._router = router
        router.restrict_to(config.entries)
        self._changed = changed
        self._note = note
        self._limits = limits
        self.audit = AuditTrail(audit)
        self.clients = Clients()
        self.questions = Questions(self.clients)
        self.tasks = TaskHandles()
        self.results = KeptResults(max_result_tokens)
        self.apps = OpenApps()
        self._sign_ins = SignIns()
        self._outcomes = OutcomeRecorder(router, note)
        self.searches = ToolSearch(router, self._outcomes, self.audit, warm)
        self.calls = ToolCalls(self.results, self._outcomes, self.audit)
        self._tenants: dict[str, TenantServers] = {}
        self._reported_missing: set[str] = set()
        self._watching: asyncio.Task[None] | None = None
        self._checking = asyncio.Lock()
        self._next_check: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(0)
        await self._router.aclose()
        self.calls.close()

    async def stop(self, after_s: float) -> None:
        """End, after these seconds, the calls that are still in progress, and all connections."""
        await asyncio.sleep(after_s)
        self.calls.stop()
        await self._sign_ins.close()
        await self.tasks.close()
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(*(servers.close() for servers in self._tenants.values()))
        await self._outcomes.close()
        await self.audit.flush()

    def servers(self, tenant: str) -> TenantServers:
        """Return the tenant's servers."""
        if tenant not in self._tenants:
            self._tenants[tenant] = TenantServers(
                tenant,
                self.config,
                self.store,
                self._router,
                self.clients,
                self._note,
                self._limits,
            )
        return self._tenants[tenant]

    async def up_to_date_servers(self, tenant: str) -> TenantServers:
        """Take a changed configuration over, and return the tenant's servers. Each request begins here."""
        await self.follow()
        return self.servers(tenant)

    def sign_in(self, tenant: str, server: str) -> SignIn | None:
        """Start or continue a sign-in to a server.

        Returns None if the server did not refuse the credentials, or a sign-in exists.
        """
        spec = self.config.servers.get(server)
        if spec is None or not self.servers(tenant).pool.refusals([server]):
            return None
        if spec.oauth.is_for_worker or not spec.launch().signs_in:
            return None
        return self._sign_ins.of(tenant, spec)

    async def note_missing(self, servers: TenantServers) -> None:
        """Name once each pinned or changed tool of the profile that its listed server does not have."""
        profile = current()
        keys = {*profile.spec.pinned, *profile.spec.overrides} - self._reported_missing
        if not keys:
            return
        missing_keys = await servers.missing(keys)
        self._reported_missing.update(missing_keys)
        for key in missing_keys:
            self._note(
                f"{profile.source}: profile {profile.name!r}: its server has no tool {key!r}: correct the name"
            )

    async def ready(self) -> bool:
        """Return True if the store answers."""
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                await asyncio.to_thread(self.store.servers, "local")
        except (ToolrouteError, TimeoutError):
            return False
        return True

    async def follow(self) -> None:
        """Use a changed configuration. New servers are listed before the next search.

        All requests that come while the file is checked share the next check. Checks one after the other would make
        another tenant's request wait for each request before it.
        """
        if self._next_check is None:
            self._next_check = asyncio.create_task(self._check())
        # Shielded: one request's cancellation must not take the check from the others.
        await asyncio.shield(self._next_check)

    async def _check(self) -> None:
        async with self._checking:
            self._next_check = None  # A request from here on may be later than the check.
            # In a thread, because the file may be on a network drive.
            config = await asyncio.to_thread(self._changed)
            if config is not None:
                await self._take_over(config)

    async def _take_over(self, config: McpConfig) -> None:
        self.audit.note_changes(self.config, config)
        self.config = config
        self._router.restrict_to(config.entries)
        for servers in self._tenants.values():
            await servers.renew(config)
        for tenant in self.clients.tenants:
            await self.clients.publish(
                tenant, ToolsListChanged(), ResourcesListChanged(), PromptsListChanged()
            )

    async def _watch(self) -> None:
        """Use a changed configuration also between requests, so that connected clients are notified."""
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            if self.clients.tenants:
                await self.follow()
