"""What an entry means: another server is another identity, another secret is none."""

from typing import Any

import pytest

from orchestrator.mcp.config import McpConfig

BASE: dict[str, Any] = {"command": "uvx", "args": ["mcp-db", "--verbose"], "env": {"ZONE": "a", "API_KEY": "s3cret-1"}}


def identity(entry: dict[str, Any], name: str = "db") -> str:
    return McpConfig.parse({"mcpServers": {name: entry}}).servers[name].identity


@pytest.mark.parametrize(
    "changed",
    [
        {"command": "npx"},
        {"args": ["mcp-db"]},
        {"cwd": "/srv"},
        {"env": {"ZONE": "b", "API_KEY": "s3cret-1"}},
        {"env": {"API_KEY": "s3cret-1"}},
        {"envFile": ".env"},
        {"disabledTools": ["drop"]},
        {"includeTools": ["query"]},
    ],
)
def test_what_starts_another_server_or_leaves_other_tools_in_is_another(changed: dict[str, Any]) -> None:
    assert identity({**BASE, **changed}) != identity(BASE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, {**BASE, "env": {"API_KEY": "s3cret-2", "ZONE": "a"}}),
        (BASE, {**BASE, "toolroute": {"call_timeout_s": 600}, "icon": "x"}),
        ({"command": "x", "args": ["--token", "s3cret-1"]}, {"command": "x", "args": ["--token", "other-99"]}),
        ({"command": "x", "env": {"DB": "pg://me:s3cret@h/d"}}, {"command": "x", "env": {"DB": "pg://me:other@h/d"}}),
        ({"url": "https://h/mcp?key=s3cret-1"}, {"url": "https://h/mcp?key=other-99"}),
        ({"url": "https://h", "headers": {"Auth": "s3cret"}}, {"url": "https://h", "headers": {"Auth": "other"}}),
        ({"url": "https://[s3cret/mcp"}, {"url": "https://[other/mcp"}),
    ],
)
def test_another_secret_is_the_same_server(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert identity(one) == identity(other)


def test_no_name_and_no_variable_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"url": "https://${HOST}/mcp"}
    monkeypatch.setenv("HOST", "one")
    before = identity(entry)
    monkeypatch.setenv("HOST", "two")
    assert identity(entry, "other") == before
    assert identity({"url": "https://${OTHER}/mcp"}) != before
