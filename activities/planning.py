"""Planning: an activity, so that a better planner does not break the histories of plans already made."""

from dataclasses import replace

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.beating import heartbeats
from orchestrator.activities.failing import as_temporal_errors
from orchestrator.errors import ToolrouteError
from orchestrator.llm.plan import make_plan
from orchestrator.records import durable_names as names
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.temporal.held import MAX_PLAN_BYTES, check_size
from orchestrator.temporal.payload import read_input
from orchestrator.temporal.resources import Resources

MODEL_TRIES = 3
"""How often Temporal asks a model that does not answer before the plan is made without it."""


class PlanningActivities:
    """Over the worker's models, where it has some, and the deterministic planner."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    @activity.defn(name=names.PLAN)
    async def plan(self, request: RawValue) -> Plan:
        """PlanRequest to steps bound to the Decision's matches; never searches."""
        with as_temporal_errors():
            asked = read_input(request, PlanRequest)
            if activity.info().attempt > MODEL_TRIES:
                asked = replace(asked, without_model=f"{MODEL_TRIES} attempts ended with their worker or out of time")
            async with heartbeats():
                made = await make_plan(self.resources.models(), asked, give_up=_gives_up, within_s=_time_s())
            check_size(
                "what the plan's steps are given as arguments", [s.arguments for s in made.steps], MAX_PLAN_BYTES
            )
            return made


def _time_s() -> float | None:
    """The seconds that a model has, so that what it took too long for is planned before Temporal's own timeout."""
    whole = activity.info().start_to_close_timeout
    return None if whole is None else 0.9 * whole.total_seconds()


def _gives_up(error: ToolrouteError) -> bool:
    """Whether this was the last attempt that waits for the model."""
    info = activity.info()
    most = (info.retry_policy.maximum_attempts if info.retry_policy else 0) or MODEL_TRIES
    return not error.retry or info.attempt >= min(MODEL_TRIES, most)
