"""The worker side: `OrchestratorPlugin` adds toolroute to every worker of a Temporal client.

client = await Client.connect("localhost:7233", plugins=[OrchestratorPlugin(catalogue="tools.jsonl")])
worker = Worker(client, task_queue="mine", workflows=[MyWorkflow])
"""

import inspect
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from temporalio.client import ClientConfig
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkerConfig, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from orchestrator.activities.activities import Activities
from orchestrator.common.fields import named
from orchestrator.common.json_input import check_known
from orchestrator.errors import InvalidConfig, InvalidInput, ToolrouteError
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.options import Options, default_store, set_in_code, stores_of
from orchestrator.records.run import Approval, RunRequest
from orchestrator.records.tool import Kind
from orchestrator.temporal.worker.executors import Registered
from orchestrator.temporal.worker.resources import Resources, ServerConfig
from orchestrator.temporal.worker.tracing import interceptors
from orchestrator.temporal.worker.turns import Turns
from orchestrator.temporal.workflow.payload import prepare
from orchestrator.workflows.execution import RunWorkflow
from orchestrator.workflows.routing import RouteWorkflow, StagedRouteWorkflow
from orchestrator.workflows.services import CallWorkflow, PlanWorkflow, SyncWorkflow

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.index.embed import Embedder
    from orchestrator.llm.client import Models
    from orchestrator.runtime.router import Router
    from orchestrator.store.sources import Source

NAME = "toolroute.OrchestratorPlugin"
SLOTS = 100
"""Temporal's default for `max_concurrent_activities`."""
_WORKFLOWS = (
    RouteWorkflow,
    StagedRouteWorkflow,
    RunWorkflow,
    PlanWorkflow,
    CallWorkflow,
    SyncWorkflow,
)
_NO_SETTINGS = frozenset(("self", "__class__", "register"))
"""The names in the constructor that are no settings of the activities."""
_CHECKS = ("jsonschema", "jsonschema_specifications", "referencing", "rpds", "attr", "attrs")
_PASSED = ("orchestrator", "opentelemetry", "beartype", *_CHECKS)
"""Modules that the sandbox passes through: this package, tracing, the schema checker, and beartype.

FastMCP installs beartype, whose import hook would otherwise be loaded again for each workflow.
"""


