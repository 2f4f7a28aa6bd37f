"""toolroute: the few tools that fit a task, why, and only their servers connected.

A name is imported when it is first used, so that `import orchestrator` loads neither numpy nor Temporal's SDK.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue as Catalogue
    from orchestrator.errors import ToolrouteError as ToolrouteError
    from orchestrator.mcp.connections import Connections as Connections
    from orchestrator.options import Options as Options
    from orchestrator.records.budget import Limits as Limits
    from orchestrator.records.decision import Decision as Decision
    from orchestrator.records.request import RouteRequest as RouteRequest
    from orchestrator.records.request import Turn as Turn
    from orchestrator.records.run import RunRequest as RunRequest
    from orchestrator.records.run import RunResult as RunResult
    from orchestrator.records.tool import Tool as Tool
    from orchestrator.runtime.router import Router as Router
    from orchestrator.store.sources import Source as Source
    from orchestrator.temporal.plugin import OrchestratorPlugin as OrchestratorPlugin
    from orchestrator.temporal.workflow import ToolRouter as ToolRouter
else:  # Type checkers must not see this `__getattr__`: they would take every misspelt name for one of its.
    _HOMES = {
        "Catalogue": "catalogue.catalogue",
        "Connections": "mcp.connections",
        "Decision": "records.decision",
        "Limits": "records.budget",
        "Options": "options",
        "OrchestratorPlugin": "temporal.plugin",
        "RouteRequest": "records.request",
        "Router": "runtime.router",
        "RunRequest": "records.run",
        "RunResult": "records.run",
        "Source": "store.sources",
        "Tool": "records.tool",
        "ToolRouter": "temporal.workflow",
        "ToolrouteError": "errors",
        "Turn": "records.request",
    }
    __all__ = sorted(_HOMES)

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

    def __dir__():
        return __all__
