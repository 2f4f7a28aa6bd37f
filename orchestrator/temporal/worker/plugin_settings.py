"""The arguments of an OrchestratorPlugin, and a worker's settings from them.

The arguments are checked together when the plugin is made. The options, the stores and a catalogue's file are read when
an activity first needs them, because a client that only starts workflows may not have them.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.common.json_input import check_known
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.options import Options, default_store, set_in_code, stores_of
from orchestrator.records.tool import Kind
from orchestrator.temporal.worker.executor import Registered
from orchestrator.temporal.worker.servers_by_tenant import ConfigForTenant, ServerConfig

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.index.embedders.embedder import Embedder
    from orchestrator.llm.client import Models
    from orchestrator.runtime.router import Router
    from orchestrator.store.sources import Source


@dataclass(frozen=True, kw_only=True)
class PluginArguments:
    """The arguments of an OrchestratorPlugin about its activities, as its documentation describes them."""

    catalogue: "Catalogue | str | Path | None"
    store: str | Path | None
    stores: Sequence["Source | str | Path"]
    embedder: "Embedder | None"
    options: Options | None
    mcp_servers: ServerConfig | ConfigForTenant | None
    executors: Mapping[str, Registered] | None
    models: "Callable[[], Models | None] | None"
    only_servers: Collection[str] | None
    entries: Mapping[str, str] | None
    warm: int
    nexus: bool | Collection[str]
    free_slots: int | None

    @property
    def given(self) -> set[str]:
        """The names of the arguments that are given."""
        names = {argument.name for argument in fields(self) if getattr(self, argument.name)}
        if self.free_slots is not None:  # 0 is a choice, too.
            names.add("free_slots")
        return names

    def check(self, *, register: bool) -> None:
        """Raise an error for arguments of a wrong type, and for arguments that cannot have an effect together.

        Raises:
            InvalidConfig: Arguments contradict each other.
            InvalidInput: An argument has a wrong type. Otherwise the first activity would find it.
        """
        names = self.given
        if names and not register:
            raise InvalidConfig(
                f"{', '.join(sorted(names))}: no effect with register=False; give the plugin of the workers with the "
                "activities these arguments"
            )
        if {"store", "stores"} <= names:
            raise InvalidConfig("both store and stores were given: give only one of them")
        if "warm" in names and "mcp_servers" not in names:
            raise InvalidConfig("warm has no effect: give mcp_servers, which it connects")
        if self.stores or self.embedder is not None:
            from orchestrator.runtime.inputs import check_parts

            check_parts(self.stores, (), self.embedder)
        if self.models is not None and not callable(self.models):
            raise InvalidInput(f"models={self.models!r:.80}: give a function that returns Models")


class PluginSettings:
    """The settings of a worker, from the arguments of its plugin.

    Args:
        arguments: The arguments, checked.

    Attributes:
        executors: The given executors, and the functions of the catalogue.
        mcp_servers: The configuration of the MCP servers, or a function from the tenant to it.
        warm: The number of servers to connect after a route.
        lists_servers: Whether the servers of a tenant are listed before its first route.

    Raises:
        InvalidConfig: The catalogue has no tool or server with a given name, or an argument has no effect.
    """

    def __init__(self, arguments: PluginArguments) -> None:
        self._arguments = arguments
        self.mcp_servers = arguments.mcp_servers
        self.warm = arguments.warm
        self.executors: Mapping[str, Registered] = dict(arguments.executors or {})
        self._catalogue = _catalogue_here(arguments)
        # An empty `store` is the user's store.
        names_store = arguments.store is not None or bool(arguments.stores)
        self._has_store = self._catalogue is None or names_store
        if self._catalogue is not None and not isinstance(self._catalogue, str | Path):
            self._use_catalogue(self._catalogue)
        if arguments.entries is not None and not self._has_store:
            raise InvalidConfig(
                "entries has no effect without a store: give store=... or leave it out"
            )
        self.lists_servers = self._catalogue is not None and self._has_store
        self._require_effect()

    def _use_catalogue(self, catalogue: "Catalogue") -> None:
        """Add the functions of a catalogue that is read here, and check the names that other arguments have."""
        has_mcp_tools = any(tool.kind.is_served for tool in catalogue)
        if self.mcp_servers is not None and not has_mcp_tools:
            self._has_store = True
        functions = {tool.key: tool.function for tool in catalogue if tool.function}
        for key, function in functions.items():
            if key not in self.executors:
                _require_no_context(key, function)
        if not self._has_store:
            servers = [f"{server}:*" for server in catalogue.places if server]
            check_known("executors", self.executors, [*catalogue.positions, *servers, *Kind])
            check_known("only_servers", self._arguments.only_servers or (), catalogue.places)
            _require_common_server(catalogue, self.mcp_servers)
        self.executors = {**functions, **self.executors}

    @property
    def options(self) -> Options:
        """The given options, by default those of the environment."""
        return self._arguments.options or Options.from_env()

    @property
    def stores(self) -> Sequence["Source | str | Path"]:
        """The given stores, by default those of the options, or the user's own store."""
        if self._arguments.store:
            return [self._arguments.store]
        return self._arguments.stores or stores_of(self.options.store or default_store())

    def make_router(self, models: "Callable[[], Models | None]") -> "Router":
        """Make the Router. Its routes ask the models, if a stage of the pipeline does."""
        from orchestrator.runtime.router import Router

        return Router(
            self._catalogue,
            stores=self.stores if self._has_store else (),
            embedder=self._arguments.embedder,
            options=self._router_options,
            servers=self._arguments.only_servers,
            entries=self._arguments.entries,
            models=models if self._asks_model_in_routes else None,
        )

    def make_models(self) -> "Models | None":
        """Return the models of the given function, by default the models that the options name."""
        if self._arguments.models is not None:
            return self._arguments.models()
        from orchestrator.llm.client import models_for

        return models_for(self.options)

    def results_in(self) -> str | Path:
        """Return the first store's folder. If it is a URL or in memory, return the user's own store."""
        from orchestrator.store.sources import Source

        for source in self.stores[:1]:
            folder = str(Source.of(source).store)
            if not folder.startswith(("http", ":memory:")):
                return folder
        return stores_of(default_store())[0]

    @property
    def _router_options(self) -> Options:
        """The options without the store, which the Router gets as an argument, and without the models that only
        plans ask. Without a store also without `changes`, which the activities read.
        """
        from orchestrator.runtime.unused_settings import without_unasked_models

        changes = self.options.changes if self._has_store else Options().changes
        return replace(without_unasked_models(self.options), store="", changes=changes)

    @property
    def _asks_model_in_routes(self) -> bool:
        from orchestrator.pipeline.presets import preset
        from orchestrator.runtime.unused_settings import asks_model

        return asks_model(self.options, preset(self.options.pipeline))

    def _require_effect(self) -> None:
        """Raise InvalidConfig for a given option that neither the plugin nor its Router would read."""
        arguments = self._arguments
        set_options = set_in_code(arguments.options) if arguments.options else None
        if not set_options:
            return
        has_given_stores = bool(arguments.store or arguments.stores)
        if "store" in set_options and (has_given_stores or not self._has_store):
            remedy = "give store=... to the plugin, without stores"
            raise InvalidConfig(
                f"Options(store=...) has no effect beside these arguments: {remedy}"
            )
        # Imported here, because most clients give no options.
        from orchestrator.pipeline.presets import preset
        from orchestrator.runtime.unused_settings import require_effect
        from orchestrator.store.sources import Source

        names = {"catalogue", "embedder"} & arguments.given
        if self._asks_model_in_routes:
            names.add("models")
        sources = [Source.of(store) for store in self.stores] if self._has_store else []
        options = self._router_options
        require_effect(options, names, sources, preset(options.pipeline), None)


