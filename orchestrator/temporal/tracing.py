"""Traces over Temporal: what links a client's with its workflows' and activities', and a run's steps."""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow

from orchestrator.records.run import StepOutcome
from orchestrator.telemetry import traces


def step_ended(ended: StepOutcome) -> None:
    """Trace a run's step, as it ends in a workflow, where the client's span is known; replays trace nothing."""
    if traces() and not workflow.unsafe.is_replaying():
        from temporalio.contrib.opentelemetry.workflow import completed_span

        about = {"gen_ai.tool.name": ended.tool, "toolroute.step.status": str(ended.status)}
        completed_span(f"step {ended.step}", attributes={**about, "toolroute.step.tokens": ended.tokens})


def interceptors(given: Sequence[object]) -> list[Any]:
    """Return what links traces over Temporal: nothing without a provider, or where what is given does so already."""
    if not traces():
        return []
    from temporalio.contrib.opentelemetry import OpenTelemetryInterceptor, OpenTelemetryPlugin, TracingInterceptor

    theirs = (OpenTelemetryInterceptor, OpenTelemetryPlugin, TracingInterceptor)
    return [] if any(isinstance(one, theirs) for one in given) else [TracingInterceptor()]
