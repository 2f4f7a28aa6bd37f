"""The page that compares two Decisions: of two wordings, of two kept files, or of a kept file and the same task now."""

from collections.abc import Iterator
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.common.tenant import os_user
from orchestrator.pipeline.selection.explain import explained
from orchestrator.records.request import RouteRequest
from orchestrator.ui.decision import MOST_SHOWN, Shown
from orchestrator.ui.page import page, uploaded_decisions
from orchestrator.ui.scope import Scope


async def compare(request: Request) -> Response:
    """Compare the Decisions of two tasks, or show the form that asks for them."""
    tasks = [request.query_params.get(name, "").strip() for name in ("first", "second")]
    if not all(tasks):
        return _page(request, tasks, None)
    return _page(request, tasks, [await _routed(request, task) for task in tasks])


async def compare_kept(request: Request, form: FormData) -> Response:
    """Compare two kept Decisions. Without a second file, the task of the first file is routed now."""
    decisions = await uploaded_decisions(form, "first", "second")
    if len(decisions) == 1:
        decisions.append(await _routed(request, decisions[0].query))
    return _page(request, ["", ""], decisions)


async def _routed(request: Request, task: str) -> Shown:
    """Return the Decision for a task, made now."""
    scope = Scope.of(request)
    decision = await scope.router.route(
        RouteRequest(query=task, tenant=scope.tenant, actor=os_user())
    )
    return Shown.of(explained(decision))


def _page(request: Request, tasks: list[str], both: list[Shown] | None) -> Response:
    rows = list(_rows(*both)) if both else []
    return page(request, "compare.html", tasks=tasks, both=both, rows=rows, most=MOST_SHOWN)


def _rows(first: Shown, second: Shown) -> Iterator[dict[str, Any]]:
    """Yield each match of either Decision with its rank and its probability in both."""
    before = _ranked(first)
    after = _ranked(second)
    # In the order of the later Decision. What it has lost comes last.
    for tool in dict.fromkeys([*after, *before]):
        yield {"tool": tool, "before": before.get(tool), "after": after.get(tool)}


def _ranked(decision: Shown) -> dict[str, tuple[int, float]]:
    """Return the rank and the probability of each match, by key."""
    return {
        match.tool: (rank, match.probability)
        for rank, match in enumerate(decision.matches[:MOST_SHOWN], 1)
    }
