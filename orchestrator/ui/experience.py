"""Experience: how routing improved with past tasks, the tools used together, and the tasks that routing missed."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.experience.figures import figures
from orchestrator.records.outcome import Outcome
from orchestrator.ui import drawing
from orchestrator.ui.page import page
from orchestrator.ui.scope import Scope

_SHOWN = 30


async def experience(request: Request) -> Response:
    """Show the figures of the remembered tasks."""
    scope = Scope.of(request)
    outcomes = await asyncio.to_thread(scope.outcomes)
    found, partners = figures(outcomes), await scope.together()
    catalogue = (await scope.router._index(scope.tenant)).catalogue
    edges = [edge for key in found["tools"] if key in catalogue.positions for edge in partners(catalogue[key])]
    edges.sort(key=lambda edge: edge.type, reverse=True)  # Of two on one pair, the one with an order stays.
    pairs = {frozenset((edge.source, edge.to)): edge for edge in edges}
    return page(
        request,
        "experience.html",
        found=found,
        points=drawing.curve([step["right"] for step in found["curve"]]),
        together=[*pairs.values()][:_SHOWN],
        wrong=[outcome for outcome in reversed(outcomes) if _was_wrong(outcome)][:_SHOWN],
        shown=_SHOWN,
        kept=bool(scope.stores),
    )


def _was_wrong(outcome: Outcome) -> bool:
    claim = outcome.both or outcome.words
    failed = not all(use.ok for use in outcome.used)
    return not outcome.ok or failed or bool(claim and not claim.right)
