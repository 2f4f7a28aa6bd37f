"""Takes clients' servers over into one configuration, which `toolroute serve` then offers to each of these clients.

Entries are copied with their secrets. Only the owner of the configuration can read the file.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from orchestrator.client_setup.products import OURS, Client, ClientFile
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.launch import VARIABLE
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.extra import require_mcp


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The plan for one server of a client.

    Attributes:
        server: Its name in the client's file.
        name: Its name in the configuration, "" if it stays in the client's file.
        note: A note for the user.
        variables: The variables of its entry that the client expands, in the client's notation.
    """

    server: str
    name: str = ""
    note: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A client's file, and the plan for each of its servers."""

    file: ClientFile
    moves: tuple[Move, ...]

    @property
    def any(self) -> bool:
        """Whether a server is taken over."""
        return any(move.name for move in self.moves)

    def without(self, names: Collection[str]) -> "Taken":
        """Return the plan in which the servers of these names stay where they are."""
        stays = [replace(m, name="", variables={}) if m.name in names else m for m in self.moves]
        return replace(self, moves=tuple(stays))

    def text(self, command: Sequence[str]) -> str:
        """Return the file's text with our entry in place of the servers that are taken over.

        An entry of ours that is there keeps its settings, and its command if that has all arguments of `command`. It
        is switched on.
        """
        gone = {move.server for move in self.moves if move.name}
        client, own = self.file.client, self.file.entries.get(OURS, {})
        entry: dict[str, Any] = {**client.ours, **_switched_on(own)}
        if not {*_words(command[command.index("serve") :])} <= {*_words(_entry(self.file, own).get("args") or ())}:
            theirs = {name: spelt for spelt, name in client.fields.items()}
            entry |= {theirs.get("command", "command"): [*command] if client.joined else command[0]}
            entry |= {} if client.joined else {"args": [*command[1:]]}
        passed = {name: text for move in self.moves for name, text in move.variables.items()}
        if passed and client.form == "toml":
            known = entry.get("env_vars", [])
            entry["env_vars"] = [*known, *(name for name in passed if name not in known)]
        elif passed:
            entry["env"] = {**(entry.get("env") or {}), **passed}
        kept = {name: given for name, given in self.file.entries.items() if name not in gone}
        return self.file.with_entries({**kept, OURS: entry})


def take_over(files: Sequence[ClientFile], servers: dict[str, Any]) -> list[Taken]:
    """Return the plan for each file's servers, and add the taken servers to `servers`.

    Equal entries become one server. A different entry with the same name gets the client's name as a suffix.
    """
    return [Taken(file=file, moves=tuple(_moves(file, servers))) for file in files]


def served(files: Iterable[ClientFile]) -> Path | None:
    """Return the configuration that our entry in one of these files names, None without one."""
    given = [file.entries[OURS] for file in files if OURS in file.entries]
    found = [dict(pairwise(_words(entry["args"]))).get("--config") for entry in given if _is_ours(entry)]
    return next((Path(one) for one in found if one and Path(one).is_file()), None)


def with_usable_entry(file: ClientFile) -> ClientFile:
    """Return the file. Raises InvalidConfig if the toolroute entry in it is broken."""
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
    """Return a client's entry in the form of an mcpServers file, without null values."""
    client = file.client
    text = json.dumps(_from_codex(given) if client.form == "toml" else given, default=str)
    if client.variable:
        text = re.sub(client.variable, r"${\1}", text)
    entry = json.loads(text, parse_constant=str)  # JSON has no endless time, which TOML has.
    if not isinstance(entry, dict):
        return entry
    made = {client.fields.get(key, key): value for key, value in entry.items() if value not in (None, [])}
    if client.joined and isinstance(words := made.get("command"), list) and words:
        made |= {"command": words[0], "args": words[1:]}
    if made.get("type") in _TYPES:
        made["type"] = _TYPES[made["type"]]
    if made.get("includeTools") == ["*"]:
        del made["includeTools"]
    return made


