"""The files of MCP clients: each in its own form, changed where it must be and given back to the byte."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.client_setup.client_file import ClientFile, EditByHand
from orchestrator.client_setup.products import CLIENTS, Client
from orchestrator.client_setup.takeover import Takeover, take_over
from orchestrator.mcp.config.parse import McpConfig
from tests.command_line import Run
from tests.servers.start import HERE

COMMAND, SCRIPT = json.dumps(sys.executable), json.dumps(str(HERE / "quick.py"))
ENTRY = f'{{"command": {COMMAND}, "args": [{SCRIPT}]}}'
OFF = '{"command": "x", "disabled": true}'
PLAIN = f'{{\n  "mcpServers": {{\n    "quick": {ENTRY},\n    "off": {OFF}\n  }}\n}}\n'
FILES = {
    "claude-desktop": PLAIN.replace("{\n", '{\n  "globalShortcut": "",\n', 1),
    "claude-code": PLAIN.replace("{\n", '{\n\t"numStartups": 7,\n', 1),
    "cursor": PLAIN.replace("\n", "\r\n"),
    "vscode": f"""{{
  // mine
  "servers": {{
    "off": {OFF}, // not now
    "quick": {ENTRY},
  }},
  "inputs": [],
}}
""",
    "windsurf": PLAIN,
    "gemini": f'{{"theme": "Default", "mcpServers": {{"quick": {ENTRY}, "off": {OFF}}}}}',
    "codex": f'[mcp_servers.quick]  # mine\ncommand = {COMMAND}\nargs = [{SCRIPT}]\n\n[tui]\ntheme   = "dark"\n',
    "zed": f"""// Zed settings
{{
  "ui_font_size": 16,
  "context_servers": {{
    /* from an extension */
    "mcp-server-context7": {{"enabled": true, "settings": {{}}}},
    "quick": {{"source": "custom", "command": {COMMAND}, "args": [{SCRIPT}], "env": {{}}}},
    // the last one
  }},
  "theme": {{"mode": "system"}},
}}
""",
    "cline": PLAIN.replace('"quick": {', '"quick": {"autoApprove": [], "timeout": 60, "type": "stdio", '),
    "roo": PLAIN.replace('"quick": {', '"quick": {"alwaysAllow": ["add"], '),
    "continue": f"""name: Local Config
version: 1.0.0
schema: v1

models:
  - name: Big    # the one to use
    provider: anthropic

# what it may call
mcpServers:
  - name: quick
    command: {COMMAND}
    args:
      - {SCRIPT}
  - name: hub
    command: npx
    env:
      TOKEN: ${{{{ secrets.TOKEN }}}}

# how to answer
rules:
  - Be brief.
""",
    "opencode": f"""{{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {{
    "quick": {{
      "type": "local",
      "command": [{COMMAND}, {SCRIPT}],
      "environment": {{"MODE": "{{env:HOME}}"}},
      "enabled": true
    }}, // sums
    "off": {{"type": "remote", "url": "https://mcp.example/mcp", "enabled": false}}
  }}
}}
""",
    "goose": f"""GOOSE_PROVIDER: "anthropic"   # mine
extensions:
  developer:
    bundled: true
    enabled: true
    name: developer
    timeout: 300
    type: builtin
  quick:
    enabled: true
    type: stdio
    name: quick
    cmd: {COMMAND}
    args:
    - {SCRIPT}
    envs: {{}}
    env_keys: []
    timeout: 300
    description: ''
  keyed:
    enabled: true
    type: stdio
    name: keyed
    cmd: npx
    args: []
    env_keys:
    - API_KEY
