"""Runs: their state, the calls that wait for approval, and a person's approval or refusal."""

from collections.abc import Sequence
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from orchestrator.errors import ToolrouteError
from orchestrator.records.run import Approval, RunResult, StepProgress
from orchestrator.trust.audit import of_step
from orchestrator.ui.page import PAGE_SIZE, page, page_number, paged
from orchestrator.ui.scope import Scope, person


async def runs(request: Request) -> Response:
    """List the tenant's runs, the latest first, or show why the Temporal server cannot be reached."""
    with_ended = "all" in request.query_params
    most = page_number(request) * PAGE_SIZE + 1
    unavailable = ""
    try:
        client = await Scope.of(request).run_client()
        listed = await client.runs(ended=with_ended, most=most)
    except ToolrouteError as error:
        listed = []
        unavailable = str(error)
    return page(
        request,
        "runs.html",
        found=paged(request, listed),
        unavailable=unavailable,
        ended=with_ended,
    )


async def run(request: Request) -> Response:
    """Show the steps, the result and the budget of a run, and the calls that wait for approval."""
    client = await Scope.of(request).run_client()
    run_id = request.path_params["run_id"]
    listed = await client.run(run_id)
    progress = await client.progress(run_id)
    result = await client.result(listed)
    steps: Sequence[StepProgress] = ()
    if progress:
        steps = progress.steps
    elif result:
        steps = _steps(result)
    state = progress or result
    return page(
        request,
        "run.html",
        run=listed,
        progress=progress,
        result=result,
        steps=steps,
        ends={outcome.step: outcome for outcome in result.steps} if result else {},
        budget=state.budget if state else None,
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


async def approve(request: Request, form: FormData) -> Response:
    """Approve or refuse a step, then show the run."""
    scope = Scope.of(request)
    run_id = request.path_params["run_id"]
    client = await scope.run_client()
    await client.run(run_id)  # Fails for a run of another tenant.
    step = str(form.get("step", ""))
    digest = str(form.get("digest", ""))
    allowed = form.get("word") == "approve"
    progress = await client.progress(run_id)
    await client.answer(run_id, Approval(step=step, digest=digest, allowed=allowed, by=person()))
    tools = {item.step: item.tool for item in progress.steps} if progress else {}
    about = of_step(run_id, tools.get(step, ""), digest, allowed=allowed)
    await scope.audit(event="approval", **about)
    return RedirectResponse(f"/runs/{quote(run_id, safe='')}", 303)
