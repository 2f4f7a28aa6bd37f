"""The SDK's own metrics, of its workers and clients: for Prometheus, or over OTLP to the collector in the environment.

runtime = metrics_runtime("127.0.0.1:9464")
client = await Client.connect("localhost:7233", runtime=runtime, plugins=[plugin])
"""

import os
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import unquote

from orchestrator.errors import InvalidConfig
from orchestrator.options import collector

if TYPE_CHECKING:
    from temporalio.runtime import OpenTelemetryConfig, Runtime

EXPORT_INTERVAL_MS = 60_000
"""OpenTelemetry's default of OTEL_METRIC_EXPORT_INTERVAL."""


def metrics_runtime(prometheus: str = "") -> "Runtime | None":
    """Return a runtime that exports the SDK's metrics. None: nobody wants them.

    Args:
        prometheus: The address at which Prometheus can read them, `HOST:PORT`. Default: they are sent over OTLP, if the
            environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_METRICS_ENDPOINT).

    Raises:
        InvalidConfig: The address cannot be used.
    """
    from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

    otlp = None if prometheus else _otlp()
    if not prometheus and otlp is None:
        return None
    metrics = PrometheusConfig(bind_address=prometheus) if prometheus else otlp
    try:
        return Runtime(telemetry=TelemetryConfig(metrics=metrics))
    except (RuntimeError, ValueError) as error:
        raise InvalidConfig(
            f"metrics={prometheus!r}: {error}; give a free address, HOST:PORT"
        ) from None


def _otlp() -> "OpenTelemetryConfig | None":
    """Return the settings for the collector in the environment, as OpenTelemetry's variables describe them."""
    from temporalio.runtime import OpenTelemetryConfig

    if not collector():
        return None
    url = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "")
    base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
    if not url and not base:
        return None
    interval_ms = float(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") or EXPORT_INTERVAL_MS)
    return OpenTelemetryConfig(
        url=url or f"{base}/v1/metrics",
        headers=_headers(os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")),
        metric_periodicity=timedelta(milliseconds=interval_ms),
        http=True,
    )


def _headers(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}
