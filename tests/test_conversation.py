"""Conversation: what a follow-up means, which tools stay available, and an offer whose bytes stay the same."""

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from orchestrator.errors import InvalidInput
from orchestrator.records import durable_names as names
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest, Turn
from orchestrator.records.tool import Stage
from orchestrator.routing.conversation import LEANING, MAX_CHARS, meant
from orchestrator.routing.router import Router
from tests.catalogues import sample
from tests.command_line import Run
from tests.running import TENANT, plugin_over
from tests.temporal import working
from tests.test_cases import catalogue as cases

PULLS = "list the open pull requests of acme/api"
KNOWN = {"repo", "book", "desk", "restart", "weather"}


def keys(decision: Decision) -> list[str]:
    return [match.tool.key for match in decision.matches]


def offer(decision: Decision) -> str:
    return json.dumps(decision.tools("openai"))


@pytest.mark.parametrize(
    "query",
    [
        "again, please",
        "and in Berlin?",
        "what about that?",
        "how about #12",
        "the same for acme/web",
        "y en Berlín?",
        "und in Berlin?",
        "et à Paris ?",
        "Berlin",
    ],
)
def test_a_follow_up_that_asks_for_nothing_new_means_the_turn_before(query: str) -> None:
    assert meant(query, [Turn(text=PULLS), Turn(text="Three.", role="assistant")], KNOWN).text == PULLS


@pytest.mark.parametrize(
    "query",
    [
        "do the same for the other repo",
        "and the closed ones?",
        "那上海呢",
        "is that restarted",
        "this weather?",
        "where is it now",
        "who is that?",
        "and when is the next",
    ],
)
def test_a_follow_up_that_asks_for_little_leans_on_the_turn_before(query: str) -> None:
    found = meant(query, [Turn(text=PULLS)], KNOWN)
    assert (found.text, found.earlier) == (query, ((PULLS, LEANING),))


@pytest.mark.parametrize(
    "query",
    [
        "merge it",
        "please restart that one",
        "restart those two",
        "restart that tomorrow",
        "get that restarted",
        "kill the first one",
    ],
)
def test_a_follow_up_that_says_what_to_do_leans_on_what_the_turn_before_was_about(query: str) -> None:
    found = meant(query, [Turn(text=f"Please {PULLS}")], KNOWN)
    assert (found.text, found.earlier) == (query, (("the open pull requests of acme/api", LEANING),))
    assert meant(query, [Turn(text="incidents of today")], KNOWN).earlier == (("incidents of today", LEANING),)


def test_a_turn_before_of_a_single_word_is_leaned_on_as_it_is() -> None:
    assert meant("restart it", [Turn(text="Deploy")], KNOWN).earlier == (("Deploy", LEANING),)


@pytest.mark.parametrize(
    "query",
    [
        "what is the weather in Rome right now",
        "and book a desk in the office for Monday",
        "send it to the customers of last year with a discount code",
        "thank you, that was great",
        "weather",
        "restart that service",
        "restart those failed services",
        "close this PR",
    ],
)
def test_a_turn_that_stands_alone_is_routed_alone(query: str) -> None:
    assert meant(query, [Turn(text=PULLS)], KNOWN).earlier == ()
    assert meant(query, [Turn(text=PULLS)], KNOWN).text == query


def test_follow_ups_of_follow_ups_lean_on_the_turn_that_stood_alone() -> None:
    turns = [Turn(text="weather in Paris now"), Turn(text="what about tomorrow?")]
    found = meant("and in Berlin?", turns, KNOWN)
    assert (found.text, found.earlier) == ("what about tomorrow?", (("weather in Paris now", LEANING),))


def test_a_yes_accepts_what_the_assistant_offered() -> None:
    turns = [Turn(text="draft an answer"), Turn(text="Here it is. Shall I send the email to Ana?", role="assistant")]
    assert meant("yes, please", turns).text == "send the email to Ana"
    assert meant("ok", turns[:1]).text == "draft an answer"


def test_a_pasted_document_among_the_turns_is_not_what_is_meant() -> None:
    turns = [Turn(text=PULLS), Turn(text="word " * MAX_CHARS)]
    assert meant("again, please", turns).text == PULLS


