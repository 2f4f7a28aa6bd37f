"""Takes clients' servers over into one configuration, which `toolroute serve` then offers to each of these clients.

Entries are copied with their secrets. Only the owner of the configuration can read the file.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.client_setup.client_file import ClientFile
from orchestrator.client_setup.entries import (
    is_ours,
    our_entry,
    same_server,
    translated,
    why_it_stays,
    words,
)
from orchestrator.client_setup.products import OURS, Client
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.launch import VARIABLE
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.extra import require_mcp

_FILLED_IN_HERE = frozenset({"userHome", "toolroutePython"})
"""Variables that toolroute replaces itself, as the client does."""
_OF_EDITOR = frozenset({"workspaceFolder", "workspaceFolderBasename"})
"""Variables that an editor fills in from what is open, and not from its environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The plan for one server of a client.

    Attributes:
        server: Its name in the client's file.
        name: Its name in the configuration, "" if it stays in the client's file.
        note: A note for the user.
        variables: The variables of its entry that the client replaces, in the notation of an mcpServers file.
    """

    server: str
    name: str = ""
    note: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A client's file, and the plan for each of its servers."""

    file: ClientFile
    moves: tuple[Move, ...]

    @property
    def moved(self) -> tuple[Move, ...]:
        """The plans of the servers that are taken over."""
        return tuple(move for move in self.moves if move.name)

    def without(self, names: Collection[str]) -> "Takeover":
        """Return the plan in which the servers of these names stay where they are."""
        moves = [
            replace(move, name="", variables={}) if move.name in names else move
            for move in self.moves
        ]
        return replace(self, moves=tuple(moves))

    def entry(self, command: Sequence[str]) -> dict[str, Any]:
        """Return the toolroute entry for the client's file.

        An entry that is there keeps its settings, and its command if that has all arguments of `command`. It is
        switched on.
        """
        client = self.file.client
        present = self.file.entries.get(OURS, {})
        entry: dict[str, Any] = {**client.ours, **_switched_on(present)}
        # A command that a person has changed stays, for example one that starts another environment's toolroute.
        if not self._has_arguments(command):
            entry |= _started_by(client, command)
        return entry | self._passed_on(entry)

    def _has_arguments(self, command: Sequence[str]) -> bool:
        """Return True if the entry that is there has all arguments of `command` from `serve` on."""
        present = our_entry(self.file) or {}
        arguments = command[command.index("serve") :]
        return set(words(arguments)).issubset(words(present.get("args") or ()))

    def _passed_on(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of the toolroute entry that passes variables of the client on."""
        variables: dict[str, str] = {}
        for move in self.moves:
            variables |= move.variables
        if not variables:
            return {}
        client = self.file.client
        if client.form == "toml":
            present = entry.get("env_vars", [])
            # Codex names the variables that it passes on. The others write them as values.
            return {"env_vars": [*present, *(name for name in variables if name not in present)]}
        key = _their_name(client, "env")
        return {key: {**(entry.get(key) or {}), **variables}}

    def text(self, command: Sequence[str]) -> str:
        """Return the file's text with the toolroute entry in place of the servers that are taken over.

        Raises:
            EditByHand: Other content of the file would change.
        """
        gone = {move.server for move in self.moved}
        stays = {name: entry for name, entry in self.file.entries.items() if name not in gone}
        return self.file.with_entries({**stays, OURS: self.entry(command)})


def take_over(files: Sequence[ClientFile], servers: dict[str, Any]) -> list[Takeover]:
    """Return the plan for each file's servers, and add the taken servers to `servers`.

    Equal entries become one server. A different entry with the same name gets the client's name as a suffix.
    """
    return [Takeover(file=file, moves=tuple(_moves(file, servers))) for file in files]


def with_usable_entry(file: ClientFile) -> ClientFile:
    """Return the file. Raises InvalidConfig if the toolroute entry in it is broken."""
    entry = our_entry(file)
    if is_ours(entry):
        config = McpConfig.parse({"mcpServers": {OURS: _switched_on(entry)}}, str(file.path))
        if problem := config.servers[OURS].problem:
            raise InvalidConfig(problem)
    return file


def _switched_on(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in ("disabled", "enabled")}


def _their_name(client: Client, ours: str) -> str:
    """Return the client's spelling of a field of an mcpServers file."""
    return next((theirs for theirs, name in client.fields.items() if name == ours), ours)


def _started_by(client: Client, command: Sequence[str]) -> dict[str, Any]:
    name = _their_name(client, "command")
    return {name: [*command]} if client.joined else {name: command[0], "args": [*command[1:]]}


def _moves(file: ClientFile, servers: dict[str, Any]) -> list[Move]:
    if OURS in file.entries and not is_ours(our_entry(file)):
        return [Move(server=OURS, note="it has the same name as the toolroute entry: rename it")]
    moves = []
    for server, as_written in file.entries.items():
        entry = translated(file.client, as_written)
        if not is_ours(entry):
            moves.append(_move(server, entry, file.client, servers))
    return moves


def _move(server: str, entry: Any, client: Client, servers: dict[str, Any]) -> Move:
    """Return the plan for a server, and add its entry to `servers` if it is taken over."""
    reason = why_it_stays(server, entry, client)
    if reason:
        return Move(server=server, note=reason)
    # Two clients may give one name to two servers. The first one keeps it.
    name = server
    note = "the same entry already exists" if server in servers else ""
    if not same_server(servers.get(server, entry), entry):
        name = f"{server}-{client.name}"
        note = f"another server is named {server}"
    if not same_server(servers.setdefault(name, entry), entry):
        return Move(server=server, note=f"{server} and {name} are different entries: rename it")
    variables, lacking = _variables(client, entry)
    notes = filter(None, (note, lacking))
    return Move(server=server, name=name, note="; ".join(notes), variables=variables)


def _variables(client: Client, entry: Any) -> tuple[dict[str, str], str]:
    """Return the variables that the toolroute entry must pass on, and a note if the client replaces none."""
    require_mcp()
    from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

    needed = [
        variable
        for variable in VARIABLE.finditer(json.dumps(entry))
        if variable["name"]
        and variable["name"] not in {*DEFAULT_INHERITED_ENV_VARS, *_FILLED_IN_HERE}
    ]
    if client.environment == "inherited":
        return {}, ""
    if client.environment == "named":
        return {variable["name"]: _reference(client, variable) for variable in needed}, ""
    missing_variables = ", ".join(
        dict.fromkeys(variable["name"] for variable in needed if variable["default"] is None)
    )
    remedy = f"write {missing_variables} into the env of the toolroute entry: {client.title} expands no variables"
    return {}, remedy if missing_variables else ""


def _reference(client: Client, variable: re.Match[str]) -> str:
    """Return a variable in the client's notation. A variable that is not set becomes empty, so its default applies."""
    name = variable["name"]
    return f"${{env:{name}}}" if client.namespaced and name not in _OF_EDITOR else variable[0]
