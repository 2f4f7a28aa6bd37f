"""The token of a stored sign-in on each request to its server."""

from collections.abc import AsyncGenerator

import anyio
import httpx2
from mcp.client.auth.utils import union_scopes

from orchestrator.errors import InvalidConfig, ToolrouteError
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.mcp.signin.files import SignIn, SignInFile
from orchestrator.mcp.signin.provider import SignInProvider
from orchestrator.mcp.transports.http_client import further_scope


class SignedIn(httpx2.Auth):
    """Sends the token of a kept sign-in with each request, and renews it.

    It asks nobody anything. Without a token that is valid the request goes without one, and the server's refusal
    becomes an error that names the command to sign in.
    """

    def __init__(self, tenant: str, spec: ServerSpec, launch: Launch) -> None:
        self._file = SignInFile(tenant, spec, launch)
        self._spec = spec
        self._launch = launch
        self._lock = anyio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        try:
            sign_in = self._file.read()  # Each time: another process signs in, out, and renews.
            # Otherwise the server reports when it has ended.
            if sign_in is not None and sign_in.expired and sign_in.renewable:
                sign_in = await self._renewed(sign_in)
            response = yield self._signed(request, sign_in)
            if response.status_code == 401 and sign_in is not None:
                newer = await self._renewed(sign_in)
                if newer is not None:
                    response = yield self._signed(request, newer)
            await self._note_further_scope(response)
        except ToolrouteError as error:
            raise httpx2.ConnectError(str(error), request=request) from None  # Nothing was sent.

    async def _note_further_scope(self, response: httpx2.Response) -> None:
        """Remember a scope that the token lacks, so that the next sign-in asks for it."""
        scope = further_scope(response)
        if not scope:
            return
        async with self._file.locked():
            sign_in = self._file.read()
            if sign_in is not None:
                wanted = union_scopes(sign_in.further_scope, scope) or ""
                self._file.write(sign_in.model_copy(update={"further_scope": wanted}))

    def _signed(self, request: httpx2.Request, sign_in: SignIn | None) -> httpx2.Request:
        if sign_in is not None:
            require_encryption(self._spec, self._launch)
            self._launch.secrets.add(sign_in.secrets)
            request.headers["authorization"] = f"Bearer {sign_in.token['access_token']}"
        return request

    async def _renewed(self, sign_in: SignIn) -> SignIn | None:
        """Return the sign-in with a newer token, or None if only a person can get one.

        Only one process renews at a time, and it first checks whether another process has renewed, because a renewal
        may invalidate earlier tokens. A renewal is not cancelled, because its response has the only token for the next.
        """
        newer: SignIn | None = None
        with anyio.CancelScope(shield=True):
            async with self._lock, self._file.locked():
                newer = self._file.read()
                if newer is not None and newer.token == sign_in.token:
                    newer = await self._replaced(newer)
        return newer

    async def _replaced(self, sign_in: SignIn) -> SignIn | None:
        """Renew the sign-in in its file. A sign-in that only a person can renew is removed."""
        newer: SignIn | None = None
        if sign_in.renewable:
            newer = await SignInProvider(self._spec, self._launch).renewed(sign_in)
        if newer is None:
            self._file.remove()
            return None
        newer = newer.model_copy(update={"further_scope": sign_in.further_scope})
        self._launch.secrets.add(newer.secrets)
        self._file.write(newer)
        return newer


def require_encryption(spec: ServerSpec, launch: Launch) -> None:
    """Raise InvalidConfig if a token would be sent unencrypted. OAuth 2.1 and MCP forbid that."""
    if launch.in_clear:
        raise InvalidConfig(
            f"server {spec.name!r}: its url begins with http://, so others on the network could read the token of a "
            "sign-in: write https://, or reach it through a tunnel at http://localhost"
        )
