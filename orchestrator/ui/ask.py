"""Ask: shows the Decision for a task, or a stored Decision."""

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.common.tenant import os_user
from orchestrator.pipeline.selection.explain import explained
from orchestrator.records.request import RouteRequest
from orchestrator.ui.decision import Shown, view
from orchestrator.ui.page import page, uploaded_decisions
from orchestrator.ui.scope import Scope


async def ask(request: Request) -> Response:
    """Show the Decision for the task in the query string, or a form."""
    scope = Scope.of(request)
    task = request.query_params.get("task", "").strip()
    if not task:
        catalogue = await scope.router.engine.catalogue(scope.tenant)
        # The form says how much is searched.
        counts = {"tools": len(catalogue), "servers": len(catalogue.places)}
        return page(request, "ask.html", asked="", kept=False, shown=None, **counts)
    asked = RouteRequest(query=task, tenant=scope.tenant, actor=os_user())
    decision = await scope.router.route(asked)
    past = await scope.router.past_like(asked)
    shown = Shown.of(explained(decision, past))
    gate = scope.options.gate
    return page(request, "ask.html", asked=task, kept=False, **view(shown, gate))


async def kept(request: Request, form: FormData) -> Response:
    """Show a Decision from a file."""
    [shown] = await uploaded_decisions(form, "decision")
    gate = Scope.of(request).options.gate
    return page(request, "ask.html", asked="", kept=True, **view(shown, gate))
