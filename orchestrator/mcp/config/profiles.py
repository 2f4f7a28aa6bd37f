"""Profiles: named subsets of a configuration's servers and tools, each with its own approval policy and overrides.

A client sees only the tools of its profile. It can find, describe and call no other tool. A parameter with a fixed
value is hidden, the client cannot set it, and its value is masked in results and errors.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from pydantic.alias_generators import to_camel

from orchestrator.catalogue.export import exported_name
from orchestrator.catalogue.schema import gathered
from orchestrator.common.digests import digest
from orchestrator.common.json_input import first_problem
from orchestrator.errors import InvalidArguments, InvalidConfig
from orchestrator.mcp.config.launch import Expansion, environment
from orchestrator.records.call import Approve
from orchestrator.records.request import within
from orchestrator.records.tool import Tool, altered

_NOTHING = ":"
"""A pattern that matches no tool, for an empty list."""
_MAX_PINNED_NAME = 64 - len("mcp__toolroute__")
_BRANCHES = ("allOf", "anyOf", "oneOf")


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True
    )


class Parameter(_Strict):
    """A profile's change to a parameter: its description, or a fixed value that the client cannot set."""

    description: str | None = None
    hidden: StrictBool = False
    fixed: Any = Field(None, repr=False)

    @property
    def is_fixed(self) -> bool:
        return "fixed" in self.model_fields_set

    @property
    def is_shown(self) -> bool:
        return not (self.hidden or self.is_fixed)


class Hints(_Strict):
    """MCP's hints, where a profile's author knows better than the server."""

    model_config = ConfigDict(alias_generator=lambda name: f"{to_camel(name)}Hint")
    read_only: StrictBool | None = None
    destructive: StrictBool | None = None
    idempotent: StrictBool | None = None
    open_world: StrictBool | None = None


class Override(_Strict):
    """A profile's changes to a tool."""

    name: Annotated[str, Field(pattern=r"^[^\s:]+$")] = ""
    title: str | None = None
    description: str | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    annotations: Hints = Hints()


