"""toolroute finds the few tools that fit a task, explains the choice and names the servers to connect.

Each name is imported when you first use it, so `import orchestrator` loads neither numpy nor the Temporal SDK.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue as Catalogue
    from orchestrator.catalogue.export import (
        Appended as Appended,
    )
    from orchestrator.catalogue.export import (
        Provider as Provider,
    )
    from orchestrator.catalogue.export import (
        ResolvedCall as ResolvedCall,
    )
    from orchestrator.errors import (
        AnswerInvalid as AnswerInvalid,
    )
    from orchestrator.errors import (
        Busy as Busy,
    )
    from orchestrator.errors import (
        CatalogueChanged as CatalogueChanged,
    )
    from orchestrator.errors import (
        EmbedderUnavailable as EmbedderUnavailable,
    )
    from orchestrator.errors import (
        InvalidArguments as InvalidArguments,
    )
    from orchestrator.errors import (
        InvalidCatalogue as InvalidCatalogue,
    )
    from orchestrator.errors import (
        InvalidConfig as InvalidConfig,
    )
    from orchestrator.errors import (
        InvalidInput as InvalidInput,
    )
    from orchestrator.errors import (
        MissingExtra as MissingExtra,
    )
    from orchestrator.errors import (
        ModelFailed as ModelFailed,
    )
    from orchestrator.errors import (
        ModelRefused as ModelRefused,
    )
    from orchestrator.errors import (
        ModelUnavailable as ModelUnavailable,
    )
    from orchestrator.errors import (
        NoCredit as NoCredit,
    )
    from orchestrator.errors import (
        OutcomeUnknown as OutcomeUnknown,
    )
    from orchestrator.errors import (
        PayloadTooLarge as PayloadTooLarge,
    )
    from orchestrator.errors import (
        ServerUnavailable as ServerUnavailable,
    )
    from orchestrator.errors import (
        StepsFailed as StepsFailed,
    )
    from orchestrator.errors import (
        StoreBusy as StoreBusy,
    )
    from orchestrator.errors import (
        StoreUnavailable as StoreUnavailable,
    )
    from orchestrator.errors import (
        ToolChanged as ToolChanged,
    )
    from orchestrator.errors import (
        ToolFailed as ToolFailed,
    )
    from orchestrator.errors import (
        ToolrouteError as ToolrouteError,
    )
    from orchestrator.errors import (
        Unauthorised as Unauthorised,
    )
    from orchestrator.errors import (
        Unavailable as Unavailable,
    )
    from orchestrator.errors import (
        UnknownSetting as UnknownSetting,
    )
    from orchestrator.errors import (
        UnknownTenant as UnknownTenant,
    )
    from orchestrator.errors import (
        UnknownTool as UnknownTool,
    )
    from orchestrator.index.always import (
        DEFAULT_CAPABILITIES as DEFAULT_CAPABILITIES,
    )
    from orchestrator.index.always import (
        Capability as Capability,
    )
    from orchestrator.index.calibration import (
        Calibration as Calibration,
    )
    from orchestrator.index.calibration import (
        Fit as Fit,
    )
    from orchestrator.index.embed import (
        Embedder as Embedder,
    )
    from orchestrator.index.embed import (
        Vectors as Vectors,
    )
    from orchestrator.llm.client import Models as Models
    from orchestrator.llm.context import (
        Context as Context,
    )
    from orchestrator.llm.context import (
        build_context as build_context,
    )
    from orchestrator.llm.context import (
        decision_context as decision_context,
    )
    from orchestrator.llm.plan import (
        choose_action as choose_action,
    )
    from orchestrator.llm.plan import (
        make_plan as make_plan,
    )
    from orchestrator.mcp.config.parse import McpConfig as McpConfig
    from orchestrator.mcp.connections import Connections as Connections
    from orchestrator.options import Options as Options
    from orchestrator.pipeline.pipeline import (
        Gate as Gate,
    )
    from orchestrator.pipeline.pipeline import (
        Pipeline as Pipeline,
    )
    from orchestrator.pipeline.pipeline import (
        PipelineStage as PipelineStage,
    )
    from orchestrator.pipeline.pipeline import (
        Select as Select,
    )
    from orchestrator.pipeline.presets import preset as preset
    from orchestrator.pipeline.state import (
        State as State,
    )
    from orchestrator.pipeline.state import (
        Task as Task,
    )
    from orchestrator.records.budget import (
        BudgetReport as BudgetReport,
    )
    from orchestrator.records.budget import (
        Limits as Limits,
    )
    from orchestrator.records.call import (
        Approve as Approve,
    )
    from orchestrator.records.call import (
        ResultPage as ResultPage,
    )
    from orchestrator.records.call import (
        ToolCall as ToolCall,
    )
    from orchestrator.records.call import (
        ToolResult as ToolResult,
    )
    from orchestrator.records.completion import (
        Action as Action,
    )
    from orchestrator.records.completion import (
        Choice as Choice,
    )
    from orchestrator.records.completion import (
        CompleteRequest as CompleteRequest,
    )
    from orchestrator.records.completion import (
        Completion as Completion,
    )
    from orchestrator.records.completion import (
        Filled as Filled,
    )
    from orchestrator.records.completion import (
        Purpose as Purpose,
    )
    from orchestrator.records.decision import (
        About as About,
    )
    from orchestrator.records.decision import (
        Decision as Decision,
    )
    from orchestrator.records.decision import (
        Entity as Entity,
    )
    from orchestrator.records.decision import (
        NamedServer as NamedServer,
    )
    from orchestrator.records.delta import Delta as Delta
    from orchestrator.records.outcome import (
        Claim as Claim,
    )
    from orchestrator.records.outcome import (
        Near as Near,
    )
    from orchestrator.records.outcome import (
        Offer as Offer,
    )
    from orchestrator.records.outcome import (
        Outcome as Outcome,
    )
    from orchestrator.records.outcome import (
        Use as Use,
    )
    from orchestrator.records.plan import (
        Plan as Plan,
    )
    from orchestrator.records.plan import (
        PlanRequest as PlanRequest,
    )
    from orchestrator.records.plan import (
        Step as Step,
    )
    from orchestrator.records.relation import (
        Edge as Edge,
    )
    from orchestrator.records.relation import (
        Related as Related,
    )
    from orchestrator.records.relation import (
        Relation as Relation,
    )
    from orchestrator.records.request import (
        Fusion as Fusion,
    )
    from orchestrator.records.request import (
        RouteHint as RouteHint,
    )
    from orchestrator.records.request import (
        RouteRequest as RouteRequest,
    )
    from orchestrator.records.request import (
        Turn as Turn,
    )
    from orchestrator.records.run import (
        Approval as Approval,
    )
    from orchestrator.records.run import (
        Checkpoint as Checkpoint,
    )
    from orchestrator.records.run import (
        Progress as Progress,
    )
    from orchestrator.records.run import (
        RunRequest as RunRequest,
    )
    from orchestrator.records.run import (
        RunResult as RunResult,
    )
    from orchestrator.records.run import (
        StepOutcome as StepOutcome,
    )
    from orchestrator.records.run import (
        StepProgress as StepProgress,
    )
    from orchestrator.records.run import (
        StepStatus as StepStatus,
    )
    from orchestrator.records.tool import (
        Annotations as Annotations,
    )
    from orchestrator.records.tool import (
        CatalogueVersion as CatalogueVersion,
    )
    from orchestrator.records.tool import (
        Gives as Gives,
    )
    from orchestrator.records.tool import (
        Kind as Kind,
    )
    from orchestrator.records.tool import (
        Match as Match,
    )
    from orchestrator.records.tool import (
        Rejected as Rejected,
    )
    from orchestrator.records.tool import (
        Stage as Stage,
    )
    from orchestrator.records.tool import (
        Tokens as Tokens,
    )
    from orchestrator.records.tool import (
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
    )
    from orchestrator.temporal.worker.executor import (
        Registered as Registered,
    )
    from orchestrator.temporal.worker.http_executor import HttpExecutor as HttpExecutor
    from orchestrator.temporal.worker.openapi_executor import OpenApiExecutor as OpenApiExecutor
    from orchestrator.temporal.worker.plugin import OrchestratorPlugin as OrchestratorPlugin
    from orchestrator.temporal.worker.storage import external_storage as external_storage
    from orchestrator.temporal.workflow.nexus import ToolrouteService as ToolrouteService
    from orchestrator.temporal.workflow.tool_router import ToolRouter as ToolRouter

    __version__: str
else:  # Hidden from type checkers: with a `__getattr__` they would accept every misspelt name.
    _NAMES = {
        "catalogue.catalogue": "Catalogue",
        "catalogue.export": "Appended Provider ResolvedCall",
        "errors": (
            "AnswerInvalid Busy CatalogueChanged EmbedderUnavailable InvalidArguments "
            "InvalidCatalogue InvalidConfig InvalidInput MissingExtra ModelFailed ModelRefused "
            "ModelUnavailable NoCredit OutcomeUnknown PayloadTooLarge ServerUnavailable "
            "StepsFailed StoreBusy StoreUnavailable ToolChanged ToolFailed ToolrouteError "
            "Unauthorised Unavailable UnknownSetting UnknownTenant UnknownTool"
        ),
        "index.always": "Capability DEFAULT_CAPABILITIES",
        "index.calibration": "Calibration Fit",
        "index.embed": "Embedder Vectors",
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
