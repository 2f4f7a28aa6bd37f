"""`toolroute serve` over streamable HTTP: hosts, origins and bearer tokens are checked by the MCP library."""

import asyncio
import contextlib
import errno
import hashlib
import secrets
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.common.json_input import first_problem, read_json, reading
from orchestrator.common.tenant import is_tenant
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.launch import Expansion, environment
from orchestrator.server import concurrency_limit
from orchestrator.server.stdio import on_signals

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_SHORTEST = 16
_GRACE_S = 5.0
"""Seconds that requests in progress get to finish after the signal to stop."""

_IDLE_S = 30 * 60.0
"""Seconds that a session lasts without a request or an open stream."""

_QUEUE = 1024
"""The number of connections that may wait to be accepted."""

new_token = secrets.token_urlsafe


class Grant(BaseModel):
    """The rights of a token: a tenant, or one profile of the tenant, and a number of calls per minute."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    tenant: str = ""
    token: StrictStr = Field(repr=False)
    profile: str = ""
    calls_per_minute: Annotated[float, Field(gt=0)] | None = None


class BearerTokens:
    """Bearer tokens with their rights, stored as digests. This is the token verifier for the MCP library.

    Attributes:
        lasting: True if a token identifies the same person after a restart.
    """

    def __init__(self, tokens: Mapping[str, str], *, lasting: bool = False) -> None:
        self._grants = {_digest(token): Grant(tenant=own, token="") for token, own in tokens.items()}
        self._lasting = lasting

    @classmethod
    def read(cls, path: Path, environ: Mapping[str, str] | None = None) -> "BearerTokens":
        """Read a JSON file of tenants with a token or a list of tokens: `{"org:42": "${ACME_TOKEN}", "user:7": ["...",
        "..."]}`.

        A token may also be `{"token": "...", "profile": "support", "calls_per_minute": 60}`.
        """
        with reading(path, error=InvalidConfig):
            value = read_json(path.read_text(encoding="utf-8-sig"))
        if not isinstance(value, dict) or not value:
            raise InvalidConfig(f'{path}: give an object of tenants and their tokens: {{"org:42": "${{ACME_TOKEN}}"}}')
        environ = environment() if environ is None else environ
        found = cls({}, lasting=True)
        for tenant, given in value.items():
            if not is_tenant(tenant):
                raise InvalidConfig(f"{path}: unknown form of tenant {tenant!r}: give org:ID or user:ID")
            for one in given if isinstance(given, list) else [given]:
                grant = _granted(f"{path}: tenant {tenant!r}", tenant, one)
                own = _digest(_checked(f"{path}: tenant {tenant!r}", grant.token, environ))
                known = found._grants.setdefault(own, grant)
                if known is not grant and known.tenant != tenant:
                    shared = f"{known.tenant!r} and {tenant!r} have the same token"
                    raise InvalidConfig(f"{path}: {shared}: give each tenant its own token")
                if known is not grant and known.model_copy(update={"token": grant.token}) != grant:
                    raise InvalidConfig(
                        f"{path}: tenant {tenant!r} has the same token with two profiles: remove one entry"
                    )
        return found

    @property
    def profiles(self) -> set[str]:
        """The profiles that tokens are confined to."""
        return {grant.profile for grant in self._grants.values()} - {""}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the token's tenant as its client id, and its holder as its subject. The holder of a lasting token is
        its digest.
        """
        own = _digest(token)
        if (grant := self._grants.get(own)) is None:
            return None
        subject = f"token {own.hex()[:12]}" if self._lasting else None
        claims = {"profile": grant.profile, "calls_per_minute": grant.calls_per_minute}
        return AccessToken(token=token, client_id=grant.tenant, scopes=[], subject=subject, claims=claims)


def _granted(where: str, tenant: str, given: Any) -> Grant:
    value = given if isinstance(given, dict) else {"token": given}
    try:
        return Grant.model_validate({**value, "tenant": tenant})
    except ValidationError as error:
        raise InvalidConfig(f"{where}: {first_problem(error)}") from None


