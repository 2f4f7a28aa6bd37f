"""Routing stage by stage from inside a workflow, with an activity for each stage. The semantic stage runs only if the
gate is closed.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from orchestrator.errors import CatalogueChanged, InvalidInput, UnknownTenant
from orchestrator.records import durable_names as names
from orchestrator.temporal.workflow.call import ActivityConfig, described, was_cancelled, why_failed
from orchestrator.temporal.workflow.payload import read

WAITS_S = (1, 2, 4, 8, 10, 10, 10)
"""Seconds between the attempts of a route whose catalogue changes. Workers notice a change within seconds."""
UNTAKEN = timedelta(seconds=30)
"""The time that the semantic stage waits for a worker, which may use another task queue.

After it, only the keyword leg answers.
"""
_FINAL = {error.__name__ for error in (CatalogueChanged, InvalidInput, UnknownTenant)}
"""The failures of the semantic stage after which keyword search alone could not answer either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsHead:
    """The fields of Findings that the workflow reads. The others are passed on unread."""

    gate_open: bool
    skips: tuple[str, ...] = ()


async def route_staged(request: Any, config: ActivityConfig, semantic: ActivityConfig) -> RawValue:
    """Return the Decision's payload for a RouteRequest.

    If the catalogue changes between two stages, the route starts again, at most seven times.

    Args:
        request: The request.
        config: The activity options.
        semantic: Further options for the semantic stage.
    """
    for wait_s in (*WAITS_S, None):
        try:
            return await _stages(
                request, config, {"schedule_to_start_timeout": UNTAKEN, **config, **semantic}
            )
        except ActivityError as error:
            if wait_s is None or why_failed(error)[0] != CatalogueChanged.__name__:
                raise
        await workflow.sleep(wait_s)
    raise AssertionError("the last attempt returns or raises")


async def _stages(request: Any, config: ActivityConfig, semantic: ActivityConfig) -> RawValue:
    findings = await _stage(names.MATCH_ALWAYS_AVAILABLE, config, request)
    skips = read(findings, FindingsHead).skips
    if names.DETECT_EXPLICIT_SERVER not in skips:
        findings = await _stage(names.DETECT_EXPLICIT_SERVER, config, request, findings)
    findings = await _stage(names.KEYWORD_GATE, config, request, findings)
    alone = ""
    if not read(findings, FindingsHead).gate_open and names.SEMANTIC_FALLBACK not in skips:
        try:
            findings = await _stage(names.SEMANTIC_FALLBACK, semantic, request, findings)
        except ActivityError as error:
            if was_cancelled(error) or why_failed(error)[0] in _FINAL:
                raise
            alone = described(error)
    return await _stage(names.MERGE, config, request, findings, alone)


async def _stage(activity: str, config: ActivityConfig, *inputs: Any) -> RawValue:
    answer: RawValue = await workflow.execute_activity(
        activity, args=inputs, result_type=RawValue, **config
    )
    return answer
