"""Runs: their state, the calls that wait for approval, and a person's approval or refusal."""

from getpass import getuser
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from orchestrator.errors import ToolrouteError
from orchestrator.records.run import Approval, RunResult, StepProgress
from orchestrator.trust.audit import Audit, Entry, of_step
from orchestrator.ui.page import PAGE_SIZE, page, page_number, paged
from orchestrator.ui.scope import Scope


async def runs(request: Request) -> Response:
    """List the tenant's runs, the latest first, or show why the Temporal server cannot be reached."""
    ended, at = "all" in request.query_params, page_number(request)
    try:
        client = await Scope.of(request).run_client()
        found, unavailable = await client.runs(ended=ended, most=at * PAGE_SIZE + 1), ""
    except ToolrouteError as error:
        found, unavailable = [], str(error)
    return page(request, "runs.html", found=paged(request, found), unavailable=unavailable, ended=ended)


async def run(request: Request) -> Response:
    """Show the steps, the result and the budget of a run, and the calls that wait for approval."""
    client, run_id = await Scope.of(request).run_client(), request.path_params["run_id"]
    found, progress = await client.run(run_id), await client.progress(run_id)
    result = await client.result(found)
    shown = {end.step: end for end in result.steps} if result else {}
    steps = progress.steps if progress else _steps(result) if result else ()
    budget = progress.budget if progress else result.budget if result else None
    return page(
        request, "run.html", run=found, progress=progress, result=result, steps=steps, ends=shown, budget=budget
    )


def _steps(result: RunResult) -> list[StepProgress]:
    """Return the steps of a finished run whose worker does not answer."""
    tasks = {step.id: step.task for step in result.plan.steps}
    return [
        StepProgress(
            step=end.step,
            task=tasks.get(end.step, ""),
            tool=end.tool,
            status=end.status,
            reason=end.reason,
            decided_by=end.decided_by,
        )
        for end in result.steps
    ]


def _person() -> str:
    """Return the name under which this page approves: the user of the operating system."""
    try:
        return f"{getuser()} (toolroute ui)"
    except (OSError, KeyError):
        return "toolroute ui"


async def approve(request: Request, form: FormData) -> Response:
    """Approve or refuse a step, then show the run."""
    scope, run_id = Scope.of(request), request.path_params["run_id"]
    client = await scope.run_client()
    await client.run(run_id)  # Fails for a run of another tenant.
    step, digest, allowed = str(form.get("step", "")), str(form.get("digest", "")), form.get("word") == "approve"
    progress = await client.progress(run_id)
    await client.say(run_id, Approval(step=step, digest=digest, allowed=allowed, by=_person()))
    if log := Audit.named(scope.options.audit):
        key = next((own.tool for own in progress.steps if own.step == step), "") if progress else ""
        about = of_step(run_id, key, digest, allowed=allowed)
        log.write(Entry(event="approval", tenant=scope.tenant, actor=_person(), **about))
    return RedirectResponse(f"/runs/{quote(run_id, safe='')}", 303)