def _catalogue_here(arguments: PluginArguments) -> "Catalogue | str | Path | None":
    """Return the given catalogue. The tools of a file are read, if other arguments name some of them.

    Raises:
        InvalidInput: It is neither a catalogue nor a path.
    """
    catalogue = arguments.catalogue
    if catalogue is None:
        return None
    if isinstance(catalogue, str | Path):
        # A client may name a file that exists only on its workers.
        is_needed = bool(arguments.executors or arguments.only_servers)
        if not is_needed or not Path(catalogue).exists():
            return catalogue
    from orchestrator.catalogue.catalogue import Catalogue

    if isinstance(catalogue, str | Path):
        return Catalogue.read(catalogue)
    if not isinstance(catalogue, Catalogue):
        raise InvalidInput(
            f"catalogue={catalogue!r:.80}: give a Catalogue, e.g. Catalogue.of(function), or the path of a file"
        )
    return catalogue


def _require_common_server(catalogue: "Catalogue", mcp_servers: object) -> None:
    """Raise InvalidConfig if no tool of the catalogue belongs to a server of the configuration."""
    if not isinstance(mcp_servers, McpConfig | Mapping):
        return  # A path or a function: it is read on the worker.
    config = McpConfig.of(mcp_servers)
    if config.servers and not any(server in catalogue.places for server in config.servers):
        names = ", ".join(config.servers)
        raise InvalidConfig(
            f"mcp_servers has no effect: the catalogue has no tool of {names}; give store=..., too"
        )


def _require_no_context(key: str, function: Callable[..., object]) -> None:
    """Raise InvalidConfig for a function with a parameter that only an agent framework can fill."""
    from orchestrator.catalogue.context_parameters import context_parameters

    for parameter in context_parameters(inspect.signature(function, eval_str=True)).values():
        if parameter.default is not None:
            raise InvalidConfig(
                f"function {key!r}: only its agent framework fills {parameter.name!r}, and a worker has none: give a "
                "method of an object that has the value, or another function in executors"
            )
