"""Who may come in over HTTP: known hosts and origins, and a bearer token that names the tenant."""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.catalogue.reading import read_json, why_unread
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.launch import environment
from orchestrator.records.tenant import is_tenant

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TENANT = "toolroute.tenant"
"""The key of the ASGI scope that holds the caller's tenant."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_SHORTEST = 16


class Tokens:
    """Bearer tokens and the tenant of each; kept as digests, compared in constant time."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._digests = [(_digest(token), tenant) for token, tenant in tokens.items()]

    @classmethod
    def read(cls, path: Path, environ: Mapping[str, str] | None = None) -> "Tokens":
        """From a JSON file, tenant to token or tokens: `{"org:42": "${ACME_TOKEN}", "user:7": ["...", "..."]}`."""
        try:
            value = read_json(path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfig(f"{path}: cannot be read ({why_unread(error)})") from None
        except ValueError as error:
            raise InvalidConfig(f"{path}: cannot be read as JSON ({error})") from None
        if not isinstance(value, dict) or not value:
            raise InvalidConfig(f'{path}: give an object of tenants and their tokens: {{"org:42": "${{ACME_TOKEN}}"}}')
        environ = environment() if environ is None else environ
        tokens: dict[str, str] = {}
        for tenant, given in value.items():
            for token in given if isinstance(given, list) else [given]:
                tokens[_checked(path, tenant, token, environ, tokens)] = tenant
        return cls(tokens)

    def tenant_of(self, authorization: str) -> str | None:
        """The tenant of an Authorization header, or None."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest, found = _digest(token.strip()), None
        for known, tenant in self._digests:
            if hmac.compare_digest(digest, known):
                found = tenant
        return found


def _checked(path: Path, tenant: str, given: Any, environ: Mapping[str, str], seen: Mapping[str, str]) -> str:
    if not is_tenant(tenant):
        raise InvalidConfig(f"{path}: tenant {tenant!r}: give org:ID or user:ID")
    if not isinstance(given, str):
        raise InvalidConfig(f"{path}: tenant {tenant!r}: a token is a text")
    token = given
    if match := re.fullmatch(r"\$\{(?:env:)?(\w+)\}", token):
        if match[1] not in environ:
            raise InvalidConfig(f"{path}: tenant {tenant!r}: {match[1]} is not set in the environment")
        token = environ[str(match[1])]
    if len(token) < _SHORTEST or not token.isascii() or token.split() != [token]:
        raise InvalidConfig(
            f"{path}: tenant {tenant!r}: a token has {_SHORTEST} or more ASCII characters and no blanks; "
            "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    if token in seen:
        raise InvalidConfig(f"{path}: {seen[token]!r} and {tenant!r} have the same token: give each its own")
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Door:
    """ASGI middleware: refuses foreign hosts (421) and origins (403) and unknown tokens (401); names the tenant.

    A browser that was led to a name resolving to this machine comes with that name as its host, and with a page's
    origin: neither is let in unless it was allowed.
    """

    def __init__(
        self, app: "ASGIApp", tokens: Tokens, hosts: Iterable[str] = LOOPBACK, origins: Iterable[str] = ()
    ) -> None:
        self._app, self._tokens = app, tokens
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower().rstrip("/") for origin in origins}

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
        tenant = self._tokens.tenant_of(headers.get("authorization", ""))
        if _name(host) not in self._hosts and host not in self._hosts:
            answer = PlainTextResponse("this host is not served here", 421)
        elif origin and origin not in self._origins and not self._own(origin):
            answer = PlainTextResponse("this origin is not allowed", 403)
        elif tenant is None:
            answer = PlainTextResponse("give a valid bearer token", 401, {"www-authenticate": "Bearer"})
        else:
            await self._app({**scope, TENANT: tenant}, receive, send)
            return
        await answer(scope, receive, send)

    def _own(self, origin: str) -> bool:
        """Whether the origin is a page of this machine itself."""
        scheme, _, host = origin.partition("://")
        return scheme in {"http", "https"} and _name(host) in LOOPBACK and _name(host) in self._hosts


def _name(host: str) -> str:
    """The host without its port."""
    return re.sub(r":\d+$", "", host)
