"""All settings, and the only place where the environment is read; docs/reference/settings.md lists them.

Keys are never settings: QDRANT_API_KEY, OPENAI_API_KEY and TOOLROUTE_RERANK_KEY are read when a client opens, and
TEMPORAL_API_KEY, TEMPORAL_TLS and their like by Temporal's SDK.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from orchestrator.common.fields import Count, Give, Probability, Seconds, Text, check, settings, value_of
from orchestrator.common.json_input import nearly
from orchestrator.errors import InvalidConfig


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings with their defaults; a value out of range fails here. `repr` shows no key and no address."""

    store: Text = field(default="", repr=False)
    embedder: Text = "static"
    model: Text = ""
    model_route: Text = ""
    model_plan: Text = ""
    model_url: Text = field(default="", repr=False)
    model_timeout_s: Seconds = 60.0
    understand: Annotated[Literal["plain", "model"], Give("plain or model")] = "plain"
    """`model`: a language model writes what tools a task needs, and each need is searched, too; else `plain`."""
    decide: Annotated[Literal["off", "model", "rerank"], Give("off, model or rerank")] = "off"
    """The second stage, which reads the first 20 candidates: `model`, the language model; `rerank`, a reranker."""
    rerank_url: Text = field(default="", repr=False)
    rerank_model: Text = ""
    route_timeout_s: Seconds = 10.0
    """Seconds that a route waits for a language model, for each of its questions."""
    temporal_address: Text = ""
    temporal_namespace: Text = ""
    temporal_ui: Text = ""
    """The address of Temporal's web UI, for links to runs; of Temporal Cloud and a local dev server it is known."""
    external_storage: Text = ""
    """The bucket for payloads that a Temporal history should not hold: `s3://BUCKET` or `gs://BUCKET`."""

    gate: Probability = 0.7
    """The keyword leg's confidence from which on the semantic leg does not run."""
    floor: Probability = 0.2
    """The confidence under which nothing is good enough: stage `none`."""
    explicit_floor: Probability = 0.95
    semantic_timeout_s: Seconds = 1.0
    store_timeout_s: Seconds = 10.0
    """Seconds to wait for a locked folder or a Qdrant server."""
    cached_tenants: Count = 256
    """The number of tenants' indexes that a process keeps; the least recently used one goes."""
    index_limit: Count = 50_000
    """A Qdrant server searches the tools of tenants with more than this number; no process keeps an index of them."""
    exact_tokens: Annotated[bool, Give("True or False")] = False
    """Count with o200k_base (needs the extra `tokens`) instead of the estimate."""
    experience: Annotated[Literal["texts", "no-texts", "off"], Give("texts, no-texts or off")] = "texts"
    """What is kept of finished tasks: `texts`, `no-texts` (their vectors and tools alone), or `off`."""
    pipeline: Text = "default"
    """The preset that routes: `default`, `coderag`, `fabric`, `koi`, `prismgate` or `toolpilot`."""
    experience_days: Count = 365
    """Days for which a store keeps them."""
    changes: Annotated[Literal["strict", "safe", "open"], Give("strict, safe or open")] = "safe"
    """The changed definitions of tools that wait until you accept them: all, those that may do more, or none."""
    audit: Text = ""
    """The folder of the audit log of `serve` and the commands; "": one among the user's data; `off`: there is none."""
    calibration: Text = ""
    """A file with a fit to your own queries, as `toolroute eval FOLDER --fit --write FILE` makes it."""

    def __post_init__(self) -> None:
        check(self, InvalidConfig)
        for name in ("store", "embedder", "calibration"):
            object.__setattr__(self, name, at_home(getattr(self, name)))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the environment's settings; `dataclasses.replace(Options.from_env(), gate=0.8)` changes some.

        Args:
            environ: Variables by name. Default: those of the process, `os.environ`.
        """
        return cls(**_found(os.environ if environ is None else environ))


_OWN = (
    "store index_limit embedder pipeline semantic_timeout_s store_timeout_s calibration experience experience_days "
    "temporal_ui external_storage changes audit model model_route model_plan model_timeout_s understand decide "
    "rerank_url rerank_model route_timeout_s"
)
_VARIABLES = {
    **{name: f"TOOLROUTE_{name.removesuffix('_s').upper()}" for name in _OWN.split()},
    "model_url": "OPENAI_BASE_URL",
    "temporal_address": "TEMPORAL_ADDRESS",
    "temporal_namespace": "TEMPORAL_NAMESPACE",
}


def _found(environ: Mapping[str, str]) -> dict[str, Any]:
    named = ((name, variable) for name, variable in _VARIABLES.items() if environ.get(variable))
    return {name: value_of(Options, name, environ[variable], variable) for name, variable in named}


def options_over(given: Mapping[str, Any]) -> Options:
    """Return the environment's settings, then those given (None is "not given")."""
    return Options(**{**_found(os.environ), **{name: value for name, value in given.items() if value is not None}})


def misspelt(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables that begin like ours and that nothing reads, each with the nearest of ours, or ""."""
    known = sorted((*_VARIABLES.values(), "TOOLROUTE_RERANK_KEY"))
    environ = os.environ if environ is None else environ
    unread = sorted(name for name in environ if name.startswith("TOOLROUTE_") and name not in known)
    return {name: nearly(name, known) for name in unread}


def stores_of(text: str) -> tuple[str, ...]:
    """Return the stores that a setting names, with commas between them."""
    return tuple(at_home(place) for own in text.split(",") if (place := own.strip()))


def at_home(path: str) -> str:
    """Return `~/x` in the user's home, where no shell has done so: in an environment file, or with `--store=~/x`."""
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:  # There is no such user: it stays as it is, as in a shell.
        return path


def set_variables() -> dict[str, str]:
    """Return the environment for others who read it: a variable that is empty counts as not set."""
    return {name: value for name, value in os.environ.items() if value}


def store_key() -> str | None:
    """Return the Qdrant server's key; read when a client opens, never kept in a record."""
    return os.environ.get("QDRANT_API_KEY", "").strip() or None


def model_key() -> str | None:
    """Return the model endpoint's key; read when a client opens, never kept in a record."""
    return os.environ.get("OPENAI_API_KEY", "").strip() or None


def rerank_key() -> str | None:
    """Return the reranker's key; read when a client opens, never kept in a record."""
    return os.environ.get("TOOLROUTE_RERANK_KEY", "").strip() or None


def captures_content() -> bool:
    """Tell whether traces hold texts, by the variable that OpenTelemetry's own GenAI instrumentations read."""
    wanted = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower()
    return wanted in ("true", "1", "span_only", "span_and_event")


def collector() -> str:
    """Return the variable that names where traces and metrics go; "" for none, or where OpenTelemetry is disabled."""
    names = (f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return "" if off else next((name for name in names if os.environ.get(name)), "")


def collector_timeout() -> float | None:
    """Return the seconds that a sending has; None where OpenTelemetry's own variable says so.

    Its default of 10 would keep a command waiting at its end for a collector that is away.
    """
    return None if os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT") else 2.0


def default_store() -> str:
    """Return TOOLROUTE_STORE, which may name several, else a folder in the user's data."""
    from platformdirs import user_data_path

    return os.environ.get("TOOLROUTE_STORE") or str(Path(user_data_path("toolroute")) / "store")
