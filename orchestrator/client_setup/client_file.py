"""A client's file: its servers are read and replaced, and its former state is kept and given back."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from orchestrator.client_setup import json_file, toml_file, yaml_file
from orchestrator.client_setup.products import OURS, Client
from orchestrator.common.json_input import reading
from orchestrator.common.regular import read_bytes
from orchestrator.errors import InvalidConfig

_MARK = "\ufeff"
_MOST_BYTES = 64 * 2**20
"""The maximum size of a client's file. Some clients also keep their history in it."""
_FORMS: Mapping[str, ModuleType] = {"json": json_file, "toml": toml_file, "yaml": yaml_file}


class EditByHand(InvalidConfig):
    """A file that cannot be changed without losing something of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A client's file: its text and the entries of its servers."""

    client: Client
    path: Path
    text: str
    entries: Mapping[str, Any]

    @classmethod
    def read(cls, client: Client, path: Path) -> "ClientFile":
        """Read a file. Raises InvalidConfig if it is broken."""
        with reading(path, error=InvalidConfig):
            # Line ends and a mark stay as they are.
            return cls.of(client, path, read_bytes(path, most_bytes=_MOST_BYTES).decode("utf-8"))

    @classmethod
    def of(cls, client: Client, path: Path, text: str) -> "ClientFile":
        """Return the file that has this text. Nothing is read from the disk.

        Args:
            client: The client, which determines the format and the key of the servers.
            path: The path of the file.
            text: The content of the file.

        Raises:
            ValueError: The text is broken.
        """
        servers = _content(client, text).get(client.key)
        return cls(client=client, path=path, text=text, entries=_by_name(servers))

    @property
    def has_entries(self) -> bool:
        """Whether the file has the part for servers."""
        return self.client.key in _content(self.client, self.text)

    def with_entries(self, entries: Mapping[str, Any]) -> str:
        """Return the text with its servers replaced by these. All other content is unchanged.

        Raises:
            EditByHand: Other content would change, or a comment would be lost.
        """
        if entries == self.entries and (self.has_entries or not entries):
            return self.text
        form, client = _FORMS[self.client.form], self.client
        plain = self.text.removeprefix(_MARK)
        has_crlf = "\r\n" in plain and plain.count("\r\n") == plain.count("\n")
        plain = plain.replace("\r\n", "\n") if has_crlf else plain
        try:
            text: str = form.with_servers(
                plain if plain.strip() else _EMPTY[client.form], client.key, entries
            )
        except ValueError as error:  # Each of the three libraries raises its own kind.
            raise EditByHand(f"{self.path}: {client.key} cannot be changed ({error})") from None
        # The libraries keep what they know. What is read again shows whether that is everything.
        after = ClientFile.of(client, self.path, text)
        remaining_texts = [_without(client, changed) for changed in (plain, text)]
        if after.entries != entries or remaining_texts[0] != remaining_texts[1]:
            raise EditByHand(
                f"{self.path}: {client.key} cannot be changed without other changes to the file"
            )
        text = text.replace("\n", "\r\n") if has_crlf else text
        return _MARK + text if self.text.startswith(_MARK) else text

    def undone(self, before: "ClientFile") -> "ClientFile":
        """Return the file with its former servers. Servers that were added or changed since then are kept.

        A file that has not changed since `setup` wrote it gets its former text, to the byte.
        """
        added = {name: entry for name, entry in self.entries.items() if name != OURS}
        entries = {**before.entries, **added}
        with suppress(EditByHand):
            if entries == before.entries and before.with_entries(self.entries) == self.text:
                return before
        return ClientFile(
            client=self.client, path=self.path, text=self.with_entries(entries), entries=entries
        )

    def lacks(self, before: "ClientFile") -> bool:
        """Whether a server or a comment of the former file is not in this one."""
        comments = _FORMS[self.client.form].comments
        gone = Counter(comments(before.text)) - Counter(comments(self.text))
        return bool(gone) or not before.entries.keys() - {OURS} <= self.entries.keys()


_EMPTY = {"json": "{}\n", "toml": "", "yaml": ""}


def mcp_servers_file(path: Path) -> ClientFile:
    """Read an mcpServers file, whose servers are under `mcpServers` or, as in VS Code, `servers`."""
    client = Client(name=OURS, title=OURS, places=("mcp.json",))
    # VS Code's own file has another key, and people pass it as it is.
    files = [ClientFile.read(replace(client, key=key), path) for key in ("mcpServers", "servers")]
    return next((file for file in files if file.has_entries), files[0])


def block(client: Client, entry: Mapping[str, Any]) -> str:
    """Return toolroute's entry as a text to paste into a client's file."""
    servers: Any = {OURS: entry}
    return str(_FORMS[client.form].with_servers(_EMPTY[client.form], client.key, servers))


def copies(path: Path, kind: str = "before") -> tuple[list[Path], Path]:
    """Return the existing copies of a file, oldest first, and the path of the next copy.

    A copy is made before each change. A copy named `undone` has the content that undoing could not restore.
    """
    backups = list[Path]()
    first = f"{path.name}.{kind}-toolroute"
    candidate = path.with_name(first)
    while candidate.is_file():
        backups.append(candidate)
        candidate = path.with_name(f"{first}.{len(backups) + 1}")
    return backups, candidate


def _content(client: Client, text: str) -> dict[str, Any]:
    """Return a file's outermost object. Raises ValueError for a file with another value."""
    content = _FORMS[client.form].parse(text.removeprefix(_MARK))
    if not isinstance(content, dict | None):
        raise ValueError("not an object")
    return content or {}


def _without(client: Client, text: str) -> dict[str, Any]:
    """Return all content of a file but its servers."""
    return {name: value for name, value in _content(client, text).items() if name != client.key}


def _by_name(servers: Any) -> dict[str, Any]:
    """Return entries by name, also where each entry has its name."""
    if isinstance(servers, list):
        if not all(
            isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in servers
        ):
            raise ValueError("a server has no name")
        return {
            entry["name"]: {key: value for key, value in entry.items() if key != "name"}
            for entry in servers
        }
    if not isinstance(servers, dict | None):
        raise ValueError("no object of servers")
    return servers or {}
