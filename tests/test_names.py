"""A rule about a tool's name holds for every spelling of it."""

import pytest

from orchestrator import McpConfig

SPELLINGS = (
    "delete_repo",
    "Delete_repo",
    "delete-repo",
    "delete\u2010repo",
    "delete\u2212repo",
    "de\u00adlete_repo",
    "d\u0435lete_repo",
    "\uff44elete_repo",
    " delete_repo",
    "delete_repo\u200b",
    "del\u0395te_repo",
)


def has(name: str, *patterns: str) -> bool:
    """Return True if a profile with these patterns has a tool with this name."""
    parsed = McpConfig.parse({"mcpServers": {"box": {"command": "box"}}, "profiles": {"own": {"tools": [*patterns]}}})
    return parsed.profiles["own"].has(f"box:{name}")


@pytest.mark.parametrize("name", SPELLINGS)
def test_an_exclusion_holds_for_every_spelling(name: str) -> None:
    assert not has(name, "!box:delete_*")
    assert not has(name, "box:*", "!box:delete_repo")
    entry = {"command": "box", "disabledTools": ["delete_repo"]}
    [spec] = McpConfig.parse({"mcpServers": {"box": entry}}).servers.values()
    assert not spec.lists(name)


@pytest.mark.parametrize("name", SPELLINGS[1:])
def test_an_inclusion_holds_as_it_is_written(name: str) -> None:
    assert not has(name, "box:delete_repo")


_DEFAULT_IGNORABLE = (
    "ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 202a-202e 2060-206f 3164 fe00-fe0f feff ffa0 fff0-fff8 "
    "1bca0-1bca3 1d173-1d17a e0000-e0fff"
)
"""Unicode's Default_Ignorable_Code_Point, as DerivedCoreProperties.txt lists it, in hexadecimal."""


def test_nothing_invisible_makes_another_name() -> None:
    for part in _DEFAULT_IGNORABLE.split():
        first, _, last = part.partition("-")
        for code in range(int(first, 16), int(last or first, 16) + 1):
            assert not has(f"delete{chr(code)}_repo", "!box:delete_repo"), hex(code)
    assert not has("delete\x00_rep\x7fo", "!box:delete_repo")
    assert not has("delete\u2800_repo", "!box:delete_repo")  # A Braille pattern without dots.


def test_other_names_stay_apart() -> None:
    names = ["delete_repo", "delete_repos", "undelete_repo", "l\u00f6schen", "\u5220\u9664"]
    for name in names:
        assert [other for other in names if not has(other, f"!box:{name}")] == [name]
    assert has("read_repo", "!box:delete_*")
