"""Servers: how each stands, how many tools it has, and how the calls that past tasks made went."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.mcp.connections import Connections
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.states import ServerState
from orchestrator.records.outcome import Outcome
from orchestrator.ui.page import page
from orchestrator.ui.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A server as the page shows it; `ms` is the median of its calls, None where no call's time is known."""

    server: str
    state: str
    transport: str
    tools: int
    error: str
    calls: int
    failures: int
    ms: float | None


async def servers(request: Request) -> Response:
    """Show what the file, the store and past tasks say; nothing is connected."""
    return await _page(request, check=False)


async def check(request: Request, form: FormData) -> Response:
    """Connect each server of the file now, and show how that went."""
    return await _page(request, check=True)


async def _page(request: Request, *, check: bool) -> Response:
    scope = Scope.of(request)
    places = (await scope.router.index(scope.tenant)).catalogue.places
    counts = {server: place.stop - place.start for server, place in places.items()}
    states = {state.server: state for state in await _states(scope, counts, check=check)}
    outcomes = await asyncio.to_thread(scope.outcomes)
    rows = [_row(name, states.get(name), counts.get(name, 0), outcomes) for name in dict.fromkeys([*states, *counts])]
    return page(request, "servers.html", rows=rows, checked=check, config=scope.servers)


async def _states(scope: Scope, counts: dict[str, int], *, check: bool) -> Sequence[ServerState]:
    if scope.servers is None:
        return ()
    store = scope.router.store
    failures = {} if store is None else await asyncio.to_thread(store.failures, scope.tenant)
    async with Connections(scope.servers) as connections:
        connections.know(counts, failures)
        if check:
            await asyncio.gather(*map(connections.tools, scope.servers.servers), return_exceptions=True)
        return connections.states()


def _row(name: str, state: ServerState | None, tools: int, outcomes: Sequence[Outcome]) -> Standing:
    uses = [use for outcome in outcomes for use in outcome.used if use.tool.partition(":")[0] == name]
    times = [use.ms for use in uses if use.ms is not None]
    return Standing(
        server=name,
        state=str(state.state) if state else "stored",
        transport=state.transport if state else "",
        tools=tools if state is None or state.tools is None else state.tools,
        error=without_name(name, state.last_error) if state else "",
        calls=len(uses),
        failures=sum(not use.ok for use in uses),
        ms=median(times) if times else None,
    )
