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

from orchestrator.mcp.clients import OURS, ClientFile
from orchestrator.mcp.config import McpConfig
from orchestrator.mcp.launch import VARIABLE
from orchestrator.records.redact import argument_secrets, setting_secrets, url_secrets

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

        What a person has added to our entry stays, how it starts us where that says all that `command` does.
        """
        gone = {move.server for move in self.moves if move.is_taken}
        ours = self.file.entries.get(OURS)
        variables = {**((ours or {}).get("env") or {}), **self.variables}
        kind = {"type": "stdio"} if self.file.client.key == "servers" else {}
        entry: dict[str, Any] = {**kind, **(ours or {})}
        if not set(command[command.index("serve") :]) <= set(entry.get("args") or ()):
            entry |= {"command": command[0], "args": [*command[1:]]}
        if self.file.client.is_toml:
            passed = [name for name, value in variables.items() if value == f"${{{name}}}"]
            variables = {name: value for name, value in variables.items() if name not in passed}
            entry |= {"env_vars": sorted({*passed, *((ours or {}).get("env_vars") or ())})} if passed or ours else {}
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
    found = [dict(pairwise(map(str, entry["args"]))).get("--config") for entry in given if _is_ours(entry)]
    return next((Path(one) for one in found if one and Path(one).is_file()), None)


def _entry(file: ClientFile, given: Any) -> Any:
    """Return a client's entry as an mcpServers file has it; what is null is left out there."""
    entry = json.loads(json.dumps(_from_codex(given), default=str)) if file.client.is_toml else given
    return {key: value for key, value in entry.items() if value is not None} if isinstance(entry, dict) else entry


def _named(entries: Any) -> set[str]:
    return {found["name"] for found in VARIABLE.finditer(json.dumps(entries))}


def _take(file: ClientFile, entries: Mapping[str, Any], servers: dict[str, Any], named: set[str]) -> Taken:
    if OURS in file.entries and not _is_ours(file.entries[OURS]):
        return Taken(file=file, moves=(Move(server=OURS, note="its name is that of our own entry: rename it"),))
    others = [(server, entry) for server, entry in entries.items() if not _is_ours(entry)]
    return Taken(file=file, moves=tuple(_move(*one, file.client.name, servers, named) for one in others))


def _move(server: str, entry: Any, client: str, servers: dict[str, Any], named: set[str]) -> Move:
    """Return what becomes of a server; its entry is among `servers` where it is taken."""
    if reason := _unusable(server, entry):
        return Move(server=server, note=reason)
    for name in (server, f"{server}-{client}"):
        theirs = _named([other for key, other in servers.items() if key != name])
        hidden, variables = _hide(name, entry, named | theirs)
        note = "the same entry is there" if name in servers else ""
        if servers.setdefault(name, hidden) in (hidden, entry):
            note = note if name == server else f"another is called {server}"
            return Move(server=server, name=name, note=note, variables=variables)
    return Move(server=server, note=f"{server} and {name} are other entries: rename it")


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
    if server in config.off:
        return "it is switched off"
    return config.servers[server].problem.partition(f"server {server!r}: ")[2]


def _hide(name: str, entry: Mapping[str, Any], named: set[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return an entry with variables in place of its secrets, none of them `named` elsewhere, and the value of each
    variable that it names."""
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
    for found in VARIABLE.finditer(json.dumps(entry)):
        variables[found["name"]] = found[0]  # Expanded by the client, as before.
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
    headers = {**(entry.get("http_headers") or {})}
    headers |= {key: f"${{{name}}}" for key, name in (entry.get("env_http_headers") or {}).items()}
    if name := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{name}}}"
    forwarded = {name: f"${{{name}}}" for name in entry.get("env_vars") or () if isinstance(name, str)}
    limits = {ours: entry[theirs] for theirs, ours in _TIMES.items() if theirs in entry}
    more = {
        "headers": headers,
        "env": {**forwarded, **(entry.get("env") or {})},
        "includeTools": entry.get("enabled_tools"),
        "disabledTools": entry.get("disabled_tools"),
        "toolroute": limits,
    }
    return {**made, **{key: value for key, value in more.items() if value}}


_TIMES = {"startup_timeout_sec": "connect_timeout_s", "tool_timeout_sec": "call_timeout_s"}
_OF_CODEX = {
    *_TIMES,
    *("http_headers", "env_http_headers", "bearer_token_env_var", "env_vars", "env", "enabled_tools", "disabled_tools"),
}
