# What type checkers read of the package: its public names, which it imports only when they are asked for.

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
