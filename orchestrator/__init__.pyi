# What type checkers read of the package: its public names, which it imports only when they are asked for.

from orchestrator.catalogue import Catalogue as Catalogue
from orchestrator.connections import Connections as Connections
from orchestrator.decision import Decision as Decision
from orchestrator.errors import ToolrouteError as ToolrouteError
from orchestrator.limits import Limits as Limits
from orchestrator.models import Tool as Tool
from orchestrator.options import Options as Options
from orchestrator.plugin import OrchestratorPlugin as OrchestratorPlugin
from orchestrator.route_requests import RouteRequest as RouteRequest
from orchestrator.route_requests import Turn as Turn
from orchestrator.router import Router as Router
from orchestrator.run_records import RunRequest as RunRequest
from orchestrator.run_records import RunResult as RunResult
from orchestrator.workflow import ToolRouter as ToolRouter
