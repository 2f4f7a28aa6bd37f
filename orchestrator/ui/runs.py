"""Runs: how they stand, what waits for approval, and a person's word on it."""

from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from orchestrator.errors import ToolrouteError
from orchestrator.records.run import Approval
from orchestrator.ui.page import page
from orchestrator.ui.scope import Scope

_BY = "toolroute ui"


async def runs(request: Request) -> Response:
    """List the tenant's runs, the latest first, or say that no Temporal server is reached."""
    ended = "all" in request.query_params
    try:
        desk = await Scope.of(request).desk()
        found, away = await desk.runs(ended=ended), ""
    except ToolrouteError as error:
        found, away = [], str(error)
    return page(request, "runs.html", found=found, away=away, ended=ended)


async def run(request: Request) -> Response:
    """Show a run's steps, its budget, and the calls that wait."""
    desk, run_id = await Scope.of(request).desk(), request.path_params["run_id"]
    found, progress = await desk.run(run_id), await desk.progress(run_id)
    return page(request, "run.html", run=found, progress=progress)


async def say(request: Request, form: FormData) -> Response:
    """Give a person's word on a step, then show the run."""
    desk, run_id = await Scope.of(request).desk(), request.path_params["run_id"]
    await desk.run(run_id)  # Of another tenant's none is heard.
    step, digest = str(form.get("step", "")), str(form.get("digest", ""))
    await desk.say(run_id, Approval(step=step, digest=digest, allowed=form.get("word") == "approve", by=_BY))
    return RedirectResponse(f"/runs/{quote(run_id, safe='')}", 303)
