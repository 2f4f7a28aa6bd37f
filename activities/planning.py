"""Planning: an activity, so that a better planner does not break the histories of plans already made."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator import names
from orchestrator.activities.failing import told
from orchestrator.held import MAX_PLAN_BYTES, check_size
from orchestrator.payloads import read_input
from orchestrator.planner import plan
from orchestrator.plans import Plan, PlanRequest
from orchestrator.resources import Resources


class PlanningActivities:
    """Over the deterministic planner; the resources are for planners that ask a model."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    @activity.defn(name=names.PLAN)
    async def plan(self, request: RawValue) -> Plan:
        """PlanRequest to steps bound to the Decision's matches; never searches."""
        with told():
            made = plan(read_input(request, PlanRequest))
            check_size(
                "what the plan's steps are given as arguments", [s.arguments for s in made.steps], MAX_PLAN_BYTES
            )
            return made
