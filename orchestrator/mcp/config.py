"""The `mcpServers` JSON that people already have, read as it is.

Values stay unexpanded in the records: `${NAME}`, `${NAME:-default}` and `${env:NAME}` are replaced when a server is
started, so a variable that is missing stops that server alone, and no secret stands in a record or its repr.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from json import JSONDecodeError
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.catalogue.reading import first_problem, read_json, why_unread, without_comments
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.identity import identity_of
from orchestrator.mcp.launch import Launch, environment, expand
from orchestrator.records.forms import misspelt, spellings

FILE_NAMES = (".mcp.json", "mcp.json")
"""Looked for in the working folder when no file is named."""

logger = logging.getLogger(__name__)

_HTTP_TYPES = frozenset({"http", "streamable-http", "streamable_http", "streamablehttp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """One entry, unexpanded: a command to run or a URL to reach. Deadlines and the idle time are in seconds.

    `problem` is what makes an entry useless, as a whole sentence; such a server is known by its name alone.
    `broken_since` is that of a later entry, whose place this one keeps.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    source: str = field(default="mcpServers", compare=False)
    connect_timeout_s: float | None = None
    call_timeout_s: float | None = None
    idle_ttl_s: float | None = None
    env_file: str = ""
    only_tools: frozenset[str] | None = None
    disabled_tools: frozenset[str] = frozenset()
    problem: str = ""
    broken_since: str = field(default="", compare=False)

    def lists(self, tool: str) -> bool:
        """Whether the entry leaves this tool of its server in."""
        return tool not in self.disabled_tools and (self.only_tools is None or tool in self.only_tools)

    @property
    def transport(self) -> str:
        """`stdio` or `http`; "" where the entry is broken."""
        return "stdio" if self.command else "http" if self.url else ""

    @property
    def identity(self) -> str:
        """Which server is meant and which of its tools (`same_server`), in 24 digits, without any secret."""
        return identity_of(self)

    def launch(self, environ: Mapping[str, str] | None = None) -> Launch:
        """The entry with its variables replaced; InvalidConfig names those that are missing, or what is broken."""
        if self.problem:
            raise InvalidConfig(self.problem)
        return expand(self, environment() if environ is None else environ)


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The servers of one file by name, in the file's order, without those switched `off`, whose names are known.

    An entry that cannot be used takes no other away: it is a server whose `launch` says why.
    """

    servers: Mapping[str, ServerSpec]
    source: str = "mcpServers"
    off: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: "McpConfig | Mapping[str, Any] | str | Path") -> "McpConfig":
        """The configuration itself, decoded JSON, or a file's path."""
        if isinstance(config, McpConfig):
            return config
        return cls.parse(config) if isinstance(config, Mapping) else cls.read(config)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """From a file, comments and last commas allowed; InvalidConfig names the file and the remedy."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfig(f"{path}: cannot be read ({why_unread(error)}); give an mcpServers JSON file") from None
        try:
            value = read_json(without_comments(text))
        except JSONDecodeError as error:
            raise InvalidConfig(f"{path}: not JSON ({error})") from None
        except ValueError as error:
            raise InvalidConfig(f"{path}: {error}") from None
        return cls.parse(value, source=str(path))

    @classmethod
    def parse(cls, value: Any, source: str = "mcpServers") -> Self:
        """From decoded JSON: `{"mcpServers": {name: entry}}`; VS Code's `{"servers": ...}` is read too."""
        entries = next(
            (value[key] for key in ("mcpServers", "servers") if isinstance(value, dict) and key in value), None
        )
        if not isinstance(entries, dict):
            raise InvalidConfig(
                f'{source}: no "mcpServers" object; '
                'give {"mcpServers": {"NAME": {"command": ...}, "OTHER": {"url": ...}}}'
            )
        off = frozenset(name for name, entry in entries.items() if _is_off(entry))
        servers = {name: _spec(name, entry, source) for name, entry in entries.items() if name not in off}
        return cls(servers, source, off)

    def lacks(self, name: str) -> str:
        """Why there is no server of this name here, as a sentence with the remedy."""
        if name in self.off:
            return f'server {name!r} is switched off in {self.source}: leave out its "disabled" or "enabled"'
        return f"no server {name!r} in {self.source}; it names: {', '.join(self.servers) or 'none'}"

    def after(self, before: "McpConfig") -> "McpConfig":
        """This configuration, read where that one was: an entry that is broken now leaves the usable one in its place,
        as a file does that cannot be read at all. A warning tells it once."""
        servers = dict(self.servers)
        for name, spec in self.servers.items():
            old = before.servers.get(name)
            if spec.problem and old is not None and not old.problem:
                servers[name] = replace(old, broken_since=spec.problem)
                if old.broken_since != spec.problem:
                    logger.warning("%s; the entry that was there before stays in use", spec.problem)
        return McpConfig(servers, self.source, self.off)


