"""The parts that all pages have in common, and the paging of long lists."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from orchestrator.ui.decision import Shown
from orchestrator.ui.guard import form_token
from orchestrator.ui.scope import Scope

PAGES = {
    "Ask": "/",
    "Tools": "/tools",
    "Catalogue": "/catalogue",
    "Servers": "/servers",
    "Experience": "/experience",
    "Runs": "/runs",
    "Replay": "/replay",
}
PAGE_SIZE = 50
"""The number of entries of a list on one page."""
_MOST_PAGES = 100_000
"""A page number comes from an address, where anything may stand."""
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
    text = request.query_params.get("page", "1")
    # `int` also reads other digits, and takes long for a very long text.
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        return 1
    return min(max(int(text), 1), _MOST_PAGES)


def paged(request: Request, items: Sequence[T]) -> Paged[T]:
    """Return the page of a list that the query asks for."""
    last = max(1, math.ceil(len(items) / PAGE_SIZE))
    number = min(page_number(request), last)
    start = (number - 1) * PAGE_SIZE
    return Paged(
        items=items[start : start + PAGE_SIZE],
        first=start + 1,
        number=len(items),
        before=_link(request, number - 1) if number > 1 else "",
        after=_link(request, number + 1) if number < last else "",
    )


def _link(request: Request, number: int) -> str:
    return f"{request.url.path}?{request.url.include_query_params(page=number).query}"


async def uploaded_decisions(form: FormData, *fields: str) -> list[Shown]:
    """Read the Decisions of the files that a form has in these fields. Raises HTTPException if none was chosen."""
    files = [form.get(name) for name in fields]
    decisions = [
        Shown.read(await file.read())
        for file in files
        if isinstance(file, UploadFile) and file.size
    ]
    if not decisions:
        raise HTTPException(
            400, "no file was chosen. Choose a file that `toolroute route -o json` has printed"
        )
    return decisions


def page(request: Request, name: str, status: int = 200, **values: Any) -> Response:
    """Return a page as an answer.

    Args:
        request: The request.
        name: The name of the template.
        status: The HTTP status.
        values: The variables of the template.
    """
    common = {"tenant": Scope.of(request).tenant, "pages": PAGES, "at": request.url.path}
    template = request.app.state.templates.get_template(name)
    text = template.render(**common, form_token=form_token(request), **values)
    return HTMLResponse(text, status)
