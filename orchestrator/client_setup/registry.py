"""Servers of an MCP registry: their `server.json`, and the entry of an mcpServers file that it describes.

    {"name": "io.github.acme/notes", "description": "Notes.", "version": "1.2.0",
     "packages": [{"registryType": "npm", "identifier": "@acme/notes", "version": "1.2.0",
                   "transport": {"type": "stdio"},
                   "environmentVariables": [{"name": "NOTES_KEY", "isRequired": true, "isSecret": true}]}],
     "remotes": [{"type": "streamable-http", "url": "https://mcp.acme.example/mcp"}]}

becomes

    {"command": "npx", "args": ["-y", "@acme/notes@1.2.0"], "env": {"NOTES_KEY": "${NOTES_KEY}"}}

A variable is written as `${NAME}`, so that no secret is in the file.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from orchestrator.common.bounded_http import BoundedClient
from orchestrator.common.json_input import first_problem, read_json, reading
from orchestrator.common.regular import read_text
from orchestrator.errors import InvalidConfig, Unavailable

_TIMEOUT_S = 20.0
_MOST_SERVERS = 50
"""The servers of one search. A person who finds more needs other words."""
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w-]*)\}")


class _Form(BaseModel):
    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class Variable(_Form):
    """A value that the user gives: in the environment, in a header, or in an address."""

    name: str = ""
    description: str = ""
    is_required: bool = False
    is_secret: bool = False
    default: str | None = None
    value: str | None = None
    variables: Mapping[str, "Variable"] = Field(default_factory=dict)


class Argument(Variable):
    """An argument of a program: `positional`, or `named` by an option."""

    type: Literal["positional", "named"] = "positional"
    value_hint: str = ""


class Transport(_Form):
    """How a server is reached."""

    type: str = "stdio"
    url: str = ""
    headers: tuple[Variable, ...] = ()
    variables: Mapping[str, Variable] = Field(default_factory=dict)


class Package(_Form):
    """A package that a runner starts."""

    registry_type: str
    identifier: str
    version: str = ""
    transport: Transport = Transport()
    runtime_arguments: tuple[Argument, ...] = ()
    package_arguments: tuple[Argument, ...] = ()
    environment_variables: tuple[Variable, ...] = ()


class RegistryServer(_Form):
    """A server.json."""

    name: str
    description: str = ""
    version: str = ""
    packages: tuple[Package, ...] = ()
    remotes: tuple[Transport, ...] = ()

    @property
    def short_name(self) -> str:
        """The last part of its name, as the name of an entry."""
        return re.sub(r"[^\w.-]+", "-", self.name.rpartition("/")[2]) or "server"

    @property
    def summary(self) -> str:
        """The package that is run, or the address."""
        for package in self.packages:
            return f"{package.registry_type}: {package.identifier}"
        return self.remotes[0].url if self.remotes else "nothing to run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """An entry of an mcpServers file, with the variables that it needs."""

    entry: dict[str, Any]
    variables: Sequence[Variable]

    @property
    def in_words(self) -> str:
        """The command that the entry runs, or the address that it connects."""
        if url := self.entry.get("url"):
            return f"connect {url}"
        return f"run: {self.entry['command']} {' '.join(self.entry['args'])}"


def entry_of(server: RegistryServer) -> RegistryEntry:
    """Return the entry of a server's first package that can be run, or of its first address.

    Raises:
        InvalidConfig: toolroute can run none of its packages, and it has no address.
    """
    for package in server.packages:
        if package.transport.type == "stdio" and package.registry_type in _RUNNERS:
            return _entry_of_package(package)
    for remote in server.remotes:
        return _entry_of_remote(remote)
    kinds = ", ".join(package.registry_type for package in server.packages) or "none"
    raise InvalidConfig(
        f"{server.name}: no package that can be run (its packages: {kinds}) and no remote address"
    )


_RUNNERS = {
    "npm": ("npx", "-y"),
    "pypi": ("uvx",),
    "oci": ("docker", "run", "-i", "--rm"),
    "nuget": ("dnx", "--yes"),
}


def _entry_of_package(package: Package) -> RegistryEntry:
    variables: list[Variable] = []
    command, *options = _RUNNERS[package.registry_type]
    args = [*options, *_words(package.runtime_arguments, variables)]
    env: dict[str, str] = {}
    for variable in package.environment_variables:
        env[variable.name] = _value(variable, variable.name, variables)
    # A container sees no variable of its host unless it is named.
    if package.registry_type == "oci":
        args += [word for name in env for word in ("-e", name)]
    args.append(_versioned(package))
    args += _words(package.package_arguments, variables)
    entry: dict[str, Any] = {"command": command, "args": args}
    if env:
        entry["env"] = env
    return RegistryEntry(entry=entry, variables=variables)


def _versioned(package: Package) -> str:
    """Return the package with its version, as its runner reads it."""
    mark = ":" if package.registry_type == "oci" else "@"
    has_tag = mark == ":" and ":" in package.identifier.rpartition("/")[2]
    if has_tag or not package.version:
        return package.identifier
    return f"{package.identifier}{mark}{package.version}"


def _entry_of_remote(remote: Transport) -> RegistryEntry:
    variables: list[Variable] = []
    entry: dict[str, Any] = {"url": _filled(remote.url, remote.variables, variables)}
    if remote.type == "sse":
        entry["type"] = "sse"
    headers = {header.name: _value(header, header.name, variables) for header in remote.headers}
    if headers:
        entry["headers"] = headers
    return RegistryEntry(entry=entry, variables=variables)


def _words(arguments: Sequence[Argument], variables: list[Variable]) -> list[str]:
    words: list[str] = []
    for argument in arguments:
        has_value = (
            argument.value is not None or argument.default is not None or argument.is_required
        )
        if argument.type == "named":
            words.append(argument.name)
            has_value = has_value or bool(argument.value_hint)
        if has_value:
            words.append(
                _value(argument, argument.value_hint or argument.name.lstrip("-"), variables)
            )
    return words


def _value(variable: Variable, name: str, variables: list[Variable]) -> str:
    """Return a value, with `${NAME}` for each value that the user must give. Adds the name to `variables`."""
    if variable.value is not None:
        return _filled(variable.value, variable.variables, variables)
    reference = _variable_name(name)
    variables.append(variable.model_copy(update={"name": reference}))
    if variable.default is not None:
        return f"${{{reference}:-{variable.default}}}"
    if variable.is_required or variable.is_secret:
        return f"${{{reference}}}"
    return f"${{{reference}:-}}"


def _filled(text: str, known: Mapping[str, Variable], variables: list[Variable]) -> str:
    """Return a text with its placeholders `{name}` as variables."""

    def reference(match: re.Match[str]) -> str:
        variable = known.get(match[1])
        return _value(variable, match[1], variables) if variable else match[0]

    return _PLACEHOLDER.sub(reference, text)


def _variable_name(name: str) -> str:
    return re.sub(r"\W+", "_", name).upper().strip("_") or "VALUE"


@dataclass(frozen=True, slots=True)
class Registry:
    """An MCP registry, by its address."""

    url: str

    def search(self, words: str) -> list[RegistryServer]:
        """Return the latest version of each server whose name has these words. Raises Unavailable if none answers."""
        address = f"{self.url.rstrip('/')}/v0.1/servers?version=latest&limit={_MOST_SERVERS}&search={quote(words)}"
        content = _fetched(address)
        servers = content.get("servers") if isinstance(content, dict) else None
        if not isinstance(servers, list):
            raise InvalidConfig(f'{self.url}: not a registry, because its answer has no "servers"')
        return [
            _parsed(item, f"{self.url}: server {position}") for position, item in enumerate(servers)
        ]

    def server(self, name: str) -> RegistryServer:
        """Return the latest version of a server. Raises InvalidConfig if the registry has none of this name."""
        address = f"{self.url.rstrip('/')}/v0.1/servers/{quote(name, safe='')}/versions/latest"
        return _parsed(_fetched(address), f"{self.url}: {name}")


def read_server(source: str, registry: Registry) -> RegistryServer:
    """Read a server.json from a file or an address, or a registry's server by its name."""
    if source.startswith(("http://", "https://")):
        return _parsed(_fetched(source), source)
    if source.endswith(".json") or Path(source).is_file():
        with reading(
            source,
            "give a server.json, its address, or a server's name in the registry",
            InvalidConfig,
        ):
            return _parsed(read_json(read_text(source, pipes=True)), source)
    return registry.server(source)


def _parsed(content: Any, source: str) -> RegistryServer:
    """Return a server.json, also as a registry wraps it: {"server": {...}, "_meta": {...}}."""
    inner = content.get("server") if isinstance(content, dict) else None
    try:
        return RegistryServer.model_validate(inner if isinstance(inner, dict) else content)
    except ValidationError as error:
        raise InvalidConfig(f"{source}: {first_problem(error, 'the server.json')}") from None


def _fetched(address: str) -> Any:
    host = urlsplit(address).netloc
    try:
        with BoundedClient(timeout=_TIMEOUT_S, follow_redirects=True) as client:
            response = client.get(address)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unavailable(
            f"{host} cannot be reached ({error}): check the address, or give another --registry"
        ) from None
    if response.status_code == httpx2.codes.NOT_FOUND:
        raise InvalidConfig(
            f"{host} has no such server: `toolroute servers search WORDS` finds names"
        )
    if response.is_error:
        raise Unavailable(f"{host} answered HTTP {response.status_code}: try again later")
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        raise InvalidConfig(
            f"{address}: its answer is not JSON: give the address of a registry or server.json"
        ) from None