def find_config(folder: Path | None = None) -> Path | None:
    """`.mcp.json` or `mcp.json` in the folder (default: the working folder), or None."""
    folder = folder or Path.cwd()
    return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)


def _positive(value: float | None) -> float | None:
    if value is not None and not value > 0:
        raise ValueError("give a number of seconds above 0")
    return value


Seconds = Annotated[float | None, AfterValidator(_positive)]


class _Own(BaseModel):
    """Our own settings of an entry, under "toolroute"; all in seconds."""

    model_config = ConfigDict(extra="forbid")
    connect_timeout_s: Seconds = None
    call_timeout_s: Seconds = None
    idle_ttl_s: Seconds = None


class _Switch(BaseModel):
    """How clients switch an entry off."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)
    disabled: bool = False
    enabled: bool = True


class _Entry(_Switch):
    """An entry as the common clients write it. What only they use (autoApprove, icon, ...) is left alone."""

    command: str = ""
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    envFile: str = ""  # noqa: N815 (VS Code's name)
    url: str = Field("", validation_alias=AliasChoices("url", "httpUrl", "serverUrl"))
    headers: dict[str, str] = Field(default_factory=dict)
    type: str = Field("", validation_alias=AliasChoices("type", "transport"))
    disabledTools: frozenset[str] = Field(frozenset(), validation_alias=AliasChoices("disabledTools", "excludeTools"))  # noqa: N815
    includeTools: frozenset[str] | None = None  # noqa: N815
    toolroute: _Own = Field(default_factory=_Own)

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, entry: Any) -> Any:
        """Numbers and booleans among texts (`env`, `headers`, `args`) as a shell would pass them; null as not given."""
        if not isinstance(entry, dict):
            raise ValueError("an entry is an object")
        entry = {key: value for key, value in entry.items() if value is not None}
        for named in ("env", "headers"):
            if isinstance(entry.get(named), dict):
                entry[named] = {key: _shell_text(value) for key, value in entry[named].items()}
        if isinstance(entry.get("args"), list):
            entry["args"] = [_shell_text(value) for value in entry["args"]]
        return entry

    @model_validator(mode="after")
    def _one_transport(self) -> Self:
        kind = self.type.lower()
        if kind in {"sse", "ws", "websocket"}:
            bridge = ', or reach it through a bridge: "command": "npx", "args": ["-y", "mcp-remote", URL]'
            remedy = f"give the server's streamable HTTP url (type http){bridge if kind == 'sse' else ''}"
            raise ValueError(f"type {self.type!r} is not supported: {remedy}")
        if kind not in {"", "stdio", *_HTTP_TYPES}:
            raise ValueError(f"type {self.type!r} is unknown: give stdio or http")
        if bool(self.command) == bool(self.url):
            raise ValueError('give either "command" (a program to run) or "url" (a streamable HTTP server)')
        if (kind == "stdio" and self.url) or (kind in _HTTP_TYPES and self.command):
            raise ValueError(f"type {self.type!r} needs {'command' if kind == 'stdio' else 'url'}")
        if self.url and self.envFile:
            raise ValueError("envFile is for a command, which gets its variables: write ${NAME} in headers or url")
        if self.url and not re.match(r"https?://|\$\{", self.url):
            raise ValueError("url: give one that begins with http:// or https://")
        return self


_FIELD_OF = spellings(_Entry)


def _shell_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _is_off(entry: Any) -> bool:
    """Whether the entry is switched off, whatever else stands in it."""
    try:
        switch = _Switch.model_validate(entry)
    except ValidationError:
        return False  # The whole entry's own reading tells.
    return switch.disabled or not switch.enabled


def _spec(name: str, entry: Any, source: str) -> ServerSpec:
    where = f"{source}: server {name!r}"
    if not name.strip() or ":" in name:
        rule = "a name is not blank and holds no colon (a tool's key is server:name): rename"
        return ServerSpec(name=name, source=source, problem=f"{where}: {rule}")
    if isinstance(entry, Mapping) and (slip := misspelt(entry, _FIELD_OF)):
        told = "{!r} is no setting: did you mean {!r}?".format(*slip)
        return ServerSpec(name=name, source=source, problem=f"{where}: {told}")
    try:
        parsed = _Entry.model_validate(entry)
    except ValidationError as error:
        told = first_problem(error).replace("Value error, ", "", 1)
        return ServerSpec(name=name, source=source, problem=f"{where}: {told}")
    return ServerSpec(
        name=name,
        command=parsed.command,
        args=tuple(parsed.args),
        env=parsed.env,
        cwd=parsed.cwd,
        env_file=parsed.envFile,
        url=parsed.url,
        headers=parsed.headers,
        only_tools=parsed.includeTools,
        disabled_tools=parsed.disabledTools,
        source=source,
        **dict(parsed.toolroute),
    )
