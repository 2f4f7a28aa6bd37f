"""Runs: their state, the calls that wait for approval, and a person's approval or refusal."""

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
    """List the tenant's runs, the latest first, or show why the Temporal server cannot be reached."""
    ended = "all" in request.query_params
    try:
        client = await Scope.of(request).run_client()
        found, unavailable = await client.runs(ended=ended), ""
    except ToolrouteError as error:
        found, unavailable = [], str(error)
    return page(request, "runs.html", found=found, unavailable=unavailable, ended=ended)


async def run(request: Request) -> Response:
    """Show a run's steps, its budget, and the calls that wait."""
    client, run_id = await Scope.of(request).run_client(), request.path_params["run_id"]
    found, progress = await client.run(run_id), await client.progress(run_id)
    return page(request, "run.html", run=found, progress=progress)


async def approve(request: Request, form: FormData) -> Response:
    """Approve or refuse a step, then show the run."""
    client, run_id = await Scope.of(request).run_client(), request.path_params["run_id"]
    await client.run(run_id)  # Fails for a run of another tenant.
    step, digest = str(form.get("step", "")), str(form.get("digest", ""))
    await client.say(run_id, Approval(step=step, digest=digest, allowed=form.get("word") == "approve", by=_BY))
    return RedirectResponse(f"/runs/{quote(run_id, safe='')}", 303)
