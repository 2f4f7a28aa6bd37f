"""The overview of a catalogue: its size, its flags, names that collide, and tools that their own words do not find."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.findability import WITHIN, own_words
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.ui.page import page
from orchestrator.ui.scope import Scope

SAMPLE = 300
"""The number of tools that are searched by their own words. A larger catalogue is sampled at equal distances."""
_SHOWN = 30


async def catalogue(request: Request) -> Response:
    """Show the overview without the search for each tool."""
    return await _page(request, None)


async def measure(request: Request, form: FormData) -> Response:
    """Search the tools by their own words, and show how many are found."""
    scope = Scope.of(request)
    catalogue = await scope.router.engine.catalogue(scope.tenant)
    # At equal distances and not by chance, so that a second look at the page shows the same.
    step = max(1, math.ceil(len(catalogue) / SAMPLE))
    sample = catalogue.tools[::step]
    unfound = [tool.key for tool in sample if not await _finds_itself(scope, tool)]
    measured = {
        "tools": len(sample),
        "found": len(sample) - len(unfound),
        "unfound": unfound[:_SHOWN],
    }
    return await _page(request, measured)


async def _finds_itself(scope: Scope, tool: Tool) -> bool:
    """Return True if a search with the tool's own words finds it."""
    query = own_words(tool)
    if not query:
        return False
    request = RouteRequest(
        query=query, tenant=scope.tenant, limit=WITHIN, route_hint=RouteHint.SEMANTIC
    )
    decision = await scope.router.route(request)
    return any(match.tool.key == tool.key for match in decision.matches)


async def _page(request: Request, measured: dict[str, Any] | None) -> Response:
    scope = Scope.of(request)
    index = await scope.router.engine.index(scope.tenant)
    catalogue = index.catalogue
    flags = Counter[str]()
    for reasons in index.flags.values():
        flags.update(reasons)
    sharing = index.derived("names that collide", lambda: collisions(catalogue))
    silent = index.derived(
        "tools without own words", lambda: sum(not own_words(tool) for tool in catalogue)
    )
    return page(
        request,
        "catalogue.html",
        known=catalogue,
        kinds=Counter(str(tool.kind) for tool in catalogue),
        flags=flags.most_common(_SHOWN),
        flagged=len(index.flags),
        sharing=sharing[:_SHOWN],
        collided=len(sharing),
        colliding=sum(len(keys) for _, keys in sharing),
        silent=silent,
        tokens=index.sizes.tokens_total,
        measured=measured,
        sample=SAMPLE,
        shown=_SHOWN,
    )


def collisions(catalogue: Catalogue) -> list[tuple[str, list[str]]]:
    """Return the names that several servers use, with the keys of their tools, most frequent first.

    Names are equal if they have the same letters and digits: `createIssue` and `create_issue` collide.
    """
    names = list[tuple[str, list[str]]]()
    groups = _by_letters(catalogue).values()
    for by_server in sorted(groups, key=len, reverse=True):
        if len(by_server) > 1:
            tools = list(by_server.values())
            keys = [tool.key for tool in tools]
            names.append((_usual_name(tools), keys))
    return names


def _by_letters(tools: Iterable[Tool]) -> dict[str, dict[str, Tool]]:
    """Return the first tool of each server by the letters and digits of the tools' names."""
    groups: dict[str, dict[str, Tool]] = {}
    for tool in tools:
        letters = "".join(filter(str.isalnum, tool.name)).lower()
        by_server = groups.setdefault(letters, {})
        by_server.setdefault(tool.server, tool)
    return groups


def _usual_name(tools: Sequence[Tool]) -> str:
    """Return the spelling that most of the tools have."""
    [(name, _)] = Counter(tool.name for tool in tools).most_common(1)
    return name
