"""Selecting: near-duplicates, what is recommended, and what fits a cap of tokens."""

from dataclasses import replace

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.records.tool import Match, Tool
from orchestrator.routing.router import Router
from orchestrator.routing.select import LADDER, by_standing, fit, recommend, spread
from tests.catalogues import sample, taking, tool

SEARCH = "Search the web for pages about anything and return the best"


def match(key: str, score: float = 0.5, description: str = "", **labels: str) -> Match:
    return Match(tool=tool(key, description, labels=labels), score=score)


def keys(matches: list[Match]) -> list[str]:
    return [match.tool.key for match in matches]


def test_near_duplicates_of_other_servers_give_way_within_the_window() -> None:
    found = [
        match("a:web_search", 0.9, SEARCH),
        match("b:webSearch", 0.8, SEARCH + " ones."),
        match("c:web-search", 0.7, SEARCH),
        match("d:read_page", 0.2, "Read one page"),
        match("e:web_search", 0.1, SEARCH),
    ]
    assert keys(spread(found, 4)) == ["a:web_search", "d:read_page", "b:webSearch", "c:web-search", "e:web_search"]


def test_tools_that_only_share_a_name_or_a_server_stay_in_their_places() -> None:
    found = [
        match("mail:search", 0.9, "Search the mailbox"),
        match("shop:search", 0.8, "Find goods by price and colour"),
        match("mail:Search", 0.7, "Search the mailbox"),
    ]
    assert spread(found, 10) == found


@pytest.mark.parametrize(
    ("second", "ages", "count"),
    [
        (0.81, ("stable", "emerging"), 2),
        (0.81, ("emerging", "stable"), 2),
        (0.79, ("stable", "emerging"), 1),
        (0.99, ("stable", "stable"), 1),
        (0.99, ("emerging", "deprecated"), 1),
    ],
)
def test_two_are_recommended_when_they_are_close_and_one_is_stable_and_one_emerging(
    second: float, ages: tuple[str, str], count: int
) -> None:
    found = [match("a:x", 1.0, maturity=ages[0]), match("b:y", second, maturity=ages[1])]
    assert recommend(found) == tuple(keys(found))[:count]


def test_a_part_of_the_task_with_a_best_tool_of_its_own_recommends_that_as_well() -> None:
    found = [match("a:x", 0.9), match("b:y", 0.3), match("c:z", 0.2)]
    assert recommend(found, ["a:x", "c:z", "b:y"]) == ("a:x", "c:z")
    assert recommend(found, ["a:x"]) == ("a:x",)
    assert recommend(found[:1], ["a:x", "c:z"]) == ("a:x",)
    assert recommend([]) == ()


def test_where_nothing_matched_the_most_used_and_best_kept_come_first() -> None:
    tools = [
        tool("a:unknown"),
        tool("a:old", labels={"usage": "5", "maturity": "deprecated"}),
        tool("a:new", labels={"usage": "5", "maturity": "emerging"}),
        tool("a:kept", labels={"usage": "5", "maturity": "stable"}),
        tool("a:used", labels={"usage": "70"}),
        tool("a:odd", labels={"usage": "often"}),
    ]
    assert [tools[position].name for position in by_standing(tools)] == ["used", "kept", "new", "old", "unknown", "odd"]


def tokens(tool: Tool) -> int:
    return count_tokens(compact(export([tool], "openai")[0]))


FOUND = [Match(tool=known, score=0.5) for known in list(sample())[:10]]
RUNGS = [sum(tokens(shrink(match.tool)) for match in FOUND) for shrink in LADDER]


def test_each_rung_of_the_ladder_is_smaller() -> None:
    assert sorted(RUNGS, reverse=True) == RUNGS
    assert len(set(RUNGS)) == len(LADDER) == 3


@pytest.mark.parametrize("rung", range(3))
def test_schemas_shrink_together_and_just_as_far_as_the_cap_demands(rung: int) -> None:
    kept, dropped = fit(FOUND, RUNGS[rung], tokens)
    assert dropped == []
    assert [match.tool for match in kept] == [LADDER[rung](match.tool) for match in FOUND]


def test_below_the_smallest_rung_the_tail_is_dropped() -> None:
    kept, dropped = fit(FOUND, RUNGS[-1] // 2, tokens)
    assert 0 < len(kept) < len(FOUND)
    assert sum(tokens(match.tool) for match in kept) <= RUNGS[-1] // 2
    assert keys(kept) + keys(dropped) == keys(FOUND)
    assert fit(FOUND, 1, tokens) == ([], FOUND)
    least = [LADDER[-1](match.tool) for match in FOUND]
    assert keys(fit(FOUND, sum(map(tokens, least[:4])), tokens)[0]) == keys(FOUND)[:4]


def test_a_shrunk_tool_keeps_its_key_its_hash_and_its_required_parameters() -> None:
    text = "First sentence. Second one."
    long = tool("a:b", text, input_schema=taking("to", to=text, cc=text))
    short, bare = LADDER[1](long), LADDER[2](long)
    assert short.description == bare.description == "First sentence."
    assert short.input_schema == taking("to", to="First sentence.", cc="First sentence.")
    assert bare.input_schema == {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    assert (short.key, short.hash) == (bare.key, bare.hash) == (long.key, long.hash)


def test_short_descriptions_leave_out_other_prose_and_end_where_they_are_cut() -> None:
    part = {"type": "string", "enum": ["a"], "title": "To", "default": "a", "examples": ["a"], "description": "x" * 90}
    short = LADDER[1](tool("a:b", "y" * 200, input_schema={"properties": {"to": part}}))
    cut = {"type": "string", "enum": ["a"], "description": "x" * 79 + "…"}
    assert (short.description, short.input_schema) == ("y" * 159 + "…", {"properties": {"to": cut}})


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"required": True},
        {"properties": 3, "required": [[]]},
        {"properties": {"a": 1}, "items": {"items": 2}},
    ],
)
def test_a_schema_of_any_shape_can_shrink(schema: dict[str, object] | None) -> None:
    for shrink in LADDER:
        shrink(tool("a:b", input_schema=schema))


async def test_a_deprecated_tool_scores_a_fifth_less_and_stands_behind_what_is_better_then() -> None:
    async def scores(maturity: str) -> dict[str, float]:
        labels = {"jira:create_issue": {"maturity": maturity}}
        tools = [replace(known, labels=labels.get(known.key, known.labels)) for known in sample()]
        async with Router(Catalogue(tools)) as router:
            decision = await router.route("create an issue about the broken login")
        return {match.tool.key: match.score for match in decision.matches}

    kept, lowered = await scores("stable"), await scores("deprecated")
    assert ([*kept][1:3], [*lowered][1:3]) == (["jira:create_issue", "linear:createIssue"], [*kept][2:0:-1])
    assert lowered["jira:create_issue"] == pytest.approx(0.8 * kept["jira:create_issue"])
