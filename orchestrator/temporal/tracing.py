"""Traces over Temporal: what links a client's with its workflows' and activities', and a run's steps."""

from collections.abc import Mapping
from typing import Any

from temporalio import workflow

from orchestrator.records.run import StepOutcome
from orchestrator.telemetry import traces

_LINKING = ("interceptors", "plugins")


def step_ended(ended: StepOutcome) -> None:
    """Trace a run's step, as it ends in a workflow, where the client's span is known; replays trace nothing."""
    if traces() and not workflow.unsafe.is_replaying():
        from temporalio.contrib.opentelemetry.workflow import completed_span

        about = {"gen_ai.tool.name": ended.tool, "toolroute.step.status": str(ended.status)}
        completed_span(f"step {ended.step}", attributes={**about, "toolroute.step.tokens": ended.tokens})


def interceptors(config: Mapping[str, Any]) -> list[Any]:
    """Return what links traces over Temporal, for the settings of a client or a worker.

    It is nothing without a provider, or where the client or the worker does so by itself.
    """
    if not traces():
        return []
    from temporalio.contrib.opentelemetry import OpenTelemetryInterceptor, OpenTelemetryPlugin, TracingInterceptor

    theirs = config["client"].config(active_config=True) if "client" in config else {}
    given = [one for place in (config, theirs) for kind in _LINKING for one in place.get(kind) or ()]
    linking = (OpenTelemetryInterceptor, OpenTelemetryPlugin, TracingInterceptor)
    return [] if any(isinstance(one, linking) for one in given) else [TracingInterceptor()]
