"""Profiles: named subsets of a configuration's servers and tools, each with its own approval policy and overrides.

A client sees only the tools of its profile. A tool outside the profile cannot be found, described or called by that
client. A parameter with a fixed value is hidden, the client cannot set it, and its value is masked in results and
errors.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from orchestrator.catalogue.export import exported_name
from orchestrator.catalogue.schema import gathered
from orchestrator.common.digests import digest
from orchestrator.common.json_input import first_problem
from orchestrator.common.redact import Secrets
from orchestrator.errors import InvalidArguments, InvalidConfig
from orchestrator.mcp.config.launch import Expansion, environment
from orchestrator.records.call import Approve
from orchestrator.records.request import within
from orchestrator.records.tool import Tool, altered

_NOTHING = ("", ":", "")
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

    read_only: Annotated[StrictBool | None, Field(validation_alias="readOnlyHint")] = None
    destructive: Annotated[StrictBool | None, Field(validation_alias="destructiveHint")] = None
    idempotent: Annotated[StrictBool | None, Field(validation_alias="idempotentHint")] = None
    open_world: Annotated[StrictBool | None, Field(validation_alias="openWorldHint")] = None


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
        own, left_out = (
            self._wanted,
            [pattern for pattern in self.spec.tools or () if pattern.startswith("!")],
        )
        if (servers := self.spec.servers) is not None:
            every = [("*", ":", "*")] if own is None else own
            own = [
                (server, ":", name)
                for server in servers
                for of, _, name in every
                if fnmatchcase(server, of)
            ]
        return (*(map("".join, own or [_NOTHING]) if own is not None else ()), *left_out)

    @cached_property
    def _wanted(self) -> list[tuple[str, str, str]] | None:
        """The including patterns of `tools`, each split into server and name. None if all tools are included."""
        given = self.spec.tools
        own = [pattern.partition(":") for pattern in given or () if not pattern.startswith("!")]
        return own if own or given == () else None

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
        servers, own = self.spec.servers, self._wanted
        is_in = servers is None or any(fnmatchcase(server, pattern) for pattern in servers)
        return is_in and (own is None or any(fnmatchcase(server, of) for of, _, _ in own))

    def has(self, key: str) -> bool:
        """Return True if the profile includes a tool of the configuration. A renamed tool hides the tool that had the
        name.
        """
        if key in self.names and self.shown_key(key) == key:
            return False
        return self.has_server(key.partition(":")[0]) and within(key, self.patterns)

    @cached_property
    def names(self) -> dict[str, str]:
        """The keys of renamed tools by the keys that clients see."""
        given = self.spec.overrides.items()
        return {f"{key.partition(':')[0]}:{own.name}": key for key, own in given if own.name}

    def key(self, shown: str) -> str:
        """Return the configuration's key for a tool name from a client, or "" if the profile has no such tool."""
        key = self.names.get(shown, shown)
        return key if self.shown_key(key) == shown and self.has(key) else ""

    def shown(self, tool: Tool) -> Tool:
        """Return the tool as clients see it."""
        own = self.spec.overrides.get(tool.key)
        if own is None:
            return tool
        hints = own.annotations.model_dump(exclude_none=True)
        return altered(
            tool,
            name=own.name or tool.name,
            title=tool.title if own.title is None else own.title,
            description=tool.description if own.description is None else own.description,
            annotations=replace(tool.annotations, **hints),
            input_schema=_view(tool.input_schema, own.parameters),
            hash="",
        )

    def shown_key(self, key: str) -> str:
        """Return the key by which clients know a tool."""
        own = self.spec.overrides.get(key)
        return f"{key.partition(':')[0]}:{own.name}" if own and own.name else key

    def check(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Raise InvalidArguments where a client gives a parameter that the profile does not show."""
        for name in arguments:
            if (own := self._parameters(tool).get(name)) is not None and not own.is_shown:
                raise InvalidArguments(
                    f"{self.shown_key(tool.key)} takes no parameter {name!r}: leave it out"
                )

    def fixed(self, tool: Tool) -> dict[str, Any]:
        """Return the fixed values of a tool's parameters, with variables replaced.

        Raises InvalidConfig if a variable is missing, or if the tool has no parameter of a name: a client could set the
        parameter that was meant.
        """
        where, own, schema = (
            f"{self.source}: profile {self.name!r}: {tool.key}",
            self._parameters(tool),
            tool.input_schema,
        )
        if own and schema is not None and not schema.get("additionalProperties"):
            known = gathered(schema).get("properties", {})
            for name in (
                name for name, change in own.items() if not change.is_shown and name not in known
            ):
                raise InvalidConfig(
                    f"{where} has no parameter {name!r}: correct the name; its parameters: {', '.join(known) or 'none'}"
                )
        text = Expansion(environment())
        values = {
            name: _expanded(change.fixed, name, text)
            for name, change in own.items()
            if change.is_fixed
        }
        text.check(where)
        return values

    def _parameters(self, tool: Tool) -> Mapping[str, Parameter]:
        own = self.spec.overrides.get(tool.key)
        return own.parameters if own else {}

    def pinned(self, tools: Iterable[Tool]) -> dict[str, Tool]:
        """Return the pinned ones of some tools by the names under which they are listed, in the profile's order."""
        known = {tool.key: tool for tool in tools}
        return {
            _pinned_name(self.shown(known[key])): known[key]
            for key in self.spec.pinned
            if key in known
        }


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


def secrets_of(values: Mapping[str, Any]) -> Secrets:
    """Return the fixed values, which are masked in results and errors."""
    return Secrets(texts(values))


def read_profiles(given: Any, source: str, servers: Collection[str]) -> dict[str, Profile]:
    """Read the `profiles` of a file by name.

    Args:
        given: The decoded part of the file.
        source: The file's name, for messages.
        servers: The names of the file's servers.

    Raises:
        InvalidConfig: A profile is wrong. The error names the wrong part and the remedy.
    """
    if not isinstance(given, dict):
        raise InvalidConfig(
            f'{source}: "profiles" must be an object: {{"NAME": {{"servers": ["SERVER"], ...}}}}'
        )
    found = {}
    for name, value in given.items():
        where = f"{source}: profile {name!r}"
        if not (
            0 < len(name) <= 64
            and name.isascii()
            and name.replace("-", "").replace("_", "").isalnum()
        ):
            raise InvalidConfig(f"{where}: a name has 1 to 64 letters, digits, - and _: rename it")
        try:
            spec = ProfileSpec.model_validate(value)
        except ValidationError as error:
            raise InvalidConfig(f"{where}: {first_problem(error)}") from None
        found[name] = Profile(name, spec, source, _lost(spec, servers))
        _check(where, found[name])
    return found


def _lost(spec: ProfileSpec, servers: Collection[str]) -> tuple[str, ...]:
    """Return the names and patterns of servers in a profile that match none of these servers."""
    keys = (
        *spec.pinned,
        *spec.overrides,
        *(pattern.removeprefix("!") for pattern in spec.tools or ()),
    )
    own = dict.fromkeys((*(spec.servers or ()), *(key.partition(":")[0] for key in keys)))
    return tuple(
        pattern for pattern in own if not any(fnmatchcase(server, pattern) for server in servers)
    )


def _check(where: str, profile: Profile) -> None:
    spec = profile.spec
    for key in (
        *spec.pinned,
        *spec.overrides,
        *(pattern.removeprefix("!") for pattern in spec.tools or ()),
    ):
        if ":" not in key:
            raise InvalidConfig(
                f"{where}: {key!r} names no tool: write SERVER:NAME, or SERVER:* for all tools"
            )
    if outside := next((key for key in spec.pinned if not profile.has(key)), ""):
        raise InvalidConfig(
            f'{where}: the pinned tool {outside!r} is not in the profile: change "pinned", "servers" or "tools"'
        )
    if len(profile.names) < sum(bool(own.name) for own in spec.overrides.values()):
        raise InvalidConfig(
            f"{where}: two tools of a server get the same name: give them different names"
        )


def _expanded(value: Any, where: str, text: Expansion) -> Any:
    if isinstance(value, str):
        return text.of(where, value)
    if isinstance(value, dict):
        return {name: _expanded(item, where, text) for name, item in value.items()}
    return [_expanded(item, where, text) for item in value] if isinstance(value, list) else value


def _view(
    schema: Mapping[str, Any] | None, changes: Mapping[str, Parameter]
) -> dict[str, Any] | None:
    """Return a schema with the changed descriptions, and without the parameters that clients do not see."""
    if schema is None or not changes:
        return None if schema is None else dict(schema)
    hidden = {name for name, own in changes.items() if not own.is_shown}
    described = {
        name: own.description for name, own in changes.items() if own.description is not None
    }
    view: dict[str, Any] = _without(
        gathered(schema), hidden, lambda name, own: _described(own, described.get(name))
    )
    return view


def _described(own: Any, text: str | None) -> Any:
    return {**own, "description": text} if text is not None and isinstance(own, dict) else own


def _without(part: Any, hidden: set[str], change: Callable[[str, Any], Any]) -> Any:
    """Return a part of a schema, and the branches of it, without these parameters."""
    if not isinstance(part, dict):
        return part
    left = dict(part)
    if isinstance(own := part.get("properties"), dict):
        left["properties"] = {
            name: change(name, value) for name, value in own.items() if name not in hidden
        }
    if isinstance(required := part.get("required"), list):
        left["required"] = [name for name in required if name not in hidden]
    for branch in _BRANCHES:
        if isinstance(branches := part.get(branch), list):
            left[branch] = [_without(one, hidden, change) for one in branches]
    return left