def _checked(where: str, given: str, environ: Mapping[str, str]) -> str:
    variables = Expansion(environ)
    token = variables.of("a token", given)
    variables.check(where)
    if len(token) < _SHORTEST or not token.isascii() or token.split() != [token]:
        make = "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        raise InvalidConfig(f"{where}: a token must have {_SHORTEST} or more ASCII characters and no blanks; {make}")
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.strip().encode("utf-8", "surrogatepass")).digest()


def make_app(
    server: Server[Any],
    tokens: BearerTokens,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    most_sessions: int = 1_000,
    profiles: Callable[[], Collection[str]] = tuple,
    only: str = "",
    ready: Callable[[], Coroutine[Any, Any, bool]] | None = None,
) -> Any:
    """Return the ASGI app with streamable HTTP at /mcp, and at /mcp/PROFILE for each profile.

    Without a token, /healthz answers while the process runs, and /readyz while requests can be answered. Other requests
    get 401 without a known token, 421 for a foreign host, and 403 from a page of a foreign origin, which prevents DNS
    rebinding.

    Args:
        server: The MCP server.
        tokens: The known tokens and their rights.
        hosts: Additional host names that clients may use.
        origins: Additional origins whose pages may call.
        most_sessions: The maximum number of sessions of a tenant. A further session ends the longest idle one.
        profiles: Returns the names of the profiles.
        only: The profile for all clients, or "".
        ready: Returns True if requests can be answered now.
    """
    known = [*_LOOPBACK, *hosts]
    pages = [f"{scheme}://{host}" for scheme in ("http", "https") for host in _LOOPBACK]
    guard = TransportSecuritySettings(
        allowed_hosts=[*known, *(f"{host}:*" for host in known)],
        allowed_origins=[*origins, *pages, *(f"{page}:*" for page in pages)],
    )
    # Clients before the protocol of 2026-07-28 get sessions: only there can they be asked, and cancel a call.
    manager = StreamableHTTPSessionManager(server, security_settings=guard, session_idle_timeout=_IDLE_S)
    sessions = _Sessions(manager, most_sessions)
    guarded = RequireAuthMiddleware(_Profiled(sessions, profiles, only), [])
    routes = [
        Route(PATH, endpoint=guarded),
        Route(f"{PATH}/{{profile}}", endpoint=guarded),
        Route("/healthz", endpoint=_healthz),
        Route("/readyz", endpoint=partial(_readyz, ready)),
    ]
    app = Starlette(routes=routes, lifespan=lambda _: manager.run())
    app.add_middleware(AuthenticationMiddleware, backend=BearerAuthBackend(tokens))
    app.state.end_sessions = sessions.end
    return app


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(ready: Callable[[], Coroutine[Any, Any, bool]] | None, _: Request) -> Response:
    is_ready = ready is None or await ready()
    return PlainTextResponse("ready\n" if is_ready else "not ready\n", 200 if is_ready else 503)


class _Profiled:
    """The endpoint that confines requests to the profile of their token, or of the server. Clients cannot choose
    another one.
    """

    def __init__(self, endpoint: Any, profiles: Callable[[], Collection[str]], only: str) -> None:
        self._endpoint, self._profiles, self._only = endpoint, profiles, only

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        asked, own = scope.get("path_params", {}).get("profile", ""), scope["user"].access_token.claims["profile"]
        confined = {name for name in (own, self._only) if name}
        if len(confined | ({asked} - {""})) > 1:
            answer = PlainTextResponse(
                "this token has no access to this profile: use the address of the token's own profile", 403
            )
            await answer(scope, receive, send)
        elif asked and asked not in self._profiles():
            await PlainTextResponse(f"unknown profile {asked!r:.80}: check the address", 404)(scope, receive, send)
        else:
            await self._endpoint(scope, receive, send)


@dataclass(slots=True)
class _Session:
    """A session of a tenant's client: the scope of its first request, and its requests in progress by method.

    A GET is in progress while the client listens for notifications.
    """

    scope: Any
    under_way: Counter[str] = field(default_factory=Counter)