async def test_a_follow_up_without_anything_new_keeps_its_decision(router: Router) -> None:
    first = await router.route(PULLS)
    again = await router.route("and for acme/web?", conversation=[first.turn()])
    assert again.query == "and for acme/web?"
    assert [(m.tool, m.score) for m in again.matches] == [(m.tool, m.score) for m in first.matches]
    assert (again.recommended, again.confidence) == (first.recommended, first.confidence)
    assert offer(again) == offer(first)


async def test_a_follow_up_within_the_offer_keeps_its_bytes_although_another_tool_is_best(router: Router) -> None:
    first = await router.route(PULLS)
    merge = await router.route("merge it", conversation=[first.turn("github:list_pull_requests")])
    assert merge.matches[0].tool.key == "github:merge_pull_request"
    assert merge.matches[0].tool.key != first.matches[0].tool.key
    assert offer(merge) == offer(first)
    assert [m.score for m in merge.matches] == sorted((m.score for m in merge.matches), reverse=True)


async def test_tools_found_later_are_appended(router: Router) -> None:
    first = await router.route(RouteRequest(query=PULLS, tenant="local", limit=4))
    turns = (first.turn("github:list_pull_requests"),)
    later = await router.route(
        RouteRequest(query="and post them to Slack", tenant="local", limit=8, conversation=turns)
    )
    assert later.offered[:4] == first.offered
    assert later.recommended[0].startswith("slack:")
    assert json.dumps(later.tools())[:-1].startswith(json.dumps(first.tools())[:-1])


async def test_a_new_topic_starts_a_new_offer_best_first(router: Router) -> None:
    first, asked = await router.route(PULLS), "what is the weather in Rome right now"
    shared = (await router.route(asked)).matches[-1].tool.key
    within = await router.route(asked, conversation=[replace(first.turn(), offered=(shared, *first.offered))])
    assert shared in keys(within)
    assert list(within.offered) == keys(within)


async def test_a_change_of_topic_wins_and_used_tools_stay_available(router: Router) -> None:
    first = await router.route(PULLS)
    asked = "what is the weather in Rome right now"
    alone = await router.route(asked)
    within = await router.route(asked, conversation=[first.turn("github:list_pull_requests")])
    assert keys(within) == [*keys(alone)[:9], "github:list_pull_requests"]
    assert (within.confidence, within.recommended) == (alone.confidence, alone.recommended)
    assert within.matches[-1].why.startswith("used earlier in this conversation; ")


@pytest.mark.parametrize("asked", ["mail this to Ana", "post this to the team channel", "translate this contract"])
async def test_a_complete_request_that_points_does_not_go_back_to_the_tool_used_before(asked: str) -> None:
    async with Router(cases()) as router:
        first = await router.route("refund the charge ch_3PqX in full")
        within = await router.route(asked, conversation=[first.turn(first.recommended[0])])
        assert first.recommended == ("payments:refund_payment",)
        assert within.matches[0].tool.key != "payments:refund_payment"


async def test_used_tools_never_fill_the_answer_nor_pass_a_filter(router: Router) -> None:
    alone = await router.route(RouteRequest(query=PULLS, tenant="local", limit=6))
    others = [tool.key for tool in sample().tools if tool.key not in keys(alone)]
    turns = [Turn(text="x", tools=tuple(others[:30]))]
    asked = RouteRequest(query=PULLS, tenant="local", conversation=tuple(turns), limit=6)
    found = await router.route(asked)
    used = set(turns[0].tools)
    brought = set(keys(found)) - set(keys(alone))
    assert len(brought) == 3
    assert brought <= used
    assert {match.tool.key for match in found.matches if "used earlier" in match.why} == used & set(keys(found))
    assert found.matches[0].tool.key == "github:list_pull_requests"
    only = RouteRequest(query=PULLS, tenant="local", conversation=tuple(turns), filters={"server": "github"})
    assert {match.tool.server for match in (await router.route(only)).matches} == {"github"}
    one = await router.route(RouteRequest(query=PULLS, tenant="local", conversation=tuple(turns), limit=1))
    assert keys(one) == ["github:list_pull_requests"]


