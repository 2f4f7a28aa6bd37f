"""Pages as answers: what all of them have in common."""

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from orchestrator.ui.guard import form_token
from orchestrator.ui.scope import Scope

PAGES = {"Ask": "/", "Tools": "/tools", "Servers": "/servers", "Experience": "/experience", "Runs": "/runs"}
PAGES |= {"Replay": "/replay"}


def page(request: Request, name: str, status: int = 200, **values: Any) -> Response:
    """Return a page as an answer."""
    common = {"tenant": Scope.of(request).tenant, "pages": PAGES, "at": request.url.path}
    template = request.app.state.templates.get_template(name)
    text = template.render(**common, form_token=form_token(request), **values)
    return HTMLResponse(text, status)
