"""The activities of single stages. Together they do the work of `toolroute.route`.

Each runs the worker's pipeline to the stage in its name. If the pipeline has no such stage, the activity changes
nothing, and `Findings.skips` makes the workflow skip it.
"""

from collections.abc import Callable
from typing import Any

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.working import working
from orchestrator.records import durable_names as names
from orchestrator.records.findings import Findings
from orchestrator.records.request import RouteRequest
from orchestrator.temporal.worker.resources import Resources
from orchestrator.temporal.workflow.payload import NOTHING, read_input, written


class StageActivities:
    """The activities of single stages, over a worker's resources."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    def all(self) -> list[Callable[..., Any]]:
        """Return the activities that a worker registers."""
        return [
            self.match_always_available,
            self.detect_explicit_server,
            self.keyword_gate,
            self.semantic_fallback,
            self.merge,
        ]

    @activity.defn(name=names.MATCH_ALWAYS_AVAILABLE)
    async def match_always_available(self, request: RawValue) -> RawValue:
        """Return the always-available capabilities that a RouteRequest asks for."""
        return await self._find(request, None, names.MATCH_ALWAYS_AVAILABLE)

    @activity.defn(name=names.DETECT_EXPLICIT_SERVER)
    async def detect_explicit_server(
        self, request: RawValue, before: RawValue = NOTHING
    ) -> RawValue:
        """Return the Findings with the servers that a RouteRequest names."""
        return await self._find(request, before, names.DETECT_EXPLICIT_SERVER)

    @activity.defn(name=names.KEYWORD_GATE)
    async def keyword_gate(self, request: RawValue, before: RawValue = NOTHING) -> RawValue:
        """Return the Findings of the keyword leg. `gate_open` is True if the leg is confident enough."""
        return await self._find(request, before, names.KEYWORD_GATE)

    @activity.defn(name=names.SEMANTIC_FALLBACK)
    async def semantic_fallback(self, request: RawValue, before: RawValue = NOTHING) -> RawValue:
        """Return the Findings with the Decision of both legs. If embedding fails, the keyword leg decides alone."""
        return await self._find(request, before, names.SEMANTIC_FALLBACK)

    @activity.defn(name=names.MERGE)
    async def merge(
        self, request: RawValue, before: RawValue = NOTHING, keyword_alone: str = ""
    ) -> RawValue:
        """Return the Decision for a RouteRequest.

        Args:
            request: The request.
            before: The Findings of all stages.
            keyword_alone: Why the semantic stage did not answer. Empty if it did.
        """
        from orchestrator.runtime.staged_route import merge

        async with working(request, RouteRequest) as route_request:
            findings = read_input(before, Findings)
            decision = await merge(
                await self.resources.router(), route_request, findings, keyword_alone
            )
            return written(await self.resources.limited(decision))

    async def _find(
        self, payload: RawValue, before: RawValue | None, activity_name: str
    ) -> RawValue:
        from orchestrator.runtime.staged_route import find

        async with working(payload, RouteRequest) as request:
            request.validate()
            findings = Findings() if before is None else read_input(before, Findings)
            router = await self.resources.router_awaiting_listing(request.tenant)
            return written(await find(router, request, findings, activity_name))
