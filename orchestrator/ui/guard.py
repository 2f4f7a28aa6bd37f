"""The guard before every page: only browsers with the link's token see it, and only its own forms change something."""

import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp

logger = logging.getLogger(__package__)

HOSTS = ["127.0.0.1", "localhost"]
"""Names under which pages are served: a page of another name that was led to this machine gets none."""
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_REMEDY = (
    "This page needs a token. Open the link that `toolroute ui` has printed; it contains the token."
)


class Guard(BaseHTTPMiddleware):
    """Turns the token of a link into a cookie, and answers nobody without it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        super().__init__(app)
        self._token = token

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        cookie = f"toolroute_{request.url.port}"  # Browsers send cookies to every port of a host.
        if self._is_right(request.query_params.get("token", "")):
            # To an address without the token, which histories and pictures of the screen would keep.
            response: Response = RedirectResponse(
                "/" + quote(request.scope["path"].lstrip("/")), 303
            )
            response.set_cookie(cookie, self._token, httponly=True, samesite="strict")
        elif self._is_right(request.cookies.get(cookie, "")):
            response = await self._answer(request, call_next)
        else:
            response = PlainTextResponse(f"{_REMEDY}\n", 401)
        response.headers.update(_HEADERS)
        return response

    async def _answer(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        try:
            return await call_next(request)
        except Exception as error:
            logger.exception("page failed: %s %r", request.method, request.scope["path"])
            why = "The terminal of `toolroute ui` shows the traceback. The other pages still work."
            return PlainTextResponse(f"this page failed: {type(error).__name__}. {why}\n", 500)

    def _is_right(self, token: str) -> bool:
        return compare_digest(token.encode(), self._token.encode())


def form_token(request: Request) -> str:
    """Return the token of the pages' forms, which no other site can know."""
    return sha256(f"form {request.app.state.token}".encode()).hexdigest()


def changing(
    answer: Callable[[Request, FormData], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a form: 403 for one that is not ours."""

    async def endpoint(request: Request) -> Response:
        async with request.form(max_files=2, max_fields=20) as form:
            # A page of another site can send a form here with the browser's cookie.
            if not compare_digest(str(form.get("form", "")).encode(), form_token(request).encode()):
                raise HTTPException(
                    403,
                    "the form was not accepted: it does not come from this page. Load the page again, then send it",
                )
            return await answer(request, form)

    return endpoint
