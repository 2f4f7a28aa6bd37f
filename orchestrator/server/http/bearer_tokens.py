"""The bearer tokens of `toolroute serve --transport http`: their tenants, profiles and limits.

{"org:42": "${ACME_TOKEN}",
 "user:7": ["...", {"token": "...", "profile": "support", "calls_per_minute": 60}]}
"""

import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from mcp.server.auth.provider import AccessToken
from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from orchestrator.common.json_input import first_problem, read_json, reading
from orchestrator.common.regular import MOST_SETTINGS_BYTES, read_text
from orchestrator.common.tenant import is_tenant
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.launch import Expansion, environment

_MIN_LENGTH = 16
"""A shorter token can be guessed by trying."""

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

    Args:
        tokens: The tenant of each token.
        lasting: True if a token identifies the same person after a restart.
    """

    def __init__(self, tokens: Mapping[str, str], *, lasting: bool = False) -> None:
        self._grants = {
            _digest(token): Grant(tenant=tenant, token="") for token, tenant in tokens.items()
        }
        self._lasting = lasting

    @classmethod
    def read(cls, path: Path, environ: Mapping[str, str] | None = None) -> "BearerTokens":
        """Read a JSON file of tenants, each with a token or a list of tokens."""
        with reading(path, error=InvalidConfig):
            value = read_json(read_text(path, most_bytes=MOST_SETTINGS_BYTES, pipes=True))
        if not isinstance(value, dict) or not value:
            raise InvalidConfig(
                f'{path}: give an object of tenants and their tokens: {{"org:42": "${{ACME_TOKEN}}"}}'
            )
        environ = environment() if environ is None else environ
        tokens = cls({}, lasting=True)
        for tenant, entries in value.items():
            if not is_tenant(tenant):
                raise InvalidConfig(
                    f"{path}: unknown form of tenant {tenant!r}: give org:ID or user:ID"
                )
            for entry in entries if isinstance(entries, list) else [entries]:
                where = f"{path}: tenant {tenant!r}"
                grant = _grant(where, tenant, entry)
                tokens._add(path, grant, _expanded(where, grant.token, environ))
        return tokens

    @property
    def profiles(self) -> set[str]:
        """The profiles that tokens are confined to."""
        return {grant.profile for grant in self._grants.values()} - {""}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the token's tenant as its client id, and its holder as its subject.

        The holder of a lasting token is its digest.
        """
        digest = _digest(token)
        grant = self._grants.get(digest)
        if grant is None:
            return None
        subject = f"token {digest.hex()[:12]}" if self._lasting else None
        claims = {"profile": grant.profile, "calls_per_minute": grant.calls_per_minute}
        return AccessToken(
            token=token, client_id=grant.tenant, scopes=[], subject=subject, claims=claims
        )

    def _add(self, path: Path, grant: Grant, token: str) -> None:
        former = self._grants.setdefault(_digest(token), grant)
        if former is grant:
            return
        if former.tenant != grant.tenant:
            raise InvalidConfig(
                f"{path}: {former.tenant!r} and {grant.tenant!r} have the same token: give each tenant its own token"
            )
        if former.model_copy(update={"token": grant.token}) != grant:
            raise InvalidConfig(
                f"{path}: tenant {grant.tenant!r} has the same token with two profiles: remove one entry"
            )


def _grant(where: str, tenant: str, entry: Any) -> Grant:
    fields = entry if isinstance(entry, dict) else {"token": entry}
    try:
        return Grant.model_validate({**fields, "tenant": tenant})
    except ValidationError as error:
        raise InvalidConfig(f"{where}: {first_problem(error)}") from None


def _expanded(where: str, text: str, environ: Mapping[str, str]) -> str:
    """Return a token with its variables replaced, if nobody can guess it."""
    variables = Expansion(environ)
    token = variables.of("a token", text)
    variables.check(where)
    if len(token) < _MIN_LENGTH or not token.isascii() or token.split() != [token]:
        command = "python -c 'import secrets; print(secrets.token_urlsafe())'"
        rule = f"a token must have {_MIN_LENGTH} or more ASCII characters and no blanks"
        raise InvalidConfig(f"{where}: {rule}; make one with: {command}")
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.strip().encode("utf-8", "surrogatepass")).digest()
