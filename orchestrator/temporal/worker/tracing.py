"""Traces over Temporal: the links from a client's trace to its workflows and activities, and a span for each
step of a run.
"""

from collections.abc import Mapping
from typing import Any

from temporalio import workflow

from orchestrator.records.run import StepOutcome
from orchestrator.telemetry import traces

_LINKING = ("interceptors", "plugins")
"""The settings of a client or a worker in which a user may have put Temporal's own tracing."""


def step_ended(ended: StepOutcome) -> None:
    """Trace a step of a run at its end in a workflow, if the client's span is known. Replays trace nothing."""
    if traces() and not workflow.unsafe.is_replaying():
        from temporalio.contrib.opentelemetry.workflow import completed_span

        about = {"gen_ai.tool.name": ended.tool, "toolroute.step.status": str(ended.status)}
        completed_span(
            f"step {ended.step}", attributes={**about, "toolroute.step.tokens": ended.tokens}
        )


def interceptors(config: Mapping[str, Any]) -> list[Any]:
    """Return the interceptors that link traces over Temporal, for the configuration of a client or a worker.

    The list is empty without a tracer provider, or if the client or the worker links traces itself.
    """
    if not traces():
        return []
    from temporalio.contrib.opentelemetry import (
        OpenTelemetryInterceptor,
        OpenTelemetryPlugin,
        TracingInterceptor,
    )

    configs = [config]
    if "client" in config:
        configs.append(config["client"].config(active_config=True))
    linking = (OpenTelemetryInterceptor, OpenTelemetryPlugin, TracingInterceptor)
    for place in configs:
        for kind in _LINKING:
            if any(isinstance(part, linking) for part in place.get(kind) or ()):
                return []
    return [TracingInterceptor()]
