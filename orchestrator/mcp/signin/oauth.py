"""Sign-in to HTTP servers (OAuth 2.1) with the MCP library's client: once in a browser, later with stored tokens.

The library handles discovery, client registration, PKCE and the token exchange. It does not keep the token endpoint or
the expiry time, and it would open a browser in the middle of a call. Therefore a stored sign-in includes both, and
calls only use a stored sign-in.
"""

import asyncio
import html
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel

from orchestrator.common.bounded_http import ACCEPTED, AsyncBoundedClient, limit_async
from orchestrator.errors import InvalidConfig, ServerUnavailable, ToolrouteError, Unauthorised
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.mcp.signin.files import SignIn, SignInFile

_REQUEST_S = 10.0
"""Seconds for an authorization server to answer."""
_SERVERS_S = 60.0
"""Seconds for all answers of the servers of one sign-in."""
_PERSON_S = 900.0
"""Seconds for a person to sign in."""
_MOST_BYTES = 2**20
"""The maximum size of an answer of an authorization server, after unpacking, in bytes."""
_TIMEOUT = httpx2.Timeout(_REQUEST_S).as_dict()
_ACCEPT = {"accept": "application/json, text/event-stream"}
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "toolroute", "version": "1"},
    },
}


class SignedIn(httpx2.Auth):
    """Sends the token of a kept sign-in with each request, and renews it.

    It asks nobody anything. Without a token that is valid the request goes without one, and the server's refusal
    becomes an error that names the command to sign in.
    """

    def __init__(self, tenant: str, spec: ServerSpec, launch: Launch) -> None:
        self._file, self._spec, self._launch = SignInFile(tenant, spec, launch), spec, launch
        self._lock = anyio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        try:
            kept = self._file.read()  # Each time: another process signs in, out, and renews.
            # Otherwise the server reports when it has ended.
            if kept is not None and kept.expired and kept.renewable:
                kept = await self._renewed(kept)
            response = yield self._signed(request, kept)
            if response.status_code == 401 and kept is not None:
                newer = await self._renewed(kept)
                if newer is not None:
                    yield self._signed(request, newer)
        except ToolrouteError as error:
            raise httpx2.ConnectError(str(error), request=request) from None  # Nothing was sent.

    def _signed(self, request: httpx2.Request, kept: SignIn | None) -> httpx2.Request:
        if kept is not None:
            _check_hidden(self._spec, self._launch)
            self._launch.secrets.add(kept.secrets)
            request.headers["authorization"] = f"Bearer {kept.token['access_token']}"
        return request

    async def _renewed(self, kept: SignIn) -> SignIn | None:
        """Return the sign-in with a newer token, or None if only a person can get one.

        Only one process renews at a time, and it first checks whether another process has renewed, because a renewal
        may invalidate earlier tokens. A renewal is not cancelled, because its response has the only token for the next
        renewal.
        """
        newer: SignIn | None = None
        with anyio.CancelScope(shield=True):
            async with self._lock, self._file.locked():
                newer = self._file.read()
                if newer is not None and newer.token == kept.token:
                    newer = (
                        await _Provider(self._spec, self._launch).renewed(kept)
                        if kept.renewable
                        else None
                    )
                    if newer is None:
                        self._file.remove()
                    else:
                        self._launch.secrets.add(newer.secrets)
                        self._file.write(newer)
        return newer


class _Metadata(OAuthClientMetadata):
    """The client metadata for registration. The scopes of an entry are kept, whatever the server proposes."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "scope" or not self.scope:
            super().__setattr__(name, value)


class _Memory:
    """Keeps nothing by itself: a sign-in is written when it is whole."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None: ...

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None: ...


