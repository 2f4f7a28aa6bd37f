"""What a run does before its steps: one route, a plan, and one more route only for steps outside its matches."""

from functools import partial
from typing import TYPE_CHECKING

from orchestrator.planning.budget import Budget
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan
from orchestrator.records.run import RunRequest

if TYPE_CHECKING:
    from orchestrator.temporal.workflow import ToolRouter


async def route(router: "ToolRouter", request: RunRequest, task: str) -> Decision:
    """The Decision for the task, or for what is left of it, by the run's own settings."""
    return await router.route(request.as_routed(task, request.tenant or router.tenant))


async def plan(
    router: "ToolRouter", request: RunRequest, decision: Decision, budget: Budget
) -> tuple[Plan, tuple[Decision, ...]]:
    """The plan, and the further Decision where steps needed one. No model is paid for a plan that cannot start."""
    planned = partial(
        router.plan,
        arguments=request.arguments,
        min_confidence=request.min_confidence,
        without_model="" if budget.steps_left else "the run's limits let no step start",
    )
    made = await planned(decision, conversation=request.conversation)
    if not made.unbound:
        return made, ()
    further = await route(router, request, "; ".join(step.task for step in made.unbound))
    return await planned(further, first=made), (further,)