class OrchestratorPlugin(SimplePlugin):
    """Registers toolroute's activities and workflows with a Temporal worker.

    Give the plugin to the client, and its workers inherit it, or give it to a worker. If both get it, it registers
    once. The plugin sets no data converter and none of the worker's own options, such as `max_concurrent_activities`
    or `graceful_shutdown_timeout`. It opens the catalogue, the store and the servers when an activity first needs them,
    and closes them when the last worker ends.

    Args:
        catalogue: A catalogue for all tenants: a Catalogue, a tools.jsonl file or a folder of such files. Its Python
            functions become executors.
        store: A folder or a Qdrant URL with each tenant's own tools. Default: the user's store. Beside a catalogue:
            none, or the user's store if `mcp_servers` are given and the catalogue has no MCP tool.
        stores: Several stores, as `Router` takes them.
        embedder: As `Router` takes it.
        options: As `Router` takes them. Default: the environment variables.
        mcp_servers: An `mcpServers` configuration, its path, or a function from the tenant to a configuration. Beside
            a catalogue and a store, the servers of a tenant are listed before its first route.
        executors: Functions and Executors by a tool's key, `server:*` or kind.
        models: Makes the language models. Default: the models that the options name.
        only_servers: The names of the MCP servers that may give matches. Default: all.
        entries: The entries of a configuration (`McpConfig.entries`). Only tools that these entries listed are seen.
            Default: all servers in the store.
        register: False for workers that only run workflows and no activities.
        warm: The number of servers to connect in advance, after each Decision: those that it probably needs.
        nexus: Whether workers serve the Nexus service `toolroute` to other namespaces. True: for all tenants. A list:
            for these tenants.
        free_slots: The number of a worker's activity slots that the running calls of a tenant leave to other tenants
            and to routing. A further call waits in the task queue. Default: one in eight, and at least one. 0: none,
            for a server that has fairness.

    Raises:
        InvalidConfig: Settings contradict each other, or the catalogue has no tool or server with a given name.

    Examples:
        >>> from temporalio.client import Client
        >>> from temporalio.worker import Worker
        >>> from orchestrator import OrchestratorPlugin
        >>> plugin = OrchestratorPlugin(catalogue="examples/tools.jsonl")
        >>> async def work() -> None:
        ...     client = await Client.connect("localhost:7233", plugins=[plugin])
        ...     await Worker(client, task_queue="toolroute").run()
    """

    @named
    def __init__(
        self,
        *,
        catalogue: "Catalogue | str | Path | None" = None,
        store: str | Path | None = None,
        stores: Sequence["Source | str | Path"] = (),
        embedder: "Embedder | None" = None,
        options: Options | None = None,
        mcp_servers: ServerConfig | Callable[[str], ServerConfig | None] | None = None,
        executors: Mapping[str, Registered] | None = None,
        models: "Callable[[], Models | None] | None" = None,
        only_servers: Collection[str] | None = None,
        entries: Mapping[str, str] | None = None,
        register: bool = True,
        warm: int = 0,
        nexus: bool | Collection[str] = False,
        free_slots: int | None = None,
    ) -> None:
        """Make a plugin. The documentation of the class describes the parameters."""
        arguments = dict(locals())
        given = {name for name in arguments.keys() - _NO_SETTINGS if arguments[name]}
        if free_slots is not None:
            given.add("free_slots")
        _check_together(given, register=register)
        _check_parts(stores, embedder, models)
        catalogue = _catalogue_here(catalogue, is_read=bool(executors or only_servers))
        has_store = catalogue is None or store is not None or bool(stores)
        if catalogue is not None and not isinstance(catalogue, str | Path):
            has_store = has_store or (mcp_servers is not None and not _has_mcp_tools(catalogue))
            executors = _executors_for(catalogue, executors or {}, has_store)
            if not has_store:
                check_known("only_servers", only_servers or (), catalogue.places)
                _require_common_server(catalogue, mcp_servers)
        if entries is not None and not has_store:
            raise InvalidConfig(
                "entries has no effect without a store: give store=... or leave it out"
            )
        settings = _Settings(options, [store] if store else stores, has_store=has_store)
        settings.require_effect(given)

        def make_router() -> "Router":
            from orchestrator.runtime.router import Router

            return Router(
                catalogue,
                stores=settings.stores if has_store else (),
                embedder=embedder,
                options=settings.of_router,
                servers=only_servers,
                entries=entries,
                models=self.resources.models if settings.asks_model_in_routes else None,
            )

        self.resources = Resources(
            make_router,
            mcp_servers,
            executors,
            models or settings.models,
            settings.results_in,
            warm,
            lambda: settings.options.changes,
            lists_servers=catalogue is not None and has_store,
        )
        self._registers = register
        self._free_slots = free_slots
        self._nexus_tenants = None if nexus is True else tuple(nexus or ())
        super().__init__(
            NAME,
            activities=self._with_activities if register else None,
            workflows=_with_workflows if register else None,
            workflow_runner=_let_through,
            nexus_service_handlers=self._with_nexus if register and nexus else None,
            workflow_failure_exception_types=[ToolrouteError],
            run_context=self._running,
        )

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        """Hold the resources while a worker or a replayer runs. A worker first loads what its activities need."""
        async with self.resources.held():
            if self._registers:
                await self.resources.load_modules()
            yield

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        """Propagate traces over Temporal if the process has a tracer provider and the client does not do it itself."""
        self.interceptors = interceptors(config) or None
        return super().configure_client(config)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add the activities and workflows, and let the tenants' calls share the worker's slots."""
        self.interceptors = interceptors(config) or None
        if self._registers:
            prepare(RunRequest, Approval)
            self.resources.share_slots(
                config["task_queue"], Turns(self._slots(config), self._free_slots)
            )
        return super().configure_worker(config)

    def _slots(self, config: WorkerConfig) -> int | None:
        """Return the number of the worker's activity slots. None if a tuner decides it.

        Raises:
            InvalidConfig: `free_slots` cannot have an effect on this worker.
        """
        slots = None if config.get("tuner") else config.get("max_concurrent_activities") or SLOTS
        if self._free_slots is None:
            return slots
        if slots is None:
            raise InvalidConfig(
                f"free_slots={self._free_slots}: the worker has a tuner, so its slots are not known"
            )
        if not 0 <= self._free_slots < slots:
            raise InvalidConfig(
                f"free_slots={self._free_slots}: give 0 to {slots - 1}, as the worker has {slots} slots"
            )
        return slots

    def _with_activities(
        self, existing: Sequence[Callable[..., Any]] | None
    ) -> Sequence[Callable[..., Any]]:
        registered = list(existing or ())
        owners = [
            getattr(getattr(function, "__self__", None), "resources", None)
            for function in registered
        ]
        if self.resources in owners:
            return registered
        if any(isinstance(owner, Resources) for owner in owners):
            raise InvalidConfig(
                "this worker has two OrchestratorPlugins, its own and its client's: give one plugin to the client, "
                "or the same object to both; for other settings use another client or register=False"
            )
        return [*registered, *Activities(self.resources).all()]

    def _with_nexus(self, existing: Sequence[Any] | None) -> Sequence[Any]:
        from orchestrator.temporal.worker.nexus_handler import ToolrouteHandler

        registered = list(existing or ())
        if any(isinstance(handler, ToolrouteHandler) for handler in registered):
            return registered
        return [*registered, ToolrouteHandler(self.resources, self._nexus_tenants)]


class _Settings:
    """The options and stores of a worker, read when an activity first needs them: a client may not have them.

    Args:
        options: The given options. None: those of the environment.
        stores: The given stores. Empty: those of the options, or the user's own.
        has_store: Whether the Router reads stores.
    """

    def __init__(
        self,
        options: Options | None,
        stores: Sequence["Source | str | Path"],
        *,
        has_store: bool,
    ) -> None:
        self._options = options
        self._stores = stores
        self._has_store = has_store

    @property
    def options(self) -> Options:
        return self._options or Options.from_env()

    @property
    def stores(self) -> Sequence["Source | str | Path"]:
        """The given stores, by default those of the options, or the user's own store."""
        return self._stores or stores_of(self.options.store or default_store())

    @property
    def of_router(self) -> Options:
        """The options of the Router: without the store, which the plugin itself gives to it, and without the models
        that only plans ask. Without a store also without `changes`, which the activities read.
        """
        from orchestrator.runtime.unused_settings import without_unasked_models

        changes = self.options.changes if self._has_store else Options().changes
        return replace(without_unasked_models(self.options), store="", changes=changes)

    def require_effect(self, given: Collection[str]) -> None:
        """Raise InvalidConfig for a given option that neither the plugin nor its Router would read.

        Args:
            given: The names of the given arguments of the plugin.
        """
        set_options = set_in_code(self._options) if self._options else None
        if not set_options:
            return
        if "store" in set_options and (self._stores or not self._has_store):
            remedy = "give store=... to the plugin, without stores"
            raise InvalidConfig(
                f"Options(store=...) has no effect beside these arguments: {remedy}"
            )
        # Imported here, because most clients give no options.
        from orchestrator.pipeline.presets import preset
        from orchestrator.runtime.unused_settings import require_effect
        from orchestrator.store.sources import Source

        arguments = {"catalogue", "embedder"}.intersection(given)
        if self.asks_model_in_routes:
            arguments.add("models")
        sources = [Source.of(store) for store in self.stores] if self._has_store else []
        options = self.of_router
        require_effect(options, arguments, sources, preset(options.pipeline), None)

    @property
    def asks_model_in_routes(self) -> bool:
        """Whether a stage of routing may ask a language model."""
        from orchestrator.pipeline.presets import preset
        from orchestrator.runtime.unused_settings import asks_model

        return asks_model(self.options, preset(self.options.pipeline))

    def models(self) -> "Models | None":
        """Return the models that the options name."""
        from orchestrator.llm.client import models_for

        return models_for(self.options)

    def results_in(self) -> str | Path:
        """Return the first store's folder. If it is a URL or in memory, return the user's own store."""
        from orchestrator.store.sources import Source

        first = next((str(Source.of(source).store) for source in self.stores), "http")
        return stores_of(default_store())[0] if first.startswith(("http", ":memory:")) else first


