"""The page that searches a tenant's tools, and the page of one tool."""

import asyncio
from itertools import chain
from typing import Any

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.schema import usable
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.findability import WITHIN, own_words
from orchestrator.experience.figures import figures
from orchestrator.index.intent import reads_only
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.trust.audit import Audit, Entry
from orchestrator.trust.definition_changes import is_quarantined
from orchestrator.trust.pins import Waiting, accept, waiting
from orchestrator.ui import drawing
from orchestrator.ui.page import page, paged
from orchestrator.ui.scope import Scope

_OFFERED = 200
"""The number of server names that the search form suggests."""


async def tools(request: Request) -> Response:
    """List the tools whose key and description have all words of the search."""
    scope, words = Scope.of(request), request.query_params.get("q", "")
    server, flagged = request.query_params.get("server", ""), "flagged" in request.query_params
    index = await scope.router.engine.index(scope.tenant)
    wanted, places = words.lower().split(), index.catalogue.places
    named = [name for name in places if name == server] or [name for name in places if server.lower() in name.lower()]
    found = [
        tool
        for tool in (chain.from_iterable(map(index.catalogue.of_server, named)) if server else index.catalogue.tools)
        if all(word in f"{tool.key} {tool.description}".lower() for word in wanted)
        and not (flagged and tool.key not in index.flags)
    ]
    if wanted:  # The tools with the words in their key come first.
        found.sort(key=lambda tool: not all(word in tool.key.lower() for word in wanted))
    here: dict[str, Any] = {"words": words, "server": server, "flagged": flagged, "offered": _OFFERED}
    return page(request, "tools.html", found=paged(request, found), flags=index.flags, known=index.catalogue, **here)


async def accept_change(request: Request, form: FormData) -> Response:
    """Accept the definition of a tool as the page showed it."""
    scope, key = Scope.of(request), request.path_params["key"]
    if (store := scope.router.store) is None:
        raise InvalidInput("the definition was not accepted: there is no store. Start `toolroute ui` with --store")
    known = await asyncio.to_thread(store.tool, scope.tenant, key)
    if known is None or known.hash != str(form.get("definition", "")):
        raise InvalidInput(
            f"the definition was not accepted: {key} has changed since this page was "
            "loaded. Load the page again and read it"
        )
    await asyncio.to_thread(accept, store, scope.tenant, {key: known})
    if log := Audit.named(scope.options.audit):
        log.write(Entry(event="acceptance", tenant=scope.tenant, actor="page", server=known.server, tool=key))
    return await tool(request)


async def _waiting(scope: Scope, key: str) -> Waiting | None:
    """Return the tool's changed definition, if it waits."""
    if (store := scope.router.store) is None:
        return None
    found = await asyncio.to_thread(waiting, store, scope.tenant)
    return next((one for one in found if one.tool.key == key), None)


async def tool(request: Request) -> Response:
    """Show one tool: its definition, flags, relations, past calls, and whether its own words find it."""
    scope, key = Scope.of(request), request.path_params["key"]
    index = await scope.router.engine.index(scope.tenant)
    if key not in index.catalogue.positions:
        raise HTTPException(
            404, f"unknown tool: {key!r}. The catalogue of {scope.tenant} does not contain it. Search on the page Tools"
        )
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
    """Return the tool's own words and its place among the matches for them. None: it is not among the first ten."""
    if not (query := own_words(tool)):
        return "", None
    decision = await scope.router.route(RouteRequest(query=query, tenant=scope.tenant, limit=WITHIN))
    keys = [match.tool.key for match in decision.matches]
    return query, keys.index(tool.key) + 1 if tool.key in keys else None
