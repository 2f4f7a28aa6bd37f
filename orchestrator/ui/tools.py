"""The page that searches a tenant's tools, and the page of one tool."""

import asyncio
from collections.abc import Sequence
from itertools import chain

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.schema_keywords import usable
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.findability import WITHIN, own_words
from orchestrator.experience.figures import figures
from orchestrator.index.intent import reads_only
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.trust.definition_changes import is_quarantined
from orchestrator.trust.pins import Waiting, accept, waiting
from orchestrator.ui import drawing
from orchestrator.ui.page import page, paged
from orchestrator.ui.scope import Scope

_OFFERED = 200
"""The number of server names that the search form suggests."""


async def tools(request: Request) -> Response:
    """List the tools whose key and description have all words of the search."""
    scope = Scope.of(request)
    query = request.query_params.get("q", "")
    server = request.query_params.get("server", "")
    only_flagged = "flagged" in request.query_params
    index = await scope.router.engine.index(scope.tenant)
    matching = [tool for tool in _of_server(index.catalogue, server) if _has_words(tool, query)]
    if only_flagged:
        matching = [tool for tool in matching if tool.key in index.flags]
    # Who searches a name rarely means a tool that only mentions it.
    matching.sort(key=lambda tool: not _has_words_in_key(tool, query))
    return page(
        request,
        "tools.html",
        found=paged(request, matching),
        flags=index.flags,
        known=index.catalogue,
        words=query,
        server=server,
        flagged=only_flagged,
        offered=_OFFERED,
    )


def _of_server(catalogue: Catalogue, server: str) -> Sequence[Tool]:
    """Return the tools of the server with this name. Without such a server, of all servers whose name contains it."""
    if not server:
        return catalogue.tools
    if server in catalogue.places:
        return list(catalogue.of_server(server))
    names = [name for name in catalogue.places if server.lower() in name.lower()]
    return list(chain.from_iterable(catalogue.of_server(name) for name in names))


def _has_words(tool: Tool, query: str) -> bool:
    text = f"{tool.key} {tool.description}".lower()
    return all(word in text for word in query.lower().split())


def _has_words_in_key(tool: Tool, query: str) -> bool:
    return all(word in tool.key.lower() for word in query.lower().split())


async def accept_change(request: Request, form: FormData) -> Response:
    """Accept the definition of a tool as the page showed it."""
    scope = Scope.of(request)
    key = request.path_params["key"]
    store = scope.router.store
    if store is None:
        raise InvalidInput(
            "the definition was not accepted: there is no store. Start `toolroute ui` with --store"
        )
    stored = await asyncio.to_thread(store.tool, scope.tenant, key)
    # The person has read the definition of the page, and no other one.
    if stored is None or stored.hash != str(form.get("definition", "")):
        raise InvalidInput(
            f"the definition was not accepted: {key} has changed since this page was "
            "loaded. Load the page again and read it"
        )
    await asyncio.to_thread(accept, store, scope.tenant, {key: stored})
    await scope.audit(event="acceptance", server=stored.server, tool=key)
    return await tool(request)


async def _waiting(scope: Scope, key: str) -> Waiting | None:
    """Return the tool's changed definition, if it waits."""
    store = scope.router.store
    if store is None:
        return None
    changes = await asyncio.to_thread(waiting, store, scope.tenant)
    return next((change for change in changes if change.tool.key == key), None)


async def tool(request: Request) -> Response:
    """Show one tool: its definition, flags, relations, past calls, and whether its own words find it."""
    scope = Scope.of(request)
    key = request.path_params["key"]
    index = await scope.router.engine.index(scope.tenant)
    if key not in index.catalogue.positions:
        raise HTTPException(
            404,
            f"unknown tool: {key!r}. The catalogue of {scope.tenant} does not contain it. Search on the page Tools",
        )
    definition = index.catalogue[key]
    related, edges = index.graph.excerpt(key, more=await scope.together())
    usage = figures(await asyncio.to_thread(scope.outcomes))["tools"].get(key)
    return page(
        request,
        "tool.html",
        tool=definition,
        waiting=await _waiting(scope, key) if is_quarantined(definition) else None,
        flags=index.flags.get(key, ()),
        schema=usable(parameters(definition)),
        reads_only=reads_only(definition),
        graph=drawing.graph(edges, {neighbour.tool: neighbour.hops for neighbour in related}),
        usage=usage,
        findability=await _findability(scope, definition),
        within=WITHIN,
    )


async def _findability(scope: Scope, tool: Tool) -> tuple[str, int | None]:
    """Return the tool's own words and its rank among the matches for them. None: it is not among the first ten."""
    query = own_words(tool)
    if not query:
        return "", None
    decision = await scope.router.route(
        RouteRequest(query=query, tenant=scope.tenant, limit=WITHIN)
    )
    for rank, match in enumerate(decision.matches, 1):
        if match.tool.key == tool.key:
            return query, rank
    return query, None