async def test_tools_that_are_gone_are_not_offered(router: Router) -> None:
    turn = Turn(text=PULLS, tools=("gone:tool",), offered=("gone:other", "github:list_pull_requests"))
    found = await router.route("again", conversation=[turn])
    assert {"gone:tool", "gone:other"}.isdisjoint({*keys(found), *found.offered})
    assert sorted(found.offered) == sorted(keys(found))


@pytest.mark.parametrize("said", ["never mind", "No, forget it!", "ok nevermind", "nope", "not now", "vergiss es"])
def test_a_request_that_is_taken_back_is_not_repeated(said: str) -> None:
    assert meant(said, [Turn(role="user", text="refund the charge ch_3PqX")]).earlier == ()
    assert meant(said, [Turn(role="user", text="refund the charge ch_3PqX")]).text == said


def test_what_is_done_already_is_not_repeated() -> None:
    assert (
        meant("I already did that", [Turn(role="user", text="refund the charge ch_3PqX")]).text == "I already did that"
    )


async def test_thanks_call_nothing_and_keep_the_offer(router: Router) -> None:
    first = await router.route(PULLS)
    thanks = await router.route("thanks a lot!", conversation=[first.turn()])
    assert thanks.stage is Stage.NONE
    assert thanks.recommended == ()
    assert offer(thanks) == offer(first)
    assert all(match.why.startswith("low: ") for match in thanks.matches)


async def test_turns_without_words_or_roles_of_their_own_do_no_harm(router: Router) -> None:
    turns = [Turn(text=""), Turn(text=" \n"), Turn(text="?", role="tool"), Turn(text="\ud800", role="")]
    assert keys(await router.route(PULLS, conversation=turns)) == keys(await router.route(PULLS))
    assert (await router.route("again", conversation=turns)).matches


def test_a_conversation_too_long_to_be_read_says_so() -> None:
    turns = tuple(Turn(text="x" * 100_000) for _ in range(6))
    with pytest.raises(InvalidInput, match="600,000 characters: at most 500,000 are read"):
        RouteRequest(query="x", tenant="local", conversation=turns).validate()


def test_the_command_line_reads_a_conversation(tmp_path: Path, route: Run) -> None:
    file = tmp_path / "turns.jsonl"
    turns = [{"text": PULLS}, {"role": "assistant", "text": "Three.", "tools": ["github:list_pull_requests"]}]
    file.write_text("\n".join(json.dumps(turn) for turn in turns), encoding="utf-8")
    found = json.loads(route("and for acme/web?", "--conversation", str(file), "-o", "json").stdout)
    assert found["recommended"][0] == "github:list_pull_requests"
    assert "used earlier in this conversation" in found["matches"][0]["why"]


def test_a_models_messages_are_a_conversation_too(tmp_path: Path, route: Run) -> None:
    file = tmp_path / "messages.jsonl"
    found = []
    for name in ("text", "content"):
        file.write_text(json.dumps({"role": "user", name: PULLS}), encoding="utf-8")
        found.append(json.loads(route("and for acme/web?", "--conversation", str(file), "-o", "json").stdout))
    assert found[0]["matches"] == found[1]["matches"]
    assert found[1]["recommended"][0] == "github:list_pull_requests"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", ":2: the line: Invalid JSON"),
        ('{"role": "user"}', ":2: text: Field required"),
        ('{"text": ""}', ":2: text"),
    ],
)
def test_a_line_that_is_no_turn_is_named(tmp_path: Path, route: Run, line: str, told: str) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text(f'{{"text": "hello"}}\n{line}\n', encoding="utf-8")
    done = route("x", "--conversation", str(file))
    assert done.exit_code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_conversation_goes_through_temporal(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    turns = (Turn(text="Read the file a.txt", tools=("files:read_file",)),)
    request = RouteRequest(query="same for b.txt", tenant=TENANT, conversation=turns)
    async with working(client, task_queue):
        decision = await client.execute_workflow(
            names.ROUTE, request, id=f"route-{uuid4().hex[:8]}", task_queue=task_queue, result_type=Decision
        )
    assert decision.recommended == ("files:read_file",)
    assert "used earlier in this conversation" in decision.matches[0].why
