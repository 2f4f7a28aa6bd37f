"""The MCP library's OAuth client, for one sign-in or one renewal of toolroute."""

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import is_valid_client_metadata_url, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
    TokenEndpointAuthMethod,
)
from pydantic import AnyUrl, BaseModel

from orchestrator.common.bounded_http import AsyncBoundedClient
from orchestrator.errors import InvalidConfig, ServerUnavailable, Unauthorised
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.mcp.signin.addresses import refuse_link_local
from orchestrator.mcp.signin.files import SignIn
from orchestrator.mcp.transports.http_client import json_text
from orchestrator.options import CLIENT_METADATA_URL

MOST_BYTES = 2**20
"""The maximum size of an answer of an authorization server, after unpacking, in bytes."""
_REQUEST_S = 10.0
"""Seconds for an authorization server to answer."""
_TIMEOUT = httpx2.Timeout(_REQUEST_S).as_dict()


class NoStorage:
    """Keeps nothing by itself: a sign-in is written when it is whole, and a worker's token stays in memory."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None: ...

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None: ...


class FixedScopes(OAuthClientMetadata):
    """Client metadata that keeps its scopes. Only if it has no scopes, it takes the scopes that the server proposes."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "scope" or not self.scope:
            super().__setattr__(name, value)


class SignInProvider(OAuthClientProvider):
    """The library's client for one sign-in or one renewal.

    Args:
        spec: The server's entry.
        launch: The entry with its variables replaced.
        redirect: The address to which the browser returns.
        show: Shows the link to a person.
        wait: Waits for the browser to return.
        former: The sign-in that the new one replaces.

    Attributes:
        address: The address of the last request, without its query.
    """

    def __init__(
        self,
        spec: ServerSpec,
        launch: Launch,
        redirect: str = "http://localhost/callback",
        show: Callable[[str], Awaitable[None]] | None = None,
        wait: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
        former: SignIn | None = None,
    ) -> None:
        addresses = [AnyUrl(redirect)]
        metadata = FixedScopes(
            client_name="toolroute",
            redirect_uris=addresses,
            token_endpoint_auth_method="none",  # noqa: S106
            scope=_scopes(spec, former),
        )
        metadata_url = client_metadata_url(spec, launch)
        self._configured = None if metadata_url else _configured_client(launch, addresses)
        self.address = launch.url
        super().__init__(
            launch.url, metadata, NoStorage(self._configured), show, wait, metadata_url
        )

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sign in also where the server has answered a first message without: some ask only at a tool's call."""
        flow = super().async_auth_flow(request)
        outgoing = await anext(flow)
        try:
            while True:
                if outgoing is not request:
                    await refuse_link_local(outgoing.url)
                outgoing.extensions.setdefault("timeout", _TIMEOUT)
                self.address = str(outgoing.url.copy_with(query=None))
                response = yield outgoing
                if outgoing is not request:
                    # The MCP server itself never gets the client's secret.
                    again = await with_other_method(self.context, outgoing, response)
                    if again is not None:
                        response = yield again
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
        if self._configured is not None and self._configured.client_secret:
            methods = (server and server.token_endpoint_auth_methods_supported) or []
            if "client_secret_post" in methods and "client_secret_basic" not in methods:
                self._configured.token_endpoint_auth_method = "client_secret_post"  # noqa: S105
        return await super()._perform_authorization()

    @property
    def takes_metadata_document(self) -> bool:
        """True if the authorization server accepts the address of a client metadata document."""
        server = self.context.oauth_metadata
        return server is not None and bool(server.client_id_metadata_document_supported)

    def sign_in(self) -> SignIn:
        """Return the sign-in in its stored form. A client secret from the entry is not stored."""
        context = self.context
        token = context.current_tokens
        client = context.client_info
        if token is None or client is None:
            raise Unauthorised("it returned no token")
        # The entry has it, and may get it from a variable that no file should repeat.
        secret = {"client_secret"} if self._configured is not None else set[str]()
        return SignIn(
            token=token.model_dump(mode="json", exclude_none=True),
            client=client.model_dump(mode="json", exclude_none=True, exclude=secret),
            server=_plain(context.oauth_metadata),
            resource=_plain(context.protected_resource_metadata),
            expires_at=None if token.expires_in is None else time.time() + token.expires_in,
        )

    def take(self, sign_in: SignIn) -> None:
        """Continue a stored sign-in with its own authorization server, without a new discovery."""
        context = self.context
        context.current_tokens = OAuthToken.model_validate(sign_in.token)
        context.client_info = OAuthClientInformationFull.model_validate(sign_in.client)
        if self._configured is not None:
            context.client_info.client_secret = self._configured.client_secret
        context.oauth_metadata = (
            OAuthMetadata.model_validate(sign_in.server) if sign_in.server else None
        )
        if sign_in.resource:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(
                sign_in.resource
            )

    async def renewed(self, sign_in: SignIn) -> SignIn | None:
        """Return the sign-in with a new token, or None if the server requires a person again."""
        self.take(sign_in)
        response = await send_bounded(await self._refresh_token())
        if response.status_code in (400, 401) and json_text(response.content, "error"):
            return None
        if response.status_code != 200 or not await self._handle_refresh_response(response):
            raise ServerUnavailable(
                f"the sign-in could not be renewed: HTTP {response.status_code}; try again"
            )
        return self.sign_in()

    async def revoke(self, sign_in: SignIn) -> None:
        """Ask the authorization server to forget the tokens, where it takes that."""
        self.take(sign_in)
        server = self.context.oauth_metadata
        if server is None or server.revocation_endpoint is None or self.context.client_info is None:
            return
        token = sign_in.token.get("refresh_token") or sign_in.token["access_token"]
        data = {"token": token, "client_id": self.context.client_info.client_id}
        data, headers = self.context.prepare_token_auth(data, {})
        if not headers:
            # Servers on the library want the name, also of a client without one.
            data.setdefault("client_secret", "")
        response = await send_bounded(
            httpx2.Request("POST", str(server.revocation_endpoint), data=data, headers=headers)
        )
        if not response.is_success:
            raise ServerUnavailable(
                f"{server.revocation_endpoint} answered HTTP {response.status_code}"
            )


