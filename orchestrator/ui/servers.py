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
    scope, words = Scope.of(request), request.query_params.get("q", "").strip().lower()
    places = (await scope.router.engine.catalogue(scope.tenant)).places
    counts = {server: place.stop - place.start for server, place in places.items()}
    states = {state.server: state for state in await _states(scope, counts, check=check)}
    listed = {} if scope.router.store is None else await asyncio.to_thread(scope.router.store.listed_at, scope.tenant)
    now = {name: time.time() for name, state in states.items() if check and state.state is Readiness.READY}
    uses = uses_by(lambda use: split_key(use.tool)[0], await asyncio.to_thread(scope.outcomes))
    rows = [
        {
            "server": name,
            "state": (state := states.get(name)),
            "error": without_name(name, state.last_error) if state else "",
            "tools": counts.get(name, 0),
            "calls": Calls.of(uses.get(name, ())),
            "listed": (listed | now).get(name),
        }
        for name in dict.fromkeys([*states, *counts])
        if words in name.lower()
    ]
    rows.sort(key=lambda row: not row["error"])
    here: dict[str, Any] = {"checked": check, "config": scope.servers, "words": words}
    return page(request, "servers.html", rows=paged(request, rows), known=len({*states, *counts}), **here)


async def _states(scope: Scope, counts: dict[str, int], *, check: bool) -> Sequence[ServerState]:
    if scope.servers is None:
        return ()
    store = scope.router.store
    failures = {} if store is None else await asyncio.to_thread(store.failures, scope.tenant)
    async with Connections(scope.servers, tenant=scope.tenant) as connections:
        connections.restore(counts, failures)
        if check:
            await asyncio.gather(*map(connections.tools, scope.servers.servers), return_exceptions=True)
        return connections.states()
