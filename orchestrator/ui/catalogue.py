"""The overview of a catalogue: its size, its flags, names that collide, and tools that their own words do not find."""

import re
from collections import Counter
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

_NO_LETTER = re.compile(r"[\W_]+")
SAMPLE = 300
"""The number of tools that are searched by their own words. A larger catalogue is sampled at equal distances."""
_SHOWN = 30


async def catalogue(request: Request) -> Response:
    """Show the overview without the search for each tool."""
    return await _page(request, None)


async def measure(request: Request, form: FormData) -> Response:
    """Search the tools by their own words, and show how many are found."""
    scope = Scope.of(request)
    known = await scope.router.engine.catalogue(scope.tenant)
    chosen = known.tools[:: max(1, -(-len(known) // SAMPLE))]
    found = [one.key for one in chosen if (text := own_words(one)) and await _finds(scope, one.key, text)]
    unfound = [one.key for one in chosen if one.key not in {*found}]
    return await _page(request, {"tools": len(chosen), "found": len(found), "unfound": unfound[:_SHOWN]})


async def _finds(scope: Scope, key: str, text: str) -> bool:
    decision = await scope.router.route(
        RouteRequest(query=text, tenant=scope.tenant, limit=WITHIN, route_hint=RouteHint.SEMANTIC)
    )
    return any(match.tool.key == key for match in decision.matches)


async def _page(request: Request, measured: dict[str, Any] | None) -> Response:
    scope = Scope.of(request)
    index = await scope.router.engine.index(scope.tenant)
    known, flags = index.catalogue, Counter(why for own in index.flags.values() for why in own)
    sharing = index.derived("names that collide", lambda: collisions(known))
    silent = index.derived("tools without own words", lambda: sum(not own_words(one) for one in known))
    return page(
        request,
        "catalogue.html",
        known=known,
        kinds=Counter(str(one.kind) for one in known),
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


def collisions(known: Catalogue) -> list[tuple[str, list[str]]]:
    """Return the names that several servers use, with the keys of their tools, most frequent first.

    Names are equal if they have the same letters and digits: `createIssue` and `create_issue` collide.
    """
    named = dict[str, dict[str, Tool]]()
    for one in known:
        named.setdefault(_NO_LETTER.sub("", one.name).lower(), {}).setdefault(one.server, one)
    found = [[*own.values()] for own in named.values() if len(own) > 1]
    found.sort(key=len, reverse=True)
    return [(Counter(one.name for one in own).most_common(1)[0][0], [one.key for one in own]) for own in found]
