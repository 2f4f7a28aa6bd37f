"""Traces and metrics with OpenTelemetry, named after its GenAI conventions.

Nothing is loaded until the process or `export` has set a provider. Tasks and matches are recorded only if the
environment allows to capture content, and without parts that look like keys.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from orchestrator.common.keys import split_key
from orchestrator.options import captures_content
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Outcome

logger = logging.getLogger(__package__)

SCOPE = "toolroute"
TOOL_ERROR = "tool_error"
"""A value of `error.type`: the tool itself answered with an error."""
_METRICS: dict[str, tuple[str, str, str]] = {
    "toolroute.routes": (
        "counter",
        "{route}",
        "Routes, by the Decision's stage and whether the gate was open",
    ),
    "toolroute.route.duration": ("histogram", "s", "Duration of a route"),
    "toolroute.tokens_saved": (
        "counter",
        "{token}",
        "Tokens of definitions that a model does not have to read",
    ),
    "toolroute.connections": ("up_down_counter", "{connection}", "Open connections, by server"),
    "toolroute.connects": ("counter", "{connect}", "Attempts to connect, by server and error"),
    "gen_ai.execute_tool.duration": ("histogram", "s", "Duration of calls, by server and error"),
    "toolroute.outcomes": (
        "counter",
        "{outcome}",
        "Outcomes, by source and whether the task succeeded",
    ),
    "toolroute.confidence": (
        "histogram",
        "1",
        "Confidence in the first match, by whether it was right",
    ),
}
_BUCKETS = {
    "s": (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    "1": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
}
"""The limits of histograms by unit. OpenTelemetry's own limits are for milliseconds, and these values are seconds."""


def _tracer() -> Any:
    """Return the tracer. None if no provider is set, for which the module must be loaded."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return None
    return _tracer_of(api.get_tracer_provider())


@cache
def _tracer_of(provider: Any) -> Any:
    """Return a provider's tracer. Creating it takes half of the time of a span."""
    return provider.get_tracer(SCOPE)


def traces() -> bool:
    """Return True if a tracer provider is set."""
    return _tracer() is not None


@contextmanager
def span(
    operation: str, name: str, attributes: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Trace a GenAI operation. Yield a dict for the attributes that are known at its end.

    An `error.type` in it marks the operation as failed, as an exception does. Messages of errors are not recorded.

    Args:
        operation: The name of the operation.
        name: The name of its object.
        attributes: The attributes that are known at the start.
    """
    tracer = _tracer()
    late_attributes: dict[str, Any] = {}
    first = {"gen_ai.operation.name": operation, **(attributes or {})}
    quiet = {"record_exception": False, "set_status_on_exception": False}
    scope: Any = nullcontext()
    if tracer is not None:
        scope = tracer.start_as_current_span(f"{operation} {name}", attributes=first, **quiet)
    with scope as current:
        try:
            yield late_attributes
        except BaseException as error:
            late_attributes["error.type"] = type(error).__name__
            raise
        finally:
            if current is not None:
                current.set_attributes(late_attributes)
                if "error.type" in late_attributes:
                    current.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR)


def stage(name: str, seconds: float) -> None:
    """Trace a stage that has just ended, as a part of the current span."""
    tracer = _tracer()
    if tracer is not None and sys.modules["opentelemetry.trace"].get_current_span().is_recording():
        end = time.time_ns()
        tracer.start_span(name, start_time=end - int(seconds * 1e9)).end(end)


def routed(
    attributes: dict[str, Any], decision: Decision, mask: Callable[[str], str], *, gate_open: bool
) -> None:
    """Count a route, and add the Decision to its span.

    Args:
        attributes: The attributes of the span.
        decision: The Decision.
        mask: Removes keys from the task's text.
        gate_open: Whether the fallback legs were skipped.
    """
    seconds = decision.timings_ms.get("total", 0.0) / 1000
    by = {"toolroute.stage": str(decision.stage), "toolroute.gate.open": gate_open}
    _measure("toolroute.routes", 1, by)
    _measure("toolroute.route.duration", seconds, by)
    _measure("toolroute.tokens_saved", max(0, decision.tokens.before - decision.tokens.after))
    if _tracer() is None:
        return
    attributes |= {
        **by,
        "toolroute.confidence": decision.confidence,
        "toolroute.matches": len(decision.matches),
        "toolroute.catalogue": decision.catalogue.fingerprint,
        "toolroute.warnings": len(decision.warnings),
    }
    if captures_content():
        documents = [
            {"id": match.tool.key, "score": round(match.probability, 4)}
            for match in decision.matches
        ]
        attributes |= {
            "gen_ai.retrieval.query.text": mask(decision.query),
            "gen_ai.retrieval.documents": json.dumps(documents),
        }


@contextmanager
def calling(key: str, kind: str = "extension") -> Iterator[dict[str, Any]]:
    """Trace, measure and log a tool's call. An `error.type` in the yielded dict states how it failed."""
    began = time.perf_counter()
    failed: dict[str, Any] = {}
    server, _ = split_key(key)
    about = {"gen_ai.tool.name": key, "gen_ai.tool.type": kind, "toolroute.server": server}
    try:
        with span("execute_tool", key, about) as failed:
            yield failed
    finally:
        seconds = time.perf_counter() - began
        _measure("gen_ai.execute_tool.duration", seconds, {"toolroute.server": server, **failed})
        logger.info("called %s: %s in %.0f ms", key, failed.get("error.type", "ok"), seconds * 1000)


def connected(server: str, error: Exception | None) -> None:
    """Count an attempt to connect a server, and the connection if it worked."""
    failed = {} if error is None else {"error.type": type(error).__name__}
    _measure("toolroute.connects", 1, {"toolroute.server": server, **failed})
    if error is None:
        _measure("toolroute.connections", 1, {"toolroute.server": server})


def disconnected(server: str) -> None:
    """Count a closed connection."""
    _measure("toolroute.connections", -1, {"toolroute.server": server})


def learnt(outcome: Outcome) -> None:
    """Count an Outcome, and record the confidence in the first match by whether it was right."""
    _measure(
        "toolroute.outcomes", 1, {"toolroute.source": outcome.source, "toolroute.ok": outcome.ok}
    )
    if claim := outcome.both or outcome.words:
        _measure("toolroute.confidence", claim.chance, {"toolroute.right": claim.right})


def trace_ids() -> dict[str, str]:
    """Return the ids of the current span, as log records name them."""
    if _tracer() is None:
        return {}
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": format_trace_id(context.trace_id),
        "span_id": format_span_id(context.span_id),
    }


