"""Sign-in without a person: a worker's own credentials, or its identity at the company's identity provider (ID-JAG).

    server                401, and the address of its authorization server
    identity provider     the worker's identity token -> an ID-JAG for this authorization server (RFC 8693)
    authorization server  the ID-JAG, or the client's secret or key -> an access token
    server                the same request with the token

The token stays in memory. A server that asks for a further scope gets a token with this scope, too.
"""

from collections.abc import AsyncGenerator

import anyio
import httpx2
import jwt
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import union_scopes

from orchestrator.errors import InvalidConfig, ToolrouteError, Unauthorised
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.oauth import IdentityProvider
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.mcp.signin.provider import (
    FixedScopes,
    NoStorage,
    send_bounded,
    with_other_method,
)
from orchestrator.mcp.signin.signed_in import require_encryption
from orchestrator.mcp.transports.http_client import (
    CredentialsRefused,
    further_scope,
    json_text,
)

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_Provider = (
    ClientCredentialsOAuthProvider | PrivateKeyJWTOAuthProvider | IdentityAssertionOAuthProvider
)


class WorkerAuth(httpx2.Auth):
    """Sends a worker's token with each request, and gets one when the server asks.

    The library's providers hold a lock during each request. Therefore they only get the token here, and the requests of
    one connection run at the same time.
    """

    def __init__(self, spec: ServerSpec, launch: Launch) -> None:
        self._spec = spec
        self._launch = launch
        self._authorization = ""
        self._lock = anyio.Lock()
        self._provider: _Provider | None = None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        authorization = self._authorization
        if authorization:
            request.headers["authorization"] = authorization
        response = yield request
        if response.status_code != 401 and not further_scope(response):
            return
        try:
            async with self._lock:
                # Otherwise another request has got a token meanwhile.
                if self._authorization == authorization:
                    self._authorization = await self._authorized(request, response)
        except (ToolrouteError, OAuthFlowError, jwt.PyJWTError, ValueError) as error:
            reason = self._launch.secrets.redact(str(error))
            raise CredentialsRefused(reason, request=request) from None
        request.headers["authorization"] = self._authorization
        yield request

    async def _authorized(self, request: httpx2.Request, response: httpx2.Response) -> str:
        """Return the header with a token, by answering the provider's own requests."""
        require_encryption(self._spec, self._launch)
        if self._provider is None:
            self._provider = _provider(self._spec, self._launch)
        if isinstance(self._provider, OAuthClientProvider):
            _fix_scopes(self._provider.context, further_scope(response))
        flow = self._provider.async_auth_flow(request)
        is_refused = False
        try:
            outgoing = await anext(flow)
            # The provider sends the request itself first, and again when it has a token for it.
            while outgoing is not request or not is_refused:
                if outgoing is request:
                    is_refused = True
                    answer = response
                else:
                    answer = await self._answer(outgoing)
                outgoing = await flow.asend(answer)
        finally:
            await flow.aclose()
        authorization: str = request.headers["authorization"]
        self._launch.secrets.add([authorization.removeprefix("Bearer ")])
        return authorization

    async def _answer(self, outgoing: httpx2.Request) -> httpx2.Response:
        answer = await send_bounded(outgoing)
        if not isinstance(self._provider, OAuthClientProvider):
            return answer
        again = await with_other_method(self._provider.context, outgoing, answer)
        return await send_bounded(again) if again else answer


def _fix_scopes(context: OAuthContext, further: str) -> None:
    """Have the provider ask for the present scopes and a further one: a refusal of a token would end the entry's."""
    metadata = context.client_metadata
    scope = union_scopes(metadata.scope, further)
    context.client_metadata = FixedScopes.model_validate(metadata.model_dump() | {"scope": scope})


def _provider(spec: ServerSpec, launch: Launch) -> _Provider:
    """Return the library's client for the entry's grant."""
    oauth = launch.oauth
    scope = " ".join(oauth.scopes) or None
    if oauth.grant == "jwt-bearer":
        return IdentityAssertionOAuthProvider(
            launch.url,
            NoStorage(),
            oauth.client_id,
            oauth.client_secret,
            oauth.issuer,
            _Assertions(spec),
            scope,
        )
    if oauth.private_key:
        key = SignedJWTParameters(
            issuer=oauth.client_id,
            subject=oauth.client_id,
            signing_key=oauth.private_key,
            signing_algorithm=oauth.signing_algorithm,
        )
        return PrivateKeyJWTOAuthProvider(
            launch.url,
            NoStorage(),
            oauth.client_id,
            key.create_assertion_provider(),
            scope,
            oauth.issuer,
        )
    return ClientCredentialsOAuthProvider(
        launch.url,
        NoStorage(),
        oauth.client_id,
        oauth.client_secret,
        scope=scope,
        issuer=oauth.issuer,
    )


class _Assertions:
    """Gets an ID-JAG from the identity provider of an entry."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec

    async def __call__(self, audience: str, resource: str) -> str:
        # The variables are replaced again, because an identity token in a file is renewed by others.
        identity = self._spec.launch().oauth.identity_provider
        if identity is None:
            raise InvalidConfig(f"server {self._spec.name!r}: oauth.identityProvider is missing")
        response = await send_bounded(_exchange(identity, audience, resource))
        assertion = json_text(response.content, "access_token")
        if assertion is None:
            raise Unauthorised(
                f"the identity provider {identity.token_endpoint} gave no ID-JAG "
                f"(HTTP {response.status_code}: {response.text[:200]})"
            )
        return assertion


def _exchange(identity: IdentityProvider, audience: str, resource: str) -> httpx2.Request:
    form = {
        "grant_type": _TOKEN_EXCHANGE,
        "requested_token_type": _ID_JAG,
        "audience": audience,
        "resource": resource,
        "subject_token": identity.subject_token,
        "subject_token_type": identity.subject_token_type,
        "client_id": identity.client_id,
    }
    if identity.client_secret:
        form["client_secret"] = identity.client_secret
    return httpx2.Request("POST", identity.token_endpoint, data=form)
