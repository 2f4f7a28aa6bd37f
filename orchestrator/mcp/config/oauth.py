"""The `oauth` block of an entry: the client with which toolroute signs in to a server.

a person signs in       {"clientId": "toolroute-of-acme", "scopes": ["read"], "callbackPort": 8912}
a worker, by a secret   {"grant": "client_credentials", "issuer": "https://auth.example", "clientId": "worker",
                         "clientSecret": "${SECRET}"}
a worker, by a key      ... "privateKey": "${file:/run/secrets/key.pem}" in place of the secret
a worker, by the company's identity provider (ID-JAG)
                        {"grant": "jwt-bearer", "issuer": ..., "clientId": ..., "clientSecret": ...,
                         "identityProvider": {"tokenEndpoint": ..., "clientId": ..., "subjectToken": ...}}
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic.alias_generators import to_camel

Replace = Callable[[str, str], str]
"""Returns a text with its variables replaced. The first argument names the text in errors."""

_Secret = Annotated[str, Field(repr=False)]


def _spellings(name: str) -> AliasChoices:
    """Return the spellings of a setting in the files of clients: `clientId`, `client_id` and `CLIENT_ID`."""
    return AliasChoices(to_camel(name), name, name.upper())


class _Block(BaseModel):
    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        defer_build=True,
        alias_generator=AliasGenerator(validation_alias=_spellings),
    )

    def expanded(self, where: str, replace: Replace) -> Self:
        """Return the block with the variables of its texts replaced."""
        changes = dict[str, Any]()
        for name, value in self:
            path = f"{where}.{to_camel(name)}"
            if isinstance(value, str):
                changes[name] = replace(path, value)
            elif isinstance(value, _Block):
                changes[name] = value.expanded(path, replace)
        return self.model_copy(update=changes)

    @property
    def secrets(self) -> list[str]:
        """The values that are masked, without the empty ones."""
        secrets = [value for name, value in self if name in _SECRETS and value]
        for _, value in self:
            if isinstance(value, _Block):
                secrets += value.secrets
        return secrets


class IdentityProvider(_Block):
    """The company's identity provider, which gives an ID-JAG for a worker's identity token (RFC 8693).

    Attributes:
        token_endpoint: Its token endpoint.
        client_id: The worker's client there.
        client_secret: The secret of this client, if it has one.
        subject_token: The worker's identity token.
        subject_token_type: The type of this token.
    """

    token_endpoint: str
    client_id: str
    client_secret: _Secret = ""
    subject_token: _Secret
    subject_token_type: str = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105


class OAuth(_Block):
    """OAuth settings of a server, in the form of Claude Code and Gemini CLI ("oauth") or Cursor ("auth").

    All are optional.

    Attributes:
        client_id: An id from the server's operator, or the https address of a client metadata document. Without it,
            toolroute registers itself.
        client_secret: The secret of this client.
        scopes: The scopes to ask for.
        callback_port: The port of the redirect http://localhost:PORT/callback.
        grant: `authorization_code` if a person signs in. The other grants are for workers.
        issuer: The authorization server to which a worker sends its credentials, and no other.
        private_key: A worker's key in PEM form, in place of a secret.
        signing_algorithm: The algorithm of this key, such as RS256 or ES256.
        identity_provider: Gives a worker its ID-JAG.
    """

    client_id: str = ""
    client_secret: _Secret = ""
    scopes: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("scopes", "scope"))
    callback_port: Annotated[int, Field(ge=0, le=65535)] = 0
    grant: Literal["authorization_code", "client_credentials", "jwt-bearer"] = Field(
        default="authorization_code",
        validation_alias=AliasChoices("grant", "grantType", "grant_type"),
    )
    issuer: str = ""
    private_key: _Secret = ""
    signing_algorithm: str = "RS256"
    identity_provider: IdentityProvider | None = None

    @model_validator(mode="before")
    @classmethod
    def _settings(cls, block: Any) -> Any:
        """Read `true`, `false` and `"oauth"` as no settings, and scopes in one text as several."""
        if isinstance(block, bool) or block == "oauth":
            return {}
        if isinstance(block, str):
            raise ValueError(
                'it is a string: put a token into "headers", as {"Authorization": "Bearer ${TOKEN}"}'
            )
        if not isinstance(block, dict):
            return block
        settings = {key: value for key, value in block.items() if value is not None}
        for key in ("scope", "scopes"):
            if isinstance(settings.get(key), str):
                settings[key] = settings[key].split()
        return settings

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Refuse a worker's block without a setting that its grant needs."""
        required = {"issuer": self.issuer, "clientId": self.client_id}
        if self.grant == "client_credentials":
            required["clientSecret or privateKey"] = self.client_secret or self.private_key
        elif self.grant == "jwt-bearer":
            required["clientSecret"] = self.client_secret
            required["identityProvider"] = "given" if self.identity_provider else ""
        else:
            return self
        missing_fields = [name for name, value in required.items() if not value]
        if missing_fields:
            raise ValueError(f"grant {self.grant!r} also needs {', '.join(missing_fields)}")
        return self

    @property
    def is_for_worker(self) -> bool:
        """True if no person signs in."""
        return self.grant != "authorization_code"


_SECRETS = frozenset({"client_secret", "private_key", "subject_token"})