class _Provider(OAuthClientProvider):
    """The library's client for one sign-in or one renewal."""

    def __init__(
        self,
        spec: ServerSpec,
        launch: Launch,
        redirect: str = "http://localhost/callback",
        show: Callable[[str], Awaitable[None]] | None = None,
        wait: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
    ) -> None:
        addresses = [AnyUrl(redirect)]
        metadata = _Metadata(
            client_name="toolroute",
            redirect_uris=addresses,
            token_endpoint_auth_method="none",  # noqa: S106
            scope=" ".join(spec.oauth.scopes) or None,
        )
        client = None
        if launch.client_id:
            secret = launch.client_secret or None
            client = OAuthClientInformationFull(
                client_id=launch.client_id,
                client_secret=secret,
                redirect_uris=addresses,
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
            )
        super().__init__(launch.url, metadata, _Memory(client), show, wait)
        self._given = client

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sign in also where the server has answered a first message without: some ask only at a tool's call."""
        flow = super().async_auth_flow(request)
        outgoing = await anext(flow)
        try:
            while True:
                outgoing.extensions.setdefault("timeout", _TIMEOUT)
                response = yield outgoing
                open_to_all = (
                    outgoing is request
                    and self.context.current_tokens is None
                    and response.status_code < 400
                )
                if open_to_all and request.method == "POST":
                    response = httpx2.Response(401, request=request)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _perform_authorization(self) -> httpx2.Request:
        server = self.context.oauth_metadata
        if self._given is not None and self._given.client_secret:
            methods = (server and server.token_endpoint_auth_methods_supported) or []
            if "client_secret_post" in methods and "client_secret_basic" not in methods:
                self._given.token_endpoint_auth_method = "client_secret_post"  # noqa: S105
        return await super()._perform_authorization()

    def kept(self) -> SignIn:
        """Return the sign-in in its stored form. A client secret from the entry is not stored."""
        context, token, client = self.context, self.context.current_tokens, self.context.client_info
        if token is None or client is None:
            raise Unauthorised("it returned no token")
        secret = {"client_secret"} if self._given is not None else set[str]()
        return SignIn(
            token=token.model_dump(mode="json", exclude_none=True),
            client=client.model_dump(mode="json", exclude_none=True, exclude=secret),
            server=_plain(context.oauth_metadata),
            resource=_plain(context.protected_resource_metadata),
            expires_at=None if token.expires_in is None else time.time() + token.expires_in,
        )

    def take(self, kept: SignIn) -> None:
        """Continue a stored sign-in with its own authorization server, without a new discovery."""
        context = self.context
        context.current_tokens = OAuthToken.model_validate(kept.token)
        context.client_info = OAuthClientInformationFull.model_validate(kept.client)
        if self._given is not None:
            context.client_info.client_secret = self._given.client_secret
        context.oauth_metadata = OAuthMetadata.model_validate(kept.server) if kept.server else None
        if kept.resource:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                kept.resource
            )

    async def renewed(self, kept: SignIn) -> SignIn | None:
        """Return the sign-in with a new token, or None if the server requires a person again."""
        self.take(kept)
        response = await _sent(await self._refresh_token())
        if response.status_code in (400, 401) and _error_of(response):
            return None
        if response.status_code != 200 or not await self._handle_refresh_response(response):
            raise ServerUnavailable(
                f"the sign-in could not be renewed: HTTP {response.status_code}; try again"
            )
        return self.kept()

    async def revoke(self, kept: SignIn) -> None:
        """Ask the authorization server to forget the tokens, where it takes that."""
        self.take(kept)
        server = self.context.oauth_metadata
        if server is None or server.revocation_endpoint is None or self.context.client_info is None:
            return
        token = kept.token.get("refresh_token") or kept.token["access_token"]
        data = {"token": token, "client_id": self.context.client_info.client_id}
        data, headers = self.context.prepare_token_auth(data, {})
        if not headers:
            # Servers on the library want the name, also of a client without one.
            data.setdefault("client_secret", "")
        response = await _sent(
            httpx2.Request("POST", str(server.revocation_endpoint), data=data, headers=headers)
        )
        if not response.is_success:
            raise ServerUnavailable(
                f"{server.revocation_endpoint} answered HTTP {response.status_code}"
            )