class ProfileSpec(_Strict):
    """A profile as the file has it."""

    servers: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    pinned: tuple[str, ...] = ()
    approve: Approve | None = None
    read_only: Annotated[StrictBool, Field(validation_alias="readOnly")] = False
    resources: StrictBool = True
    prompts: StrictBool = True
    overrides: dict[str, Override] = Field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """One profile. `Profile()` is the whole, unchanged configuration.

    Attributes:
        name: Its name, "" for the whole configuration.
        spec: Its part of the file.
        source: The file's name, for messages.
        lost: The names and patterns in it that match no server of the file.
    """

    name: str = ""
    spec: ProfileSpec = field(default_factory=ProfileSpec)
    source: str = ""
    lost: tuple[str, ...] = ()

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of keys that a tool must fit, as a RouteRequest takes them."""
        included = self._included
        if self.spec.servers is not None:
            included = self._included_of(self.spec.servers)
        if included == []:
            included = [_NOTHING]
        left_out = [pattern for pattern in self.spec.tools or () if pattern.startswith("!")]
        return (*(included or ()), *left_out)

    def _included_of(self, servers: Iterable[str]) -> list[str]:
        included = ["*:*"] if self._included is None else self._included
        patterns = list[str]()
        for server in servers:
            for pattern in included:
                server_pattern, _, name = pattern.partition(":")
                if fnmatchcase(server, server_pattern):
                    patterns.append(f"{server}:{name}")
        return patterns

    @cached_property
    def _included(self) -> list[str] | None:
        """The including patterns of `tools`. None if all tools are included."""
        tools = self.spec.tools
        included = [name for name in tools or () if not name.startswith("!")]
        return included if included or tools == () else None

    @property
    def filters(self) -> dict[str, str]:
        """The properties that a tool must have, as a RouteRequest takes them."""
        # Agents and integrations cannot be called through the gateway.
        served = {"served": "true"}
        return {**served, "read_only": "true"} if self.spec.read_only else served

    def allows(self, tool: Tool) -> bool:
        """Return True if the profile includes a tool of the configuration, by its key and its properties."""
        return self.has(tool.key) and (
            not self.spec.read_only or self.shown(tool).annotations.read_only is True
        )

    def has_server(self, server: str) -> bool:
        """Return True if the profile can include a tool of this server."""
        servers = self.spec.servers
        if servers is not None and not any(fnmatchcase(server, pattern) for pattern in servers):
            return False
        included = self._included
        if included is None:
            return True
        return any(fnmatchcase(server, pattern.partition(":")[0]) for pattern in included)

    def has(self, key: str) -> bool:
        """Return True if the profile includes a tool of the configuration.

        A renamed tool hides the tool that had the name.
        """
        if key in self.names and self.shown_key(key) == key:
            return False
        return self.has_server(key.partition(":")[0]) and within(key, self.patterns)

    @cached_property
    def names(self) -> dict[str, str]:
        """The keys of renamed tools by the keys that clients see."""
        renamed = [key for key, override in self.spec.overrides.items() if override.name]
        return {self.shown_key(key): key for key in renamed}

    def key(self, name: str) -> str:
        """Return the configuration's key for a tool name from a client, or "" if the profile has no such tool."""
        key = self.names.get(name, name)
        return key if self.shown_key(key) == name and self.has(key) else ""

    def shown(self, tool: Tool) -> Tool:
        """Return the tool as clients see it."""
        override = self.spec.overrides.get(tool.key)
        if override is None:
            return tool
        hints = override.annotations.model_dump(exclude_none=True)
        return altered(
            tool,
            name=override.name or tool.name,
            title=tool.title if override.title is None else override.title,
            description=tool.description if override.description is None else override.description,
            annotations=replace(tool.annotations, **hints),
            input_schema=_view(tool.input_schema, override.parameters),
            hash="",
        )

    def shown_key(self, key: str) -> str:
        """Return the key by which clients know a tool."""
        override = self.spec.overrides.get(key)
        if override is None or not override.name:
            return key
        server, _, _ = key.partition(":")
        return f"{server}:{override.name}"

    def check(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Raise InvalidArguments where a client gives a parameter that the profile does not show."""
        changes = self._parameters(tool)
        for name in arguments:
            if name in changes and not changes[name].is_shown:
                raise InvalidArguments(
                    f"{self.shown_key(tool.key)} takes no parameter {name!r}: leave it out"
                )

    def fixed(self, tool: Tool) -> dict[str, Any]:
        """Return the fixed values of a tool's parameters, with variables replaced.

        Raises InvalidConfig if a variable is missing, or if the tool has no parameter of a name: a client could set the
        parameter that was meant.
        """
        changes = self._parameters(tool)
        if not changes:
            return {}
        where = f"{self.source}: profile {self.name!r}: {tool.key}"
        schema = tool.input_schema
        if schema is not None and not schema.get("additionalProperties"):
            hidden = [name for name, change in changes.items() if not change.is_shown]
            _require_parameters(hidden, schema, where)
        text = Expansion(environment())
        values: dict[str, Any] = {}
        for name, change in changes.items():
            if change.is_fixed:
                values[name] = text.within(name, change.fixed)
        text.check(where)
        return values

    def _parameters(self, tool: Tool) -> Mapping[str, Parameter]:
        override = self.spec.overrides.get(tool.key)
        return override.parameters if override else {}

    def pinned(self, tools: Iterable[Tool]) -> dict[str, Tool]:
        """Return the pinned ones of some tools by the names under which they are listed, in the profile's order."""
        by_key = {tool.key: tool for tool in tools}
        pinned = [by_key[key] for key in self.spec.pinned if key in by_key]
        return {_pinned_name(self.shown(tool)): tool for tool in pinned}


def _require_parameters(names: Iterable[str], schema: Mapping[str, Any], where: str) -> None:
    properties = gathered(schema).get("properties", {})
    for name in names:
        if name not in properties:
            choices = ", ".join(properties) or "none"
            raise InvalidConfig(
                f"{where} has no parameter {name!r}: correct the name; its parameters: {choices}"
            )


def _pinned_name(tool: Tool) -> str:
    """Return a name that fits `[a-zA-Z0-9_-]{1,64}` also after a client's prefix, such as `mcp__toolroute__`."""
    name = exported_name(tool, "openai")
    if len(name) <= _MAX_PINNED_NAME:
        return name
    suffix = digest(tool.key, 8)
    return f"{name[: _MAX_PINNED_NAME - len(suffix) - 1]}_{suffix}"


def texts(value: Any) -> Iterator[str]:
    """Yield the texts within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


def read_profiles(section: Any, source: str, servers: Collection[str]) -> dict[str, Profile]:
    """Read the `profiles` of a file by name.

    Args:
        section: The decoded part of the file.
        source: The file's name, for messages.
        servers: The names of the file's servers.

    Raises:
        InvalidConfig: A profile is wrong. The error names the wrong part and the remedy.
    """
    if not isinstance(section, dict):
        raise InvalidConfig(
            f'{source}: "profiles" must be an object: {{"NAME": {{"servers": ["SERVER"], ...}}}}'
        )
    profiles: dict[str, Profile] = {}
    for name, record in section.items():
        where = f"{source}: profile {name!r}"
        letters = name.replace("-", "").replace("_", "")
        if len(name) > 64 or not (letters.isascii() and letters.isalnum()):
            raise InvalidConfig(f"{where}: a name has 1 to 64 letters, digits, - and _: rename it")
        try:
            spec = ProfileSpec.model_validate(record)
        except ValidationError as error:
            raise InvalidConfig(f"{where}: {first_problem(error)}") from None
        profiles[name] = Profile(name, spec, source, _lost(spec, servers))
        _check(where, profiles[name])
    return profiles


def _named_keys(spec: ProfileSpec) -> list[str]:
    """Return the keys and patterns of tools that a profile names."""
    patterns = [pattern.removeprefix("!") for pattern in spec.tools or ()]
    return [*spec.pinned, *spec.overrides, *patterns]


def _lost(spec: ProfileSpec, servers: Collection[str]) -> tuple[str, ...]:
    """Return the names and patterns of servers in a profile that match none of these servers."""
    of_keys = [key.partition(":")[0] for key in _named_keys(spec)]
    patterns = dict.fromkeys([*(spec.servers or ()), *of_keys])
    return tuple(
        pattern
        for pattern in patterns
        if not any(fnmatchcase(server, pattern) for server in servers)
    )


def _check(where: str, profile: Profile) -> None:
    spec = profile.spec
    for key in _named_keys(spec):
        if ":" not in key:
            raise InvalidConfig(
                f"{where}: {key!r} names no tool: write SERVER:NAME, or SERVER:* for all tools"
            )
    outside = next((key for key in spec.pinned if not profile.has(key)), "")
    if outside:
        raise InvalidConfig(
            f'{where}: the pinned tool {outside!r} is not in the profile: change "pinned", "servers" or "tools"'
        )
    if len(profile.names) < sum(bool(override.name) for override in spec.overrides.values()):
        raise InvalidConfig(
            f"{where}: two tools of a server get the same name: give them different names"
        )


def _view(
    schema: Mapping[str, Any] | None, changes: Mapping[str, Parameter]
) -> dict[str, Any] | None:
    """Return a schema with the changed descriptions, and without the parameters that clients do not see."""
    if schema is None:
        return None
    return _changed(gathered(schema), changes) if changes else dict(schema)


def _described(parameter: Any, change: Parameter | None) -> Any:
    """Return a parameter's schema with the description that a profile gives it."""
    if change is None or change.description is None or not isinstance(parameter, dict):
        return parameter
    return {**parameter, "description": change.description}


def _changed(part: Any, changes: Mapping[str, Parameter]) -> Any:
    """Return a part of a schema, and the branches of it, with these changes of its parameters."""
    if not isinstance(part, dict):
        return part
    hidden = {name for name, change in changes.items() if not change.is_shown}
    changed = dict(part)
    properties = part.get("properties")
    if isinstance(properties, dict):
        changed["properties"] = {
            name: _described(parameter, changes.get(name))
            for name, parameter in properties.items()
            if name not in hidden
        }
    required = part.get("required")
    if isinstance(required, list):
        changed["required"] = [name for name in required if name not in hidden]
    for branch in _BRANCHES:
        if isinstance(part.get(branch), list):
            changed[branch] = [_changed(choice, changes) for choice in part[branch]]
    return changed
