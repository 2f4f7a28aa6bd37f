"""MCP clients: the location of their configuration files, and reading and replacing the servers in them.

Everything else in a file is preserved: comments, order, whitespace, line endings and a byte order mark.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.common.json_input import read_json, reading, without_comments
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.launch import BARE

OURS = "toolroute"
"""The name of our entry in a client's file."""
_SPACE = re.compile(r"[\s,:]*")
_MARK = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers.

    Attributes:
        name: Its name in commands.
        title: Its name for people.
        places: Possible paths of its user-wide file, below {home}, {config} (the system's settings folder) and
            similar. The first existing file counts.
        windows: The paths on Windows, if they differ.
        key: The part of the file that has the servers.
        raw: True if the client replaces no variables in its file and passes none on.
        fields: Its field names, each with the name in an mcpServers file.
        joined: True if the command and its arguments are one list.
        ours: Fields of the toolroute entry besides command and arguments.
        variable: The pattern of a variable, with the variable's name as its group.
    """

    name: str
    title: str
    places: tuple[str, ...]
    windows: str = ""
    key: str = "mcpServers"
    raw: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    joined: bool = False
    ours: Mapping[str, Any] = field(default_factory=dict)
    variable: str = ""

    def path(self, environ: Mapping[str, str], system: str) -> Path:
        """Return the path of its user-wide file, existing or not. `system` is a value of `sys.platform`."""
        home = environ.get("USERPROFILE" if system == "win32" else "HOME") or str(Path.home())
        xdg = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        named = {
            "home": home,
            "xdg": xdg,
            "config": {
                "win32": environ.get("APPDATA") or f"{home}/AppData/Roaming",
                "darwin": f"{home}/Library/Application Support",
            }.get(system, xdg),
            "codex": environ.get("CODEX_HOME") or f"{home}/.codex",
            "claude": environ.get("CLAUDE_CONFIG_DIR") or home,
            "copilot": environ.get("COPILOT_HOME") or f"{home}/.copilot",
        }
        places = (self.windows,) if self.windows and system == "win32" else self.places
        found = [Path(place.format(**named)) for place in places]
        return next((path for path in found if path.is_file()), found[0])

    @property
    def form(self) -> str:
        """The file's format: `json` (comments allowed), `toml` or `yaml`."""
        return self.places[0].rpartition(".")[2].replace("jsonc", "json")


_STORAGE = "{config}/Code/User/globalStorage"
CLIENTS = (
    Client(
        name="claude-desktop", title="Claude Desktop", places=("{config}/Claude/claude_desktop_config.json",), raw=True
    ),
    Client(name="claude-code", title="Claude Code", places=("{claude}/.claude.json",)),
    Client(name="cursor", title="Cursor", places=("{home}/.cursor/mcp.json",)),
    Client(
        name="vscode", title="VS Code", places=("{config}/Code/User/mcp.json",), key="servers", ours={"type": "stdio"}
    ),
    Client(name="windsurf", title="Windsurf", places=("{home}/.codeium/windsurf/mcp_config.json",)),
    Client(name="gemini", title="Gemini CLI", places=("{home}/.gemini/settings.json",), variable=BARE.pattern),
    Client(name="codex", title="Codex", places=("{codex}/config.toml",), key="mcp_servers"),
    # zed-industries/zed: crates/paths/src/paths.rs (config_dir, settings_file), docs/src/ai/mcp.md.
    Client(
        name="zed",
        title="Zed",
        places=("{xdg}/zed/settings.json",),
        windows="{config}/Zed/settings.json",
        key="context_servers",
        raw=True,
        ours={"source": "custom"},
    ),
    # docs.cline.bot/cli/configuration: one file for the extension, the CLI and the SDK; before, the extension's storage
    # (cline/cline: src/core/storage/disk.ts). cline/cline: docs/mcp/configuring-mcp-servers.mdx.
    Client(
        name="cline",
        title="Cline",
        places=(
            "{home}/.cline/data/settings/cline_mcp_settings.json",
            f"{_STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
        raw=True,
    ),
    # docs.roocode.com/features/mcp/using-mcp-in-roo; RooCodeInc/Roo-Code: src/shared/globalFileNames.ts and
    # src/services/mcp/McpHub.ts, in VS Code's storage of the extension.
    Client(name="roo", title="Roo Code", places=(f"{_STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",)),
    # continuedev/continue: docs/customize/deep-dives/mcp.mdx: a list, in which each entry has its name.
    Client(name="continue", title="Continue", places=("{home}/.continue/config.yaml",), raw=True),
    # opencode.ai/docs/mcp-servers, opencode.ai/docs/config.
    Client(
        name="opencode",
        title="opencode",
        places=("{xdg}/opencode/opencode.json", "{xdg}/opencode/opencode.jsonc"),
        key="mcp",
        fields={"environment": "env"},
        joined=True,
        ours={"type": "local", "enabled": True},
        variable=r"\{env:([A-Za-z_]\w*)\}",
    ),
    # block/goose: documentation/docs/guides/config-files.md.
    Client(
        name="goose",
        title="Goose",
        places=("{xdg}/goose/config.yaml",),
        windows="{config}/Block/goose/config/config.yaml",
        key="extensions",
        raw=True,
        fields={"cmd": "command", "envs": "env", "uri": "url", "available_tools": "includeTools"},
        ours={"type": "stdio", "name": OURS, "description": "", "enabled": True, "timeout": 300},
    ),
    # lmstudio.ai/blog/lmstudio-v0.3.17, lmstudio-ai/docs: 0_app/2_mcp/index.mdx; for the other place of older
    # installations lmstudio-ai/lmstudio-bug-tracker issue 1371.
    Client(
        name="lmstudio",
        title="LM Studio",
        places=("{home}/.lmstudio/mcp.json", "{home}/.cache/lm-studio/mcp.json"),
        raw=True,
    ),
    # ampcode.com/docs/cli/settings, ampcode.com/docs/customize/mcp.
    Client(
        name="amp",
        title="Amp",
        places=("{home}/.config/amp/settings.json", "{home}/.config/amp/settings.jsonc"),
        key="amp.mcpServers",
    ),
    # kiro.dev/docs/mcp/configuration.
    Client(name="kiro", title="Kiro", places=("{home}/.kiro/settings/mcp.json",)),
    # docs.warp.dev/agents/capabilities/mcp.
    Client(name="warp", title="Warp", places=("{home}/.warp/.mcp.json",), fields={"working_directory": "cwd"}),
    # docs.github.com: copilot/reference/copilot-cli-reference/cli-config-dir-reference and add-mcp-servers.
    Client(
        name="copilot",
        title="Copilot CLI",
        places=("{copilot}/mcp-config.json",),
        fields={"tools": "includeTools"},
        ours={"type": "local", "tools": ["*"]},
    ),
)
UNREAD = {
    "JetBrains AI Assistant": "its documentation names no file; paste the entry of `toolroute serve` into its settings"
}
"""Clients whose files are unknown, with the remedy."""


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
            text = path.read_bytes().decode("utf-8")  # Line ends and a mark stay as they are.
            return cls(client=client, path=path, text=text, entries=_named(_whole(client, text).get(client.key)))

    @property
    def has_entries(self) -> bool:
        return self.client.key in _whole(self.client, self.text)

    @property
    def others(self) -> dict[str, Any]:
        """All other content of the file."""
        return {name: own for name, own in _whole(self.client, self.text).items() if name != self.client.key}

    def with_entries(self, entries: Mapping[str, Any]) -> str:
        """Return the text with these servers instead of its own, and everything else unchanged."""
        client, whole = self.client, _whole(self.client, self.text)
        if client.form == "toml":
            text = _toml_with(self.text, client.key, entries)
        elif client.form == "yaml":
            text = _yaml_with(self.text, client.key, entries, listed=isinstance(whole.get(client.key), list))
        else:
            text = _json_with(self.text, client.key, entries)
        after = _whole(client, text)
        if _named(after.pop(client.key, None)) != entries or after != {
            k: v for k, v in whole.items() if k != client.key
        }:
            raise InvalidConfig(
                f"{self.path}: {client.key} cannot be changed without other changes to the file: edit it by hand"
            )
        return text

    def undone(self, before: "ClientFile") -> "ClientFile":
        """Return the file with its former servers. Servers that were added or changed since then are kept."""
        now = {name: entry for name, entry in self.entries.items() if name != OURS}
        entries, text, key = {**before.entries, **now}, before.text, self.client.key
        if entries != before.entries:
            text = self.with_entries(entries)
        elif self.client.form == "toml":
            text = _toml_undone(self.text, before.text, key)
        elif self.client.form == "yaml" and self.others == before.others:
            pass  # A remark on a server that was taken over stayed in the file: the text before has it once.
        elif self.client.key in _whole(self.client, self.text):
            span = _yaml_span if self.client.form == "yaml" else _span
            (start, end), (first, last) = span(self.text, key), span(before.text, key)
            text = self.text[:start] + before.text[first:last] + self.text[end:]
        return replace(self, text=text, entries=entries)


def copies(path: Path, kind: str = "before") -> tuple[list[Path], Path]:
    """Return the existing copies of a file, oldest first, and the path of the next copy.

    A copy is made before each change. A copy named `undone` has the content that undoing could not restore.
    """
    found, first = list[Path](), f"{path.name}.{kind}-toolroute"
    while (place := path.with_name(f"{first}.{len(found) + 1}" if found else first)).is_file():
        found.append(place)
    return found, place


def _whole(client: Client, text: str) -> dict[str, Any]:
    """Return a file's outermost object."""
    plain = text.removeprefix(_MARK)
    if client.form == "toml":
        return tomllib.loads(plain)
    if client.form == "yaml":
        import yaml

        try:
            value = yaml.safe_load(plain)
        except yaml.YAMLError as error:
            raise ValueError(f"not YAML ({' '.join(str(error).split())})") from None
    else:
        value = read_json(without_comments(plain)) if plain.strip() else None
    if not isinstance(value, dict | None):
        raise ValueError("not an object")
    return value or {}


def _named(value: Any) -> dict[str, Any]:
    """Return entries by name, also where each one has its name."""
    if isinstance(value, list):
        if not all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in value):
            raise ValueError("a server has no name")
        return {entry["name"]: {key: own for key, own in entry.items() if key != "name"} for entry in value}
    if not isinstance(value, dict | None):
        raise ValueError("no object of servers")
    return value or {}


def _members(plain: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield each name of the JSON object that a text is, where the name begins, and where its value begins and ends."""
    decoder, at = json.JSONDecoder(), plain.find("{") + 1
    if not at:
        raise ValueError("not a JSON object")
    while (at := _after_space(plain, at)) < len(plain) and plain[at] != "}":
        first = at
        name, at = decoder.raw_decode(plain, at)
        start = _after_space(plain, at)
        _, at = decoder.raw_decode(plain, start)
        yield name, first, start, at


def _after_space(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return found.end() if found else at


def _span(text: str, key: str) -> tuple[int, int]:
    """Return the start and end of a value in the outermost object. Raises InvalidConfig if the key is missing."""
    found = [(start, end) for name, _, start, end in _members(without_comments(text)) if name == key]
    if not found:
        raise InvalidConfig(f"no object {key!r} is there any more")
    return found[0]


def _json_with(text: str, key: str, entries: Mapping[str, Any]) -> str:
    plain = without_comments(text)
    if found := [(start, end) for name, _, start, end in _members(plain) if name == key]:
        return _spliced(text, *found[0], entries)
    whole: dict[str, Any] = json.loads(plain.removeprefix(_MARK))
    return _spliced(text, plain.find("{"), plain.rindex("}") + 1, {**whole, key: entries})


def _spliced(text: str, start: int, end: int, entries: Mapping[str, Any]) -> str:
    """Return the text with these members in the object at this place. Unchanged members keep their formatting."""
    plain, raw = (without_comments(text[: end - 1])[start:], text[start:end])  # Without its end a last comma stays.
    now: dict[str, Any] = json.loads(without_comments(text)[start:end])
    members = list(_members(plain + "}"))
    inner = _indent(raw, members[0][1]) if members and "\n" in raw else f"{_indent(text, start)}  "
    step = "\t" if inner.startswith("\t") else 2
    written = {name: json.dumps(entry, indent=step, ensure_ascii=False) for name, entry in entries.items()}
    written = {name: own.replace("\n", f"\n{inner}") for name, own in written.items()}
    edits = [
        (at, close, written[name]) for name, _, at, close in members if name in entries and now[name] != entries[name]
    ]
    edits += [(*_cut(raw, plain, first, close), "") for name, first, _, close in members if name not in entries]
    kept = [one for one in members if one[0] in entries]
    last = kept[-1][3] if kept else 1
    comma = _COMMA.match(plain, last) if kept else None
    added = ",".join(f"\n{inner}{json.dumps(name)}: {own}" for name, own in written.items() if name not in now)
    if added:
        behind = comma.end() if comma else last
        found = _REMARK.match(raw, behind) if kept else None
        at, missing = (found.end() if found else behind, "," if kept and not comma else "")
        edits += [(last, last, missing)] if at > last else []
        added = added if at > last else missing + added
        edits.append((at, at, added + ("" if "\n" in raw[at:] else f"\n{_indent(text, start)}")))
    elif comma and kept[-1] is not members[-1]:
        edits.append((comma.end() - 1, comma.end(), ""))
    for first, close, own in sorted(edits, reverse=True):
        raw = raw[:first] + _line_ends(own, text) + raw[close:]
    return text[:start] + raw + text[end:]


_COMMA, _REMARK = re.compile(r"\s*,"), re.compile(r"[ \t]*(?://[^\r\n]*)?")


def _cut(raw: str, plain: str, first: int, end: int) -> tuple[int, int]:
    """Return the start and end of a member with its comma. If it has its own lines, they and a trailing comment are
    included.
    """
    end = found.end() if (found := _COMMA.match(plain, end)) else end
    head, rest = (raw[:first].rstrip(" \t"), re.compile(r"[ \t]*(//[^\n]*)?\r?\n").match(raw, end))
    if head.endswith("\n") and rest:
        return len(head), rest.end()
    return first, end + len(raw[end:]) - len(raw[end:].lstrip(" "))


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_ends(written: str, text: str) -> str:
    return written.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in text else written


def _yaml_nodes(text: str, key: str) -> tuple[Any, Any]:
    import yaml

    root: Any = yaml.compose(text, yaml.SafeLoader)
    found = [(name, value) for name, value in root.value if name.value == key] if root else []
    if not found:
        raise InvalidConfig(f"no {key!r} is there any more")
    return found[0]


def _yaml_end(text: str, node: Any) -> int:
    """Return the start of the line after a node. The parser would also include the comments that follow."""
    while isinstance(node.value, list) and node.value and not node.flow_style:
        node = node.value[-1][1] if isinstance(node.value[-1], tuple) else node.value[-1]
    at: int = node.end_mark.index
    return at if text[at - 1] == "\n" else text.find("\n", at) + 1 or len(text)


def _yaml_span(text: str, key: str) -> tuple[int, int]:
    name, value = _yaml_nodes(text, key)
    return name.end_mark.index, _yaml_end(text, value)


def _yaml_with(text: str, key: str, entries: Mapping[str, Any], *, listed: bool) -> str:
    import yaml

    name, value = _yaml_nodes(text, key)
    now, start = (_named(yaml.safe_load(text.removeprefix(_MARK))[key]), name.end_mark.index)
    if not isinstance(value.value, list) or value.flow_style:
        text = f"{text[:start]}:\n{text[_yaml_end(text, value) :]}"
        nodes, now = [], {}
    else:
        nodes = [(own, own) if listed else own for own in value.value]
    lines = [(text.rfind("\n", 0, first.start_mark.index) + 1, _yaml_end(text, last)) for first, last in nodes]
    indent = _indent(text, nodes[0][0].start_mark.index) if nodes else "  "
    same = [place for place, own in zip(lines, now, strict=True) if own in entries and now[own] == entries[own]]
    added = {own: entry for own, entry in entries.items() if now.get(own) != entry}
    given: Any = [{"name": own, **entry} for own, entry in added.items()] if listed else added
    written = yaml.safe_dump(given, sort_keys=False, allow_unicode=True, width=1_000) if added else ""
    block = "".join(f"{indent}{line}" for line in written.splitlines(keepends=True))
    at = same[-1][1] if same else text.find("\n", start) + 1 or len(text)
    edits = [(first, last, "") for first, last in lines if (first, last) not in same]
    for first, last, own in sorted([*edits, (at, at, block)], reverse=True):
        gap = "\n" if own and first and text[first - 1] != "\n" else ""
        text = text[:first] + _line_ends(gap + own, text) + text[last:]
    return text


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