def _check_hidden(spec: ServerSpec, launch: Launch) -> None:
    """Raise InvalidConfig if a token would be sent unencrypted. OAuth 2.1 and MCP forbid that."""
    if launch.in_clear:
        raise InvalidConfig(
            f"server {spec.name!r}: its url begins with http://, so others on the network could read the token of a "
            "sign-in: write https://, or reach it through a tunnel at http://localhost"
        )


async def _sent(request: httpx2.Request) -> httpx2.Response:
    request.extensions.setdefault("timeout", _TIMEOUT)
    try:
        async with AsyncBoundedClient(most_bytes=_MOST_BYTES) as client:
            return await client.send(request)
    except httpx2.HTTPError as error:
        why = str(error) or type(error).__name__
        raise ServerUnavailable(
            f"the authorization server {request.url.host} cannot be reached ({why})"
        ) from None


def _plain(model: BaseModel | None) -> dict[str, Any] | None:
    return model.model_dump(mode="json", exclude_none=True) if model else None


def _error_of(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, TypeError, KeyError):
        return ""


class Callback:
    """The loopback address that the browser returns to, and the parameters that it brings."""

    def __init__(self, server: str) -> None:
        self._server, self._state = server, ""
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.address = ""

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        try:
            server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        except OSError as error:
            raise ServerUnavailable(
                f"port {port} for the sign-in's redirect is not free ({error.strerror})"
            ) from None
        port = server.sockets[0].getsockname()[1]
        self.address = f"http://localhost:{port}/callback"
        async with server:
            with suppress(OSError):  # Where `localhost` means ::1 first.
                six = await asyncio.start_server(self._serve, "::1", port)
                async with six:
                    yield
                return
            yield

    def expect(self, link: str) -> None:
        self._state = parse_qs(urlsplit(link).query)["state"][0]

    async def wait(self) -> AuthorizationCodeResult:
        try:
            async with asyncio.timeout(_PERSON_S):
                got = await self._answer
        except TimeoutError:
            raise Unauthorised(f"nobody signed in within {_PERSON_S / 60:g} minutes") from None
        if "error" in got:
            said = ": ".join(filter(None, (got["error"], got.get("error_description", ""))))
            raise Unauthorised(f"it was refused ({' '.join(said.split())[:200]})")
        return AuthorizationCodeResult(
            code=got.get("code", ""), state=got.get("state"), iss=got.get("iss")
        )

    def take(self, address: str) -> str:
        """Accept the address that the browser was sent to. Returns the text to show, or "" if it belongs to another
        sign-in.
        """
        parts = urlsplit(address.strip())
        got = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != "/callback" or not self._state or got.get("state") != self._state:
            return ""
        if not self._answer.done():
            self._answer.set_result(got)
        if "error" in got:
            return f"{self._server} sign-in failed ({got['error']})."
        return f"toolroute continues in the terminal and shows there whether it can use {self._server}."

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                line = (await reader.readline()).split(b" ")
                while (await reader.readline()).strip():
                    pass
                said = (
                    self.take(line[1].decode("latin-1"))
                    if len(line) > 1 and line[0] == b"GET"
                    else ""
                )
                status = "200 OK" if said else "400 Bad Request"
                text = html.escape(said or "toolroute is not waiting for this sign-in.")
                title = "<!doctype html><meta charset=utf-8><title>toolroute</title>"
                page = f"{title}<h1>{text}</h1><p>Close this window."
                head = "content-type: text/html; charset=utf-8\r\nreferrer-policy: no-referrer\r\nconnection: close"
                writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n\r\n{page}".encode())
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass
        finally:
            writer.close()


