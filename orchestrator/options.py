"""All settings. Only this module reads the environment. docs/reference/settings.md lists the settings.

API keys are not settings. QDRANT_API_KEY and OPENAI_API_KEY are read when a client opens. The
Temporal SDK reads TEMPORAL_API_KEY, TEMPORAL_TLS and similar variables.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from orchestrator.common.fields import (
    Count,
    Give,
    Probability,
    Seconds,
    Text,
    check,
    settings,
    value_of,
)
from orchestrator.common.json_input import nearly
from orchestrator.errors import InvalidConfig


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings with their defaults.

    `repr` does not show the addresses of the store and the models.

    Raises:
        InvalidConfig: A value is out of range.

    Examples:
        >>> from orchestrator import Options, Router
        >>> with Router("examples/tools.jsonl", options=Options(gate=0.8)) as router:
        ...     router.options.gate
        0.8
    """

    store: Text = field(default="", repr=False)
    """A folder or the URL of a Qdrant server. Commas separate several stores."""
    embedder: Text = "static"
    """`static` (the model in the package), the path of a model2vec folder, or `openai:MODEL`."""
    languages: Annotated[Literal["auto", "off"], Give("auto or off")] = "auto"
    """`auto`: if the extra `languages` is installed, its encoder helps with tasks in other languages than English.
    `off`: it is not used.
    """
    model: Text = ""
    """The language model. Empty: none."""
    model_route: Text = ""
    """The language model that chooses between an answer, one tool and a plan. Default: `model`."""
    model_plan: Text = ""
    """The language model that writes plans, late arguments and the answer. Default: `model`."""
    model_url: Text = field(default="", repr=False)
    """The endpoint of the language models and of `openai:` embedders. Default: OpenAI's endpoint."""
    model_timeout_s: Seconds = 60.0
    """Seconds for one request to a language model."""
    understand: Annotated[Literal["plain", "model"], Give("plain or model")] = "plain"
    """`model`: a language model writes which tools a task needs, and each of these needs is searched as well. `plain`:
    no model.
    """
    decide: Annotated[Literal["off", "model"], Give("off or model")] = "off"
    """The second stage: `model` (the language model reads the first 20 candidates) or `off`."""
    reader: Text = ""
    """The folder of a reader, which orders the first tools again where the confidence is doubtful. Empty: none."""
    route_timeout_s: Seconds = 10.0
    """Seconds that a route waits for each answer of a language model or the reader."""
    temporal_address: Text = ""
    """The address of the Temporal server. Default: `localhost:7233`."""
    temporal_namespace: Text = ""
    """The Temporal namespace. Default: `default`."""
    temporal_ui: Text = ""
    """The address of Temporal's web UI, for links to runs. Needed only if it is neither Temporal Cloud nor a local
    dev server.
    """
    external_storage: Text = ""
    """The bucket for payloads that are too large for a Temporal history: `s3://BUCKET` or `gs://BUCKET`."""

    gate: Probability = 0.7
    """The confidence of the keyword leg from which the semantic leg is skipped."""
    floor: Probability = 0.2
    """The confidence below which no tool is recommended, and the stage is `none`."""
    explicit_floor: Probability = 0.95
    """The minimum probability of the fitting tools of a server that the task names."""
    semantic_timeout_s: Seconds = 1.0
    """Seconds per route for a remote embedder."""
    store_timeout_s: Seconds = 10.0
    """Seconds to wait for a locked folder or a Qdrant server."""
    collections: Text = ""
    """The beginning of the names of the collections on a Qdrant server, so that several users can share it."""
    cached_tenants: Count = 256
    """The number of tenants whose indexes a process keeps. The least recently used index is dropped first."""
    experience: Annotated[Literal["texts", "no-texts", "off"], Give("texts, no-texts or off")] = (
        "texts"
    )
    """What the store keeps of finished tasks: `texts`, `no-texts` (only their vectors and tools), or `off`."""
    pipeline: Text = "default"
    """The preset that routes: `default`, `coderag`, `fabric`, `koi`, `prismgate` or `toolpilot`."""
    experience_days: Count = 365
    """Days for which a store keeps finished tasks."""
    changes: Annotated[Literal["strict", "safe", "open"], Give("strict, safe or open")] = "safe"
    """The changed tool definitions that wait until you accept them: `strict` (all), `safe` (those that may do more) or
    `open` (none).
    """
    audit: Text = ""
    """The folder of the audit log of `serve` and the commands. Empty: a folder among the user's data. `off`: no log."""
    registry: Text = "https://registry.modelcontextprotocol.io"
    """The MCP registry that `toolroute servers search` and `servers add` read."""
    calibration: Text = ""
    """A file with a fit to your own queries. `toolroute eval FOLDER --fit --write FILE` makes it."""

    def __post_init__(self) -> None:
        check(self, InvalidConfig)
        for name in ("store", "embedder", "calibration", "reader"):
            object.__setattr__(self, name, at_home(getattr(self, name)))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings that the environment variables give.

        To change some of them, write `dataclasses.replace(Options.from_env(), gate=0.8)`.

        Args:
            environ: Variables by name. Default: `os.environ`.
        """
        return cls(**_settings_in(os.environ if environ is None else environ))


CLIENT_METADATA_URL = "TOOLROUTE_CLIENT_METADATA_URL"
"""The variable with the address of the client metadata document for all entries without a client of their own."""

_NAMED_AFTER_SETTINGS = (
    "store collections embedder languages pipeline semantic_timeout_s store_timeout_s calibration experience "
    "experience_days temporal_ui external_storage changes audit model model_route model_plan model_timeout_s "
    "understand decide reader route_timeout_s registry"
)
_VARIABLES = {
    **{
        name: f"TOOLROUTE_{name.removesuffix('_s').upper()}"
        for name in _NAMED_AFTER_SETTINGS.split()
    },
    "model_url": "OPENAI_BASE_URL",
    "temporal_address": "TEMPORAL_ADDRESS",
    "temporal_namespace": "TEMPORAL_NAMESPACE",
}


def _settings_in(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that these variables give. An empty variable counts as not set."""
    settings: dict[str, Any] = {}
    for name, variable in _VARIABLES.items():
        if text := environ.get(variable):
            settings[name] = value_of(Options, name, text, variable)
    return settings


