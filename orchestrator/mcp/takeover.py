"""Clients' servers taken over into one configuration, which `toolroute serve` then offers to each of these clients.

A secret stays in its client's own file, as a variable of our entry there: the configuration refers to it as
`${SERVER_NAME}`, so that no server is ever given another one's.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from orchestrator.common.redact import argument_secrets, setting_secrets, url_secrets
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.clients import OURS, Client, ClientFile
from orchestrator.mcp.config import McpConfig
from orchestrator.mcp.extra import check_extra
from orchestrator.mcp.launch import VARIABLE

_NO_LETTER = re.compile(r"[^A-Z0-9]+")
_URLS = ("url", "httpUrl", "serverUrl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What becomes of one server of a client: its name in the configuration, or why it stays where it is."""

    server: str
    name: str = ""
    note: str = ""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_taken(self) -> bool:
        return bool(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A client's file, and what becomes of its servers, with the variables (and secrets) that each needs there."""

    file: ClientFile
    moves: tuple[Move, ...]

    @property
    def any(self) -> bool:
        return any(move.is_taken for move in self.moves)

    @property
    def variables(self) -> dict[str, str]:
        return {name: value for move in self.moves for name, value in move.variables.items()}

    def without(self, names: Collection[str]) -> "Taken":
        """Return this with the servers of these names staying where they are."""
        return replace(
            self, moves=tuple(replace(m, name="", variables={}) if m.name in names else m for m in self.moves)
        )

    def text(self, command: Sequence[str]) -> str:
        """Return the file's text with our entry in place of the servers that are taken over.

        What a person has added to our entry stays, but no switch; how it starts us, where that says all of `command`.
        """
        gone = {move.server for move in self.moves if move.is_taken}
        kind = {"type": "stdio"} if self.file.client.key == "servers" else {}
        entry: dict[str, Any] = {**kind, **_switched_on(self.file.entries.get(OURS, {}))}
        variables = {**(entry.get("env") or {}), **self.variables}
        if not {*_words(command[command.index("serve") :])} <= {*_words(entry.get("args") or ())}:
            entry |= {"command": command[0], "args": [*command[1:]]}
        if self.file.client.is_toml:
            passed = [name for name, value in variables.items() if value == f"${{{name}}}"]
            variables = {name: value for name, value in variables.items() if name not in passed}
            known = entry.get("env_vars", [])
            entry |= {"env_vars": [*known, *(name for name in passed if name not in known)]} if passed else {}
        entry |= {"env": variables} if variables else {}
        kept = {name: given for name, given in self.file.entries.items() if name not in gone}
        return self.file.with_entries({**kept, OURS: entry})


def take_over(files: Sequence[ClientFile], servers: dict[str, Any]) -> list[Taken]:
    """Return what becomes of each file's servers, and add those that are taken to `servers`, entries by name.

    The same entry counts once; another one of the same name gets the client's name behind its own.
    """
    entries = [{server: _entry(file, given) for server, given in file.entries.items()} for file in files]
    named = _named(entries)
    return [_take(file, given, servers, named) for file, given in zip(files, entries, strict=True)]


def served(files: Iterable[ClientFile]) -> Path | None:
    """Return the configuration that our entry in one of these files names, None without one."""
    given = [file.entries[OURS] for file in files if OURS in file.entries]
    found = [dict(pairwise(_words(entry["args"]))).get("--config") for entry in given if _is_ours(entry)]
    return next((Path(one) for one in found if one and Path(one).is_file()), None)


def with_usable_entry(file: ClientFile) -> ClientFile:
    """Return the file; InvalidConfig where our own entry in it is broken."""
    if _is_ours(entry := _entry(file, file.entries.get(OURS))):
        config = McpConfig.parse({"mcpServers": {OURS: _switched_on(entry)}}, str(file.path))
        if problem := config.servers[OURS].problem:
            raise InvalidConfig(problem)
    return file


def _switched_on(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in ("disabled", "enabled")}


def _words(args: Iterable[Any]) -> list[str]:
    """Return arguments with `--option=value` as two."""
    return [word for one in map(str, args) for word in (one.split("=", 1) if one.startswith("--") else [one])]


def _entry(file: ClientFile, given: Any) -> Any:
    """Return a client's entry as an mcpServers file has it; what is null is left out there."""
    text = json.dumps(_from_codex(given) if file.client.is_toml else given, default=str)
    entry = json.loads(text, parse_constant=str)  # What no JSON file may hold, an endless time, is a text there.
    return {key: value for key, value in entry.items() if value is not None} if isinstance(entry, dict) else entry


def _named(entries: Any) -> set[str]:
    return {found["name"] for found in VARIABLE.finditer(json.dumps(entries))}


def _take(file: ClientFile, entries: Mapping[str, Any], servers: dict[str, Any], named: set[str]) -> Taken:
    if OURS in file.entries and not _is_ours(file.entries[OURS]):
        return Taken(file=file, moves=(Move(server=OURS, note="its name is that of our own entry: rename it"),))
    others = [(server, entry) for server, entry in entries.items() if not _is_ours(entry)]
    return Taken(file=file, moves=tuple(_move(*one, file.client, servers, named) for one in others))


def _move(server: str, entry: Any, client: Client, servers: dict[str, Any], named: set[str]) -> Move:
    """Return what becomes of a server; its entry is among `servers` where it is taken."""
    if reason := _unusable(server, entry):
        return Move(server=server, note=reason)
    passed, lacking = _passed_on(client, entry)
    for name in (server, f"{server}-{client.name}"):
        theirs = _named([other for key, other in servers.items() if key != name])
        hidden, variables = _hide(name, entry, named | theirs)
        note = "the same entry is there" if name in servers else ""
        if servers.setdefault(name, hidden) in (hidden, entry):
            notes = filter(None, [note if name == server else f"another is called {server}", lacking])
            return Move(server=server, name=name, note="; ".join(notes), variables=variables | passed)
    return Move(server=server, note=f"{server} and {name} are other entries: rename it")


def _passed_on(client: Client, entry: Any) -> tuple[dict[str, str], str]:
    """Return the variables of an entry that our own has the client expand, and what its user does where it cannot."""
    check_extra()
    from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

    found = VARIABLE.finditer(json.dumps(entry))
    more = [one for one in found if one["name"] not in DEFAULT_INHERITED_ENV_VARS]
    if not client.raw:
        return {one["name"]: one[0] for one in more}, ""
    needed = ", ".join(dict.fromkeys(one["name"] for one in more if one["default"] is None))
    return {}, needed and f"write {needed} into our entry's env: {client.title} expands no variable"


def _is_ours(entry: Any) -> bool:
    args = entry.get("args") if isinstance(entry, Mapping) else ()
    if not isinstance(args, list) or "serve" not in args:
        return False
    started = (entry.get("command"), *args[: args.index("serve")])
    return not {OURS, "orchestrator"}.isdisjoint(Path(str(one)).stem for one in started)


def _unusable(server: str, entry: Any) -> str:
    """Return why toolroute cannot start a server as its client does; "" where it can."""
    if "${input:" in json.dumps(entry):
        return "the client asks its user for a value of it"
    config = McpConfig.parse({"mcpServers": {server: entry}}, source="")
    problems = [spec.problem.partition(f"server {spec.name!r}: ")[2] for spec in config.servers.values()]
    return problems[0] if problems else "it is switched off"


def _hide(name: str, entry: Mapping[str, Any], named: set[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return an entry with variables in place of its secrets, none of them `named` elsewhere, and their values."""
    variables, prefix = dict[str, str](), _NO_LETTER.sub("_", name.upper()).strip("_") or "SERVER"
    prefix = prefix if prefix[0].isalpha() else f"MCP_{prefix}"

    def put(key: str, value: str) -> str:
        own = _NO_LETTER.sub("_", key.upper()).strip("_")
        variable = own if own.startswith(f"{prefix}_") else f"{prefix}_{own}"
        while variable in named or variables.get(variable, value) != value:
            variable += "_2"
        variables[variable] = value
        return f"${{{variable}}}"

    def settings(given: Mapping[str, Any]) -> dict[str, Any]:
        return {key: put(key, value) if _is_secret({key: value}) else value for key, value in given.items()}

    hidden = {key: settings(value) if key in ("env", "headers") else value for key, value in entry.items()}
    args = [one for one in entry.get("args") or () if isinstance(one, str)]
    if secrets := argument_secrets([str(entry.get("command", "")), *args]):
        hidden["args"] = [_replaced(one, secrets, put) for one in entry["args"]]
    for key in _URLS:
        if isinstance(url := entry.get(key), str):
            hidden[key] = _replaced(url, url_secrets(url), put)
    return hidden, variables


def _is_secret(setting: Mapping[str, Any]) -> bool:
    [value] = setting.values()
    return isinstance(value, str) and "${" not in value and bool(setting_secrets(setting))


def _replaced(text: Any, secrets: Iterable[str], put: Callable[[str, str], str]) -> Any:
    for secret in sorted(secrets, key=len, reverse=True):
        if isinstance(text, str) and secret and "$" not in secret and secret in text:
            text = text.replace(secret, put("secret", secret))
    return text


def _from_codex(entry: Any) -> Any:
    """Return an entry of Codex as an mcpServers file has it."""
    if not isinstance(entry, Mapping):
        return entry
    made = {key: value for key, value in entry.items() if key not in _OF_CODEX}
    for key, kind in _CONTAINERS.items():
        if not isinstance(given := entry.get(key, kind()), kind):
            return {**made, "headers" if "headers" in key else "env": given}  # McpConfig says what is wrong with it.
    headers = {**entry.get("http_headers", {})}
    headers |= {key: f"${{{name}}}" for key, name in entry.get("env_http_headers", {}).items()}
    if name := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{name}}}"
    forwarded = {str(name): f"${{{name}}}" for name in entry.get("env_vars", ())}
    limits = {ours: entry[theirs] for theirs, ours in _TIMES.items() if theirs in entry}
    more = {
        "headers": headers,
        "env": {**forwarded, **entry.get("env", {})},
        "includeTools": entry.get("enabled_tools"),
        "disabledTools": entry.get("disabled_tools"),
        "toolroute": limits,
    }
    return {**made, **{key: value for key, value in more.items() if value}}


_TIMES = {"startup_timeout_sec": "connect_timeout_s", "tool_timeout_sec": "call_timeout_s"}
_CONTAINERS = {"http_headers": dict, "env_http_headers": dict, "env_vars": list, "env": dict}
_OF_CODEX = {*_TIMES, *_CONTAINERS, "bearer_token_env_var", "enabled_tools", "disabled_tools"}
