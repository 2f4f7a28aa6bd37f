"""Selecting: near-duplicates, recommendations, and a cap of tokens."""

import pytest

from orchestrator import Match, Router
from orchestrator.catalogue.shrink import LADDER
from orchestrator.pipeline.selection.popularity import by_popularity
from orchestrator.pipeline.selection.select import recommend, repeated
from tests.catalogues import sample, taking, tool

SEARCH = "Search the web for pages about anything and return the best"


def match(key: str, score: float = 0.5, **labels: str) -> Match:
    return Match(tool=tool(key, labels=labels), probability=score)


def keys(matches: list[Match]) -> list[str]:
    return [match.tool.key for match in matches]


def test_near_duplicates_are_tools_of_other_servers_with_one_name_and_one_description() -> None:
    tools = [
        tool("a:web_search", SEARCH),
        tool("b:webSearch", SEARCH + " ones."),
        tool("c:web-search", "Find goods by price and colour"),
        tool("a:web.search", SEARCH),
        tool("d:read_page", SEARCH),
    ]
    assert repeated(tools, range(5)) == {1, 3}
    assert repeated(tools, [0, 3]) == set()
    assert repeated(tools, []) == set()


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


def test_a_part_with_a_best_tool_of_its_own_recommends_that_as_well() -> None:
    found = [match("a:x", 0.9), match("b:y", 0.3), match("c:z", 0.2)]
    assert recommend(found, ["a:x", "c:z", "b:y"]) == ("a:x", "c:z")
    assert recommend(found, ["a:x"]) == ("a:x",)
    assert recommend(found[:1], ["a:x", "c:z"]) == ("a:x",)
    assert recommend([]) == ()


def test_where_nothing_matched_the_most_used_and_best_kept_come_first() -> None:
    usage = {"unknown": {}, "old": {"usage": "5", "maturity": "deprecated"}, "new": {"usage": "5"}}
    usage |= {"kept": {"usage": "5", "maturity": "stable"}, "used": {"usage": "70"}, "odd": {"usage": "often"}}
    tools = [tool(f"a:{name}", labels=labels) for name, labels in usage.items()]
    assert [tools[place].name for place in by_popularity(tools)] == ["used", "kept", "new", "old", "unknown", "odd"]


def test_a_shrunk_tool_keeps_its_key_its_hash_and_its_required_parameters() -> None:
    text = "First sentence. Second one."
    long = tool("a:b", text, input_schema=taking("to", to=text, cc="x" * 90))
    short, bare = LADDER[1](long), LADDER[2](long)
    assert short.description == bare.description == "First sentence."
    assert short.input_schema == taking("to", to="First sentence.", cc="x" * 79 + "…")
    assert bare.input_schema == {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    assert (short.key, short.hash) == (bare.key, bare.hash) == (long.key, long.hash)
    for odd in (
        None,
        {},
        {"required": True},
        {"properties": 3, "required": [[]]},
        {"properties": {"a": 1}, "items": {}},
    ):
        for shrink in LADDER:
            shrink(tool("a:b", input_schema=odd))


async def test_the_first_match_is_no_likelier_than_the_confidence() -> None:
    tasks = (
        "good morning",
        "hello",
        "use slack to tell the team that the deploy is late",
        "open an issue about the crash",
    )
    async with Router(sample()) as router:
        for task in tasks:
            decision = await router.route(task)
            probabilities = [match.probability for match in decision.matches]
            assert probabilities[0] <= decision.confidence + 2e-6
            assert probabilities == sorted(probabilities, reverse=True)
