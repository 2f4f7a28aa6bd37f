"""MCP clients: where each keeps its servers on each system, and that part of its file, read and replaced.

Whatever else stands in a file stays as it is: comments, order, blanks, line ends, and a byte order mark.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.common.json_input import read_json, reading, without_comments
from orchestrator.errors import InvalidConfig

OURS = "toolroute"
"""The name of our entry in a client's file."""
_SPACE = re.compile(r"[\s,:]*")
_MARK = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers. `place` is below {home}, or {config}, where the system keeps settings; one
    that is `raw` replaces no variables in its file and passes on none."""

    name: str
    title: str
    place: str
    key: str = "mcpServers"
    raw: bool = False

    def path(self, environ: Mapping[str, str], system: str) -> Path:
        """Return its file of user-wide servers, whether there is one or not; `system` as `sys.platform` names it."""
        home = environ.get("USERPROFILE" if system == "win32" else "HOME") or str(Path.home())
        config = {
            "win32": environ.get("APPDATA") or f"{home}/AppData/Roaming",
            "darwin": f"{home}/Library/Application Support",
        }.get(system, environ.get("XDG_CONFIG_HOME") or f"{home}/.config")
        codex = environ.get("CODEX_HOME") or f"{home}/.codex"
        claude = environ.get("CLAUDE_CONFIG_DIR") or home
        return Path(self.place.format(home=home, config=config, codex=codex, claude=claude))

    @property
    def is_toml(self) -> bool:
        return self.place.endswith(".toml")


CLIENTS = (
    Client(name="claude-desktop", title="Claude Desktop", place="{config}/Claude/claude_desktop_config.json", raw=True),
    Client(name="claude-code", title="Claude Code", place="{claude}/.claude.json"),
    Client(name="cursor", title="Cursor", place="{home}/.cursor/mcp.json"),
    Client(name="vscode", title="VS Code", place="{config}/Code/User/mcp.json", key="servers"),
    Client(name="windsurf", title="Windsurf", place="{home}/.codeium/windsurf/mcp_config.json"),
    Client(name="gemini", title="Gemini CLI", place="{home}/.gemini/settings.json"),
    Client(name="codex", title="Codex", place="{codex}/config.toml", key="mcp_servers"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A client's file: its text, and the entries of its servers as they stand there."""

    client: Client
    path: Path
    text: str
    entries: Mapping[str, Any]

    @classmethod
    def read(cls, client: Client, path: Path) -> "ClientFile":
        """Read a file; InvalidConfig where it is broken."""
        with reading(path, error=InvalidConfig):
            text = path.read_bytes().decode("utf-8")  # Line ends and a mark stay as they are.
            return cls(client=client, path=path, text=text, entries=_entries(client, text))

    @property
    def has_entries(self) -> bool:
        return self.client.is_toml or _find(self.text, self.client.key) is not None

    def with_entries(self, entries: Mapping[str, Any]) -> str:
        """Return the text with these servers in place of its own."""
        if self.client.is_toml:
            return _toml_with(self.text, self.client.key, entries)
        start, end = _span(self.text, self.client.key)
        line = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        written = json.dumps(entries, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
        return self.text[:start] + _line_ends(written, self.text) + self.text[end:]

    def undone(self, before: "ClientFile") -> "ClientFile":
        """Return the file with the servers that it had before; those that were added or changed since stay so."""
        now = {name: entry for name, entry in self.entries.items() if name != OURS}
        entries, text = {**before.entries, **now}, before.text
        if entries != before.entries:
            text = self.with_entries(entries)
        elif self.client.is_toml:
            text = _toml_undone(self.text, before.text, self.client.key)
        elif _is_filled(self.text):
            (start, end), (first, last) = _span(self.text, self.client.key), _span(before.text, self.client.key)
            text = self.text[:start] + before.text[first:last] + self.text[end:]
        return replace(self, text=text, entries=entries)


def copies(path: Path, kind: str = "before") -> tuple[list[Path], Path]:
    """Return a file's copies, the first one first, and the place of the next: from before each change of ours, or
    `undone`, kept for what undoing the change could not bring back."""
    found, first = list[Path](), f"{path.name}.{kind}-toolroute"
    while (place := path.with_name(f"{first}.{len(found) + 1}" if found else first)).is_file():
        found.append(place)
    return found, place


def write(path: Path, text: str, *, private: bool = False) -> None:
    """Replace a file, or a link's own target, in one step; InvalidConfig if it cannot be written and is as before.

    The file keeps its permissions. A new file can be read by its owner alone, and so can any `private` file.
    """
    target = path.resolve()
    fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() and not private else 0o600
        fresh.touch(mode=0o600)
        fresh.write_bytes(text.encode("utf-8", "backslashreplace"))  # As JSON escapes half of a surrogate pair.
        fresh.chmod(mode)
        fresh.replace(target)
    except OSError as error:
        raise InvalidConfig(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _entries(client: Client, text: str) -> dict[str, Any]:
    if client.is_toml:
        value: Any = tomllib.loads(text.removeprefix(_MARK)).get(client.key, {})
    else:
        whole = read_json(without_comments(text.removeprefix(_MARK))) if _is_filled(text) else {}
        value = whole.get(client.key, {}) if isinstance(whole, dict) else None
    if not isinstance(value, dict):
        raise ValueError(f"{client.key!r} is no object of servers")
    return value


def _is_filled(text: str) -> bool:
    return bool(text.removeprefix(_MARK).strip())


def _members(plain: str) -> Iterator[tuple[str, int, int]]:
    """Yield each name of the JSON object that a text is, and where its value begins and ends."""
    decoder, at = json.JSONDecoder(), plain.find("{") + 1
    if not at:
        raise ValueError("not a JSON object")
    while (at := _after_space(plain, at)) < len(plain) and plain[at] != "}":
        name, at = decoder.raw_decode(plain, at)
        start = _after_space(plain, at)
        _, at = decoder.raw_decode(plain, start)
        yield name, start, at


def _after_space(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return found.end() if found else at


def _find(text: str, key: str) -> tuple[int, int] | None:
    return next(((start, end) for name, start, end in _members(without_comments(text)) if name == key), None)


def _span(text: str, key: str) -> tuple[int, int]:
    """Return where the value of a key of the outermost object stands; InvalidConfig without it."""
    if (found := _find(text, key)) is None:
        raise InvalidConfig(f"no object {key!r} stands there any more")
    return found


def _line_ends(written: str, text: str) -> str:
    return written.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in text else written


def _toml_text(document: Any, before: str) -> str:
    mark = _MARK if before.startswith(_MARK) else ""
    return mark + _line_ends(document.as_string(), before)


def _toml_with(text: str, key: str, entries: Mapping[str, Any]) -> str:
    import tomlkit
    from tomlkit.container import OutOfOrderTableProxy

    document: Any = tomlkit.parse(text.removeprefix(_MARK))
    own = document[key]
    if isinstance(own, OutOfOrderTableProxy):  # Servers with other tables between them, of which it can delete none.
        whole = tomlkit.table(is_super_table=True)
        for name in own:
            whole.append(name, own[name])
        document.remove(key)
        document[key] = own = whole
    for name in [name for name in own if name not in entries]:
        del own[name]
    before = own.unwrap()
    for name in [name for name, entry in entries.items() if before.get(name) != entry]:
        own[name] = entries[name]
    return _toml_text(document, text)


def _toml_undone(now: str, before: str, key: str) -> str:
    import tomlkit

    present, past = (tomlkit.parse(text.removeprefix(_MARK)) for text in (now, before))
    rest = [{name: value for name, value in one.unwrap().items() if name != key} for one in (present, past)]
    if rest[0] == rest[1]:
        return before
    present[key] = past[key]
    return _toml_text(present, now)
