"""`toolroute setup`: clients' servers taken over from files of each form in a made-up home, and given back."""

import asyncio
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from orchestrator import McpConfig
from tests.client_places import PLACES
from tests.command_line import Run, at_terminal
from tests.servers.signing import Accounts, signing
from tests.servers.start import HERE, free_port, running, text_of

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
url = "%s"
bearer_token_env_var = "DOCS_TOKEN"
startup_timeout_sec = 30

[mcp_servers.local]
command = "uvx"
args = ["mcp-server-fetch"]
enabled = false

[tui]
theme   = "dark"
"""


def written_as(name: str, servers: dict[str, Any], **more: Any) -> str:
    return json.dumps({**more, name: servers}, indent=4)


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The address of a server over HTTP."""
    port = free_port()
    with asyncio.Runner() as runner:
        serving = running("plain.py", port)
        runner.run(serving.__aenter__())
        yield f"http://127.0.0.1:{port}/mcp"
        runner.run(serving.__aexit__(None, None, None))


@pytest.fixture
def home(web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return a home with files of six clients, in which the command line works. The seventh client is missing."""
    for name in ("APPDATA", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DOCS_TOKEN", "docs-9876543210")
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    secret = {**QUICK, "env": {"TOKEN": SECRETS[0], "LOG": "debug"}}
    remote = {"url": web, "headers": {"Authorization": f"Bearer {SECRETS[2]}"}}
    texts = {
        "claude-desktop": written_as("mcpServers", {"quick": secret}, theme="dark"),
        "claude-code": written_as("mcpServers", {"quick": secret}, numStartups=7),
        "cursor": written_as("mcpServers", {"remote": remote, "gone": {"url": "http://127.0.0.1:9/mcp"}}),
        "vscode": CODE.replace("\n", "\r\n"),
        "gemini": written_as("mcpServers", {}, selectedAuthType="none"),
        "codex": CODEX % web,
    }
    paths = {name: tmp_path / place for name, place in PLACES.items()}
    for name, text in texts.items():
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].write_bytes(text.encode())
    return paths


def contents(home: dict[str, Path]) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in home.items() if path.exists()}


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
        ("claude-code", "quick"): ("quick", "the same entry already exists"),
        ("cursor", "remote"): ("remote", ""),
        ("cursor", "gone"): ("gone", ""),
        ("vscode", "quick"): ("quick-vscode", "another server is named quick"),
        ("vscode", "asks"): ("", "only VS Code can fill in ${input:key}"),
        ("codex", "docs"): ("docs", ""),
        ("codex", "local"): ("", "it is switched off"),
    }
    table = toolroute("setup")
    assert "quick-vscode" in table.stdout
    assert not [secret for secret in SECRETS if secret in shown.stdout + shown.stderr + table.stdout + table.stderr]
    assert (contents(home), list(Path.cwd().iterdir())) == (before, [])


def test_servers_are_taken_over_as_they_are_and_given_back(home: dict[str, Path], toolroute: Run) -> None:
    before = contents(home)
    done = toolroute("setup", "--write")
    assert done.exit_code == 4, done.stderr
    assert "gone: cannot be connected" in done.stderr
    config = Path.home() / ".config" / "toolroute" / "mcp.json"
    assert not [secret for secret in SECRETS if secret in done.stdout + done.stderr]
    assert f"copied with their secrets into {config}, which only you can read" in done.stderr
    assert (config.stat().st_mode & 0o777, list(Path.cwd().iterdir())) == (0o600, [])
    servers = McpConfig.read(config).servers
    assert list(servers) == ["quick", "remote", "quick-vscode", "docs"]
    assert servers["quick"].env == {"TOKEN": SECRETS[0], "LOG": "debug"}
    assert servers["docs"].headers == {"Authorization": "Bearer ${DOCS_TOKEN}"}
    assert toolroute("tools", "list").stdout.count("quick") == 16

    after = contents(home)
    desktop = json.loads(after["claude-desktop"])
    assert desktop["theme"] == "dark"
    assert list(desktop["mcpServers"]) == ["toolroute"]
    ours = desktop["mcpServers"]["toolroute"]
    store = str(Path.cwd().parent / "store")
    assert ours["args"][-7:] == ["serve", "--config", str(config), "--store", store, "--profile", "claude-desktop"]
    sets = [list(McpConfig.read(config, name).servers) for name in ("claude-desktop", "cursor", "vscode", "codex")]
    assert sets == [["quick"], ["remote"], ["quick-vscode"], ["docs"]]
    assert "env" not in ours
    code = after["vscode"].decode()
    assert "// The servers of my editor.\r\n" in code
    assert code.endswith('"inputs": [{"id": "key", "type": "promptString"}], // what they ask\r\n}\r\n')
    assert list(McpConfig.read(home["vscode"]).servers) == ["asks", "toolroute"]
    codex = after["codex"].decode()
    assert codex.startswith('# Mine.\nmodel = "gpt-5.4"   # the model\n')
    assert 'theme   = "dark"' in codex
    assert list(tomllib.loads(codex)["mcp_servers"]) == ["local", "toolroute"]
    assert tomllib.loads(codex)["mcp_servers"]["toolroute"]["env_vars"] == ["DOCS_TOKEN"]
    assert after["gemini"] == before["gemini"]
    assert list(json.loads(after["cursor"])["mcpServers"]) == ["gone", "toolroute"]
    again = toolroute("setup", "-o", "json")
    assert [move["server"] for one in json.loads(again.stdout)["clients"] for move in one["servers"]] == [
        "gone",
        "asks",
        "local",
    ]

    new = {**json.loads(after["cursor"])["mcpServers"], "new": QUICK}
    home["cursor"].write_text(json.dumps({"mcpServers": new}))
    assert toolroute("setup", "--undo").exit_code == 0
    undone = contents(home)
    assert {name for name in before if undone[name] != before[name]} == {"cursor"}
    assert sorted(json.loads(undone["cursor"])["mcpServers"]) == ["gone", "new", "remote"]
    assert not list(home["cursor"].parent.glob("*before-toolroute"))
    assert "nothing to undo" in toolroute("setup", "--undo").stderr


@pytest.mark.parametrize("text", ['{"mcpServers": {', '{"mcpServers": {"a": {"command": "x"}}, "more": [1,}', "[]"])
def test_a_broken_file_is_named_and_left_alone(home: dict[str, Path], toolroute: Run, text: str) -> None:
    home["cursor"].write_text(text)
    shown = toolroute("setup", "--client", "cursor", "--write")
    assert "Cursor is not changed: " in shown.stderr
    assert "no servers to take over" in shown.stderr
    assert home["cursor"].read_text() == text


@pytest.mark.slow
def test_a_client_reaches_its_server_through_our_entry(home: dict[str, Path], toolroute: Run) -> None:
    assert toolroute("setup", "--client", "claude-desktop", "--write").exit_code == 0
    ours = json.loads(home["claude-desktop"].read_text())["mcpServers"]["toolroute"]
    args = [*ours["args"], "--approve", "never"]
    start = StdioServerParameters(command=ours["command"], args=args)
    assert asyncio.run(_sum_by(start)) == "3"


def test_commands_elsewhere_find_the_servers_that_were_taken_over(
    home: dict[str, Path], toolroute: Run, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"mcpServers": {"elsewhere": QUICK}}))
    assert toolroute("tools", "sync", other).exit_code == 0
    assert "give --config FILE" in toolroute("tools", "sync").stderr
    assert toolroute("setup", "--client", "claude-desktop", "--write").exit_code == 0
    assert toolroute("call", "quick:add", "--args", '{"a": 1, "b": 2}').stdout == "3\n"
    assert "mcp quick" in toolroute("doctor").stdout
    listed = toolroute("tools", "list")
    assert (listed.stdout.count("quick:"), listed.stdout.count("elsewhere:")) == (8, 0)
    assert f"not in {Path.home() / '.config/toolroute/mcp.json'}, and not shown: elsewhere" in listed.stderr
    assert "elsewhere:add" in toolroute("tools", "list", "--store", tmp_path / "store").stdout


def test_a_server_that_wants_a_sign_in_is_taken_over_after_the_command_that_setup_names(
    home: dict[str, Path], toolroute: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser.py"
    browser.write_text("import sys, httpx2\nhttpx2.get(sys.argv[1], follow_redirects=True).raise_for_status()\n")
    monkeypatch.setenv("BROWSER", f"{sys.executable} {browser} %s")
    with signing(Accounts()) as web:
        home["cursor"].write_text(written_as("mcpServers", {"signs": {"url": f"{web}/mcp"}}))
        refused = toolroute("setup", "--client", "cursor", "--write")
        assert (refused.exit_code, f"`toolroute login signs --config {home['cursor']}`" in refused.stderr) == (1, True)
        assert toolroute("login", "signs", "--config", home["cursor"]).exit_code == 0
        assert toolroute("setup", "--client", "cursor", "--write").exit_code == 0
        assert toolroute("call", "signs:whoami").stdout == "ada\n"


async def _sum_by(start: StdioServerParameters) -> str:
    async with Client(stdio_client(start)) as client:
        called = {"tool": "quick:add", "arguments": {"a": 1, "b": 2}}
        return text_of(await client.call_tool("call_tool", called))


def test_servers_between_other_tables_are_replaced_and_given_back(home: dict[str, Path], toolroute: Run) -> None:
    quick = f"command = {json.dumps(QUICK['command'])}\nargs = {json.dumps(QUICK['args'])}\n"
    rest = '[projects."/x"]\ntrust_level = "trusted"\n', '[mcp_servers.off]\ncommand = "x"\nenabled = false # not now\n'
    text = f"\ufeff[mcp_servers.a]\n{quick}since = 2026-01-01\n{rest[0]}[mcp_servers.b]\n{quick}[tui]\nx = 1\n{rest[1]}"
    home["codex"].write_bytes(text.replace("\n", "\r\n").encode())
    assert toolroute("setup", "--client", "codex", "--write").exit_code == 0
    written = home["codex"].read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    assert [part in written for part in rest] == [True, True]
    assert list(tomllib.loads(written)["mcp_servers"]) == ["off", "toolroute"]
    assert toolroute("setup", "--client", "codex", "--undo").exit_code == 0
    assert home["codex"].read_bytes() == text.replace("\n", "\r\n").encode()


def test_what_a_client_writes_while_its_servers_are_listed_stays(
    home: dict[str, Path], toolroute: Run, tmp_path: Path
) -> None:
    path, script = home["claude-code"], tmp_path / "starts.py"
    changes = f"p = pathlib.Path({str(path)!r}); p.write_text(p.read_text().replace(': 7', ': 8'))"
    script.write_text(
        f"import os, pathlib\n{changes}\nos.execv({sys.executable!r}, {[sys.executable, *QUICK['args']]})"
    )
    path.write_text(written_as("mcpServers", {"own": {**QUICK, "args": [str(script)]}}, numStartups=7))
    done = toolroute("setup", "--client", "claude-code", "--write")
    assert done.exit_code == 0, done.stderr
    written = json.loads(path.read_text())
    assert (written["numStartups"], list(written["mcpServers"])) == (8, ["toolroute"])


def test_a_second_run_elsewhere_adds_to_the_same_file_and_keeps_what_was_added_to_our_entry(
    home: dict[str, Path], toolroute: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = Path.cwd() / "mcp.json"
    config.write_text(written_as("mcpServers", {}))
    config.chmod(0o644)
    home["cursor"].write_text(written_as("mcpServers", {"one": QUICK}))
    assert toolroute("setup", "--client", "cursor", "--write", "--config", config).exit_code == 0
    assert config.stat().st_mode & 0o777 == 0o600
    ours = json.loads(home["cursor"].read_text())["mcpServers"]["toolroute"]
    serves = ours["args"][ours["args"].index("serve") :]
    mine = {"command": "uvx", "args": ["toolroute", *serves, "--approve", "never"], "autoApprove": ["search"]}
    home["cursor"].write_text(written_as("mcpServers", {"toolroute": mine, "two": QUICK}))
    monkeypatch.chdir(tmp_path)
    assert toolroute("setup", "--client", "cursor", "--write").exit_code == 0
    assert list(McpConfig.read(config).servers) == ["one", "two"]
    assert json.loads(home["cursor"].read_text())["mcpServers"] == {"toolroute": mine}
    assert not (tmp_path / ".config" / "toolroute").exists()


def test_undo_keeps_what_was_changed_since_and_passes_by_what_is_broken(home: dict[str, Path], toolroute: Run) -> None:
    before = home["claude-desktop"].read_bytes()
    names = [part for name in ("claude-desktop", "cursor", "claude-code") for part in ("--client", name)]
    assert toolroute("setup", *names, "--write").exit_code == 4
    home["claude-code"].write_text("{")
    now = json.loads(home["cursor"].read_text())["mcpServers"]
    home["cursor"].write_text(json.dumps({"mcpServers": {**now, "gone": {"url": "http://127.0.0.1:8/mcp"}}}))
    undone = toolroute("setup", "--undo")
    assert undone.exit_code == 1
    assert "Claude Code is not changed; its own servers are in" in undone.stderr
    servers = json.loads(home["cursor"].read_text())["mcpServers"]
    assert (sorted(servers), servers["gone"]["url"]) == (["gone", "remote"], "http://127.0.0.1:8/mcp")
    assert home["claude-desktop"].read_bytes() == before


def test_a_client_whose_file_cannot_be_written_is_named_and_no_other_one_is_harmed(
    home: dict[str, Path], toolroute: Run
) -> None:
    before = home["claude-desktop"].read_bytes()
    home["claude-desktop"].with_name(f"{home['claude-desktop'].name}.before-toolroute").mkdir()
    done = toolroute("setup", "--client", "claude-desktop", "--client", "claude-code", "--write")
    assert done.exit_code == 1
    assert "Claude Desktop is not changed: " in done.stderr
    assert list(json.loads(home["claude-code"].read_text())["mcpServers"]) == ["toolroute"]
    assert home["claude-desktop"].read_bytes() == before
    assert not list(home["claude-desktop"].parent.glob("*.new"))


@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
def test_our_entry_that_takes_servers_over_is_switched_on(
    home: dict[str, Path], toolroute: Run, off: dict[str, Any]
) -> None:
    ours = {"command": "toolroute", "args": ["serve"], "autoApprove": ["search"]}
    home["cursor"].write_text(written_as("mcpServers", {"toolroute": {**ours, **off}, "time": QUICK}))
    assert toolroute("setup", "--client", "cursor", "--write").exit_code == 0
    [(name, entry)] = json.loads(home["cursor"].read_text())["mcpServers"].items()
    assert (name, entry["autoApprove"]) == ("toolroute", ["search"])
    assert not off.keys() & entry.keys()


@pytest.mark.parametrize(
    ("wrong", "note"),
    [
        ('http_headers = "oops"', "headers: Input should be a valid dictionary, but it is a text"),
        ('env_vars = "GITHUB"', "env: Input should be a valid dictionary, but it is a text"),
        ("startup_timeout_sec = inf", ""),
    ],
)
def test_an_odd_entry_of_codex_stays_and_others_are_taken(
    home: dict[str, Path], toolroute: Run, wrong: str, note: str
) -> None:
    home["codex"].write_text(f'[mcp_servers.odd]\ncommand = "x"\n{wrong}\n[mcp_servers.time]\ncommand = "y"\n')
    [plan] = json.loads(toolroute("setup", "--client", "codex", "-o", "json").stdout)["clients"]
    assert [(move["name"], move["note"]) for move in plan["servers"]] == [("" if note else "odd", note), ("time", "")]


@pytest.mark.parametrize(
    ("name", "ours", "said"),
    [
        ("cursor", '"args": ["serve"], "env": ["x"]', "env: Input should be a valid dictionary, but it is a list"),
        ("codex", "command.x = 1", "Cannot overwrite a value"),
    ],
)
def test_a_client_whose_entry_of_ours_is_broken_is_left_alone(
    home: dict[str, Path], toolroute: Run, name: str, ours: str, said: str
) -> None:
    text = {
        "cursor": f'{{"mcpServers": {{"toolroute": {{"command": "toolroute", {ours}}}, "time": {{"command": "x"}}}}}}',
        "codex": f'[mcp_servers.time]\ncommand = "x"\n[mcp_servers.toolroute]\ncommand = "toolroute"\n{ours}\n',
    }[name]
    home[name].write_text(text)
    done = toolroute("setup", "--client", name, "--write")
    assert f"{name.title()} is not changed: {home[name]}: " in done.stderr
    assert said in done.stderr
    assert (home[name].read_text(), list(Path.cwd().iterdir())) == (text, [])


def test_our_entry_of_codex_keeps_what_it_passes_on(
    home: dict[str, Path], toolroute: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("B", "1")
    monkeypatch.setenv("C", "2")
    home["codex"].write_text(
        "[mcp_servers]\nodd = true\n"
        '[mcp_servers.toolroute]\ncommand = "toolroute"\nargs = ["serve"]\nenv_vars = [{ name = "A" }, "B"]\n'
        f"[mcp_servers.time]\ncommand = {json.dumps(QUICK['command'])}\nargs = {json.dumps(QUICK['args'])}\n"
        'env_vars = ["B", "C", "PATH"]\n'
    )
    assert toolroute("setup", "--client", "codex", "--write").exit_code == 0
    servers = tomllib.loads(home["codex"].read_text())["mcp_servers"]
    assert list(servers) == ["odd", "toolroute"]
    assert servers["toolroute"]["env_vars"] == [{"name": "A"}, "B", "C"]


@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_an_empty_file_of_a_client_has_no_servers(home: dict[str, Path], toolroute: Run, text: str) -> None:
    home["windsurf"].parent.mkdir(parents=True)
    home["windsurf"].write_text(text)
    shown = toolroute("setup", "--client", "windsurf")
    assert (shown.exit_code, shown.stderr) == (0, "no servers to take over\n")


def test_a_home_without_clients_gets_one_sentence(
    toolroute: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    shown = toolroute("setup")
    assert (shown.stdout, shown.stderr) == ("", "no servers to take over: none of the MCP clients is set up here\n")


def test_a_client_whose_file_is_broken_is_set_up(home: dict[str, Path], toolroute: Run) -> None:
    home["cursor"].write_text('{"mcpServers": ')
    shown = toolroute("setup", "--client", "cursor").stderr
    assert "Cursor is not changed" in shown
    assert shown.endswith("\nno servers to take over\n")


def test_a_client_whose_mcp_servers_file_is_gone_is_named(home: dict[str, Path], toolroute: Run) -> None:
    gone = Path.cwd() / "gone.json"
    entry = {"command": "toolroute", "args": ["serve", "--config", str(gone)]}
    home["cursor"].write_text(written_as("mcpServers", {"toolroute": entry}))
    shown = toolroute("setup", "--client", "cursor").stderr
    assert f"Cursor starts toolroute with {gone}, which does not exist: restore the file" in shown


@pytest.mark.parametrize("is_there", [True, False])
def test_jetbrains_is_named_only_where_it_is_found(home: dict[str, Path], toolroute: Run, is_there: bool) -> None:
    if is_there:
        (Path.home() / ".config" / "JetBrains").mkdir(parents=True, exist_ok=True)
    assert ("JetBrains AI Assistant is skipped" in toolroute("setup").stderr) == is_there


def test_servers_of_the_project_are_named_and_taken_over_on_request(home: dict[str, Path], toolroute: Run) -> None:
    theirs = Path.cwd() / ".cursor" / "mcp.json"
    theirs.parent.mkdir()
    theirs.write_text(written_as("mcpServers", {"team": QUICK}))
    home["cursor"].write_text(written_as("mcpServers", {}))
    shown = toolroute("setup", "--client", "cursor")
    assert f"Cursor stays connected to team of this project ({theirs}); take them over with --projects" in shown.stderr
    assert toolroute("setup", "--client", "cursor", "--projects", "--write").exit_code == 0
    assert list(json.loads(theirs.read_text())["mcpServers"]) == ["toolroute"]
    assert toolroute("setup", "--client", "cursor", "--undo").exit_code == 0
    assert list(json.loads(theirs.read_text())["mcpServers"]) == ["team"]


def test_a_projects_file_is_written_only_when_asked_and_a_served_one_is_not_swapped(
    home: dict[str, Path], toolroute: Run
) -> None:
    theirs = Path.cwd() / ".mcp.json"
    theirs.write_text(written_as("mcpServers", {"team": QUICK}))
    (Path.cwd() / ".git").mkdir()
    home["cursor"].write_text(written_as("mcpServers", {"one": QUICK}))
    only = ("setup", "--client", "cursor", "--write")
    refused = toolroute(*only, "--config", ".mcp.json")
    assert (refused.exit_code, "give --project" in refused.stderr) == (2, True)
    assert list(McpConfig.read(theirs).servers) == ["team"]
    ours = {"command": "toolroute", "args": ["serve", "--config", str(theirs)]}
    home["cursor"].write_text(written_as("mcpServers", {"one": QUICK, "toolroute": ours}))
    left = toolroute(*only)
    assert f"Cursor is not changed: it uses {theirs}; give --config {theirs}" in left.stderr
    assert list(McpConfig.read(theirs).servers) == ["team"]
    assert toolroute(*only, "--config", theirs, "--project").exit_code == 0
    assert list(McpConfig.read(theirs).servers) == ["team", "one"]
    assert list(McpConfig.read(theirs, "cursor").servers) == ["one"]


def test_undo_loses_no_comment_nor_mark_of_a_file(home: dict[str, Path], toolroute: Run) -> None:
    both = ("setup", "--client", "cursor", "--client", "codex")
    quick, args = json.dumps(QUICK), f"args = {QUICK['args']}"
    texts = {
        "cursor": f'\ufeff{{"mcpServers": {{\n  // the first\n  "one": {quick}}}}}',
        "codex": f"\ufeff[mcp_servers.one]  # the first\ncommand = {json.dumps(sys.executable)}\n{args}\n",
    }
    for name, text in texts.items():
        home[name].write_text(text)
    assert toolroute(*both, "--write").exit_code == 0
    assert [home[name].read_text()[0] for name in texts] == ["\ufeff", "\ufeff"]
    assert toolroute(*both, "--undo").exit_code == 0
    assert {name: home[name].read_text() for name in texts} == texts
    assert not [path for name in texts for path in home[name].parent.glob("*-toolroute*")]

    assert toolroute(*both, "--write").exit_code == 0
    now = home["cursor"].read_text()
    home["cursor"].write_text(now.replace('"toolroute"', f'// the second\n "two": {quick}, "toolroute"', 1))
    with home["codex"].open("a") as file:
        file.write(
            texts["codex"].removeprefix("\ufeff").replace("servers.one", "servers.two").replace("first", "second")
        )
    assert toolroute(*both, "--write").exit_code == 0
    assert list(McpConfig.read(Path.home() / ".config" / "toolroute" / "mcp.json").servers) == ["one", "two"]
    copies = [home[name].with_name(f"{home[name].name}.before-toolroute") for name in texts]
    assert [copy.read_text() for copy in copies] == list(texts.values())
    undone = toolroute(*both, "--undo")
    assert undone.exit_code == 0, undone.stderr
    assert sorted(McpConfig.read(home["cursor"]).servers) == ["one", "two"]
    assert sorted(tomllib.loads(home["codex"].read_text("utf-8-sig"))["mcp_servers"]) == ["one", "two"]
    assert "// the first" in home["cursor"].read_text()
    assert "// the second" in home["cursor"].read_text()
    assert not list(home["cursor"].parent.glob("*-toolroute*"))
    kept = sorted(home["codex"].parent.glob("*.undone-toolroute*"))  # Its comments went with the tables.
    assert kept[0].read_text() == texts["codex"]
    assert "the second" in kept[1].read_text()
    assert str(kept[0]) in undone.stderr
    assert "nothing to undo" in toolroute(*both, "--undo").stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
@pytest.mark.parametrize(("answer", "option"), [("always", ["--approve", "always"]), ("", [])])
def test_a_person_at_a_terminal_says_which_calls_wait(home: dict[str, Path], answer: str, option: list[str]) -> None:
    words = ("setup", "--write", "--client", "claude-desktop")
    code, shown = at_terminal(answer, "[changes]: ", *words)
    assert (code, "calls not known to be read-only" in shown) == (0, True), shown
    arguments = json.loads(home["claude-desktop"].read_text())["mcpServers"]["toolroute"]["args"]
    assert [word for word in arguments if word in ("--approve", "always")] == option
