"""`toolroute setup`: clients' servers taken over from files of each form in a made-up home, and given back."""

import asyncio
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from orchestrator.catalogue.reading import without_comments
from orchestrator.mcp.clients import CLIENTS
from orchestrator.mcp.config import McpConfig
from tests.command_line import Run
from tests.servers.start import HERE, text_of

QUICK = {"command": sys.executable, "args": [str(HERE / "quick.py")]}
SECRETS = ("ghp_abcdef0123456789abcd", "sk-other-9876543210zyxw", "hunter2hunter2")
CODE = """{
  // The servers of my editor.
  "servers": {
    "quick": {"type": "stdio", "command": %s, "args": [%s], "env": {"TOKEN": "sk-other-9876543210zyxw"}},
    "asks": {"command": "x", "env": {"KEY": "${input:key}"}}, // stays
  },
  "inputs": [{"id": "key", "type": "promptString"}], // what they ask
}
""" % tuple(map(json.dumps, (QUICK["command"], str(HERE / "quick.py"))))  # noqa: UP031
CODEX = """# Mine.
model = "gpt-5.4"   # the model

[mcp_servers.docs]
url = "http://127.0.0.1:9/mcp"
bearer_token_env_var = "DOCS_TOKEN"
startup_timeout_sec = 0.5

[mcp_servers.local]
command = "uvx"
args = ["mcp-server-fetch"]
enabled = false

[tui]
theme   = "dark"
"""


