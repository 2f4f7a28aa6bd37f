"""The worker side: `OrchestratorPlugin` adds toolroute to every worker of a Temporal client.

client = await Client.connect("localhost:7233", plugins=[OrchestratorPlugin(catalogue="tools.jsonl")])
worker = Worker(client, task_queue="mine", workflows=[MyWorkflow])
"""

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
from orchestrator.errors import InvalidConfig, ToolrouteError
from orchestrator.options import Options
from orchestrator.records.run import Approval, RunRequest
from orchestrator.temporal.worker.executor import Registered
from orchestrator.temporal.worker.plugin_settings import PluginArguments, PluginSettings
from orchestrator.temporal.worker.resources import Resources
from orchestrator.temporal.worker.servers_by_tenant import ServerConfig
from orchestrator.temporal.worker.tracing import interceptors
from orchestrator.temporal.worker.turns import Turns
from orchestrator.temporal.workflow.payload import prepare
from orchestrator.workflows.execution import RunWorkflow
from orchestrator.workflows.routing import RouteWorkflow, StagedRouteWorkflow
from orchestrator.workflows.services import CallWorkflow, PlanWorkflow, SyncWorkflow

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.index.embedders.embedder import Embedder
    from orchestrator.llm.client import Models
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
_CHECKS = ("jsonschema", "jsonschema_specifications", "referencing", "rpds", "attr", "attrs")
"""jsonschema and the packages that it needs, with which a workflow checks arguments."""
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
        store: A folder or a Qdrant URL with each tenant's own tools. Default: the user's store. With a
            catalogue the default is no store, unless `mcp_servers` are given and the catalogue has no MCP tool.
        stores: Several stores, as `Router` takes them.
        embedder: As `Router` takes it.
        options: As `Router` takes them. Default: the environment variables.
        mcp_servers: An `mcpServers` configuration, its path, or a function from the tenant to a configuration. With a
            catalogue and a store, the servers of a tenant are listed before its first route, which waits for them for
            at most 5 seconds.
        executors: Functions and Executors by a tool's key, `server:*` or kind.
        models: Makes the language models. Default: the models that the options name.
        only_servers: The names of the MCP servers that may give matches. Default: all.
        entries: The entries of a configuration (`McpConfig.entries`). Only tools that these entries listed are seen.
            Default: all servers in the store.
        register: False for workers that only run workflows and no activities.
        warm: The number of servers to connect in advance after each Decision, because its calls probably need them.
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
        arguments = PluginArguments(
            catalogue=catalogue,
            store=store,
            stores=stores,
            embedder=embedder,
            options=options,
            mcp_servers=mcp_servers,
            executors=executors,
            models=models,
            only_servers=only_servers,
            entries=entries,
            warm=warm,
            nexus=nexus,
            free_slots=free_slots,
        )
        arguments.check(register=register)
        self.resources = Resources(PluginSettings(arguments))
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
        """Hold the resources while a worker or a replayer runs. A worker first loads the modules for its activities."""
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
