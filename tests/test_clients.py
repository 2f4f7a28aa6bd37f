"""The files of MCP clients: each in its own form, changed where it must be and given back to the byte."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.client_setup.products import CLIENTS, Client, ClientFile
from orchestrator.client_setup.takeover import take_over
from orchestrator.common.json_input import without_comments
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
  # keeps its secret
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
    bundled: true   # comes with it
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

  # has a key
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


def client(name: str) -> Client:
    return next(one for one in CLIENTS if one.name == name)


def parsed(form: str, text: str) -> dict[str, Any]:
    if form == "toml":
        return tomllib.loads(text)
    whole: dict[str, Any] = yaml.safe_load(text) if form == "yaml" else json.loads(without_comments(text))
    return whole


def test_there_is_a_file_of_each_client() -> None:
    assert set(FILES) == {one.name for one in CLIENTS}


@pytest.mark.parametrize("settings", ["", "xdg"])
@pytest.mark.parametrize("name", FILES)
def test_a_client_gets_its_server_through_toolroute_and_its_file_back(
    name: str, settings: str, toolroute: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("APPDATA", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(variable, raising=False)
    environ = {"HOME": str(tmp_path), **({"XDG_CONFIG_HOME": str(tmp_path / settings)} if settings else {})}
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    file = client(name).path(environ, "linux")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(FILES[name].encode())
    done = toolroute("setup", "--client", name, "--write")
    assert done.exit_code == 0, done.stderr
    form, key, before, after = (client(name).form, client(name).key, FILES[name], file.read_bytes().decode())
    was, now = parsed(form, before), parsed(form, after)
    assert {**was, key: None} == {**now, key: None}
    entries = ClientFile.read(client(name), file).entries
    assert ("quick" in entries, "toolroute" in entries) == (False, True)
    for line in before.splitlines():  # All but the lines of that server is as it was.
        if ("#" in line or "//" in line or "/*" in line) and "quick" not in line and "sums" not in line:
            assert line in after
    config = tmp_path / (settings or ".config") / "toolroute" / "mcp.json"
    assert (list(McpConfig.read(config, name).servers), config.stat().st_mode & 0o777) == (["quick"], 0o600)
    again = ClientFile.read(client(name), file)
    assert [move.name for move in take_over([again], {})[0].moves if move.name] == []
    assert toolroute("setup", "--client", name, "--undo").exit_code == 0
    assert file.read_bytes() == before.encode()
    assert [one.name for one in file.parent.iterdir() if "toolroute" in one.name and one.is_file()] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zed", {"source": "custom", "command": "toolroute", "args": ["serve", "--config", "c"]}),
        ("opencode", {"type": "local", "enabled": True, "command": ["toolroute", "serve", "--config", "c"]}),
        (
            "goose",
            {
                "type": "stdio",
                "name": "toolroute",
                "description": "",
                "enabled": True,
                "timeout": 300,
                "cmd": "toolroute",
                "args": ["serve", "--config", "c"],
            },
        ),
        ("copilot", {"type": "local", "tools": ["*"], "command": "toolroute", "args": ["serve", "--config", "c"]}),
        ("vscode", {"type": "stdio", "command": "toolroute", "args": ["serve", "--config", "c"]}),
    ],
)
def test_our_entry_is_spelt_as_its_client_spells_entries(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / Path(client(name).places[0]).name
    path.write_text(FILES[name])
    servers: dict[str, Any] = {}
    [taken] = take_over([ClientFile.read(client(name), path)], servers)
    path.write_text(taken.text(["toolroute", "serve", "--config", "c"]))
    assert ClientFile.read(client(name), path).entries["toolroute"] == expected
    spec = McpConfig.parse({"mcpServers": servers}).servers["quick"]
    assert (spec.problem, spec.command, spec.args) == ("", sys.executable, (str(HERE / "quick.py"),))
    assert spec.env == ({"MODE": "${HOME}"} if name == "opencode" else {})
    [taken] = take_over([ClientFile.read(client(name), path)], {})
    assert taken.text(["toolroute", "serve", "--config", "c"]) == path.read_text(), "a second time changes nothing"


def test_a_remark_on_the_last_server_of_a_yaml_file_comes_back_once(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("extensions:\n  one: {cmd: a}\n\n  # sums\n  two:\n    cmd: b\n# after\nmore: 1")
    before = ClientFile.read(client("goose"), path)
    path.write_text(before.with_entries({"one": {"cmd": "a"}, "toolroute": {"cmd": "t"}}))
    assert "# sums" in path.read_text()
    assert ClientFile.read(client("goose"), path).undone(before).text == before.text


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


def test_one_address_in_three_spellings_is_one_server(tmp_path: Path) -> None:
    spelt = {"cursor": "url", "windsurf": "serverUrl", "gemini": "httpUrl"}
    files = []
    for name, key in spelt.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"mcpServers": {"docs": {key: "https://mcp.example/mcp"}}}))
        files.append(ClientFile.read(client(name), path))
    servers: dict[str, Any] = {}
    taken = take_over(files, servers)
    assert list(servers) == ["docs"]
    assert [move.name for one in taken for move in one.moves] == ["docs"] * 3


@pytest.mark.parametrize(
    ("name", "entry", "note"),
    [
        ("vscode", {"command": "x", "env": {"KEY": "${input:key}"}}, "only VS Code can fill in ${input:key}"),
        ("cursor", {"command": "${command:pick}"}, "only Cursor can fill in ${command:pick}"),
        ("opencode", {"type": "local", "command": ["x", "{file:~/key}"]}, "only opencode can fill in {file:~/key}"),
    ],
)
def test_a_server_that_needs_its_client_stays_there(name: str, entry: Any, note: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps({client(name).key: {"it": entry}}))
    [taken] = take_over([ClientFile.read(client(name), path)], {})
    assert [(move.name, move.note) for move in taken.moves] == [("", note)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"mcpServers": {"a": 1, "b": 2}}', '{"mcpServers": {"b": 2,\n  "new": 3\n}}'),
        ('{"mcpServers": {"a": 1}}', '{"mcpServers": {\n  "new": 3\n}}'),
        ('{"mcpServers": {}}', '{"mcpServers": {\n  "new": 3\n}}'),
        (
            '{"mcpServers": {\n\t"b": 2, // two\n\t// one\n\t"a": 1, // first\n}}',
            '{"mcpServers": {\n\t"b": 2, // two\n\t"new": 3\n\t// one\n}}',
        ),
        ('{"mcpServers": {\n    "b": 2 // two\n  }\n}', '{"mcpServers": {\n    "b": 2, // two\n    "new": 3\n  }\n}'),
    ],
)
def test_only_what_changes_is_written_anew(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    file = ClientFile.read(client("cursor"), path)
    kept = {name: value for name, value in file.entries.items() if name != "a"}
    assert file.with_entries({**kept, "new": 3}) == expected
