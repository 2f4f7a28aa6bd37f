"""The `mcpServers` JSON format of MCP clients.

The records keep `${NAME}`, `${NAME:-default}` and `${env:NAME}` unexpanded. Variables are replaced when a server is
started. So a missing variable affects only its server, and no secret is in a record or its repr.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    model_validator,
)

from orchestrator.common.digests import OF_SERVER, digest
from orchestrator.common.fields import named
from orchestrator.common.json_input import (
    first_problem,
    read_json,
    reading,
    slip,
    spellings,
    without_comments,
)
from orchestrator.common.keys import normal_name
from orchestrator.common.redact import Secrets, argument_secrets, setting_secrets, url_secrets
from orchestrator.common.regular import MOST_SETTINGS_BYTES, read_text
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.launch import (
    VARIABLE,
    Expansion,
    Launch,
    at_home,
    braced,
    environment,
    passed_secrets,
    private_settings,
    read_env_file,
)
from orchestrator.mcp.config.oauth import OAuth
from orchestrator.mcp.config.profiles import Profile, read_profiles
from orchestrator.mcp.transports.runners import runner_of
from orchestrator.options import CLIENT_METADATA_URL
from orchestrator.records.tool_limits import MOST_RETRIES, RETRIES, TASK_QUEUE, TIMEOUT

PROFILES = "profiles"
"""The part of a file that restricts the servers and tools for clients."""

logger = logging.getLogger(__name__)


def _shell_text(value: Any) -> Any:
    """Write a number or boolean among texts as a shell would pass it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


