"""Route stage by stage from inside a workflow: an activity each, the semantic one only where the gate is closed."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from orchestrator.errors import CatalogueChanged, InvalidInput, UnknownTenant
from orchestrator.records import durable_names as names
from orchestrator.temporal.call import Config, described, was_cancelled, why_failed
from orchestrator.temporal.payload import read

WAITS_S = (1, 2, 4, 8, 10, 10, 10)
"""Between the attempts of a route whose catalogue changes meanwhile: workers see a change within seconds."""
UNTAKEN = timedelta(seconds=30)
"""How long the semantic stage waits for a worker, which may be on a queue of its own; keywords alone answer then."""
_FINAL = {error.__name__ for error in (CatalogueChanged, InvalidInput, UnknownTenant)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsHead:
    """What the workflow reads of Findings; all else is handed on unread."""

    gate_open: bool
    skips: tuple[str, ...] = ()


async def route_staged(request: Any, config: Config, semantic: Config) -> RawValue:
    """Return the Decision's payload for a RouteRequest; `semantic` is set over `config` for that stage.

    Where the catalogue changes between two stages the route starts again, seven times at most.
    """
    for wait_s in (*WAITS_S, None):
        try:
            return await _stages(request, config, {"schedule_to_start_timeout": UNTAKEN, **config, **semantic})
        except ActivityError as error:
            if wait_s is None or why_failed(error)[0] != CatalogueChanged.__name__:
                raise
        await workflow.sleep(wait_s)
    raise AssertionError("the last attempt returns or raises")


async def _stages(request: Any, config: Config, semantic: Config) -> RawValue:
    found = await _stage(names.MATCH_ALWAYS_AVAILABLE, config, request)
    skips = read(found, FindingsHead).skips
    if names.DETECT_EXPLICIT_SERVER not in skips:
        found = await _stage(names.DETECT_EXPLICIT_SERVER, config, request, found)
    found = await _stage(names.KEYWORD_GATE, config, request, found)
    alone = ""
    if not read(found, FindingsHead).gate_open and names.SEMANTIC_FALLBACK not in skips:
        try:
            found = await _stage(names.SEMANTIC_FALLBACK, semantic, request, found)
        except ActivityError as error:
            if was_cancelled(error) or why_failed(error)[0] in _FINAL:
                raise
            alone = described(error)
    return await _stage(names.MERGE, config, request, found, alone)


async def _stage(activity: str, config: Config, *given: Any) -> RawValue:
    answer: RawValue = await workflow.execute_activity(activity, args=given, result_type=RawValue, **config)
    return answer
