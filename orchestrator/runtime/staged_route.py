"""Routing stage by stage, with an activity for each stage, which may run on another worker.

The cheap stages are computed again in each activity, from the request. The Findings have the fingerprint of their
catalogue. They also have a language model's reading of the task, because the model must not be asked twice. The stages
after a closed gate may be slow or need an endpoint, so the activity that runs them makes the Decision, and the last one
passes it on:

    gate open      always | always explicit | always explicit keyword gate | all stages without the fallback
    gate closed    always | always explicit | always explicit keyword gate | all stages | the same Decision
"""

from dataclasses import replace

from orchestrator.errors import CatalogueChanged
from orchestrator.pipeline.legs.semantic import KEYWORD_ALONE
from orchestrator.pipeline.pipeline import GATE, Clock, Pipeline
from orchestrator.pipeline.state import State
from orchestrator.records import durable_names as names
from orchestrator.records.decision import Decision
from orchestrator.records.findings import Findings
from orchestrator.records.request import RouteRequest
from orchestrator.runtime.engine import report
from orchestrator.runtime.router import Router

_STAGES = {
    names.MATCH_ALWAYS_AVAILABLE: "always",
    names.DETECT_EXPLICIT_SERVER: "explicit",
    names.KEYWORD_GATE: GATE,
}
"""The last stage of the pipeline that each activity runs. The semantic fallback runs all stages."""


async def find(router: Router, request: RouteRequest, before: Findings, activity: str) -> Findings:
    """Run the router's pipeline to the stage of this activity and return the findings.

    If the pipeline has no such stage, the findings do not change.

    Args:
        router: The Router.
        request: The request.
        before: The findings of the activities before.
        activity: The name of the activity.
    """
    pipeline = router.pipeline
    skips = tuple(
        name for name in (*_STAGES, names.SEMANTIC_FALLBACK) if not _stage_of(pipeline, name)
    )
    stage = _stage_of(pipeline, activity)
    if not stage:
        return replace(before, skips=skips)
    start, clock = await _begin(router, request, before)
    begun = replace(_findings(start), skips=skips, ran_until=stage)
    if activity == names.SEMANTIC_FALLBACK:
        return replace(begun, decision=report(await pipeline.run(start, clock), {}))
    state = await pipeline.run(start, clock, until=stage)
    tools = state.task.index.catalogue.tools
    return replace(
        begun,
        always={tools[position].key: match for position, match in state.always.items()},
        explicit=state.explicit,
        gate_confidence=state.gate_confidence,
        gate_open=state.gate_open,
    )


async def merge(
    router: Router, request: RouteRequest, before: Findings, keyword_alone: str = ""
) -> Decision:
    """Return the Decision from the findings of all stages.

    Args:
        router: The Router.
        request: The request.
        before: The findings of all stages.
        keyword_alone: Why the semantic stage did not answer. Empty if it did.
    """
    state, clock = await _begin(router, request, before)
    if before.decision is not None:
        return before.decision
    pipeline = router.pipeline
    state = await pipeline.run(state, clock, until=GATE)
    if keyword_alone:
        state = replace(state, warnings=(*state.warnings, f"{KEYWORD_ALONE}{keyword_alone}"))
    return report(await pipeline.run(state, clock, start=pipeline.names["fusion"][0]), {})


def _stage_of(pipeline: Pipeline, activity: str) -> str:
    """Return the name of the last stage of an activity. Empty if the pipeline has none."""
    if activity == names.SEMANTIC_FALLBACK:
        return pipeline.names["fallback"][-1] if pipeline.fallback else ""
    name = _STAGES[activity]
    return name if name in pipeline.stages else ""


async def _begin(router: Router, request: RouteRequest, before: Findings) -> tuple[State, Clock]:
    """Return the state with which the pipeline begins.

    Raises:
        CatalogueChanged: The findings belong to another catalogue.
    """
    request.validate()
    clock = Clock()
    if not before.catalogue:
        return await router.engine.begin(request, clock, None), clock
    state = await router.engine.begin(request, clock, before.needs)
    current = state.task.index.catalogue.fingerprint
    if before.catalogue != current:
        raise CatalogueChanged(
            f"the earlier stages used the catalogue {before.catalogue}, but this worker has {current}: route again, "
            "and give all workers of a route the same catalogue or store"
        )
    return replace(state, usage=before.usage, warnings=before.warnings), clock


def _findings(start: State) -> Findings:
    """Return the findings before the first stage."""
    return Findings(
        catalogue=start.task.index.catalogue.fingerprint,
        needs=tuple(need.text for need in start.task.understood.needs),
        usage=start.usage,
        warnings=start.warnings,
    )