GOOSE_MODEL: big
""",
    "lmstudio": PLAIN,
    "amp": f'{{\n  "amp.showCosts": true,\n  "amp.mcpServers": {{"quick": {ENTRY}}}\n}}',
    "kiro": PLAIN.replace('"quick": {', '"quick": {"autoApprove": [], "disabledTools": [], '),
    "warp": PLAIN.replace('"quick": {', '"quick": {"working_directory": null, '),
    "copilot": PLAIN.replace('"quick": {', '"quick": {"type": "local", "tools": ["*"], '),
}
"""A file of each client, with a server `quick` that is taken over, and others that stay."""


REMARKED = ("codex", "opencode")
"""The clients in whose file a comment stands on the line of `quick`. It goes with the server, and a copy has it."""
COMMAND_LINE = ["toolroute", "serve", "--config", "c"]


def client(name: str) -> Client:
    return next(known for known in CLIENTS if known.name == name)


def file_of(name: str, tmp_path: Path, text: str = "") -> ClientFile:
    """Write a client's file and read it."""
    path = tmp_path / Path(client(name).places[0]).name
    path.write_bytes((text or FILES[name]).encode())
    return ClientFile.read(client(name), path)


def file_with(name: str, servers: dict[str, Any], tmp_path: Path) -> ClientFile:
    return file_of(name, tmp_path, json.dumps({client(name).key: servers}))


def taken(file: ClientFile, servers: dict[str, Any] | None = None) -> Takeover:
    [takeover] = take_over([file], {} if servers is None else servers)
    return takeover


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make an empty home the user's own, and return its environment."""
    for variable in ("APPDATA", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    return {"HOME": str(tmp_path)}


def test_there_is_a_file_of_each_client() -> None:
    assert set(FILES) == {known.name for known in CLIENTS}


@pytest.mark.parametrize("name", FILES)
def test_a_server_added_later_is_taken_over_and_given_back(name: str, toolroute: Run, home: dict[str, str]) -> None:
    path = client(name).path(home, "linux")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(FILES[name].encode())
    original = ClientFile.read(client(name), path).entries
    written = toolroute("setup", "--client", name, "--write")
    assert written.exit_code == 0, written.stderr
    first = ClientFile.read(client(name), path)
    assert "quick" not in first.entries
    path.write_text(first.with_entries({**first.entries, "second": original["quick"]}))
    again = toolroute("setup", "--client", name, "--write")
    assert again.exit_code == 0, again.stderr
    assert "second" not in ClientFile.read(client(name), path).entries
    config = Path(home["HOME"]) / ".config" / "toolroute" / "mcp.json"
    assert list(McpConfig.read(config, name).servers) == ["quick", "second"]
    assert config.stat().st_mode & 0o777 == 0o600
    undone = toolroute("setup", "--client", name, "--undo")
    assert undone.exit_code == 0, undone.stderr
    assert ClientFile.read(client(name), path).entries == {**original, "second": original["quick"]}
    assert ("what it no longer has is in" in undone.stderr) == (name in REMARKED)


@pytest.mark.parametrize("name", FILES)
def test_an_unchanged_file_gets_its_former_text(name: str, tmp_path: Path) -> None:
    before = file_of(name, tmp_path)
    text = taken(before).text(COMMAND_LINE)
    after = ClientFile.of(before.client, before.path, text)
    assert after.entries["toolroute"]
    assert "quick" not in after.entries
    assert after.undone(before).text == FILES[name]


@pytest.mark.parametrize("name", FILES)
def test_a_second_setup_changes_nothing(name: str, tmp_path: Path) -> None:
    text = taken(file_of(name, tmp_path)).text(COMMAND_LINE)
    assert taken(file_of(name, tmp_path, text)).text(COMMAND_LINE) == text


@pytest.mark.parametrize("name", FILES)
def test_comments_and_other_settings_stay(name: str, tmp_path: Path) -> None:
    text = taken(file_of(name, tmp_path)).text(COMMAND_LINE)
    for line in FILES[name].splitlines():
        is_comment = "#" in line or "//" in line or "/*" in line
        if is_comment and "quick" not in line and "sums" not in line:
            assert line in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zed", {"source": "custom", "command": "toolroute", "args": COMMAND_LINE[1:]}),
        ("opencode", {"type": "local", "enabled": True, "command": COMMAND_LINE}),
        (
            "goose",
            {
                "type": "stdio",
                "name": "toolroute",
                "description": "",
                "enabled": True,
                "timeout": 300,
                "cmd": "toolroute",
                "args": COMMAND_LINE[1:],
            },
        ),
        ("copilot", {"type": "local", "tools": ["*"], "command": "toolroute", "args": COMMAND_LINE[1:]}),
        ("vscode", {"type": "stdio", "command": "toolroute", "args": COMMAND_LINE[1:]}),
    ],
)
def test_our_entry_is_spelt_as_its_client_spells_entries(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    servers: dict[str, Any] = {}
    takeover = taken(file_of(name, tmp_path), servers)
    assert takeover.entry(COMMAND_LINE) == expected
    spec = McpConfig.parse({"mcpServers": servers}).servers["quick"]
    assert (spec.problem, spec.command, spec.args) == ("", sys.executable, (str(HERE / "quick.py"),))
    assert spec.env == ({"MODE": "${HOME}"} if name == "opencode" else {})


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("claude-code", {"env": {"TOKEN": "${TOKEN}", "ZONE": "${ZONE:-UTC}"}}),
        ("cursor", {"env": {"TOKEN": "${env:TOKEN}", "ZONE": "${env:ZONE}"}}),
        ("vscode", {"env": {"TOKEN": "${env:TOKEN}", "ZONE": "${env:ZONE}"}}),
        ("gemini", {"env": {"TOKEN": "${TOKEN}", "ZONE": "${ZONE:-UTC}"}}),
        ("zed", {}),
        ("claude-desktop", {}),
    ],
)
def test_our_entry_names_the_variables_that_a_client_passes_on(
    name: str, passed: dict[str, Any], tmp_path: Path
) -> None:
    entry = {"command": "x", "args": ["${TOKEN}", "${ZONE:-UTC}", "${userHome}/a", "${HOME}"]}
    takeover = taken(file_with(name, {"it": entry}, tmp_path))
    ours = takeover.entry(COMMAND_LINE)
    assert {key: value for key, value in ours.items() if key == "env"} == passed
    withheld = "write TOKEN into the env of the toolroute entry: Claude Desktop expands no variables"
    assert takeover.moves[0].note == (withheld if name == "claude-desktop" else "")


