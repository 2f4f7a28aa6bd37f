"""Sign-in to HTTP servers (OAuth 2.1) with the MCP library's client: once in a browser, later with stored tokens.

The library handles discovery, client registration, PKCE and the token exchange. It does not keep the token endpoint or
the expiry time, and it would open a browser in the middle of a call. Therefore a stored sign-in includes both, and
calls only use a stored sign-in.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError

from orchestrator.common.bounded_http import ACCEPTED, limit_async
from orchestrator.errors import InvalidConfig, ServerUnavailable, ToolrouteError, Unauthorised
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.mcp.signin.callback import PERSON_S, Callback
from orchestrator.mcp.signin.files import SignIn, SignInFile
from orchestrator.mcp.signin.provider import MOST_BYTES, SignInProvider
from orchestrator.mcp.signin.signed_in import require_encryption
from orchestrator.options import CLIENT_METADATA_URL

_SERVERS_S = 25.0
"""Seconds for all answers of the servers of one sign-in."""
_REGISTER = (
    ". If it offers a sign-in, register a client with its operator, with the redirect "
    'http://localhost:PORT/callback, and write "oauth": {"clientId": "...", "callbackPort": PORT} into the '
    'entry. If it wants a token, write that into "headers"'
)
_HOST_DOCUMENT = (
    ". It accepts a client metadata document instead: host one, and set "
    f"{CLIENT_METADATA_URL} to its https address"
)
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
    require_encryption(spec, launch)
    if launch.oauth.is_for_worker:
        raise InvalidConfig(
            f"server {spec.name!r}: toolroute signs in by itself there (grant {launch.oauth.grant!r}): "
            "call one of its tools"
        )
    file = SignInFile(tenant, spec, launch)
    callback = Callback(spec.name)
    # Its messages are raised as errors, too.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

    async def ask(link: str) -> None:
        callback.expect(link)
        limit.reschedule(asyncio.get_running_loop().time() + PERSON_S + _SERVERS_S)
        await show(link, callback.take)

    # Outside of the wait for a person, the servers have a time for all their answers: each may send a byte at a time.
    limit = asyncio.timeout(_SERVERS_S)
    async with _reported(spec, limit), callback.listening(spec.oauth.callback_port):
        provider = SignInProvider(
            spec, launch, callback.address, ask, callback.wait, former=_former(file)
        )
        with _errors_of(spec, launch, provider):
            status = await _status(spec, launch, provider)
            if provider.context.current_tokens is None:
                raise Unauthorised(f"it asked for no sign-in (HTTP {status})")
            sign_in = provider.sign_in()
    if status in (401, 403):
        raise Unauthorised(
            f"server {spec.name!r} refused the token of its own authorization server (HTTP {status})"
        )
    file.write(sign_in)
    return sign_in


def _former(file: SignInFile) -> SignIn | None:
    """Return the sign-in that is replaced, None if its file is broken."""
    try:
        return file.read()
    except InvalidConfig:
        return None


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


@contextmanager
def _errors_of(spec: ServerSpec, launch: Launch, provider: SignInProvider) -> Iterator[None]:
    """Raise the errors of a sign-in with the name of the server and without secrets."""
    try:
        yield
    except Unauthorised as error:
        raise Unauthorised(f"server {spec.name!r}: {error}") from None
    except httpx2.HTTPError as error:
        why = launch.secrets.redact(str(error) or type(error).__name__)
        raise ServerUnavailable(
            f"server {spec.name!r}: sign-in failed: {provider.address} cannot be reached ({why})"
        ) from None
    except (OAuthFlowError, ValueError) as error:
        raise _failed(spec, launch, provider, error) from None


async def _status(spec: ServerSpec, launch: Launch, provider: SignInProvider) -> int:
    """Send a first message with the sign-in and return the HTTP status."""
    headers = {**launch.headers, **_ACCEPT, **ACCEPTED}
    method, message = ("GET", None) if spec.transport == "sse" else ("POST", _HELLO)
    async with (
        httpx2.AsyncClient(
            headers=headers, auth=provider, event_hooks={"response": [limit_async(MOST_BYTES)]}
        ) as client,
        client.stream(method, launch.url, json=message) as response,
    ):
        return response.status_code


def _failed(
    spec: ServerSpec, launch: Launch, provider: SignInProvider, error: Exception
) -> Unauthorised:
    reason = " ".join(launch.secrets.redact(str(error)).split())[:300]
    remedy = ""
    if isinstance(error, OAuthRegistrationError):
        remedy = _REGISTER
        if provider.takes_metadata_document:
            remedy = _HOST_DOCUMENT
    return Unauthorised(
        f"server {spec.name!r}: sign-in failed at {provider.address}: {reason}{remedy}"
    )


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
        sign_in = file.read()
        file.remove()
    try:
        if sign_in is not None:
            await SignInProvider(spec, launch).revoke(sign_in)
    except ToolrouteError as error:
        return str(error)
    return ""
