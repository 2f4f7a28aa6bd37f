"""Planning: an activity, so that a better planner does not break the histories of plans already made."""

from dataclasses import replace

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.working import Activities, time_limit, working
from orchestrator.errors import ToolrouteError
from orchestrator.llm.plan import make_plan
from orchestrator.records import durable_names as names
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.temporal.payload import MAX_PLAN_BYTES, check_size, read_input

MODEL_TRIES = 3
"""How often Temporal asks a model that does not answer before the plan is made without it."""


class PlanningActivities(Activities):
    """Over the worker's models, if it has any, and the deterministic planner."""

    @activity.defn(name=names.PLAN)
    async def plan(self, request: RawValue) -> Plan:
        """Return steps bound to the matches of a PlanRequest's Decision; nothing is searched."""
        async with working():
            asked = read_input(request, PlanRequest)
            if activity.info().attempt > MODEL_TRIES:
                asked = replace(asked, without_model=f"{MODEL_TRIES} attempts ended with their worker or out of time")
            made = await make_plan(self.resources.models(), asked, give_up=_gives_up, within_s=time_limit())
            check_size("the arguments of the plan's steps", [step.arguments for step in made.steps], MAX_PLAN_BYTES)
            return made


def _gives_up(error: ToolrouteError) -> bool:
    """Return whether this was the last attempt that waits for the model."""
    info = activity.info()
    most = (info.retry_policy.maximum_attempts if info.retry_policy else 0) or MODEL_TRIES
    return not error.retry or info.attempt >= min(MODEL_TRIES, most)
