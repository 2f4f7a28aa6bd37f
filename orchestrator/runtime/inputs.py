"""Checks of all that a caller gives to a Router: its settings, its requests, and the tasks to record."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.json_input import check_known
from orchestrator.common.tenant import LOCAL
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.index.always import Capability
from orchestrator.index.calibration import Calibration, Fit
from orchestrator.index.embedders.endpoint import OpenAIEmbedder
from orchestrator.options import Options, stores_of
from orchestrator.pipeline.refiners.reader import missing_parts
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest, Turn, turns_of
from orchestrator.store.sources import Source
from orchestrator.store.store import Store


def validated_request(
    request: RouteRequest | str, conversation: Sequence[Turn], settings: dict[str, Any]
) -> RouteRequest:
    """Return the valid request. Without a tenant it gets the tenant `local`.

    Args:
        request: The task as a text, or a RouteRequest with its own settings.
        conversation: Earlier turns.
        settings: The settings of the request by name. None: not given.

    Raises:
        InvalidInput: The request has a wrong value.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    if isinstance(request, str):
        request = RouteRequest(query=request, **settings)
    elif settings:
        raise InvalidInput(
            f"{', '.join(settings)}: not allowed with a RouteRequest; set them in the RouteRequest, or give a text"
        )
    request = replace(request, tenant=request.tenant or LOCAL)
    if conversation:
        request = replace(request, conversation=turns_of(conversation))
    request.validate()
    return request


def task_of(decision: Decision | str, tenant: str) -> tuple[str, str]:
    """Return the text and the tenant of a task that is recorded.

    Raises:
        InvalidInput: The tenant is not the Decision's tenant.
    """
    if isinstance(decision, str):
        return decision, tenant or LOCAL
    if tenant and tenant != decision.tenant:
        raise InvalidInput(
            f"tenant={tenant!r}: the Decision belongs to {decision.tenant!r}; leave tenant out"
        )
    return decision.query, decision.tenant


def set_arguments(**arguments: object) -> frozenset[str]:
    """Return the names of the arguments that are not None."""
    return frozenset(name for name, value in arguments.items() if value is not None)


def stores_to_read(
    catalogue: object,
    store: Store | str | Path | None,
    stores: Sequence[Source | Store | str | Path],
    options: Options,
) -> Sequence[Source | Store | str | Path]:
    """Return the stores to read. Empty if only a catalogue is given.

    Args:
        catalogue: The catalogue of the Router. None: it has none.
        store: The store of the Router. None: `stores`, or the store of the options if there is no catalogue either.
        stores: Several stores. Empty: `store`.
        options: The options, with the default store.

    Raises:
        InvalidInput: Both `store` and `stores` are given, or nothing.
    """
    if store is not None and stores:
        raise InvalidInput("a Router takes a store or stores: give only one of them")
    if store is not None:
        return (store,)
    if stores or catalogue is not None:
        return stores
    places = stores_of(options.store)
    if not places:
        raise InvalidInput("a Router needs tools: give a catalogue, a store or stores")
    return places


def check_models(options: Options) -> None:
    """Raise InvalidConfig if a stage of routing needs a model that the options do not name."""
    if not (options.model or options.model_route or options.model_plan):
        for name in ("understand", "decide"):
            if getattr(options, name) == "model":
                raise InvalidConfig(
                    f"{name}='model' needs a model: set TOOLROUTE_MODEL, or give Options(model=...)"
                )


def check_reader(options: Options) -> None:
    """Raise InvalidConfig if the options name a folder that is no reader. The reader is not opened."""
    if options.reader:
        missing_files = missing_parts(options.reader)
        if missing_files:
            raise InvalidConfig(
                f"reader={options.reader!r} has no {' and no '.join(missing_files)}: set TOOLROUTE_READER, or give "
                "Options(reader=...), the folder models/reader of toolroute's repository"
            )


def catalogue_with(servers: Collection[str], catalogue: Catalogue | str | Path) -> Catalogue:
    """Return the catalogue, or that of a file.

    Raises:
        InvalidConfig: It lacks one of the servers.
    """
    if not isinstance(catalogue, Catalogue):
        catalogue = Catalogue.read(catalogue)
    check_known("servers", servers, catalogue.places)
    return catalogue


def check_parts(
    stores: Sequence[object], capabilities: Sequence[object], embedder: object | None
) -> None:
    """Check the types of the parts of a Router.

    Args:
        stores: The stores.
        capabilities: The always-available capabilities.
        embedder: The caller's own embedder. None: the default embedder, which needs no check.

    Raises:
        InvalidInput: A part has a wrong type.
    """
    _check_stores(stores)
    _check_capabilities(capabilities)
    if embedder is not None:
        _check_embedder(embedder)


def _check_stores(stores: Sequence[object]) -> None:
    """Raise InvalidInput for the first item that is not the place of a store."""
    for store in stores:
        if not isinstance(store, Source | Store | str | Path):
            raise InvalidInput(
                f"stores has a {type(store).__name__}: give a list of folders, URLs, Stores or Sources"
            )


def _check_capabilities(capabilities: Sequence[object]) -> None:
    """Raise InvalidInput for the first item that is no Capability."""
    for capability in capabilities:
        if not isinstance(capability, Capability):
            raise InvalidInput(f"capabilities has {capability!r:.80}: give Capability records")


def _check_embedder(embedder: object) -> None:
    kind = type(embedder).__name__
    if not hasattr(embedder, "embed"):
        raise InvalidInput(
            f"embedder is a {kind}: give an Embedder, or name one with Options(embedder=...)"
        )
    identifier = getattr(embedder, "id", None)
    if not isinstance(identifier, str) or not identifier:
        raise InvalidInput(
            f"embedder {kind} has no id: give it an attribute `id`, a text that names the model"
        )
    dimension = getattr(embedder, "dimension", None)
    # An endpoint's dimension comes from its first answer.
    least = 0 if isinstance(embedder, OpenAIEmbedder) else 1
    if not isinstance(dimension, int) or dimension < least:
        raise InvalidInput(
            f"embedder {kind} has no dimension: give it an attribute `dimension`, the vectors' length"
        )
    if not hasattr(embedder, "remote"):
        raise InvalidInput(
            f"embedder {kind} has no `remote`: give it an attribute, True if it calls an endpoint"
        )


def fit_from(calibration: Calibration | Fit | str | Path) -> Fit:
    """Return a fit, or the fit in a file. Without one, return the empty fit, which changes nothing."""
    if isinstance(calibration, Fit):
        return calibration
    if isinstance(calibration, Calibration) or not str(calibration):
        return Fit()
    return Fit.read(calibration)