async def login(
    tenant: str,
    spec: ServerSpec,
    launch: Launch,
    show: Callable[[str, Callable[[str], str]], Awaitable[None]],
) -> SignIn:
    """Sign a tenant in to a server and store the sign-in.

    Args:
        tenant: The tenant whose calls use the sign-in.
        spec: The server's entry.
        launch: The entry with its variables replaced.
        show: Shows the link to a person. It also receives a function that accepts the browser's final address, for
            a browser on another machine.

    Raises:
        Unauthorised: The sign-in was refused, or the server offers none.
        ServerUnavailable: A server did not answer.
        InvalidConfig: The server's address is plain HTTP on another machine.
    """
    _check_hidden(spec, launch)
    callback = Callback(spec.name)
    # Its messages are raised as errors, too.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

    async def ask(link: str) -> None:
        callback.expect(link)
        limit.reschedule(asyncio.get_running_loop().time() + _PERSON_S + _SERVERS_S)
        await show(link, callback.take)

    # Outside of the wait for a person, the servers have a time for all their answers: each may send a byte at a time.
    limit = asyncio.timeout(_SERVERS_S)
    async with _reported(spec, limit), callback.listening(spec.oauth.callback_port):
        provider = _Provider(spec, launch, callback.address, ask, callback.wait)
        try:
            status = await _status(spec, launch, provider)
            if provider.context.current_tokens is None:
                raise Unauthorised(f"it asked for no sign-in (HTTP {status})")
            kept = provider.kept()
        except Unauthorised as error:
            raise Unauthorised(f"server {spec.name!r}: {error}") from None
        except httpx2.HTTPError as error:
            why = launch.secrets.redact(str(error) or type(error).__name__)
            raise ServerUnavailable(
                f"server {spec.name!r}: sign-in failed, because one of its servers failed: {why}"
            ) from None
        except (OAuthFlowError, ValueError) as error:
            raise _failed(spec, launch, error) from None
    if status in (401, 403):
        raise Unauthorised(
            f"server {spec.name!r} refused the token of its own authorization server (HTTP {status})"
        )
    SignInFile(tenant, spec, launch).write(kept)
    return kept


@asynccontextmanager
async def _reported(spec: ServerSpec, limit: asyncio.Timeout) -> AsyncIterator[None]:
    """Raise ServerUnavailable when the time is over."""
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise ServerUnavailable(
            f"server {spec.name!r}: sign-in failed: its servers took too long to answer"
        ) from None


async def _status(spec: ServerSpec, launch: Launch, provider: _Provider) -> int:
    """Send a first message with the sign-in and return the HTTP status."""
    headers = {**launch.headers, **_ACCEPT, **ACCEPTED}
    method, message = ("GET", None) if spec.transport == "sse" else ("POST", _HELLO)
    async with (
        httpx2.AsyncClient(
            headers=headers, auth=provider, event_hooks={"response": [limit_async(_MOST_BYTES)]}
        ) as client,
        client.stream(method, launch.url, json=message) as response,
    ):
        return response.status_code


def _failed(spec: ServerSpec, launch: Launch, error: Exception) -> Unauthorised:
    said = " ".join(launch.secrets.redact(str(error)).split())[:300]
    if isinstance(error, OAuthRegistrationError):
        said += (
            ". If it offers a sign-in, register a client with its operator, with the redirect "
            'http://localhost:PORT/callback, and write "oauth": {"clientId": "...", "callbackPort": PORT} into the '
            'entry. If it wants a token, write that into "headers"'
        )
    return Unauthorised(f"server {spec.name!r}: sign-in failed: {said}")


async def logout(tenant: str, spec: ServerSpec, launch: Launch) -> str:
    """Delete a sign-in here and revoke it at the authorization server, if that supports revocation.

    Args:
        tenant: The tenant that is signed in.
        spec: The server's entry.
        launch: The entry with its variables replaced.

    Returns:
        The reason why revocation failed, or "".
    """
    file = SignInFile(tenant, spec, launch)
    async with file.locked():
        kept = file.read()
        file.remove()
    try:
        if kept is not None:
            await _Provider(spec, launch).revoke(kept)
    except ToolrouteError as error:
        return str(error)
    return ""