_TYPES = {"local": "stdio", "remote": "http", "streamable_http": "http"}


def _moves(file: ClientFile, servers: dict[str, Any]) -> Iterable[Move]:
    if OURS in file.entries and not _is_ours(file.entries[OURS]):
        yield Move(server=OURS, note="it has the same name as the toolroute entry: rename it")
        return
    for server, given in file.entries.items():
        if not _is_ours(entry := _entry(file, given)):
            yield _move(server, entry, file.client, servers)


def _move(server: str, entry: Any, client: Client, servers: dict[str, Any]) -> Move:
    """Return the plan for a server, and add its entry to `servers` if it is taken over."""
    if reason := _unusable(server, entry, client):
        return Move(server=server, note=reason)
    variables, lacking = _variables(client, entry)
    for name, other in ((server, ""), (f"{server}-{client.name}", f"another server is named {server}")):
        same = "the same entry already exists" if name in servers else ""
        if _same(servers.setdefault(name, entry), entry):
            note = "; ".join(filter(None, [other or same, lacking]))
            return Move(server=server, name=name, note=note, variables=variables)
    return Move(server=server, note=f"{server} and {name} are different entries: rename it")


def _same(one: Any, other: Any) -> bool:
    """Return True if two entries mean the same, however they are written."""
    specs = [McpConfig.parse({"mcpServers": {"it": entry}}).servers["it"] for entry in (one, other)]
    return specs[0].model_copy(update={"type": ""}) == specs[1].model_copy(update={"type": ""})


def _variables(client: Client, entry: Any) -> tuple[dict[str, str], str]:
    """Return the variables that the toolroute entry must pass on, and a note if the client expands none."""
    require_mcp()
    from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

    found = VARIABLE.finditer(json.dumps(entry))
    more = [one for one in found if one["name"] and one["name"] not in DEFAULT_INHERITED_ENV_VARS]
    if client.variable:
        return {}, ""  # Its servers get all variables of its own.
    if not client.raw:
        return {one["name"]: one[0] for one in more}, ""
    needed = ", ".join(dict.fromkeys(one["name"] for one in more if one["default"] is None))
    return ({}, needed and f"write {needed} into the env of the toolroute entry: {client.title} expands no variables")


def _is_ours(entry: Any) -> bool:
    args = entry.get("args") if isinstance(entry, Mapping) else ()
    if not isinstance(args, list) or "serve" not in args:
        return False
    started = (entry.get("command"), *args[: args.index("serve")])
    return not {OURS, "orchestrator"}.isdisjoint(Path(str(one)).stem for one in started)


def _unusable(server: str, entry: Any, client: Client) -> str:
    """Return the reason why toolroute cannot start a server as its client does, or ""."""
    if found := _THEIRS.search(VARIABLE.sub("", json.dumps(entry))):
        return f"only {client.title} can fill in {found[0]}"
    if isinstance(entry, Mapping) and entry.get("env_keys"):
        return f"{client.title} keeps its secrets: {', '.join(map(str, entry['env_keys']))}"
    config = McpConfig.parse({"mcpServers": {server: entry}}, source="")
    problems = [spec.problem.partition(f"server {spec.name!r}: ")[2] for spec in config.servers.values()]
    return problems[0] if problems else "it is switched off"


_THEIRS = re.compile(r"\$\{+[^}]*\}+|(?<!\$)\{(?:env|file):[^}]*\}")
"""Variables that only the client can fill in, such as `${input:key}`, `${{ secrets.KEY }}` and `{file:~/key}`."""


def _from_codex(entry: Any) -> Any:
    """Return an entry of Codex as an mcpServers file has it."""
    if not isinstance(entry, Mapping):
        return entry
    made = {key: value for key, value in entry.items() if key not in _OF_CODEX}
    for key, kind in _CONTAINERS.items():
        if not isinstance(given := entry.get(key, kind()), kind):
            return {**made, "headers" if "headers" in key else "env": given}  # McpConfig reports the error in it.
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