WITHOUT_HANDSHAKE = "2026-07-28"
ProtocolVersion = Literal["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
_Seconds = Annotated[float, Field(gt=0)]
_Text = Annotated[str, BeforeValidator(_shell_text)]


class ServerLimits(BaseModel):
    """Time limits of a server in seconds: to connect, to be installed by a package runner, to answer, and to stay open
    while idle.

    0 means not given. `protocol_version` is the version for a server that negotiates no version. The other fields are
    for the tool calls on Temporal, as the labels of a tool are. `labels` are the labels that the fields set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    connect_timeout_s: _Seconds = 0.0
    install_timeout_s: _Seconds = 0.0
    call_timeout_s: Annotated[
        _Seconds, Field(validation_alias=AliasChoices("call_timeout_s", TIMEOUT))
    ] = 0.0
    idle_ttl_s: _Seconds = 0.0
    protocol_version: ProtocolVersion | None = None
    retries: Annotated[int, Field(ge=0, le=MOST_RETRIES)] | None = None
    task_queue: Annotated[str, Field(min_length=1)] | None = None
    idempotent: StrictBool | None = None

    @property
    def labels(self) -> dict[str, str]:
        limits = {
            TIMEOUT: self.call_timeout_s or None,
            **self.model_dump(include={RETRIES, TASK_QUEUE, "idempotent"}),
        }
        return {name: str(value) for name, value in limits.items() if value is not None}


class ServerSpec(BaseModel):
    """One unexpanded entry in the form of the common clients: a command to run or a URL.

    Fields that only clients use (autoApprove, icon, ...) are ignored. `unknown` has the fields that no known client
    uses. `problem` is a sentence about a broken entry. Of such a server only the name is known.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, hide_input_in_errors=True, defer_build=True
    )
    name: str = ""
    source: str = "mcpServers"
    problem: str = ""
    unknown: tuple[str, ...] = ()
    command: str = ""
    args: tuple[_Text, ...] = Field((), repr=False)
    env: dict[str, _Text] = Field(
        default_factory=dict,
        repr=False,
        validation_alias=AliasChoices("env", "environment", "envs"),
    )
    env_pass: tuple[str, ...] = Field(
        (), validation_alias=AliasChoices("env_pass", "envPass", "env_vars")
    )
    cwd: str | None = Field(
        None, validation_alias=AliasChoices("cwd", "workingDirectory", "working_directory")
    )
    env_file: str = Field("", validation_alias=AliasChoices("envFile"))
    url: str = Field("", validation_alias=AliasChoices("url", "httpUrl", "serverUrl"), repr=False)
    headers: dict[str, _Text] = Field(default_factory=dict, repr=False)
    oauth: OAuth = Field(default_factory=OAuth, validation_alias=AliasChoices("oauth", "auth"))
    type: str = Field("", validation_alias=AliasChoices("type", "transport"))
    disabled: StrictBool = False
    enabled: StrictBool = True
    disabled_tools: frozenset[str] = Field(
        frozenset(), validation_alias=AliasChoices("disabledTools", "excludeTools")
    )
    only_tools: frozenset[str] | None = Field(None, validation_alias=AliasChoices("includeTools"))
    trust_annotations: bool = True
    limits: ServerLimits = Field(ServerLimits(), validation_alias=AliasChoices("toolroute"))

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, entry: Any) -> Any:
        if not isinstance(entry, dict):
            raise ValueError("an entry is an object")
        return {
            key: value for key, value in entry.items() if key in _FIELD_OF and value is not None
        }

    @model_validator(mode="after")
    def _require_fitting_transport(self) -> Self:
        kind = self.type.lower()
        if kind in {"ws", "websocket"}:
            raise ValueError(
                f"type {self.type!r} is not supported: give the server's streamable HTTP url (type http)"
            )
        if bool(self.command) == bool(self.url):
            raise ValueError(
                'give either "command" (a program to run) or "url" (a server over HTTP)'
            )
        fitting = {"stdio"} if self.command else {"http", "streamablehttp", "sse"}
        if kind.replace("-", "").replace("_", "") not in {"", *fitting}:
            remedy = "give stdio with a command, http or sse with a url, or none"
            raise ValueError(f"type {self.type!r} does not fit: {remedy}")
        if self.url and self.env_file:
            raise ValueError(
                "envFile is for a command, which gets its variables: write ${NAME} in headers or url"
            )
        if self.url and not self.url.startswith(("http://", "https://", "${")):
            raise ValueError("url: give one that begins with http:// or https://")
        return self

    def __eq__(self, other: object) -> bool:
        """Compare everything except the position in the file."""
        return isinstance(other, ServerSpec) and dict(self, source="") == dict(other, source="")

    def lists(self, tool: str) -> bool:
        """Return True if the entry includes this tool of its server."""
        if self.only_tools is not None and tool not in self.only_tools:
            return False
        return not any(
            normal_name(tool) == normal_name(disabled) for disabled in self.disabled_tools
        )

    @property
    def runner(self) -> str:
        """The package runner that the command starts, "" where it starts none."""
        return runner_of(self.command, self.args)

    @property
    def transport(self) -> str:
        """`stdio`, `http` or `sse`, or "" if the entry is broken."""
        if not self.url:
            return "stdio" if self.command else ""
        return "sse" if self.type.lower() == "sse" else "http"

    @property
    def identity(self) -> str:
        """The entry's identity: 16 hexadecimal digits for the server, and 8 for the choice of its tools.

        A store keeps it, so it depends on no secret: only on the names of variables and headers, on `${NAME}`
        references, and on arguments and the address without secrets. A new token does not make a new server. If an
        argument is a relative file or folder, the working folder counts.
        """
        start = [self.command, *self.args, self.url]
        secrets = Secrets([*argument_secrets(start[:-1]), *url_secrets(self.url)])
        redacted = [secrets.redact(text) for text in start]
        folder = self._folder_that_counts()
        server = [redacted, folder, self.env_file, self._references()]
        written = json.dumps(server, sort_keys=True)
        of_server = digest(written, OF_SERVER)
        return of_server + self._identity_of_choice()

    def _references(self) -> dict[str, list[str]]:
        """Return the variables and files that each variable or header is filled in from."""
        references = {name: [name] for name in self.env_pass}  # As `"env": {"NAME": "${NAME}"}`.
        for name, text in {**self.env, **self.headers}.items():
            matches = VARIABLE.finditer(text)
            references[name] = [match["name"] or match["file"] for match in matches]
        return references

    def _identity_of_choice(self) -> str:
        chosen = [
            self.only_tools and sorted(self.only_tools),
            sorted(self.disabled_tools),
            self.trust_annotations,
        ]
        return digest(json.dumps(chosen), 8)

    def _folder_that_counts(self) -> str | None:
        """Return the absolute working folder if the entry names a file in it, otherwise the folder as written."""
        if not self.command:
            return self.cwd
        folder = Path(self.cwd or "").expanduser().absolute()
        is_used = _names_a_file(folder, (*self._words_for_files(), self.env_file))
        return str(folder) if is_used else self.cwd

    def _words_for_files(self) -> Iterator[str]:
        """Yield the words that can name the program's files.

        A plain command is looked up in PATH, and a runner installs a package by its name. If these words counted, a
        server could create a file of such a name. It would then be another server, whose definitions nobody has
        accepted yet.
        """
        if "/" in self.command or "\\" in self.command:
            yield self.command
        if self.runner in ("", "uv"):  # `uv run server.py`
            yield from self.args

    def launch(self, environ: Mapping[str, str] | None = None) -> Launch:
        """Return the entry with its variables replaced. Raises InvalidConfig with all missing or broken variables."""
        if self.problem:
            raise InvalidConfig(self.problem)
        environ = environment() if environ is None else environ
        where = f"{self.source}: server {self.name!r}"
        text = Expansion(environ)
        if self.unknown:
            logger.warning("%s: unknown fields ignored: %s", where, ", ".join(self.unknown))
        command = at_home(text.of("command", self.command))
        args = tuple(map(at_home, text.within("args", self.args)))
        env_file = at_home(text.of("envFile", self.env_file))
        env = text.within("env", self.env)
        cwd = at_home(text.of("cwd", self.cwd)) if self.cwd else None
        url = text.of("url", self.url)
        headers = text.within("headers", self.headers)
        oauth = self.oauth.expanded("oauth", text.of)
        text.check(where)
        _check_headers(headers, where)
        passed = {name: environ[name] for name in self.env_pass if name in environ}
        if env_file:
            env = read_env_file(env_file, f"{where}: envFile {self.env_file!r}") | env
        env = passed | env
        secrets = [*oauth.secrets, *passed_secrets(environment())]
        secrets += [*url_secrets(url), *argument_secrets([command, *args])]
        for settings in (text.used, env, headers):
            secrets += setting_secrets(private_settings(settings))
        launch = Launch(
            command=command,
            args=args,
            env=env,
            cwd=cwd,
            url=url,
            headers=headers,
            oauth=oauth,
            client_metadata_url=environ.get(CLIENT_METADATA_URL, ""),
            secrets=Secrets(secrets),
        )
        if launch.in_clear and (setting_secrets(headers) or url_secrets(url)):
            logger.warning(
                "%s: its credentials are sent unencrypted, because its url begins with http://. Use https://",
                where,
            )
        return launch


