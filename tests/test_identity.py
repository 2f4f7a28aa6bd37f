"""What an entry means: another server is another identity, another secret is none."""

from typing import Any

import pytest

from orchestrator.mcp.config import McpConfig
from orchestrator.records.digests import same_server

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
        {"env": {"ZONE": "a", "API_KEY": "${API_KEY}"}},
    ],
)
def test_what_starts_another_server_is_another(changed: dict[str, Any]) -> None:
    assert not same_server(identity({**BASE, **changed}), identity(BASE))


@pytest.mark.parametrize("chosen", [{"disabledTools": ["drop"]}, {"includeTools": ["query"]}])
def test_an_entry_that_chooses_other_tools_is_another_and_means_the_same_server(chosen: dict[str, Any]) -> None:
    assert identity({**BASE, **chosen}) != identity(BASE)
    assert same_server(identity({**BASE, **chosen}), identity(BASE))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"url": "https://h?project_ref=abcdefghijklmnop"}, {"url": "https://h?project_ref=zbcdefghijklmnop"}),
        ({"url": "https://h?team=web7"}, {"url": "https://h?team=web8"}),
        ({"url": "https://h/s/aB3dE5gH7jK9mN1pQ3sT"}, {"url": "https://h/s/zB3dE5gH7jK9mN1pQ3sT"}),
        ({"url": "https://h", "headers": {"X-Team": "a"}}, {"url": "https://h", "headers": {"X-Team": "b"}}),
        ({"command": "x", "env": {"PROJECT": "project-1"}}, {"command": "x", "env": {"PROJECT": "project-2"}}),
        ({"command": "x", "env": {"TEAM_ID": "T01AB2CD3"}}, {"command": "x", "env": {"TEAM_ID": "T01AB2CD4"}}),
        ({"command": "x", "env": {"API_KEY": "${WORK}"}}, {"command": "x", "env": {"API_KEY": "${HOME_KEY}"}}),
        ({"command": "x", "args": ["--token=${WORK}"]}, {"command": "x", "args": ["--token=${HOME_KEY}"]}),
        ({"command": "x", "env": {"DB": "pg://me:pw@h/a"}}, {"command": "x", "env": {"DB": "pg://me:pw@h/b"}}),
    ],
)
def test_two_projects_of_one_service_are_two_servers(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert not same_server(identity(one), identity(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, {**BASE, "env": {"API_KEY": "s3cret-2", "ZONE": "a"}}),
        (BASE, {**BASE, "toolroute": {"call_timeout_s": 600}, "icon": "x"}),
        ({"command": "x", "args": ["--token", "s3cret-1"]}, {"command": "x", "args": ["--token", "other-99"]}),
        ({"command": "x", "env": {"DB": "pg://me:s3cret@h/d"}}, {"command": "x", "env": {"DB": "pg://me:other@h/d"}}),
        ({"url": "https://h/mcp?key=s3cret-1"}, {"url": "https://h/mcp?key=other-99"}),
        ({"url": "https://h", "headers": {"Auth": "s3cret"}}, {"url": "https://h", "headers": {"Auth": "other"}}),
        ({"url": "https://h/mcp?sig=Ab1Cd2Ef3Gh4"}, {"url": "https://h/mcp?sig=Zb1Cd2Ef3Gh4"}),
        ({"command": "x", "env": {"IT": "Ab1Cd2Ef3"}}, {"command": "x", "env": {"IT": "Zb1Cd2Ef3"}}),
        ({"command": "x", "env": {"K": "Pwd=a;"}}, {"command": "x", "env": {"K": "Pwd=b;"}}),
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
