"""`toolroute setup` with the file of each MCP client: changed where it must be, and given back to the byte."""

import json
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import yaml
from json5 import loads as json5_loads

from orchestrator import McpConfig
from orchestrator.client_setup.client_file import ClientFile, EditByHand
from orchestrator.client_setup.products import CLIENTS
from orchestrator.common.regular import read_text
from orchestrator.errors import InvalidConfig
from tests.client_places import PLACES
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
    "codex": f"""[mcp_servers.quick]  # mine
command = {COMMAND}
args = [{SCRIPT}]

# colours
[tui]
theme   = "dark"
""",
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

KEYS = {
    "vscode": "servers",
    "codex": "mcp_servers",
    "zed": "context_servers",
    "opencode": "mcp",
    "goose": "extensions",
    "amp": "amp.mcpServers",
}
"""The part of the file with the servers, where it is not `mcpServers`."""
OURS = {
    "zed": {"source": "custom"},
    "opencode": {"type": "local", "enabled": True},
    "goose": {"type": "stdio", "name": "toolroute", "description": "", "enabled": True, "timeout": 300},
    "copilot": {"type": "local", "tools": ["*"]},
    "vscode": {"type": "stdio"},
}
"""What the entry of toolroute has besides its command, where a client wants more."""
REMARKED = ("codex", "opencode")
"""The clients in whose file a comment stands on the line of `quick`. It goes with the server, and a copy has it."""


class Home:
    """A user's home with the files of some clients, and `toolroute setup` in it."""

    def __init__(self, folder: Path, toolroute: Run) -> None:
        self._folder = folder
        self._toolroute = toolroute
        self.config = folder / ".config" / "toolroute" / "mcp.json"

    def path(self, name: str) -> Path:
        return self._folder / PLACES[name]

    def write(self, name: str, text: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(text.encode())

    def text(self, name: str) -> str:
        return self.path(name).read_bytes().decode()

    def entries(self, name: str) -> Any:
        """The servers in the client's file."""
        servers = parsed(name, self.text(name)).get(KEYS.get(name, "mcpServers"))
        return {server["name"]: server for server in servers} if isinstance(servers, list) else servers

    def add(self, name: str, server: str, entry: Any) -> None:
        """Add a server, as a user does who cares for no comment."""
        content, key = parsed(name, self.text(name)), KEYS.get(name, "mcpServers")
        if isinstance(content[key], list):
            content[key].append({**entry, "name": server})
        else:
            content[key][server] = entry
        dump = {".yaml": yaml.safe_dump, ".toml": tomlkit.dumps}.get(self.path(name).suffix, json.dumps)
        self.path(name).write_text(dump(content))

    def setup(self, name: str, *options: str) -> str:
        """Run the command for one client, and return what it notes."""
        ran = self._toolroute("setup", "--client", name, *options)
        assert ran.exit_code == 0, ran.stderr
        return ran.stderr

    def moves(self, *names: str) -> list[dict[str, str]]:
        """What the plan says of each server of these clients."""
        only = [word for name in names for word in ("--client", name)]
        clients = json.loads(self._toolroute("setup", *only, "-o", "json").stdout)["clients"]
        return [move for client in clients for move in client["servers"]]

    def server(self, name: str) -> Any:
        """A server as toolroute has it after `setup --write`."""
        return McpConfig.read(self.config).servers[name]


def parsed(name: str, text: str) -> Any:
    parse: Any = {".yaml": yaml.safe_load, ".toml": tomlkit.parse}.get(Path(PLACES[name]).suffix, json5_loads)
    content = parse(text)
    return content.unwrap() if isinstance(content, tomlkit.TOMLDocument) else content


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run) -> Home:
    """An empty home, which is the user's own."""
    for variable in ("APPDATA", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path, toolroute)


def test_there_is_a_file_of_each_client(toolroute: Run) -> None:
    refused = toolroute("setup", "--client", "nobody").stderr
    names = refused.partition("is not one of ")[2].partition(".\n")[0]
    assert {name.strip(" '") for name in names.split(",")} == FILES.keys() == PLACES.keys()


@pytest.mark.parametrize("name", FILES)
def test_a_server_is_taken_over_and_its_file_given_back_to_the_byte(name: str, home: Home) -> None:
    home.write(name, FILES[name])
    former = home.entries(name)
    home.setup(name, "--write")
    written = home.text(name)
    entries = home.entries(name)
    assert former.keys() - entries.keys() == {"quick"}
    assert entries["toolroute"].items() >= OURS.get(name, {}).items()
    assert lost_comments(FILES[name], written) == []
    server = home.server("quick")
    assert (server.problem, server.command, server.args) == ("", sys.executable, (str(HERE / "quick.py"),))
    assert server.env == ({"MODE": "${HOME}"} if name == "opencode" else {})
    assert "no servers to take over" in home.setup(name, "--write")
    assert home.text(name) == written
    home.setup(name, "--undo")
    assert home.text(name) == FILES[name]


def lost_comments(before: str, after: str) -> list[str]:
    """The lines with comments that are gone, but for the comment of `quick`."""
    lines = [line for line in before.splitlines() if "#" in line or "//" in line or "/*" in line]
    return [line for line in lines if line not in after and "quick" not in line and "sums" not in line]


@pytest.mark.parametrize("name", FILES)
def test_a_server_added_later_is_taken_over_and_given_back(name: str, home: Home) -> None:
    home.write(name, FILES[name])
    original = home.entries(name)
    home.setup(name, "--write")
    home.add(name, "second", original["quick"])
    home.setup(name, "--write")
    assert "second" not in home.entries(name)
    assert list(McpConfig.read(home.config, name).servers) == ["quick", "second"]
    assert home.config.stat().st_mode & 0o777 == 0o600
    noted = home.setup(name, "--undo")
    assert home.entries(name).keys() == {*original, "second"}
    assert home.entries(name)["quick"] == original["quick"]
    has_comments = "#" in FILES[name] or "//" in FILES[name]
    assert ("what it no longer has is in" in noted) == has_comments


