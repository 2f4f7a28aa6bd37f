"""The parts that all pages have in common, and the paging of long lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from orchestrator.ui.guard import form_token
from orchestrator.ui.scope import Scope

PAGES = {"Ask": "/", "Tools": "/tools", "Catalogue": "/catalogue", "Servers": "/servers"}
PAGES |= {"Experience": "/experience", "Runs": "/runs", "Replay": "/replay"}
PAGE_SIZE = 50
"""The number of entries of a list on one page."""
_MOST_PAGES = 100_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paged(Generic[T]):
    """One page of a list, with the links to the pages before and after it. A link is empty if there is no such page."""

    items: Sequence[T]
    first: int
    number: int
    before: str
    after: str


def page_number(request: Request) -> int:
    """Return the number of the page that the query asks for, counted from 1."""
    given = request.query_params.get("page", "1")
    return min(max(int(given), 1), _MOST_PAGES) if given.isascii() and given.isdigit() and len(given) < 10 else 1


def paged(request: Request, found: Sequence[T]) -> Paged[T]:
    """Return the page of a list that the query asks for."""
    last = max(1, -(-len(found) // PAGE_SIZE))
    at = min(page_number(request), last)
    start = (at - 1) * PAGE_SIZE
    before, after = (_link(request, other) if 1 <= other <= last else "" for other in (at - 1, at + 1))
    items = found[start : start + PAGE_SIZE]
    return Paged(items=items, first=start + 1, number=len(found), before=before, after=after)


def _link(request: Request, number: int) -> str:
    return f"{request.url.path}?{request.url.include_query_params(page=number).query}"


def page(request: Request, name: str, status: int = 200, **values: Any) -> Response:
    """Return a page as an answer."""
    common = {"tenant": Scope.of(request).tenant, "pages": PAGES, "at": request.url.path}
    template = request.app.state.templates.get_template(name)
    text = template.render(**common, form_token=form_token(request), **values)
    return HTMLResponse(text, status)
