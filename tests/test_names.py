"""A rule about a tool's name holds for every spelling of it."""

import pytest

from orchestrator.common.names import normal_name
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.records.request import within

SPELLINGS = (
    "delete_repo",
    "Delete_repo",
    "delete-repo",
    "de\u00adlete_repo",
    "d\u0435lete_repo",
    "\uff44elete_repo",
    " delete_repo",
    "delete_repo\u200b",
    "del\u0395te_repo",
)


@pytest.mark.parametrize("name", SPELLINGS)
def test_an_exclusion_holds_for_every_spelling(name: str) -> None:
    assert not within(f"box:{name}", ["!box:delete_*"])
    assert not within(f"box:{name}", ["box:*", "!box:delete_repo"])
    entry = {"command": "box", "disabledTools": ["delete_repo"]}
    [spec] = McpConfig.parse({"mcpServers": {"box": entry}}).servers.values()
    assert not spec.lists(name)


@pytest.mark.parametrize("name", SPELLINGS[1:])
def test_an_inclusion_holds_as_it_is_written(name: str) -> None:
    assert not within(f"box:{name}", ["box:delete_repo"])


def test_other_names_stay_apart() -> None:
    names = ["delete_repo", "delete_repos", "undelete_repo", "l\u00f6schen", "\u5220\u9664"]
    assert len({normal_name(name) for name in names}) == len(names)
    assert within("box:read_repo", ["!box:delete_*"])
