"""`toolroute serve` over streamable HTTP: hosts, origins and bearer tokens are checked by the MCP library."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from http import HTTPStatus
from typing import Any
from weakref import WeakValueDictionary

import uvicorn
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.errors import InvalidConfig
from orchestrator.server.http.bearer_tokens import BearerTokens
from orchestrator.server.http.bounded_sessions import BoundedSessions
from orchestrator.server.http.connection_limits import (
    close_refused,
    log_rate_limit,
    uvicorn_settings,
)
from orchestrator.server.http.json_answers import JsonAnswers
from orchestrator.server.stdio import on_signals

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_GRACE_S = 5.0
"""Seconds that requests in progress get to finish after the signal to stop."""
_SESSION_TIMEOUT_S = 30 * 60.0
"""Seconds that a session lasts without a request or an open stream."""
_BACKLOG = 1024
"""The number of connections that may wait to be accepted."""


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
    get 401 without a known token. They get 421 for a foreign host, and 403 from a page of a foreign origin, which
    prevents DNS rebinding.

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
    # Clients before the protocol of 2026-07-28 get sessions: only there can they be asked, and cancel a call.
    manager = StreamableHTTPSessionManager(
        server, security_settings=_allowed(hosts, origins), session_idle_timeout=_SESSION_TIMEOUT_S
    )
    sessions = BoundedSessions(manager, most_sessions)
    answers = _Turns(JsonAnswers(sessions))
    guarded = RequireAuthMiddleware(_Profiled(answers, profiles, only), [])
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


def _allowed(hosts: Iterable[str], origins: Iterable[str]) -> TransportSecuritySettings:
    """Return the hosts and the origins that clients may use: those of this machine and the given ones, on any port."""
    known_hosts = [*_LOOPBACK, *hosts]
    pages = [f"http://{host}" for host in _LOOPBACK] + [f"https://{host}" for host in _LOOPBACK]
    return TransportSecuritySettings(
        allowed_hosts=[*known_hosts, *(f"{host}:*" for host in known_hosts)],
        allowed_origins=[*origins, *pages, *(f"{page}:*" for page in pages)],
    )


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(ready: Callable[[], Coroutine[Any, Any, bool]] | None, _: Request) -> Response:
    is_ready = ready is None or await ready()
    if is_ready:
        return PlainTextResponse("ready\n")
    return PlainTextResponse("not ready\n", HTTPStatus.SERVICE_UNAVAILABLE)


class _Profiled:
    """The endpoint that confines requests to the profile of their token, or of the server.

    Clients cannot choose another profile.
    """

    def __init__(self, endpoint: Any, profiles: Callable[[], Collection[str]], only: str) -> None:
        self._endpoint = endpoint
        self._profiles = profiles
        self._only = only

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        of_path = scope.get("path_params", {}).get("profile", "")
        of_token = scope["user"].access_token.claims["profile"]
        endpoint = self._endpoint
        if len({of_path, of_token, self._only} - {""}) > 1:
            endpoint = PlainTextResponse(
                "this token has no access to this profile: use the address of the token's own profile",
                HTTPStatus.FORBIDDEN,
            )
        elif of_path and of_path not in self._profiles():
            endpoint = PlainTextResponse(
                f"unknown profile {of_path!r:.80}: check the address", HTTPStatus.NOT_FOUND
            )
        await endpoint(scope, receive, send)


class _Turns:
    """The endpoint. The requests of one tenant begin one after the other, in every second turn of the event loop.

    Otherwise another tenant's request would wait for all requests that a tenant sends at once.
    """

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint
        self._beginning = WeakValueDictionary[str, asyncio.Lock]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        tenant = scope["user"].access_token.client_id
        async with self._beginning.setdefault(tenant, asyncio.Lock()):
            await asyncio.sleep(0)  # One turn. The next request takes the lock one turn later.
        await self._endpoint(scope, receive, send)


async def serve_http(
    app: Any,
    host: str,
    port: int,
    started: Callable[[str], None],
    stop: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    path: str = PATH,
) -> None:
    """Serve until a signal arrives. Requests in progress then have a limited time to finish.

    Args:
        app: The ASGI app.
        host: The address to listen on.
        port: The port, or 0 for any free port.
        started: Receives the URL.
        stop: Ends the requests in progress after this time. Default: they end by themselves.
        path: The path of the endpoint in the URL.
    """
    listening = _listen(host, port)

    class Stoppable(uvicorn.Server):
        def capture_signals(self) -> Any:
            # uvicorn's own handlers raise the signal again afterwards, before anything else is closed.
            return contextlib.nullcontext()

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listening.listen(_BACKLOG)
            address = f"[{host}]" if ":" in host else host
            started(f"http://{address}:{listening.getsockname()[1]}{path}")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Beside uvicorn's own shutdown, which waits for the requests that this ends.
            stopping = asyncio.create_task(stop(_GRACE_S))
            await super().shutdown(sockets)
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    config = uvicorn.Config(
        close_refused(app),
        access_log=False,
        timeout_graceful_shutdown=round(2 * _GRACE_S),
        **uvicorn_settings(),
    )
    server = Stoppable(config)
    on_signals(lambda: setattr(server, "should_exit", True))
    with contextlib.closing(listening), log_rate_limit():
        # A Ctrl-C that came before ends it here, not in the midst of uvicorn's start.
        await asyncio.sleep(0)
        await server.serve([listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if not host.strip().encode("idna"):  # A blank one would be all interfaces.
            raise UnicodeError
        return socket.create_server((host, port), family=family)
    except UnicodeError:
        raise InvalidConfig(
            f"--host {host!r} is not an address: give 127.0.0.1, or 0.0.0.0 for all interfaces"
        ) from None
    except OSError as error:
        # Python adds the address, which stands here.
        why, _, _ = (error.strerror or str(error)).partition(" (while")
        is_taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        remedy = (
            "give another --port, or --port 0 for any free one"
            if is_taken
            else "give another --host"
        )
        raise InvalidConfig(f"cannot listen on {host}:{port} ({why}): {remedy}") from None
