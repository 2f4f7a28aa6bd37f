"""toolroute finds the few tools that fit a task, explains the choice and names the servers to connect.

Each name is imported when you first use it, so `import orchestrator` loads neither numpy nor the Temporal SDK.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue as Catalogue
    from orchestrator.catalogue.export import (
        Appended as Appended,
        Provider as Provider,
    )
    from orchestrator.catalogue.resolve import ResolvedCall as ResolvedCall
    from orchestrator.errors import (
        AnswerInvalid as AnswerInvalid,
        Busy as Busy,
        CatalogueChanged as CatalogueChanged,
        EmbedderUnavailable as EmbedderUnavailable,
        InvalidArguments as InvalidArguments,
        InvalidCatalogue as InvalidCatalogue,
        InvalidConfig as InvalidConfig,
        InvalidInput as InvalidInput,
        MissingExtra as MissingExtra,
        ModelFailed as ModelFailed,
        ModelRefused as ModelRefused,
        ModelUnavailable as ModelUnavailable,
        NoCredit as NoCredit,
        OutcomeUnknown as OutcomeUnknown,
        PayloadTooLarge as PayloadTooLarge,
        ServerUnavailable as ServerUnavailable,
        StepsFailed as StepsFailed,
        StoreBusy as StoreBusy,
        StoreUnavailable as StoreUnavailable,
        ToolChanged as ToolChanged,
        ToolFailed as ToolFailed,
        ToolrouteError as ToolrouteError,
        Unauthorised as Unauthorised,
        Unavailable as Unavailable,
        UnknownSetting as UnknownSetting,
        UnknownTenant as UnknownTenant,
        UnknownTool as UnknownTool,
    )
    from orchestrator.index.always import (
        DEFAULT_CAPABILITIES as DEFAULT_CAPABILITIES,
        Capability as Capability,
    )
    from orchestrator.index.calibration import (
        Calibration as Calibration,
        Fit as Fit,
    )
    from orchestrator.index.embedders.embedder import Embedder as Embedder, Vectors as Vectors
    from orchestrator.llm.client import Models as Models
    from orchestrator.llm.context import (
        Context as Context,
        build_context as build_context,
        decision_context as decision_context,
    )
    from orchestrator.llm.plan import (
        choose_action as choose_action,
        make_plan as make_plan,
    )
    from orchestrator.mcp.config.parse import McpConfig as McpConfig
    from orchestrator.mcp.connections import Connections as Connections
    from orchestrator.options import Options as Options
    from orchestrator.pipeline.pipeline import (
        Gate as Gate,
        Pipeline as Pipeline,
        PipelineStage as PipelineStage,
        Select as Select,
    )
    from orchestrator.pipeline.presets import preset as preset
    from orchestrator.pipeline.state import (
        State as State,
        Task as Task,
    )
    from orchestrator.records.budget import (
        BudgetReport as BudgetReport,
        Limits as Limits,
    )
    from orchestrator.records.call import (
        Approve as Approve,
        ResultPage as ResultPage,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
    )
    from orchestrator.records.completion import (
        Action as Action,
        Choice as Choice,
        CompleteRequest as CompleteRequest,
        Completion as Completion,
        Filled as Filled,
        Purpose as Purpose,
    )
    from orchestrator.records.decision import (
        About as About,
        Decision as Decision,
        Entity as Entity,
        NamedServer as NamedServer,
    )
    from orchestrator.records.delta import Delta as Delta
    from orchestrator.records.outcome import (
        Claim as Claim,
        Near as Near,
        Offer as Offer,
        Outcome as Outcome,
        Use as Use,
    )
    from orchestrator.records.plan import (
        Plan as Plan,
        PlanRequest as PlanRequest,
        Step as Step,
    )
    from orchestrator.records.relation import (
        Edge as Edge,
        Related as Related,
        Relation as Relation,
    )
    from orchestrator.records.request import (
        Fusion as Fusion,
        RouteHint as RouteHint,
        RouteRequest as RouteRequest,
        Turn as Turn,
    )
    from orchestrator.records.run import (
        Approval as Approval,
        Checkpoint as Checkpoint,
        Progress as Progress,
        RunRequest as RunRequest,
        RunResult as RunResult,
        StepOutcome as StepOutcome,
        StepProgress as StepProgress,
        StepStatus as StepStatus,
    )
    from orchestrator.records.tool import (
        Annotations as Annotations,
        CatalogueVersion as CatalogueVersion,
        Gives as Gives,
        Kind as Kind,
        Match as Match,
        Rejected as Rejected,
        Stage as Stage,
        Tokens as Tokens,
        Tool as Tool,
    )
    from orchestrator.records.usage import Usage as Usage
    from orchestrator.runtime.router import Router as Router
    from orchestrator.store.sources import Source as Source
    from orchestrator.store.store import Store as Store
    from orchestrator.temporal.client.run_client import failed_result as failed_result
    from orchestrator.temporal.client.schedule import schedule_sync as schedule_sync
    from orchestrator.temporal.worker.executor import (
        Executor as Executor,
        Registered as Registered,
    )
    from orchestrator.temporal.worker.http_executor import HttpExecutor as HttpExecutor
    from orchestrator.temporal.worker.openapi_executor import OpenApiExecutor as OpenApiExecutor
    from orchestrator.temporal.worker.plugin import OrchestratorPlugin as OrchestratorPlugin
    from orchestrator.temporal.worker.servers_by_tenant import ServerConfig as ServerConfig
    from orchestrator.temporal.worker.storage import external_storage as external_storage
    from orchestrator.temporal.workflow.nexus import ToolrouteService as ToolrouteService
    from orchestrator.temporal.workflow.tool_router import ToolRouter as ToolRouter

    __version__: str
else:  # Hidden from type checkers: with a `__getattr__` they would accept every misspelt name.
    _NAMES = {
        "catalogue.catalogue": "Catalogue",
        "catalogue.export": "Appended Provider",
        "catalogue.resolve": "ResolvedCall",
        "errors": (
            "AnswerInvalid Busy CatalogueChanged EmbedderUnavailable InvalidArguments "
            "InvalidCatalogue InvalidConfig InvalidInput MissingExtra ModelFailed ModelRefused "
            "ModelUnavailable NoCredit OutcomeUnknown PayloadTooLarge ServerUnavailable "
            "StepsFailed StoreBusy StoreUnavailable ToolChanged ToolFailed ToolrouteError "
            "Unauthorised Unavailable UnknownSetting UnknownTenant UnknownTool"
        ),
        "index.always": "Capability DEFAULT_CAPABILITIES",
        "index.calibration": "Calibration Fit",
        "index.embedders.embedder": "Embedder Vectors",
        "llm.client": "Models",
        "llm.context": "build_context Context decision_context",
        "llm.plan": "choose_action make_plan",
        "mcp.config.parse": "McpConfig",
        "mcp.connections": "Connections",
        "options": "Options",
        "pipeline.pipeline": "Gate Pipeline PipelineStage Select",
        "pipeline.presets": "preset",
        "pipeline.state": "State Task",
        "records.budget": "BudgetReport Limits",
        "records.call": "Approve ResultPage ToolCall ToolResult",
        "records.completion": "Action Choice CompleteRequest Completion Filled Purpose",
        "records.decision": "About Decision Entity NamedServer",
        "records.delta": "Delta",
        "records.outcome": "Claim Near Offer Outcome Use",
        "records.plan": "Plan PlanRequest Step",
        "records.relation": "Edge Related Relation",
        "records.request": "Fusion RouteHint RouteRequest Turn",
        "records.run": (
            "Approval Checkpoint Progress RunRequest RunResult StepOutcome StepProgress StepStatus"
        ),
        "records.tool": "Annotations CatalogueVersion Gives Kind Match Rejected Stage Tokens Tool",
        "records.usage": "Usage",
        "runtime.router": "Router",
        "store.sources": "Source",
        "store.store": "Store",
        "temporal.client.run_client": "failed_result",
        "temporal.client.schedule": "schedule_sync",
        "temporal.worker.executor": "Executor Registered",
        "temporal.worker.http_executor": "HttpExecutor",
        "temporal.worker.openapi_executor": "OpenApiExecutor",
        "temporal.worker.plugin": "OrchestratorPlugin",
        "temporal.worker.servers_by_tenant": "ServerConfig",
        "temporal.worker.storage": "external_storage",
        "temporal.workflow.nexus": "ToolrouteService",
        "temporal.workflow.tool_router": "ToolRouter",
    }
    _HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
    __all__ = sorted(_HOMES)

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version

            return version("toolroute")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

    def __dir__():
        return __all__