def logged(event: str, attributes: Mapping[str, Any]) -> None:
    """Emit a log record with the current span, if the process has set a provider of log records."""
    api: Any = sys.modules.get("opentelemetry._logs")
    if api is None:
        return
    filled = {name: value for name, value in attributes.items() if value not in ("", 0)}
    at = time.time_ns()
    api.get_logger(SCOPE).emit(
        timestamp=at,
        observed_timestamp=at,
        severity_number=api.SeverityNumber.INFO,
        event_name=event,
        body=event,
        attributes={f"toolroute.{name}": value for name, value in filled.items()},
    )


def _measure(name: str, amount: float, attributes: Mapping[str, Any] | None = None) -> None:
    if "opentelemetry.metrics" in sys.modules:
        _instruments()[name](amount, attributes)


@cache
def _instruments() -> dict[str, Any]:
    """Return a function for each metric that adds a value. They are made once, and use a provider that is set later."""
    from opentelemetry.metrics import get_meter

    meter = get_meter(SCOPE)
    instruments: dict[str, Any] = {}
    for name, (kind, unit, description) in _METRICS.items():
        create = getattr(meter, f"create_{kind}")
        if kind == "histogram":
            instruments[name] = create(
                name,
                unit=unit,
                description=description,
                explicit_bucket_boundaries_advisory=_BUCKETS[unit],
            ).record
        else:
            instruments[name] = create(name, unit=unit, description=description).add
    return instruments


def export(timeout_s: float | None) -> None:
    """Send traces, metrics and log records to the collector in the environment, until the process ends.

    A provider that is already set stays.

    Args:
        timeout_s: Seconds for one export with all its tries. None: the environment's value.

    Raises:
        ImportError: The extra `otel` is not installed.
    """
    from opentelemetry import _logs, metrics, trace
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if traces():
        return
    # Otherwise each try logs a line.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
    resource = (
        Resource.create()
        .merge(Resource({"service.name": SCOPE}))
        .merge(OTELResourceDetector().detect())
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout_s)))
    trace.set_tracer_provider(provider)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=timeout_s))
    metrics.set_meter_provider(MeterProvider([reader], resource))
    records = LoggerProvider(resource)
    records.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(timeout=timeout_s)))
    _logs.set_logger_provider(records)


def flush() -> None:
    """Send everything that is not sent yet, because `os._exit` would lose it."""
    providers = {
        "trace": "get_tracer_provider",
        "metrics": "get_meter_provider",
        "_logs": "get_logger_provider",
    }
    for module, getter in providers.items():
        api: Any = sys.modules.get(f"opentelemetry.{module}")
        if api is not None and hasattr(provider := getattr(api, getter)(), "force_flush"):
            provider.force_flush()
