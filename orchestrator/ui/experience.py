"""Experience: how routing improved with past tasks, the tools used together, and the tasks that routing missed."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.common.keys import split_key
from orchestrator.experience.calls import Calls
from orchestrator.experience.figures import figures
from orchestrator.index.index import Index
from orchestrator.records.outcome import Outcome
from orchestrator.ui import drawing
from orchestrator.ui.page import page
from orchestrator.ui.scope import Scope

_SHOWN = 30
_OFFERED = 10
"""The number of definitions that a model reads for a task: the default limit of matches."""


async def experience(request: Request) -> Response:
    """Show the figures of the remembered tasks."""
    scope = Scope.of(request)
    outcomes = await asyncio.to_thread(scope.outcomes)
    found, partners = figures(outcomes), await scope.together()
    index = await scope.router.engine.index(scope.tenant)
    catalogue = index.catalogue
    edges = [edge for key in found["tools"] if key in catalogue.positions for edge in partners(catalogue[key])]
    edges.sort(key=lambda edge: edge.type, reverse=True)  # Of two on one pair, the one with an order stays.
    pairs = {frozenset((edge.source, edge.to)): edge for edge in edges}
    return page(
        request,
        "experience.html",
        found=found,
        weeks=list(_weeks(outcomes, index)),
        calls=Calls.of([use for outcome in outcomes for use in outcome.used]),
        points=drawing.curve([step["right"] for step in found["curve"]]),
        together=[*pairs.values()][:_SHOWN],
        missed=_grouped(filter(_missed, reversed(outcomes)))[:_SHOWN],
        failed=_grouped(filter(_failed, reversed(outcomes)))[:_SHOWN],
        shown=_SHOWN,
        kept=bool(scope.stores),
    )


def _weeks(outcomes: Sequence[Outcome], index: Index) -> Iterator[dict[str, Any]]:
    """Yield each week with the sums from the first week up to it.

    The savings compare today's catalogue with the tools that were offered: a model would read all definitions and
    connect all servers. Imported tasks were not routed, so they save nothing.
    """
    sizes = dict(zip((one.key for one in index.catalogue), index.sizes.tokens.tolist(), strict=True))
    servers, whole = len([name for name in index.catalogue.places if name]), index.sizes.tokens_total
    tasks = right = claimed = tokens = connections = 0
    for week, own in groupby(
        outcomes, lambda one: "{}-W{:02}".format(*datetime.fromtimestamp(one.at, UTC).isocalendar())
    ):
        for outcome in own:
            claim = (outcome.both or outcome.words) if outcome.worked else None
            tasks, claimed, right = tasks + 1, claimed + bool(claim), right + bool(claim and claim.right)
            if outcome.source != "import":
                offered = sorted(outcome.offered, key=lambda offer: -offer.chance)[:_OFFERED]
                tokens += max(0, whole - sum(sizes.get(offer.tool, 0) for offer in offered))
                connections += max(0, servers - len({split_key(use.tool)[0] for use in outcome.used} - {""}))
        share = right / claimed if claimed else None
        yield {"week": week, "tasks": tasks, "right": share, "tokens": tokens, "connections": connections}


def _grouped(outcomes: Iterable[Outcome]) -> list[tuple[Outcome, int]]:
    """Return the latest of the outcomes that look the same, with their number."""
    found = dict[Any, list[Outcome]]()
    for one in outcomes:
        found.setdefault((one.query, tuple((use.tool, use.ok) for use in one.used), one.ok), []).append(one)
    return [(same[0], len(same)) for same in found.values()]


def _missed(outcome: Outcome) -> bool:
    """Return True if the task used other tools than the first match. A failed task tells nothing about routing."""
    claim = outcome.both or outcome.words
    return bool(outcome.worked and claim and not claim.right)


def _failed(outcome: Outcome) -> bool:
    return not (outcome.ok and all(use.ok for use in outcome.used))
