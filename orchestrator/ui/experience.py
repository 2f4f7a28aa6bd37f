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
from orchestrator.records.outcome import Claim, Outcome
from orchestrator.records.relation import Edge
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
    stats = figures(outcomes)
    partners = await scope.together()
    index = await scope.router.engine.index(scope.tenant)
    catalogue = index.catalogue
    edges: list[Edge] = []
    if partners is not None:
        for key in stats["tools"]:
            if key in catalogue.positions:  # A tool of past tasks may be gone.
                edges += partners(catalogue[key])
    # Of two on one pair, the one with an order stays.
    edges.sort(key=lambda edge: edge.type, reverse=True)
    pairs = {frozenset((edge.source, edge.to)): edge for edge in edges}
    return page(
        request,
        "experience.html",
        found=stats,
        weeks=list(_weeks(outcomes, index)),
        calls=Calls.of([use for outcome in outcomes for use in outcome.used]),
        points=drawing.curve([step["right"] for step in stats["curve"]]),
        together=[*pairs.values()][:_SHOWN],
        missed=_grouped(filter(_missed, reversed(outcomes)))[:_SHOWN],
        failed=_grouped(filter(_failed, reversed(outcomes)))[:_SHOWN],
        shown=_SHOWN,
        kept=bool(scope.stores),
    )


def _weeks(outcomes: Sequence[Outcome], index: Index) -> Iterator[dict[str, Any]]:
    """Yield each week with the sums from the first week up to it.

    Imported tasks were not routed, so they save nothing.
    """
    tasks = 0
    claimed = 0
    right = 0
    tokens = 0
    connections = 0
    savings = _Savings(index)
    for week, outcomes_of_week in groupby(outcomes, _week_of):
        for outcome in outcomes_of_week:
            tasks += 1
            claim = _claim_of(outcome)
            if claim:
                claimed += 1
                right += claim.right
            if outcome.source != "import":
                tokens += savings.tokens(outcome)
                connections += savings.connections(outcome)
        share = right / claimed if claimed else None
        yield {
            "week": week,
            "tasks": tasks,
            "right": share,
            "tokens": tokens,
            "connections": connections,
        }


class _Savings:
    """The savings of routing, compared with a model that reads all present definitions and connects all servers."""

    def __init__(self, index: Index) -> None:
        keys = (tool.key for tool in index.catalogue)
        self._sizes: dict[str, int] = dict(zip(keys, index.sizes.tokens.tolist(), strict=True))
        self._all_tokens = int(index.sizes.tokens_total)
        self._all_servers = len([server for server in index.catalogue.places if server])

    def tokens(self, outcome: Outcome) -> int:
        """Return the tokens of the definitions that the model did not read."""
        offered = sorted(outcome.offered, key=lambda offer: -offer.chance)[:_OFFERED]
        read = sum(self._sizes.get(offer.tool, 0) for offer in offered)
        return max(0, self._all_tokens - int(read))

    def connections(self, outcome: Outcome) -> int:
        """Return the number of servers that were not connected."""
        connected = {split_key(use.tool)[0] for use in outcome.used} - {""}
        return max(0, self._all_servers - len(connected))


def _week_of(outcome: Outcome) -> str:
    """Return the week of a task, such as `2026-W48`."""
    return f"{datetime.fromtimestamp(outcome.at, UTC):%G-W%V}"


def _claim_of(outcome: Outcome) -> Claim | None:
    """Return the claim that routing made for a task that worked."""
    return (outcome.both or outcome.words) if outcome.worked else None


def _grouped(outcomes: Iterable[Outcome]) -> list[tuple[Outcome, int]]:
    """Return the latest of the outcomes that look the same, with their number."""
    groups = dict[Any, list[Outcome]]()
    for outcome in outcomes:
        uses = tuple((use.tool, use.ok) for use in outcome.used)
        groups.setdefault((outcome.query, uses, outcome.ok), []).append(outcome)
    return [(group[0], len(group)) for group in groups.values()]


def _missed(outcome: Outcome) -> bool:
    """Return True if the task used other tools than the first match. A failed task tells nothing about routing."""
    claim = _claim_of(outcome)
    return claim is not None and not claim.right


def _failed(outcome: Outcome) -> bool:
    return not (outcome.ok and all(use.ok for use in outcome.used))
