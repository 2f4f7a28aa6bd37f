"""Settings of a Router that cannot have an effect together with its others. Each is an error that names the remedy.

    Router(catalogue, options=Options(store="tools"))     the store would never be read
    Router("tools", pipeline="koi", options=Options(gate=.9))     koi has no gate

Settings of the environment are not checked: they are for all programs of a user.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.json_input import meant
from orchestrator.errors import InvalidConfig
from orchestrator.options import Options, set_in_code
from orchestrator.pipeline.legs.keyword import never
from orchestrator.pipeline.pipeline import Pipeline
from orchestrator.pipeline.presets import preset
from orchestrator.store.sources import Source
from orchestrator.store.store import Store

logger = logging.getLogger(__package__)

_OF_STORE = ("changes", "collections", "store_timeout_s")
_MODELS = ("model", "model_route", "model_plan")
_NO_STAGE = (
    "a Router asks a model only in its routes, with Options(decide='model') or Options(understand='model'); "
    "to plan with a model, "
)
_ONLY_PLANS = (
    f"{_NO_STAGE}give these options to Models or OrchestratorPlugin, and leave the fields of models out of the "
    "Router's Options"
)


def asks_model(options: Options, pipeline: Pipeline) -> bool:
    """Return whether a stage may ask a language model. Only of the default pipeline it is known that no other does."""
    return "model" in (options.understand, options.decide) or pipeline != preset("default")


def without_unasked_models(options: Options) -> Options:
    """Return the options of a Router in a program whose plans ask the models. Its routes may ask none."""
    if asks_model(options, preset(options.pipeline)):
        return options
    defaults = Options()
    names = list(_MODELS)
    if not options.embedder.startswith("openai:"):
        names += ["model_url", "model_timeout_s"]
    return replace(options, **{name: getattr(defaults, name) for name in names})


def require_effect(
    options: Options,
    arguments: Collection[str],
    sources: Sequence[Source],
    pipeline: Pipeline,
    entries: Mapping[str, str] | None,
) -> None:
    """Raise InvalidConfig for a setting without an effect.

    Args:
        options: The options.
        arguments: The names of the other arguments of the Router that are given.
        sources: The stores to read.
        pipeline: The pipeline.
        entries: The entries of a configuration.
    """
    opened = [source for source in sources if not isinstance(source.store, Store)]
    if entries is not None and not opened:
        raise InvalidConfig(
            "entries has no effect: only a store that the Router opens has tools of a configuration; "
            "give its folder or URL, or give the entries to your Store"
        )
    if "models" in arguments and not asks_model(options, pipeline):
        raise InvalidConfig(
            f"models has no effect: {_NO_STAGE}give the Models to make_plan or OrchestratorPlugin"
        )
    settings = set_in_code(options)
    for name, why in _unused(options, settings, arguments, sources, pipeline):
        if name in settings:
            raise InvalidConfig(f"Options({name}=...) has no effect: {why}")


def _unused(
    options: Options,
    settings: frozenset[str],
    arguments: Collection[str],
    sources: Sequence[Source],
    pipeline: Pipeline,
) -> Iterator[tuple[str, str]]:
    """Yield the options that these arguments leave without an effect, and why."""
    if "catalogue" in arguments and not sources:
        yield "store", "beside a catalogue, give it as Router(catalogue, store=...)"
    yield from _given_twice(arguments)
    yield from _unused_of_stores(sources)
    yield from _unused_of_pipeline(pipeline)
    yield from _unused_of_models(options, settings, arguments, pipeline)
    if options.experience == "off":
        yield "experience_days", "experience is off"


def _given_twice(arguments: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the options that an argument of the Router replaces."""
    for argument in ("store", "stores", "embedder", "pipeline", "calibration"):
        if argument in arguments:
            name = argument.removesuffix("s")
            yield name, f"the Router was given {argument}; leave one of them out"


def _unused_of_stores(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    if not sources:
        yield (
            "experience_days",
            "the Router has no store, so past tasks last as long as the process",
        )
    elif not any(_is_url(source) or isinstance(source.store, Store) for source in sources):
        yield "collections", "only a Qdrant server has collections; give its URL as store"
    opened = [source for source in sources if isinstance(source.store, Store)]
    if opened and opened[0] is sources[0]:
        yield "embedder", "the given Store has its own embedder"
    if len(opened) == len(sources):
        owner = "the given Store has its own settings" if opened else "the Router has no store"
        for name in _OF_STORE:
            # Several stores are read together, within this time.
            if name != "store_timeout_s" or len(sources) < 2:
                yield name, owner


def _is_url(source: Source) -> bool:
    return str(source.store).startswith(("http://", "https://"))


def _unused_of_pipeline(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    if pipeline.gate is never:
        yield "gate", f"the pipeline {pipeline.name!r} has no gate"
    if "lift_named" not in pipeline.stages:
        yield "explicit_floor", f"the pipeline {pipeline.name!r} does not lift named servers"
    if "read" not in pipeline.stages:
        yield "reader", f"the pipeline {pipeline.name!r} reads no tools"


def _unused_of_models(
    options: Options, settings: frozenset[str], arguments: Collection[str], pipeline: Pipeline
) -> Iterator[tuple[str, str]]:
    if not asks_model(options, pipeline):
        for name in _MODELS:
            yield name, _ONLY_PLANS
        if not options.reader:
            yield "route_timeout_s", "no stage of routing asks a model, and no reader is named"
    asks_endpoint = options.embedder.startswith("openai:")
    if not asks_endpoint and "models" not in arguments and settings.isdisjoint(_MODELS):
        why = _ONLY_PLANS
        if asks_model(options, pipeline):
            why = "no model is named: give Options(model=...)"
        for name in ("model_url", "model_timeout_s"):
            yield name, why
    if not asks_endpoint and "embedder" not in arguments:
        yield "semantic_timeout_s", "only an embedder that calls an endpoint has this limit"


class ExpectedNames:
    """The names by setting. A name that the first catalogue lacks is logged, because its setting has no effect."""

    def __init__(self) -> None:
        self._by_setting: dict[str, Iterable[str]] = {}

    def expect(self, setting: str, names: Iterable[str]) -> None:
        """Look for these names of a setting, too."""
        self._by_setting[setting] = names

    def check(self, tenant: str, catalogue: Catalogue) -> None:
        """Log the names that are no tool and no server of this catalogue. Later calls do nothing."""
        by_setting = self._by_setting
        self._by_setting = {}
        if not any(by_setting.values()):
            return
        catalogue_names = [
            *catalogue.positions,
            *(tool.name for tool in catalogue),
            *catalogue.places,
            *(f"{server}:*" for server in catalogue.places),
        ]
        for setting, names in by_setting.items():
            for name in sorted(set(names).difference(catalogue_names)):
                remedy = meant(name, catalogue_names) or ": add it, or leave the name out"
                logger.warning("%s: tenant %r has no %r%s", setting, tenant, name, remedy)