def _check_together(given: Collection[str], *, register: bool) -> None:
    """Raise InvalidConfig for arguments that contradict each other, or that cannot have an effect together."""
    if given and not register:
        raise InvalidConfig(
            f"{', '.join(sorted(given))}: no effect with register=False; give the plugin of the workers with the "
            "activities these arguments"
        )
    if {"store", "stores"} <= set(given):
        raise InvalidConfig("both store and stores were given: give only one of them")
    if "warm" in given and "mcp_servers" not in given:
        raise InvalidConfig("warm has no effect: give mcp_servers, which it connects")


def _check_parts(stores: Sequence[object], embedder: object, models: object) -> None:
    """Raise InvalidInput for a part of a wrong type. Otherwise the first activity would find it."""
    if stores or embedder is not None:
        from orchestrator.runtime.inputs import check_embedder, check_stores

        check_stores(stores)
        if embedder is not None:
            check_embedder(embedder)
    if models is not None and not callable(models):
        raise InvalidInput(f"models={models!r:.80}: give a function that returns Models")


def _catalogue_here(
    catalogue: "Catalogue | str | Path | None", *, is_read: bool
) -> "Catalogue | str | Path | None":
    """Return the given catalogue, of a file its tools if they are read here.

    Raises:
        InvalidInput: It is neither a catalogue nor a path.
    """
    # A client may name a file that exists only on its workers.
    if catalogue is None or (
        isinstance(catalogue, str | Path) and not (is_read and Path(catalogue).exists())
    ):
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
        named = ", ".join(config.servers)
        raise InvalidConfig(
            f"mcp_servers has no effect: the catalogue has no tool of {named}; give store=..., too"
        )