def test_a_comment_above_the_next_table_stays_there(home: Home) -> None:
    home.write("codex", FILES["codex"])
    home.setup("codex", "--write")
    assert "# colours\n[tui]" in home.text("codex")


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("claude-code", {"TOKEN": "${TOKEN}", "ZONE": "${ZONE:-UTC}"}),
        ("cursor", {"TOKEN": "${env:TOKEN}", "ZONE": "${env:ZONE}"}),
        ("vscode", {"TOKEN": "${env:TOKEN}", "ZONE": "${env:ZONE}"}),
        ("gemini", {"TOKEN": "${TOKEN}", "ZONE": "${ZONE:-UTC}"}),
        ("zed", None),
        ("claude-desktop", None),
    ],
)
def test_our_entry_names_the_variables_that_a_client_passes_on(
    name: str, passed: Any, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "t")
    arguments = [str(HERE / "quick.py"), "${TOKEN}", "${ZONE:-UTC}", "${HOME}"]
    entry = {"command": sys.executable, "args": arguments}
    home.write(name, json.dumps({KEYS.get(name, "mcpServers"): {"it": entry}}))
    [move] = home.moves(name)
    withheld = "write TOKEN into the env of the toolroute entry: Claude Desktop expands no variables"
    assert move["note"] == (withheld if name == "claude-desktop" else "")
    home.setup(name, "--write")
    assert home.entries(name)["toolroute"].get("env") == passed


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
    clients = {client.name: client for client in CLIENTS}
    assert {name: clients[name].path(environ, system).as_posix() for name in places} == places


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
def test_one_server_in_the_spelling_of_several_clients_is_one(entries: dict[str, Any], home: Home) -> None:
    for name, entry in entries.items():
        home.write(name, json.dumps({KEYS.get(name, "mcpServers"): {"docs": entry}}))
    assert [move["name"] for move in home.moves(*entries)] == ["docs"] * len(entries)


@pytest.mark.parametrize(
    ("name", "entry", "note"),
    [
        ("vscode", {"command": "x", "env": {"KEY": "${input:key}"}}, "only VS Code can fill in ${input:key}"),
        ("cursor", {"command": "${command:pick}"}, "only Cursor can fill in ${command:pick}"),
        ("opencode", {"type": "local", "command": ["x", "{file:~/key}"]}, "only opencode can fill in {file:~/key}"),
        ("zed", {"enabled": True, "settings": {}}, "it belongs to an extension of Zed, which starts it"),
    ],
)
def test_a_server_that_needs_its_client_stays_there(name: str, entry: Any, note: str, home: Home) -> None:
    home.write(name, json.dumps({KEYS.get(name, "mcpServers"): {"it": entry}}))
    assert home.moves(name) == [{"server": "it", "name": "", "note": note}]


def test_a_builtin_of_goose_stays_for_its_true_reason(home: Home) -> None:
    home.write("goose", FILES["goose"])
    notes = {move["server"]: move["note"] for move in home.moves("goose")}
    assert notes["developer"] == "it is a part of Goose"


def test_the_former_form_of_zed_is_taken_over(home: Home) -> None:
    command = {"path": sys.executable, "args": [str(HERE / "quick.py")], "env": {"A": "1"}}
    home.write("zed", json.dumps({"context_servers": {"fetch": {"command": command, "settings": {}}}}))
    home.setup("zed", "--write")
    server = home.server("fetch")
    assert (server.command, server.args, server.env) == (sys.executable, (str(HERE / "quick.py"),), {"A": "1"})


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
def test_only_what_changes_is_written_anew(text: str, expected: str) -> None:
    [cursor] = [client for client in CLIENTS if client.name == "cursor"]
    file = ClientFile.of(cursor, Path("mcp.json"), text)
    kept = {name: value for name, value in file.entries.items() if name != "a"}
    assert file.with_entries({**kept, "new": 3}) == expected


def test_a_file_that_would_lose_something_is_not_written() -> None:
    [cursor] = [client for client in CLIENTS if client.name == "cursor"]
    file = ClientFile.of(cursor, Path("mcp.json"), '{"mcpServers": {"a": "\u2028"}} // mine')
    with pytest.raises(EditByHand):
        file.with_entries({"toolroute": {"command": "t"}})


def test_a_block_to_paste_is_shown_where_a_comment_would_be_lost(toolroute: Run, home: Home) -> None:
    text = FILES["goose"].replace("  quick:\n", "  # sums\n  quick:\n")
    home.write("goose", text)
    refused = toolroute("setup", "--client", "goose", "--write")
    assert refused.exit_code == 1
    assert "a comment '# sums' would be lost" in refused.stderr.replace("the comment", "a comment")
    assert "Remove quick from the file, and add this entry:\nextensions:\n  toolroute:\n" in refused.stderr
    assert home.text("goose") == text


@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "large"])
def test_a_file_that_has_no_end_is_named_and_not_read(place: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2**30)
    file = tmp_path / "mcp.json"
    file.symlink_to(tmp_path / place)
    client = next(client for client in CLIENTS if client.form == "json")
    with pytest.raises(InvalidConfig, match=r"mcp\.json"):
        ClientFile.read(client, file)


def test_a_file_that_is_too_large_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2**30)
    tracemalloc.start()
    try:
        with pytest.raises(OSError, match="more than 256 MiB"):
            read_text(tmp_path / "large")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
