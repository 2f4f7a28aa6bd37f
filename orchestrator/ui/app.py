"""The application: its pages, the guard before them, and its error pages."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from orchestrator.errors import InvalidInput, ToolrouteError
from orchestrator.ui.ask import ask, kept
from orchestrator.ui.catalogue import catalogue, measure
from orchestrator.ui.compare import compare, compare_kept
from orchestrator.ui.experience import experience
from orchestrator.ui.guard import HOSTS, Guard, changing
from orchestrator.ui.page import page
from orchestrator.ui.replay import form as replay_form, replay
from orchestrator.ui.runs import approve, run, runs
from orchestrator.ui.scope import Scope
from orchestrator.ui.servers import check, servers
from orchestrator.ui.templates import FOLDER, environment
from orchestrator.ui.tools import accept_change, tool, tools


def make_app(scope: Scope, token: str) -> Starlette:
    """Return the ASGI application. Only a browser with the token from the link can see the pages."""
    app = Starlette(
        routes=[
            Route("/", ask),
            Route("/decision", changing(kept), methods=["POST"]),
            Route("/compare", compare),
            Route("/compare", changing(compare_kept), methods=["POST"]),
            Route("/catalogue", catalogue),
            Route("/catalogue", changing(measure), methods=["POST"]),
            Route("/tools", tools),
            Route("/tools/{key:path}", tool),
            Route("/tools/{key:path}", changing(accept_change), methods=["POST"]),
            Route("/servers", servers),
            Route("/servers", changing(check), methods=["POST"]),
            Route("/experience", experience),
            Route("/runs", runs),
            Route("/runs/{run_id:path}", run),
            Route("/runs/{run_id:path}", changing(approve), methods=["POST"]),
            Route("/replay", replay_form),
            Route("/replay", changing(replay), methods=["POST"]),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False),
            Middleware(Guard, token=token),
        ],
        exception_handlers={ToolrouteError: _refused, HTTPException: _refused},
    )
    app.state.scope = scope
    app.state.token = token
    app.state.templates = environment()
    return app


def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        status = error.status_code
        text = error.detail
    else:
        status = 400 if isinstance(error, InvalidInput) else 503
        text = str(error)
    return page(request, "message.html", status, title="This did not work", text=text)