def _has_mcp_tools(catalogue: "Catalogue") -> bool:
    return any(tool.kind.is_served for tool in catalogue)


def _executors_for(
    catalogue: "Catalogue", given: Mapping[str, Registered], has_store: bool
) -> Mapping[str, Registered]:
    """Return the given executors and the catalogue's own functions.

    Raises:
        InvalidConfig: There is no store, and the catalogue has no tool with the name of an executor.
    """
    if not has_store:
        servers = [f"{server}:*" for server in catalogue.places if server]
        check_known("executors", given, [*catalogue.positions, *servers, *Kind])
    functions = {tool.key: tool.function for tool in catalogue if tool.function}
    for key, function in functions.items():
        if key not in given:
            _require_no_context(key, function)
    return {**functions, **given}


def _require_no_context(key: str, function: Callable[..., Any]) -> None:
    """Raise InvalidConfig for a function with a parameter that only an agent framework can fill."""
    from orchestrator.catalogue.context_parameters import context_parameters

    for parameter in context_parameters(inspect.signature(function, eval_str=True)).values():
        if parameter.default is not None:
            raise InvalidConfig(
                f"function {key!r}: only its agent framework fills {parameter.name!r}, and a worker has none: give a "
                "method of an object that has the value, or another function in executors"
            )


def _with_workflows(existing: Sequence[type] | None) -> Sequence[type]:
    registered = list(existing or ())
    return [
        *registered,
        *(workflow_type for workflow_type in _WORKFLOWS if workflow_type not in registered),
    ]


def _let_through(runner: WorkflowRunner | None) -> WorkflowRunner:
    """Pass this package through the sandbox. A workflow then takes 0.6 ms instead of 4.5 ms, and no engine is
    loaded twice.
    """
    runner = runner or SandboxedWorkflowRunner()
    if isinstance(runner, SandboxedWorkflowRunner):
        return replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*_PASSED))
    return runner