_OTHER_METHOD: dict[str | None, TokenEndpointAuthMethod] = {
    "client_secret_basic": "client_secret_post",
    "client_secret_post": "client_secret_basic",
}


async def with_other_method(
    context: OAuthContext, request: httpx2.Request, response: httpx2.Response
) -> httpx2.Request | None:
    """Return a refused request to an authorization server with the client's secret in another form.

    A server may accept a registered client by one method only, and its metadata does not say by which. A server for
    clients with a secret registers no public client.

    Args:
        context: The state of the sign-in, which keeps the other method.
        request: The request.
        response: Its answer.

    Returns:
        The request to send instead, or None if another form cannot help.
    """
    if response.status_code not in (400, 401) or request.method != "POST":
        return None
    await response.aread()
    error = json_text(response.content, "error")
    client = context.client_info
    if error == "invalid_client_metadata" and client is None:
        body = json.loads(request.content) | {"token_endpoint_auth_method": "client_secret_post"}
        return httpx2.Request("POST", request.url, json=body)
    if error != "invalid_client" or client is None:
        return None
    method = client.token_endpoint_auth_method
    if method not in _OTHER_METHOD or not client.client_secret:
        return None
    client.token_endpoint_auth_method = _OTHER_METHOD[method]
    data = dict(parse_qsl(request.content.decode()))
    data.pop("client_secret", None)
    data, headers = context.prepare_token_auth(data, {})
    return httpx2.Request("POST", request.url, data=data, headers=headers)


def client_metadata_url(spec: ServerSpec, launch: Launch) -> str | None:
    """Return the address of the client metadata document. Raises InvalidConfig if it cannot be one."""
    client_id = launch.oauth.client_id
    if client_id.startswith("https://"):
        url, name = client_id, f"server {spec.name!r}: oauth.clientId"
    elif not client_id and launch.client_metadata_url:
        url, name = launch.client_metadata_url, CLIENT_METADATA_URL
    else:
        return None
    if not is_valid_client_metadata_url(url):
        raise InvalidConfig(
            f"{name} is {url!r}: give the https address of a client metadata document, with a path"
        )
    return url


async def send_bounded(request: httpx2.Request) -> httpx2.Response:
    """Send a request to an authorization server, within limits of time and size."""
    await refuse_link_local(request.url)
    request.extensions.setdefault("timeout", _TIMEOUT)
    try:
        async with AsyncBoundedClient(most_bytes=MOST_BYTES) as client:
            return await client.send(request)
    except httpx2.HTTPError as error:
        why = str(error) or type(error).__name__
        raise ServerUnavailable(
            f"the authorization server {request.url.host} cannot be reached ({why})"
        ) from None


def _scopes(spec: ServerSpec, former: SignIn | None) -> str | None:
    """Return the scopes to ask for, or None to ask for the scopes that the server names.

    A server that asked for a further scope gets it together with the former ones: a new token replaces the old one.
    """
    scopes = " ".join(spec.oauth.scopes) or None
    if former is None or not former.further_scope:
        return scopes
    return union_scopes(union_scopes(scopes, former.token.get("scope")), former.further_scope)


def _configured_client(
    launch: Launch, redirects: list[AnyUrl]
) -> OAuthClientInformationFull | None:
    if not launch.oauth.client_id:
        return None
    secret = launch.oauth.client_secret or None
    return OAuthClientInformationFull(
        client_id=launch.oauth.client_id,
        client_secret=secret,
        redirect_uris=redirects,
        token_endpoint_auth_method="client_secret_basic" if secret else "none",
    )


def _plain(model: BaseModel | None) -> dict[str, Any] | None:
    return model.model_dump(mode="json", exclude_none=True) if model else None