class _Sessions:
    """The endpoint. It bounds the sessions of each tenant, so that one tenant takes no place that another needs."""

    def __init__(self, manager: StreamableHTTPSessionManager, most: int) -> None:
        self._manager, self._most = manager, most
        # By tenant: its sessions, the one that was used last at the end.
        self._of = defaultdict[str, dict[str, _Session]](dict)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        own, method = self._of[scope["user"].access_token.client_id], scope["method"]
        if method == "GET" and sum(session.under_way["GET"] for session in own.values()) >= self._most:
            await PlainTextResponse(f"too many streams: {self._most} are open, which is the limit; close one", 503)(
                scope, receive, send
            )
            return
        name = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        session = own.get(name) if name else None
        if name and session:
            own[name] = own.pop(name)  # Last, as the one that was used last.
        session = session or _Session(scope)

        async def watched(message: Any) -> None:
            if message["type"] == "http.response.start" and not name and message["status"] < HTTPStatus.BAD_REQUEST:
                given = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                own.update({given: session} if given else {})
            await send(message)

        session.under_way[method] += 1
        try:
            await self._manager.handle_request(scope, receive, watched)
        finally:
            session.under_way[method] -= 1
            await self._end_idle(own)

    async def end(self) -> None:
        """End the sessions, so that their clients stop listening: with calls under way, once they are answered."""
        self._most = 0
        for own in self._of.values():
            await self._end_idle(own)

    async def _end_idle(self, own: dict[str, _Session]) -> None:
        """End, as their client does, the sessions that were idle for longest, beyond the most of a tenant."""
        idle = [
            name for name, one in own.items() if not (one.under_way["POST"] or (self._most and one.under_way["GET"]))
        ]
        for name in idle[: max(0, len(own) - self._most)]:
            headers = [(b"host", b"127.0.0.1"), (MCP_SESSION_ID_HEADER.encode(), name.encode())]
            scope = {**own.pop(name).scope, "method": "DELETE", "headers": headers}
            await self._manager.handle_request(scope, _nothing, _nothing)


async def _nothing(*_: Any) -> Any:
    return {"type": "http.request"}


async def _at_once(within_s: float) -> None: ...


async def serve_http(
    app: Any,
    host: str,
    port: int,
    started: Callable[[str], None],
    stop: Callable[[float], Coroutine[Any, Any, None]] = _at_once,
    path: str = PATH,
) -> None:
    """Serve until a signal arrives. Requests in progress then have a limited time to finish.

    Args:
        app: The ASGI app.
        host: The address to listen on.
        port: The port, or 0 for any free port.
        started: Receives the URL.
        stop: Ends the requests in progress.
        path: The path of the endpoint in the URL.
    """
    listening = _listen(host, port)

    class Stoppable(uvicorn.Server):
        def capture_signals(self) -> Any:
            # uvicorn's own handlers raise the signal again afterwards, before anything else is closed.
            return contextlib.nullcontext()

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listening.listen(_QUEUE)
            name = f"[{host}]" if ":" in host else host
            started(f"http://{name}:{listening.getsockname()[1]}{path}")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            stopping = asyncio.create_task(stop(_GRACE_S))
            await super().shutdown(sockets)
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    cut_off = round(2 * _GRACE_S)
    config = uvicorn.Config(
        concurrency_limit.close_refused(app),
        access_log=False,
        timeout_graceful_shutdown=cut_off,
        **concurrency_limit.uvicorn_settings(),
    )
    server = Stoppable(config)
    on_signals(lambda: setattr(server, "should_exit", True))
    with contextlib.closing(listening), concurrency_limit.log_rate_limit():
        await asyncio.sleep(0)  # A Ctrl-C that came before ends it here, not in the midst of uvicorn's start.
        await server.serve([listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if not host.strip().encode("idna"):  # A blank one would be all interfaces.
            raise UnicodeError
        return socket.create_server((host, port), family=family)
    except UnicodeError:
        remedy = "give 127.0.0.1, or 0.0.0.0 for all interfaces"
        raise InvalidConfig(f"--host {host!r} is not an address: {remedy}") from None
    except OSError as error:
        why, _, _ = (error.strerror or str(error)).partition(" (while")  # Python adds the address, which stands here.
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        remedy = "give another --port, or --port 0 for any free one" if taken else "give another --host"
        raise InvalidConfig(f"cannot listen on {host}:{port} ({why}): {remedy}") from None
