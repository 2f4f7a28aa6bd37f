"""Tools: all that a tenant has, searched by words, and one of them with all that is known of it."""

import asyncio
from typing import Any

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.audit import Audit, Entry
from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.schema import usable
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.findability import WITHIN, own_words
from orchestrator.experience.figures import figures
from orchestrator.index.changes import is_quarantined
from orchestrator.index.intent import reads_only
from orchestrator.mcp.pins import Waiting, accept, waiting
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.ui import drawing
from orchestrator.ui.page import page
from orchestrator.ui.scope import Scope

_SHOWN = 200


async def tools(request: Request) -> Response:
    """List the tools whose key and description have all words of the search."""
    scope, words = Scope.of(request), request.query_params.get("q", "")
    server, flagged = request.query_params.get("server", ""), "flagged" in request.query_params
    index = await scope.router._index(scope.tenant)
    wanted = words.lower().split()
    found = [
        tool
        for tool in (index.catalogue.of_server(server) if server else index.catalogue.tools)
        if all(word in f"{tool.key} {tool.description}".lower() for word in wanted)
        and not (flagged and tool.key not in index.flags)
    ]
    here: dict[str, Any] = {"words": words, "server": server, "flagged": flagged, "number": len(found)}
    return page(request, "tools.html", found=found[:_SHOWN], flags=index.flags, known=index.catalogue, **here)


async def accept_change(request: Request, form: FormData) -> Response:
    """Accept the definition of a tool as the page showed it."""
    scope, key = Scope.of(request), request.path_params["key"]
    if (store := scope.router.store) is None:
        raise InvalidInput("a changed definition is accepted in a store: start `toolroute ui` with --store")
    known = await asyncio.to_thread(store.tool, scope.tenant, key)
    if known is None or known.hash != str(form.get("definition", "")):
        raise InvalidInput(f"{key} has changed since this page was loaded: load it again, and read it")
    await asyncio.to_thread(accept, store, scope.tenant, {key})
    if log := Audit.named(scope.options.audit):
        log.note(Entry(event="acceptance", tenant=scope.tenant, actor="page", server=known.server, tool=key))
    return await tool(request)


async def _waiting(scope: Scope, key: str) -> Waiting | None:
    """Return the tool's changed definition, if it waits."""
    if (store := scope.router.store) is None:
        return None
    found = await asyncio.to_thread(waiting, store, scope.tenant)
    return next((one for one in found if one.tool.key == key), None)


async def tool(request: Request) -> Response:
    """Show one tool: definition, flags, relations, how its calls went, and whether its own words find it."""
    scope, key = Scope.of(request), request.path_params["key"]
    index = await scope.router._index(scope.tenant)
    if key not in index.catalogue.positions:
        raise HTTPException(404, f"{scope.tenant} has no tool {key!r}")
    shown = index.catalogue[key]
    related, edges = index.graph.excerpt(key, more=await scope.together())
    usage = figures(await asyncio.to_thread(scope.outcomes))["tools"].get(key)
    return page(
        request,
        "tool.html",
        tool=shown,
        waiting=await _waiting(scope, key) if is_quarantined(shown) else None,
        flags=index.flags.get(key, ()),
        schema=usable(parameters(shown)),
        reads_only=reads_only(shown),
        graph=drawing.graph(edges, {one.tool: one.hops for one in related}),
        usage=usage,
        findability=await _findability(scope, shown),
        within=WITHIN,
    )


async def _findability(scope: Scope, tool: Tool) -> tuple[str, int | None]:
    """Return the tool's own words, and its place among the matches for them, None if it is not among the best ten."""
    if not (query := own_words(tool)):
        return "", None
    decision = await scope.router.route(RouteRequest(query=query, tenant=scope.tenant, limit=WITHIN))
    keys = [match.tool.key for match in decision.matches]
    return query, keys.index(tool.key) + 1 if tool.key in keys else None
