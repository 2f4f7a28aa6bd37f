"""What the authorization server of `signing.py` takes beyond the `mcp` package: metadata documents, workers, scopes.

The package's server knows sign-ins in a browser and the ID-JAG grant. Client credentials are answered here. The
identity provider of the company is at /idp/token.
"""

import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mcp.server.auth.provider import IdentityAssertionParams, RefreshToken, TokenError
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.servers.signing import Accounts
from tests.servers.start import free_port

DOCUMENT = "https://acme.example/toolroute.json"
"""The address of the metadata document that this authorization server knows."""
IDENTITY_TOKEN = "token-of-the-workers-identity"
_IDP_KEY = "the key of the company's identity provider"
KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@dataclass
class WorkerAccounts(Accounts):
    """Knows a worker, by a secret, a key or an ID-JAG, and a client metadata document."""

    has_notes: bool = True
    forms: list[dict[str, str]] = field(default_factory=list)
    callback_port: int = field(default_factory=free_port)
    expects_identity: str = IDENTITY_TOKEN

    def __post_init__(self) -> None:
        self.clients["worker"] = OAuthClientInformationFull(
            client_id="worker",
            client_secret="worker-secret",
            redirect_uris=None,
            grant_types=["client_credentials", JWT_BEARER_GRANT_TYPE],
            token_endpoint_auth_method="client_secret_basic",
        )

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        if client_id != DOCUMENT:
            return await super().get_client(client_id)
        # The document lists the redirect of the entry's `callbackPort`.
        redirect = f"http://localhost:{self.callback_port}/callback"
        document = {"client_id": DOCUMENT, "redirect_uris": [redirect], "scope": "read write"}
        return OAuthClientInformationFull.model_validate(document | {"token_endpoint_auth_method": "none"})

    async def exchange_identity_assertion(self, client: Any, params: IdentityAssertionParams) -> OAuthToken:
        try:
            claims = jwt.decode(params.assertion, _IDP_KEY, ["HS256"], options={"verify_aud": False})
        except jwt.PyJWTError as error:
            raise TokenError("invalid_grant", str(error)) from None
        return self.token_of(claims["sub"], params.scopes or ["read"], params.resource)

    def token_of(self, subject: str, scopes: list[str], resource: str | None) -> OAuthToken:
        grant = RefreshToken(token="", client_id="worker", scopes=scopes, resource=resource, subject=subject)
        return self._token(grant).model_copy(update={"refresh_token": None})


class Front:
    """The app of `signing.py` behind the further endpoints, and behind a scope that `erase` needs."""

    def __init__(self, app: ASGIApp, accounts: WorkerAccounts, web: str) -> None:
        self._app = app
        self._accounts = accounts
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope, receive)
        body = await request.body()
        response = await self._answer(request, body)
        if response is not None:
            return await response(scope, receive, send)
        has_given = False

        async def again() -> Any:
            nonlocal has_given
            if has_given:
                return await receive()
            has_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return await self._app(scope, again, send)

    async def _answer(self, request: Request, body: bytes) -> Response | None:
        if request.url.path == "/idp/token":
            return await self._id_jag(request)
        if request.url.path == "/token":
            form = {name: str(value) for name, value in (await request.form()).items()}
            self._accounts.forms.append(form)
            if form["grant_type"] == "client_credentials":
                return await self._client_credentials(request, form)
        if request.url.path == "/mcp" and b'"erase"' in body:
            return self._scope_refusal(request)
        return None

    def _scope_refusal(self, request: Request) -> Response | None:
        token = self._accounts.access.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if token is None or "write" in token.scopes:
            return None
        challenge = 'Bearer error="insufficient_scope", scope="write"'
        return Response(status_code=403, headers={"www-authenticate": challenge})

    async def _client_credentials(self, request: Request, form: dict[str, str]) -> Response:
        if "client_assertion" in form:
            claims = jwt.decode(form["client_assertion"], KEY.public_key(), ["ES256"], audience=f"{self._web}/")
            client_id = claims["sub"]
        else:
            given = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
            client_id, _, secret = given.partition(":")
            if secret != self._accounts.clients[client_id].client_secret:
                return JSONResponse({"error": "invalid_client"}, 401)
        token = self._accounts.token_of(client_id, form.get("scope", "read").split(), form.get("resource"))
        return JSONResponse(token.model_dump(mode="json", exclude_none=True))

    async def _id_jag(self, request: Request) -> Response:
        form = await request.form()
        if form["subject_token"] != self._accounts.expects_identity:
            return JSONResponse({"error": "invalid_grant", "error_description": "unknown identity"}, 400)
        claims = {"sub": "robot", "aud": form["audience"], "resource": form["resource"], "exp": time.time() + 60}
        assertion = jwt.encode(claims, _IDP_KEY, "HS256", headers={"typ": "oauth-id-jag+jwt"})
        kind = "urn:ietf:params:oauth:token-type:id-jag"
        return JSONResponse({"access_token": assertion, "issued_token_type": kind, "token_type": "N_A"})


def with_metadata_documents(app: ASGIApp) -> ASGIApp:
    """Return the app with metadata that says `client_id_metadata_document_supported`."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def changed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [pair for pair in message["headers"] if pair[0] != b"content-length"]
            elif message.get("body"):
                document = json.loads(message["body"]) | {"client_id_metadata_document_supported": True}
                message["body"] = json.dumps(document).encode()
            await send(message)

        is_metadata = scope.get("path", "").startswith("/.well-known/oauth-authorization-server")
        await app(scope, receive, changed if is_metadata else send)

    return wrapped