@pytest.mark.parametrize(
    ("system", "places"),
    [
        ("darwin", {"zed": "/u/.config/zed/settings.json", "goose": "/u/.config/goose/config.yaml"}),
        ("win32", {"zed": "C:/u/Roam/Zed/settings.json", "goose": "C:/u/Roam/Block/goose/config/config.yaml"}),
        ("win32", {"kiro": "C:/u/.kiro/settings/mcp.json", "opencode": "C:/u/.config/opencode/opencode.json"}),
        (
            "darwin",
            {
                "roo": "/u/Library/Application Support/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings"
                "/mcp_settings.json"
            },
        ),
    ],
)
def test_a_file_is_looked_for_where_the_client_keeps_it_there(system: str, places: dict[str, str]) -> None:
    environ = {"USERPROFILE": "C:/u", "APPDATA": "C:/u/Roam"} if system == "win32" else {"HOME": "/u"}
    assert {name: client(name).path(environ, system).as_posix() for name in places} == places


@pytest.mark.parametrize(
    "entries",
    [
        {
            "cursor": {"url": "https://mcp.example/mcp"},
            "windsurf": {"serverUrl": "https://mcp.example/mcp"},
            "gemini": {"httpUrl": "https://mcp.example/mcp"},
        },
        {
            "cursor": {"command": "x", "env": {"KEY": "${env:KEY}"}},
            "claude-code": {"command": "x", "env": {"KEY": "${KEY}"}},
            "opencode": {"type": "local", "command": ["x"], "environment": {"KEY": "{env:KEY}"}},
            "gemini": {"command": "x", "env": {"KEY": "$KEY"}, "timeout": 1000},
            "amp": {"command": "x", "env": {"KEY": "${KEY}"}, "toolroute": {"call_timeout_s": 5}},
        },
    ],
)
def test_one_server_in_the_spelling_of_several_clients_is_one(entries: dict[str, Any], tmp_path: Path) -> None:
    servers: dict[str, Any] = {}
    files = []
    for name, entry in entries.items():
        (tmp_path / name).mkdir()
        files.append(file_with(name, {"docs": entry}, tmp_path / name))
    names = [move.name for takeover in take_over(files, servers) for move in takeover.moves]
    assert names == ["docs"] * len(entries)


