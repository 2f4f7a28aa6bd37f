"""`toolroute approvals`: a person allows, lists and withdraws tools at a terminal."""

import json
import sys
from pathlib import Path

import pytest

from orchestrator import McpConfig, Store
from tests.catalogues import tool
from tests.command_line import Run, at_terminal
from tests.servers.start import config, entry
from tests.stores import shipped


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options of a store that knows a server of two tools that may change something."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("TOOLROUTE_AUDIT", str(tmp_path / "audit"))
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(config(quick=entry("quick.py"))))
    entries = McpConfig.read(file).entries
    tools = [tool("quick:add", "Put two\u202e numbers"), tool("quick:send", "Send a letter")]
    store = Store(str(tmp_path / "store"), embedder=shipped(), entries=entries)
    store.replace_servers("local", {"quick": tools}, listed=entries)
    store.close()
    return ["--config", str(file), "--store", str(tmp_path / "store")]


@pytest.mark.skipif(sys.platform != "linux", reason="the settings are found by XDG_CONFIG_HOME")
def test_a_person_allows_lists_and_withdraws_and_a_script_allows_nothing(
    place: list[str], toolroute: Run, tmp_path: Path
) -> None:
    refused = toolroute("approvals", "allow", "quick:add", *place)
    assert (refused.exit_code, "run this command in a terminal" in refused.stderr) == (2, True)
    code, shown = at_terminal("n", "[y/N]", "approvals", "allow", "quick:add", *place)
    assert (code, "\\u202e" in shown, "\u202e" in shown) == (130, True, False)
    assert toolroute("approvals", "list").stdout == ""
    assert at_terminal("y", "[y/N]", "approvals", "allow", "quick", *place)[0] == 0
    assert toolroute("approvals", "list").stdout == "quick:add\nquick:send\n"
    assert json.loads(toolroute("approvals", "list", "--user", "7", "-o", "json").stdout)["allowed"] == []
    [kept] = (tmp_path / "settings").rglob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert toolroute("approvals", "withdraw", "quick:add").exit_code == 0
    assert toolroute("approvals", "list").stdout == "quick:send\n"
    assert toolroute("approvals", "withdraw", "--all").exit_code == 0
    lines = json.loads(toolroute("audit", "list", "--event", "approval", "-o", "json").stdout)["lines"]
    assert {(line["server"], line["tool"], line["approval"]) for line in lines} == {
        ("quick", key, word) for key in ("quick:add", "quick:send") for word in ("this tool", "withdrawn")
    }
    for words in (
        ("withdraw",),
        ("withdraw", "quick"),
        ("allow", "other:tool", *place),
        ("allow", "quick:none", *place),
    ):
        assert toolroute("approvals", *words).exit_code == 2
