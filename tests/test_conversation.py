"""Conversation: short turns that depend on earlier ones, tools that stay available, and offers with unchanged bytes."""

import json
from dataclasses import replace

import pytest

from orchestrator import Decision, Router, RouteRequest, Turn
from orchestrator.pipeline.conversation import LEANING, earlier_texts
from tests.catalogues import keys, sample

PULLS = "list the open pull requests of acme/api"
WEATHER = "get the weather forecast of Rome and the air temperature there"


def offer(decision: Decision) -> str:
    return json.dumps(decision.tools("openai"))


@pytest.mark.parametrize("query", ["again, please", "and in Berlin?", "y en Berlín?", "restart it", "that repo, too"])
def test_a_turn_with_few_words_of_its_own_leans_on_the_turn_before(query: str) -> None:
    turns = [Turn(text=PULLS), Turn(text="Three.", role="assistant")]
    assert earlier_texts(query, turns) == ((PULLS, LEANING),)
    assert earlier_texts("book a desk and open the repo", turns) == earlier_texts(query, []) == ()


async def test_a_follow_up_within_the_offer_keeps_its_bytes_although_another_tool_is_best(router: Router) -> None:
    first = await router.route(PULLS)
    again = await router.route("and for acme/web?", conversation=[first.turn()])
    merge = await router.route("merge it", conversation=[first.turn("github:list_pull_requests")])
    assert merge.matches[0].tool.key == "github:merge_pull_request" != first.matches[0].tool.key
    assert offer(merge) == offer(again) == offer(first)
    assert (again.query, again.recommended) == ("and for acme/web?", first.recommended)


async def test_tools_found_later_are_appended(router: Router) -> None:
    first = await router.route(RouteRequest(query=PULLS, tenant="local", limit=4))
    turns = (first.turn("github:list_pull_requests"),)
    later = await router.route(RouteRequest(query="and post them to Slack", limit=8, conversation=turns))
    assert later.offered[:4] == first.offered
    assert later.recommended[0].startswith("slack:")
    assert json.dumps(later.tools())[:-1].startswith(json.dumps(first.tools())[:-1])


async def test_a_new_topic_starts_a_new_offer_and_used_tools_stay_available(router: Router) -> None:
    first, alone = await router.route(PULLS), await router.route(WEATHER)
    within = await router.route(WEATHER, conversation=[first.turn("github:list_pull_requests")])
    assert keys(within) == [*keys(alone)[:9], "github:list_pull_requests"]
    assert (within.confidence, within.recommended) == (alone.confidence, alone.recommended)
    assert within.matches[-1].why.startswith("used earlier in this conversation; ")
    shared = keys(alone)[-1]
    fresh = await router.route(WEATHER, conversation=[replace(first.turn(), offered=(shared, *first.offered))])
    assert list(fresh.offered) == keys(fresh)


async def test_an_offer_that_names_a_tool_twice_is_continued_once(router: Router) -> None:
    first = await router.route(PULLS)
    twice = replace(first.turn(), offered=(*first.offered, *first.offered))
    again = await router.route("and for acme/web?", conversation=[twice])
    assert again.offered == first.offered


async def test_used_tools_never_fill_the_answer_nor_pass_a_filter(router: Router) -> None:
    alone = await router.route(RouteRequest(query=PULLS, limit=6))
    others = tuple(tool.key for tool in sample().tools if tool.key not in keys(alone))[:30]
    asked = RouteRequest(query=PULLS, conversation=(Turn(text="x", tools=others),), limit=6)
    found = await router.route(asked)
    brought = set(keys(found)) - set(keys(alone))
    assert len(brought) == 3
    assert brought <= set(others)
    assert keys(found)[0] == keys(await router.route(replace(asked, limit=1)))[0] == "github:list_pull_requests"
    only = await router.route(replace(asked, filters={"server": "github"}))
    assert {match.tool.server for match in only.matches} == {"github"}


async def test_turns_without_words_and_tools_that_are_gone_do_no_harm(router: Router) -> None:
    turns = [Turn(text=""), Turn(text=" \n"), Turn(text="?", role="tool"), Turn(text="\ud800", role="")]
    assert keys(await router.route(PULLS, conversation=turns)) == keys(await router.route(PULLS))
    gone = Turn(text=PULLS, tools=("gone:tool",), offered=("gone:other", "github:list_pull_requests"))
    found = await router.route("again", conversation=[gone])
    assert {"gone:tool", "gone:other"}.isdisjoint({*keys(found), *found.offered})
