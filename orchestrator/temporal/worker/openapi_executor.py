"""Carries out calls of the tools that `Catalogue.from_openapi` makes of an OpenAPI description."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from orchestrator.catalogue.openapi import OpenApi, Operation
from orchestrator.catalogue.openapi_request import HttpRequest, http_request
from orchestrator.common.fields import named
from orchestrator.errors import InvalidConfig, UnknownTool
from orchestrator.mcp.config.launch import Expansion, environment
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.temporal.worker.http_executor import HttpExecutor

_SENT_KINDS = ("apikey", "basic", "oauth2", "openidconnect")
"""The kinds of security schemes whose secret is one header, cookie or parameter. Others take more than that."""
_SENT_HTTP_SCHEMES = ("basic", "bearer")


class _Credential(NamedTuple):
    """A secret in the form in which it is sent: in the query, a header or a cookie of this name."""

    place: str
    name: str
    value: str


class OpenApiExecutor(HttpExecutor):
    """Sends each call as the operation of an OpenAPI description.

    Args:
        document: The decoded document, or the path of a JSON or YAML file.
        url: The address of the API, for all operations. Default: the first one in the document, or in the operation.
        credentials: The secret of each security scheme by its name in the document. `${NAME}` is replaced by a
            variable. For HTTP basic, give `USER:PASSWORD`.
        timeout_s: Seconds for one request.

    Raises:
        InvalidCatalogue: The document is no OpenAPI description.
        InvalidConfig: The address is missing, a scheme is not in the document or cannot be sent, or
            a variable is missing.

    Examples:
        >>> from orchestrator import Catalogue, OpenApiExecutor
        >>> api = {"openapi": "3.1.0", "info": {"title": "Shop"}, "servers": [{"url": "https://shop.example"}],
        ...        "paths": {"/orders/{id}": {"get": {"operationId": "get_order", "summary": "Get an order"}}}}
        >>> Catalogue.from_openapi(api)
        Catalogue(1 tool: shop:get_order)
        >>> executors = {"shop:*": OpenApiExecutor(api)}
    """

    @named
    def __init__(
        self,
        document: Mapping[str, Any] | str | Path,
        *,
        url: str = "",
        credentials: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        self._api = OpenApi(document)
        self._credentials: dict[str, str] = {}
        text = Expansion(environment())
        for scheme, secret in (credentials or {}).items():
            if scheme not in self._api.security_schemes:
                schemes = ", ".join(self._api.security_schemes) or "none"
                raise InvalidConfig(
                    f"credentials[{scheme!r}]: the document has no such scheme; its schemes: {schemes}"
                )
            self._require_sendable(scheme)
            self._credentials[scheme] = text.of(f"credentials.{scheme}", secret)
        text.check("OpenApiExecutor")
        self._url_of_all = url.rstrip("/")
        base = url or self._api.url
        if not base:
            raise InvalidConfig("the document names no server: give url=")
        if base.startswith("/"):
            raise InvalidConfig(
                f"the document's server {base!r} has no host: give url=, for example https://HOST{base}"
            )
        super().__init__(base.rstrip("/"), timeout_s=timeout_s)
        self.secrets.add(self._credentials.values())

    async def execute(self, call: ToolCall) -> ToolResult:
        """Send the operation and return the reply.

        Raises:
            InvalidArguments: A field of an object would be sent as another parameter, or as an API key.
            UnknownTool: The description has no operation of this name.
        """
        operation = self._api.operations.get(call.tool.name)
        if operation is None:
            raise UnknownTool(
                f"{call.tool.key}: the OpenAPI description has no operation of this name"
            )
        request = http_request(operation, call.arguments)
        self._authorise(operation, request)
        # An address of one operation may be relative to that of the document.
        base = self._url_of_all or urljoin(f"{self.url}/", operation.url).rstrip("/")
        return await self.request(
            call,
            operation.method,
            f"{base}{request.path}",
            headers=request.headers,
            params=request.query,
            body=request.content,
        )

    def _authorise(self, operation: Operation, request: HttpRequest) -> None:
        """Add the credentials of the first alternative for which all are there.

        They take the place of arguments with the same name, because many servers read the first of two values.
        """
        for schemes in operation.security:
            if all(scheme in self._credentials for scheme in schemes):
                credentials = [self._credential(scheme) for scheme in schemes]
                _drop_arguments(credentials, request)
                _add(credentials, request)
                return

    def _require_sendable(self, name: str) -> None:
        """Raise InvalidConfig for a security scheme that takes more than a secret in the request."""
        scheme = self._api.security_schemes[name]
        kind = str(scheme.get("type", "")).lower()
        http_scheme = str(scheme.get("scheme", "")).lower()
        if kind in _SENT_KINDS or (kind == "http" and http_scheme in _SENT_HTTP_SCHEMES):
            return
        raise InvalidConfig(
            f"credentials[{name!r}]: the scheme {http_scheme or kind!r} cannot be sent, only HTTP basic and bearer, "
            "API keys, OAuth 2 and OpenID Connect; use an Executor of your own for these operations"
        )

    def _credential(self, name: str) -> _Credential:
        """Return how a security scheme's secret is sent."""
        scheme = self._api.security_schemes[name]
        secret = self._credentials[name]
        kind = str(scheme.get("type", "")).lower()
        if kind == "apikey":
            return _Credential(scheme.get("in", "cookie"), scheme["name"], secret)
        if kind == "basic" or str(scheme.get("scheme", "")).lower() == "basic":
            basic = b64encode(secret.encode()).decode()
            return _Credential("header", "Authorization", f"Basic {basic}")
        # HTTP bearer, OAuth 2 and OpenID Connect.
        return _Credential("header", "Authorization", f"Bearer {secret}")


def _drop_arguments(credentials: Sequence[_Credential], request: HttpRequest) -> None:
    """Remove the arguments of a call that have the name of a credential, in any case of letters."""
    for credential in credentials:
        name = "cookie" if credential.place == "cookie" else credential.name.lower()
        if credential.place == "query":
            request.query = [field for field in request.query if field[0].lower() != name]
        else:
            for header in [header for header in request.headers if header.lower() == name]:
                del request.headers[header]


def _add(credentials: Sequence[_Credential], request: HttpRequest) -> None:
    cookies: list[str] = []
    for credential in credentials:
        if credential.place == "query":
            request.query.append((credential.name, credential.value))
        elif credential.place == "header":
            request.headers[credential.name] = credential.value
        else:
            cookies.append(f"{credential.name}={credential.value}")
    if cookies:
        request.headers["Cookie"] = "; ".join(cookies)