def _check_headers(headers: Mapping[str, str], where: str) -> None:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise InvalidConfig(
                f"{where}: headers.{name} has characters that are not allowed in a header"
            )
        if value != value.strip():
            raise InvalidConfig(
                f"{where}: headers.{name} begins or ends with a blank: remove the blank"
            )


_NOT_IN_FILES = {"name", "source", "problem", "unknown"}
_FIELD_OF = {
    name: field for name, field in spellings(ServerSpec).items() if field not in _NOT_IN_FILES
}
_REFUSED = {
    "headersHelper": 'toolroute runs no program for headers: write them in "headers", with ${NAME} for a secret',
    "env_keys": 'toolroute has no store of secrets: name variables of the environment in "env_pass"',
}
"""Fields with which a client does something that the server needs to start or answer."""
_OF_CLIENTS = frozenset(
    """
    alwaysAllow autoApprove available_tools bundled description dev display_name displayName gallery icon iconUrl icons
    id initTimeout label longRunning metadata name networkTimeout note notes provider requestTimeout source
    startupTimeout tags timeout title tools trust version
    """.split()
)
"""Fields that only clients use. Other unknown fields are reported when the server starts."""


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The MCP servers and the profiles of one configuration file.

    A broken entry does not affect the others. Its `launch` raises an error with the reason.

    Attributes:
        servers: The servers by name, in the file's order, without those that are switched off.
        source: The path of the file.
        off: The names of the servers that are switched off.
        profiles: The profiles by name.

    Examples:
        >>> from orchestrator import McpConfig
        >>> config = McpConfig.parse({"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}})
        >>> config.servers["time"].transport
        'stdio'
    """

    servers: Mapping[str, ServerSpec]
    source: str = "mcpServers"
    off: frozenset[str] = frozenset()
    profiles: Mapping[str, Profile] = field(default_factory=dict)

    @classmethod
    def of(cls, config: "McpConfig | Mapping[str, Any] | str | Path") -> "McpConfig":
        """Return the configuration itself, or that of decoded JSON or a file's path."""
        if isinstance(config, McpConfig):
            return config
        if not isinstance(config, Mapping | str | Path):
            raise InvalidConfig(
                f"config={config!r:.80}: give a McpConfig, a mapping or a file's path"
            )
        return cls.parse(config) if isinstance(config, Mapping) else cls.read(config)

    @classmethod
    @named
    def read(cls, path: str | Path, profile: str = "") -> Self:
        """Read a file. Comments and trailing commas are allowed.

        Args:
            path: The file. A pipe that a shell opened is read, too.
            profile: Include only the servers of this profile.

        Raises:
            InvalidConfig: The file cannot be read. The error names the file and the remedy.
        """
        with reading(path, "give an mcpServers JSON file", InvalidConfig):
            text = read_text(path, most_bytes=MOST_SETTINGS_BYTES, pipes=True)
            value = read_json(
                without_comments(braced(text) if Path(path).parent.name == ".gemini" else text)
            )
        return cls.parse(value, str(path), profile)

    @classmethod
    @named
    def parse(cls, value: Any, source: str = "mcpServers", profile: str = "") -> Self:
        """Read decoded JSON: `{"mcpServers": {name: entry}}`, or VS Code's `{"servers": ...}`.

        Args:
            value: The decoded JSON.
            source: The file's name, for errors.
            profile: Include only the servers of this profile.
        """
        document = value if isinstance(value, dict) else {}
        entries = document.get("mcpServers", document.get("servers"))
        if not isinstance(entries, dict):
            raise InvalidConfig(
                f'{source}: no "mcpServers" object; '
                'give {"mcpServers": {"NAME": {"command": ...}, "OTHER": {"url": ...}}}'
            )
        profiles = read_profiles(document.get(PROFILES, {}), source, entries)
        if profile:
            if profile not in profiles:
                raise InvalidConfig(
                    f"{source}: no profile {profile!r}; its profiles: {', '.join(profiles) or 'none'}"
                )
            entries = {
                name: entry for name, entry in entries.items() if profiles[profile].has_server(name)
            }
        off = frozenset(name for name, entry in entries.items() if _is_off(entry))
        specs = [_spec(name, entry, source) for name, entry in entries.items() if name not in off]
        return cls({spec.name: spec for spec in specs}, source, off, profiles)

    @property
    def entries(self) -> dict[str, str]:
        """The servers by name with the identity of each one's entry."""
        return {name: spec.identity for name, spec in self.servers.items()}

    @property
    def file(self) -> str:
        """The file's whole path, "" for none."""
        return "" if self.source == "mcpServers" else str(Path(self.source).absolute())

    def keeping(self, before: "McpConfig") -> "McpConfig":
        """Return this configuration with an earlier one's entries instead of entries that are broken now.

        Warns about the broken entries.
        """
        servers = dict(self.servers)
        for name, spec in self.servers.items():
            earlier = before.servers.get(name)
            if spec.problem and earlier is not None and not earlier.problem:
                servers[name] = earlier
                logger.warning("%s; the previous entry stays in use", spec.problem)
        return McpConfig(servers, self.source, self.off, self.profiles)

    def lacks(self, name: str) -> str:
        """Return a sentence that explains why there is no server of this name, with the remedy."""
        if name in self.off:
            return f'server {name!r} is switched off in {self.source}: leave out its "disabled" or "enabled"'
        return (
            f"no server {name!r} in {self.source}; its servers: {', '.join(self.servers) or 'none'}"
        )


@lru_cache(maxsize=4_096)
def _names_a_file(folder: Path, words: tuple[str, ...]) -> bool:
    """Return True if one of the words is a relative path of a file or folder in this folder.

    It is found out once in a process, because a server may create the file that its arguments name.
    """
    return any(word and not Path(word).is_absolute() and _exists(folder / word) for word in words)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # The text is no path, for example a whole program.
        return False


def _is_off(entry: Any) -> bool:
    return isinstance(entry, dict) and (
        entry.get("disabled") is True or entry.get("enabled") is False
    )


def _spec(name_in_file: str, entry: Any, source: str) -> ServerSpec:
    spec = ServerSpec.model_construct()
    problem = ""
    # No store takes half of a surrogate pair.
    name = name_in_file.encode("utf-8", "backslashreplace").decode()
    if name != name_in_file:
        problem = "the name is not valid UTF-8: rename it"
    elif not name.strip() or ":" in name:
        problem = "the name is blank or contains a colon (a tool's key is server:name): rename it"
    elif isinstance(entry, Mapping) and (wrong := slip(entry, _FIELD_OF, "setting")):
        problem = wrong
    elif isinstance(entry, Mapping) and (needed := next(filter(_REFUSED.get, entry), None)):
        problem = f"{needed}: {_REFUSED[needed]}"
    else:
        try:
            spec = ServerSpec.model_validate(entry)
            unknown = (
                key
                for key in entry
                if key not in _FIELD_OF and key not in _OF_CLIENTS and key[:1] not in "_$/#"
            )
            spec = spec.model_copy(update={"unknown": tuple(unknown)})
        except ValidationError as error:
            problem = first_problem(error).replace("Value error, ", "", 1)
    reported = problem and f"{source}: server {name!r}: {problem}"
    return spec.model_copy(update={"name": name, "source": source, "problem": reported})