@pytest.mark.parametrize(
    ("name", "entry", "note"),
    [
        ("vscode", {"command": "x", "env": {"KEY": "${input:key}"}}, "only VS Code can fill in ${input:key}"),
        ("cursor", {"command": "${command:pick}"}, "only Cursor can fill in ${command:pick}"),
        ("opencode", {"type": "local", "command": ["x", "{file:~/key}"]}, "only opencode can fill in {file:~/key}"),
        ("zed", {"enabled": True, "settings": {}}, "it belongs to an extension of Zed, which starts it"),
    ],
)
def test_a_server_that_needs_its_client_stays_there(name: str, entry: Any, note: str, tmp_path: Path) -> None:
    takeover = taken(file_with(name, {"it": entry}, tmp_path))
    assert [(move.name, move.note) for move in takeover.moves] == [("", note)]


def test_a_builtin_of_goose_stays_for_its_true_reason(tmp_path: Path) -> None:
    notes = {move.server: move.note for move in taken(file_of("goose", tmp_path)).moves}
    assert notes["developer"] == "it is a part of Goose"


def test_the_former_form_of_zed_is_taken_over(tmp_path: Path) -> None:
    servers: dict[str, Any] = {}
    entry = {"command": {"path": "uvx", "args": ["mcp-server-fetch"], "env": {"A": "1"}}, "settings": {}}
    taken(file_with("zed", {"fetch": entry}, tmp_path), servers)
    spec = McpConfig.parse({"mcpServers": servers}).servers["fetch"]
    assert (spec.command, spec.args, spec.env) == ("uvx", ("mcp-server-fetch",), {"A": "1"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"mcpServers": {\n\t"b": 2, // two\n\t// one\n\t"a": 1, // first\n}}',
            '{"mcpServers": {\n\t"b": 2, // two\n\t// one\n\t"new": 3,\n  }}',
        ),
        (
            '{"mcpServers": {\n    "b": 2 // two\n  }\n}',
            '{"mcpServers": {\n    "b": 2, // two\n    "new": 3\n  }\n}',
        ),
        ('{"mcpServers": {"a": 1, "b": 2}}', '{"mcpServers": {"b": 2, "new": 3}}'),
        ('{"x": "\u00fc"}\n', '{"x": "\u00fc", "mcpServers": {"new": 3}}\n'),
    ],
)
def test_only_what_changes_is_written_anew(text: str, expected: str, tmp_path: Path) -> None:
    file = file_of("cursor", tmp_path, text)
    kept = {name: value for name, value in file.entries.items() if name != "a"}
    assert file.with_entries({**kept, "new": 3}) == expected


def test_a_comment_above_the_next_table_stays_there(tmp_path: Path) -> None:
    text = '[mcp_servers.a]\ncommand = "x"\n\n# colours\n[tui]\ntheme = "dark"\n'
    changed = file_of("codex", tmp_path, text).with_entries({"toolroute": {"command": "t"}})
    assert "# colours\n[tui]" in changed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("goose", "extensions:\n  a: {cmd: x}\n  # mine\n  b: {cmd: y}\n"),
        ("cursor", '{"mcpServers": {"a": "\u2028"}} // mine'),
    ],
)
def test_a_file_that_would_lose_something_is_not_written(name: str, text: str, tmp_path: Path) -> None:
    file = file_of(name, tmp_path, text)
    with pytest.raises(EditByHand):
        file.with_entries({"toolroute": {"command": "t"}})


def test_a_block_to_paste_is_shown_where_a_comment_would_be_lost(toolroute: Run, home: dict[str, str]) -> None:
    path = client("goose").path(home, "linux")
    path.parent.mkdir(parents=True)
    text = FILES["goose"].replace("  quick:\n", "  # sums\n  quick:\n")
    path.write_text(text)
    refused = toolroute("setup", "--client", "goose", "--write")
    assert refused.exit_code == 1
    assert "a comment '# sums' would be lost" in refused.stderr.replace("the comment", "a comment")
    assert "Remove quick from the file, and add this entry:\nextensions:\n  toolroute:\n" in refused.stderr
    assert path.read_text() == text
