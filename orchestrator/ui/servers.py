"""Servers: the state of each, its number of tools, and the calls of past tasks."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.common.keys import split_key
from orchestrator.experience.calls import Calls, uses_by
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.states import Readiness, ServerState
from orchestrator.ui.page import page, paged
from orchestrator.ui.scope import Scope


async def servers(request: Request) -> Response:
    """Show the data of the file, the store and past tasks. Nothing is connected."""
    return await _page(request, check=False)


async def check(request: Request, form: FormData) -> Response:
    """Connect each server of the file now, and show the results."""
    return await _page(request, check=True)


async def _page(request: Request, *, check: bool) -> Response:
    scope = Scope.of(request)
    query = request.query_params.get("q", "").strip().lower()
    catalogue = await scope.router.engine.catalogue(scope.tenant)
    counts = {
        server: positions.stop - positions.start for server, positions in catalogue.places.items()
    }
    states = {state.server: state for state in await _states(scope, counts, check=check)}
    listed_at = await _listed_at(scope)
    if check:
        # Listed just now, whatever the store says.
        ready = [name for name, state in states.items() if state.state is Readiness.READY]
        listed_at |= dict.fromkeys(ready, time.time())
    uses = uses_by(lambda use: split_key(use.tool)[0], await asyncio.to_thread(scope.outcomes))
    names = dict.fromkeys([*states, *counts])
    rows = []
    for name in names:
        if query not in name.lower():
            continue
        state = states.get(name)
        row: dict[str, Any] = {
            "server": name,
            "state": state,
            "error": without_name(name, state.last_error) if state else "",
            "tools": counts.get(name, 0),
            "calls": Calls.of(uses.get(name, ())),
            "listed": listed_at.get(name),
        }
        rows.append(row)
    # What needs a person comes first.
    rows.sort(key=lambda row: not row["error"])
    return page(
        request,
        "servers.html",
        rows=paged(request, rows),
        known=len(names),
        checked=check,
        config=scope.servers,
        words=query,
    )


async def _listed_at(scope: Scope) -> dict[str, float]:
    """Return when each server was listed last, in seconds since 1970."""
    store = scope.router.store
    if store is None:
        return {}
    tenant = scope.tenant
    entries = await asyncio.to_thread(store.entries, tenant)
    return await asyncio.to_thread(store.records.listed_at, tenant, entries)


async def _states(scope: Scope, counts: dict[str, int], *, check: bool) -> Sequence[ServerState]:
    if scope.servers is None:
        return ()
    store = scope.router.store
    failures = {} if store is None else await asyncio.to_thread(store.failures, scope.tenant)
    async with Connections(scope.servers, tenant=scope.tenant) as connections:
        connections.restore(counts, failures)
        if check:
            await asyncio.gather(
                *map(connections.tools, scope.servers.servers), return_exceptions=True
            )
        return connections.states()