def written_as(name: str, servers: dict[str, Any], **more: Any) -> str:
    return json.dumps({**more, name: servers}, indent=4)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A home with files of six clients, in which the command line works; the seventh client is not there."""
    for name in ("APPDATA", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    secret = {**QUICK, "env": {"TOKEN": SECRETS[0], "LOG": "debug"}}
    remote = {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": f"Bearer {SECRETS[2]}"}}
    texts = {
        "claude-desktop": written_as("mcpServers", {"quick": secret}, theme="dark"),
        "claude-code": written_as("mcpServers", {"quick": secret}, numStartups=7),
        "cursor": written_as("mcpServers", {"remote": {**remote, "toolroute": {"connect_timeout_s": 0.5}}}),
        "vscode": CODE.replace("\n", "\r\n"),
        "gemini": written_as("mcpServers", {}, selectedAuthType="none"),
        "codex": CODEX,
    }
    paths = {client.name: client.path({"HOME": str(tmp_path)}, "linux") for client in CLIENTS}
    for name, text in texts.items():
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].write_bytes(text.encode())
    return paths


def contents(home: dict[str, Path]) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in home.items() if path.exists()}


@pytest.mark.parametrize(
    ("system", "environ", "place"),
    [
        ("linux", {"HOME": "/home/u"}, "/home/u/.config/Code/User/mcp.json"),
        ("linux", {"HOME": "/home/u", "XDG_CONFIG_HOME": "/x"}, "/x/Code/User/mcp.json"),
        ("darwin", {"HOME": "/Users/u"}, "/Users/u/Library/Application Support/Code/User/mcp.json"),
        ("win32", {"USERPROFILE": "C:/u", "APPDATA": "C:/u/Roam"}, "C:/u/Roam/Code/User/mcp.json"),
    ],
)
def test_a_client_is_looked_for_where_its_system_keeps_settings(
    system: str, environ: dict[str, str], place: str
) -> None:
    [code] = [client for client in CLIENTS if client.name == "vscode"]
    assert code.path(environ, system).as_posix() == place


def test_a_plan_is_shown_and_nothing_is_written(home: dict[str, Path], toolroute: Run) -> None:
    before = contents(home)
    shown = toolroute("setup", "-o", "json")
    assert shown.exit_code == 0, shown.stderr
    plan = {
        (one["client"], move["server"]): (move["name"], move["note"])
        for one in json.loads(shown.stdout)["clients"]
        for move in one["servers"]
    }
    assert plan == {
        ("claude-desktop", "quick"): ("quick", ""),
        ("claude-code", "quick"): ("quick", "the same entry is there"),
        ("cursor", "remote"): ("remote", ""),
        ("vscode", "quick"): ("quick-vscode", "another is called quick"),
        ("vscode", "asks"): ("", "the client asks its user for a value of it"),
        ("codex", "docs"): ("docs", ""),
        ("codex", "local"): ("", "it is switched off"),
    }
    table = toolroute("setup")
    assert "quick-vscode" in table.stdout
    assert not [secret for secret in SECRETS if secret in shown.stdout + shown.stderr + table.stdout + table.stderr]
    assert (contents(home), list(Path.cwd().iterdir())) == (before, [])


def test_servers_are_taken_over_without_their_secrets_and_given_back(home: dict[str, Path], toolroute: Run) -> None:
    before = contents(home)
    done = toolroute("setup", "--write")
    assert done.exit_code == 4, done.stderr  # The two remote ones are not there.
    config = Path.cwd() / "mcp.json"
    said = config.read_text() + done.stdout + done.stderr
    assert not [secret for secret in SECRETS if secret in said]
    servers = McpConfig.read(config).servers
    assert list(servers) == ["quick", "remote", "quick-vscode", "docs"]
    assert servers["quick"].env == {"TOKEN": "${QUICK_TOKEN}", "LOG": "debug"}
    assert servers["docs"].headers == {"Authorization": "Bearer ${DOCS_TOKEN}"}
    assert toolroute("tools", "list").stdout.count("quick") == 16

    after = contents(home)
    desktop = json.loads(after["claude-desktop"])
    assert desktop["theme"] == "dark"
    assert list(desktop["mcpServers"]) == ["toolroute"]
    ours = desktop["mcpServers"]["toolroute"]
    store = str(Path.cwd().parent / "store")
    assert ours["args"][-5:] == ["serve", "--config", str(config), "--store", store]
    assert ours["env"] == {"QUICK_TOKEN": SECRETS[0]}
    code = after["vscode"].decode()
    assert "// The servers of my editor.\r\n" in code
    assert code.endswith('"inputs": [{"id": "key", "type": "promptString"}], // what they ask\r\n}\r\n')
    assert list(json.loads(without_comments(code))["servers"]) == ["asks", "toolroute"]
    codex = after["codex"].decode()
    assert codex.startswith('# Mine.\nmodel = "gpt-5.4"   # the model\n')
    assert 'theme   = "dark"' in codex
    assert list(tomllib.loads(codex)["mcp_servers"]) == ["local", "toolroute"]
    assert tomllib.loads(codex)["mcp_servers"]["toolroute"]["env_vars"] == ["DOCS_TOKEN"]
    assert after["gemini"] == before["gemini"]
    again = toolroute("setup")
    assert "no server to take over" in again.stderr

    new = {**json.loads(after["cursor"])["mcpServers"], "new": QUICK}
    home["cursor"].write_text(json.dumps({"mcpServers": new}))
    assert toolroute("setup", "--undo").exit_code == 0
    undone = contents(home)
    assert {name for name in before if undone[name] != before[name]} == {"cursor"}
    assert list(json.loads(undone["cursor"])["mcpServers"]) == ["remote", "new"]
    assert not list(home["cursor"].parent.glob("*toolroute"))
    assert "nothing to undo" in toolroute("setup", "--undo").stderr


def test_a_broken_file_is_named_and_left_alone(home: dict[str, Path], toolroute: Run) -> None:
    home["cursor"].write_text('{"mcpServers": {')
    shown = toolroute("setup", "--client", "cursor", "--write")
    assert "Cursor is left alone: " in shown.stderr
    assert "no server to take over" in shown.stderr
    assert home["cursor"].read_text() == '{"mcpServers": {'


@pytest.mark.slow
def test_a_client_reaches_its_server_through_our_entry(home: dict[str, Path], toolroute: Run) -> None:
    assert toolroute("setup", "--client", "claude-desktop", "--write").exit_code == 0
    ours = json.loads(home["claude-desktop"].read_text())["mcpServers"]["toolroute"]
    args = [*ours["args"], "--approve", "never"]
    start = StdioServerParameters(command=ours["command"], args=args, env=ours["env"])
    assert asyncio.run(_sum_by(start)) == "3"


async def _sum_by(start: StdioServerParameters) -> str:
    async with Client(stdio_client(start)) as client:
        called = {"tool": "quick:add", "arguments": {"a": 1, "b": 2}}
        return text_of(await client.call_tool("call_tool", called))
