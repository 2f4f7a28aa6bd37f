"""Share what the activities of single stages need: together they do what `toolroute.route` does in one."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from temporalio.common import RawValue

from orchestrator.activities.working import working
from orchestrator.records.findings import Findings
from orchestrator.records.request import RouteRequest
from orchestrator.temporal.payload import read_input
from orchestrator.temporal.resources import Resources

if TYPE_CHECKING:
    from orchestrator.pipeline.pipeline import Leg, Pipeline


class Stage:
    """One stage over a worker's resources; `run` is the activity."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    async def find(
        self, given: RawValue, before: RawValue | None, legs: "Callable[[Pipeline], Sequence[Leg]]"
    ) -> Findings:
        """Return what is found once these legs of the worker's pipeline ran, too."""
        from orchestrator.runtime.staged import find

        async with working(given, RouteRequest) as request:
            found = Findings() if before is None else read_input(before, Findings)
            router = await self.resources.router()
            return await find(router, request, found, legs(router.pipeline))
