"""The scope of the pages: one tenant's tools, past tasks, servers and runs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from orchestrator.common.tenant import os_user
from orchestrator.index.relations.graph import More
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.options import Options
from orchestrator.pipeline.legs.experience import used_together
from orchestrator.records.outcome import Outcome
from orchestrator.runtime.router import Router
from orchestrator.temporal.client.run_client import RunClient
from orchestrator.trust.audit import Audit, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The sources of the pages.

    Attributes:
        stores: The stores that the router reads. Empty with only a catalogue.
        servers: The servers, or None without an mcpServers file.
        run_client: Connects to Temporal.
    """

    router: Router
    tenant: str
    options: Options
    run_client: Callable[[], Awaitable[RunClient]]
    stores: tuple[str, ...] = ()
    servers: McpConfig | None = None

    @classmethod
    def of(cls, request: Request) -> "Scope":
        """Return the Scope of the application that serves a request."""
        scope: Scope = request.app.state.scope
        return scope

    async def together(self) -> More | None:
        """Return a function from a tool to its relations from past tasks, or None without past tasks."""
        index = await self.router.engine.index(self.tenant)
        if self.router.engine.learns:
            await self.router.engine.experience.get(self.tenant)
        past = self.router.engine.experience.at_hand(self.tenant)
        return used_together(past, index)

    async def audit(self, **fields: Any) -> None:
        """Write a line about the action of the person on the pages into the audit log, if there is one."""
        log = Audit.named(self.options.audit)
        if log is not None:
            entry = Entry(tenant=self.tenant, actor=person(), **fields)
            # In a thread, because another process may hold the lock of the log.
            await asyncio.to_thread(log.write, entry)

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the remembered past tasks, oldest first, or nothing without a store. Blocks."""
        store = self.router.store
        return store.outcomes.read(self.tenant).outcomes if store is not None else ()


def person() -> str:
    """Return the name under which a person acts on the pages: the user of the operating system."""
    user = os_user()
    return f"{user} (toolroute ui)" if user else "toolroute ui"
