"""`toolroute plan`: the steps for a task, without a call."""

from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

import click

from orchestrator.cli.routing.plan_view import show_plan
from orchestrator.cli.routing.route import NO_MATCH
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import present
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.options import Options
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.request import RouteRequest

NEEDS_USER = 5
"""The exit code if nothing failed, but a person's input or approval is needed."""


@click.command()
@click.argument("query", metavar="TASK")
@taking("catalogue", "listed", "sources", "request", "model", "plan", "calibration", "output")
async def plan(
    workspace: Workspace,
    request: RouteRequest,
    options: Options,
    arguments: dict[str, Any],
    min_confidence: float,
    output: str,
) -> int:
    """Show the plan for TASK without calling a tool.

    The task is routed, and the plan is made from the same matches.
    """
    from orchestrator.llm.client import models_for
    from orchestrator.llm.plan import make_plan

    async with AsyncExitStack() as stack:
        router = await stack.enter_async_context(await workspace.open_router(options))
        decision = await router.route(request)
        plan_request = PlanRequest(
            decision=decision,
            arguments=arguments,
            min_confidence=min_confidence,
            conversation=request.conversation,
        )
        models = models_for(options)
        if models:
            await stack.enter_async_context(models)
        planned = await make_plan(models, plan_request)
    content = {"decision": decision.to_json(definitions=False), "plan": asdict(planned)}
    present(output, content, lambda: show_plan(decision, planned))
    return plan_exit_code(planned)


def plan_exit_code(plan: Plan) -> int:
    """Return 5 for a plan that needs a person's input, and 3 for a plan without steps or answer."""
    if plan.needs_input:
        return NEEDS_USER
    answered = plan.choice is not None and bool(plan.choice.answer)
    return 0 if plan.steps or answered else NO_MATCH