def set_in_code(options: Options) -> frozenset[str]:
    """Return the names of the settings that have another value than their default and than the environment gives."""
    defaults = Options()
    try:
        environment = Options.from_env()
    except InvalidConfig:  # These options were not made from it.
        environment = defaults
    names: set[str] = set()
    for setting in fields(options):
        value = getattr(options, setting.name)
        others = [getattr(other, setting.name) for other in (defaults, environment)]
        if value not in others:
            names.add(setting.name)
    return frozenset(names)


def options_over(values: Mapping[str, Any]) -> Options:
    """Return the settings of the environment, replaced by these values. A value of None replaces nothing."""
    replaced = {name: value for name, value in values.items() if value is not None}
    return Options(**(_settings_in(os.environ) | replaced))


def misspelt(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return each variable that begins with `TOOLROUTE_` but is no setting, with the most similar setting or ""."""
    names = sorted((*_VARIABLES.values(), CLIENT_METADATA_URL))
    environ = os.environ if environ is None else environ
    unread = sorted(name for name in environ if name.startswith("TOOLROUTE_") and name not in names)
    return {name: nearly(name, names) for name in unread}


def stores_of(text: str) -> tuple[str, ...]:
    """Split a setting that names several stores at its commas."""
    return tuple(at_home(location.strip()) for location in text.split(",") if location.strip())


def at_home(path: str) -> str:
    """Replace a leading `~` by the user's home.

    A shell does not do this in an environment file or in `--store=~/x`.
    """
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:  # There is no such user. A shell leaves the path unchanged, too.
        return path


def set_variables() -> dict[str, str]:
    """Return the environment variables that are set. An empty variable counts as not set."""
    return {name: value for name, value in os.environ.items() if value}


def store_key() -> str | None:
    """Return the API key of the Qdrant server. It is read when a client opens, and no record contains it."""
    return os.environ.get("QDRANT_API_KEY", "").strip() or None


def model_key() -> str | None:
    """Return the API key of the language model. It is read when a client opens, and no record contains it."""
    return os.environ.get("OPENAI_API_KEY", "").strip() or None


def captures_content() -> bool:
    """Return True if traces may contain texts. OpenTelemetry's GenAI instrumentations read the same variable."""
    wanted = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower()
    return wanted in ("true", "1", "span_only", "span_and_event")


def collector() -> str:
    """Return the name of the variable with the address for traces and metrics.

    It is "" if no variable is set or OpenTelemetry is disabled.
    """
    names = (f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return "" if off else next((name for name in names if os.environ.get(name)), "")


def collector_timeout() -> float | None:
    """Return the seconds that one export may take, or None if OpenTelemetry's own variable sets them.

    With OpenTelemetry's default of 10 seconds, a command would wait at its end for a collector that does not answer.
    """
    return None if os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT") else 2.0


def default_store() -> str:
    """Return TOOLROUTE_STORE, which may name several stores. Without it, return a folder among the user's data."""
    from platformdirs import user_data_path

    return os.environ.get("TOOLROUTE_STORE") or str(Path(user_data_path("toolroute")) / "store")
