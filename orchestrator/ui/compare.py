"""The page that compares two Decisions: of two wordings, of two kept files, or of a kept file and the same task now."""

from collections.abc import Iterator
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.pipeline.explain import explained
from orchestrator.records.request import RouteRequest
from orchestrator.ui.decision import MOST_SHOWN
from orchestrator.ui.decision_view import Shown
from orchestrator.ui.page import page
from orchestrator.ui.scope import Scope


async def compare(request: Request) -> Response:
    """Compare the Decisions of two tasks, or show the form that asks for them."""
    tasks = [request.query_params.get(name, "").strip() for name in ("first", "second")]
    if not all(tasks):
        return _page(request, tasks, None)
    return _page(request, tasks, [await _now(request, task) for task in tasks])


async def compare_kept(request: Request, form: FormData) -> Response:
    """Compare two kept Decisions. Without a second file, the task of the first file is routed now."""
    files = [given for name in ("first", "second") if isinstance(given := form.get(name), UploadFile) and given.size]
    if not files:
        raise HTTPException(400, "no file was chosen. Choose a file that `toolroute route -o json` has printed")
    kept = [Shown.read(await file.read()) for file in files]
    return _page(request, ["", ""], kept if len(kept) == 2 else [*kept, await _now(request, kept[0].query)])


async def _now(request: Request, task: str) -> Shown:
    scope = Scope.of(request)
    return Shown.of(explained(await scope.router.route(RouteRequest(query=task, tenant=scope.tenant))))


def _page(request: Request, tasks: list[str], both: list[Shown] | None) -> Response:
    rows = list(_rows(*both)) if both else []
    return page(request, "compare.html", tasks=tasks, both=both, rows=rows, most=MOST_SHOWN)


def _rows(first: Shown, second: Shown) -> Iterator[dict[str, Any]]:
    """Yield each match of either Decision with its place and its probability in both."""
    sides = [{m.tool: (n, m.score) for n, m in enumerate(one.matches[:MOST_SHOWN], 1)} for one in (first, second)]
    for tool in dict.fromkeys([*sides[1], *sides[0]]):
        yield {"tool": tool, "before": sides[0].get(tool), "after": sides[1].get(tool)}
