"""An MCP server that requires a sign-in, with its authorization server. Both are written with the `mcp` package.

Run: `python signing.py PORT [sse]`. The authorization link signs its reader in at once, as `user`.
"""

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.types import ASGIApp

from tests.loopback import served
from tests.servers.start import free_port


@dataclass
class Accounts(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Keeps clients and tokens in memory. A refresh token is valid once. A second use ends the whole sign-in."""

    user: str = "ada"
    refusal: str = ""
    issuer: str | None = None
    lifetime_s: int = 3600
    renewed: int = 0
    has_notes: bool = False
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    asked: list[AuthorizationParams] = field(default_factory=list)

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.asked.append(params)
        to, state = str(params.redirect_uri), params.state
        if self.refusal:
            return construct_redirect_uri(to, error=self.refusal, state=state)
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 300,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.user,
        )
        return construct_redirect_uri(to, code=code, state=state, iss=self.issuer)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._token(authorization_code)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        if self.refresh.pop(refresh_token.token, None) is None:
            self.refresh.clear()
            raise TokenError("invalid_grant", "used before")
        self.renewed += 1
        return self._token(refresh_token)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.clear()
        self.refresh.clear()

    def _token(self, grant: AuthorizationCode | RefreshToken) -> OAuthToken:
        token, next_one = f"access-{secrets.token_urlsafe(24)}", f"refresh-{secrets.token_urlsafe(24)}"
        same = {"client_id": grant.client_id, "scopes": grant.scopes, "resource": grant.resource}
        self.access[token] = AccessToken(token=token, subject=grant.subject, **same)
        self.refresh[next_one] = RefreshToken(token=next_one, subject=grant.subject, **same)
        return OAuthToken(access_token=token, expires_in=self.lifetime_s, refresh_token=next_one)


def app(accounts: Accounts, web: str, *, sse: bool = False, **settings: Any) -> Starlette:
    """Return the server of `accounts` at the address `web`, without a path. The MCP server is at /mcp, or at /sse."""
    auth = AuthSettings(
        **{
            "issuer_url": AnyHttpUrl(web),
            "resource_server_url": AnyHttpUrl(f"{web}/{'sse' if sse else 'mcp'}"),
            "client_registration_options": ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
            "revocation_options": RevocationOptions(enabled=True),
            "validate_token_resource": True,
            **settings,
        }
    )
    server = MCPServer("signing", auth=auth, auth_server_provider=accounts)

    @server.tool()
    def whoami() -> str:
        """Say who is signed in."""
        token = get_access_token()
        return str(token and token.subject)

    if accounts.has_notes:

        @server.tool()
        def erase() -> str:
            """Delete all notes."""
            return "erased"

    return server.sse_app() if sse else server.streamable_http_app()


@contextmanager
def signing(
    accounts: Accounts, *, sse: bool = False, behind: Callable[[ASGIApp, str], ASGIApp] | None = None, **settings: Any
) -> Iterator[str]:
    """The address of such a server that runs, without a path. `behind` puts something before it."""
    port = free_port()
    web = f"http://localhost:{port}"
    server: ASGIApp = app(accounts, web, sse=sse, **settings)
    with served(behind(server, web) if behind else server, port) as _:
        yield web


if __name__ == "__main__":
    port = int(sys.argv[1])
    uvicorn.run(app(Accounts(), f"http://localhost:{port}", sse="sse" in sys.argv), port=port, log_level="warning")
