"""Pages as responses, with their common parts."""

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from orchestrator.ui.guard import form_token
from orchestrator.ui.scope import Scope

PAGES = {"Ask": "/", "Tools": "/tools", "Servers": "/servers", "Experience": "/experience", "Runs": "/runs"}
PAGES |= {"Replay": "/replay"}


def page(request: Request, name: str, status: int = 200, **values: Any) -> Response:
    """Return a page as a response.

    Args:
        request: The request.
        name: The template's name.
        status: The HTTP status.
    """
    common = {"tenant": Scope.of(request).tenant, "pages": PAGES, "at": request.url.path}
    template = request.app.state.templates.get_template(name)
    text = template.render(**common, form_token=form_token(request), **values)
    return HTMLResponse(text, status)
