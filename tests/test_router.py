"""Routing end to end on the sample catalogue: the Decision, its stages, and what awkward requests give."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import EmbedderUnavailable, InvalidInput, Unauthorised
from orchestrator.index.embed import Vectors
from orchestrator.options import Options
from orchestrator.records.decision import Decision
from orchestrator.records.request import Fusion, RouteHint, RouteRequest
from orchestrator.records.tool import Kind, Stage
from orchestrator.routing.explain import MAX_REJECTED
from orchestrator.routing.router import Router
from tests.catalogues import sample, taking, tool

CLEAR = "refund charge ch_3PqX, the customer paid twice"
"""Settled by its words."""
VAGUE = "the boardroom is ice cold, warm it up"
"""Shares no word with the tool that it means."""


def request(query: str, **given: Any) -> RouteRequest:
    return RouteRequest(query=query, tenant="local", **given)


def keys(decision: Decision) -> list[str]:
    return [match.tool.key for match in decision.matches]


class BrokenEmbedder:
    """An embedder that counts its calls and fails."""

    id, dimension, remote = "broken", 8, False

    def __init__(self, error: Exception | None = None, *, seconds: float = 0, remote: bool = False) -> None:
        self.calls, self.error, self.seconds, self.remote = 0, error, seconds, remote

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return np.zeros((len(texts), self.dimension), np.float32)


@pytest.mark.parametrize(
    ("query", "stage", "best", "servers"),
    [
        ("search my documents for the travel policy", Stage.ALWAYS, "builtin:workspace_rag_query", ()),
        ("use jira to create a bug for the broken login page", Stage.EXPLICIT, "jira:create_issue", ()),
        (CLEAR, Stage.KEYWORD, "stripe:refund_charge", ()),
        (VAGUE, Stage.SEMANTIC, "facilities:set_room_climate", ()),
    ],
)
async def test_each_stage_settles_the_tasks_that_are_its_own(
    router: Router, query: str, stage: Stage, best: str, servers: tuple[str, ...]
) -> None:
    decision = await router.route(query)
    assert (decision.stage, decision.matches[0].tool.key) == (stage, best)
    assert decision.recommended[0] == best
    assert decision.semantic_ran == (stage is Stage.SEMANTIC)
    assert stage.value in decision.matches[0].evidence


async def test_what_no_tool_can_do_ends_at_none_with_low_matches_and_connects_nothing(router: Router) -> None:
    decision = await router.route(request("write a poem on love", route_hint=RouteHint.KEYWORD))
    assert (decision.stage, decision.recommended, decision.servers) == (Stage.NONE, (), ())
    assert decision.confidence < Options().floor
    assert all(match.why.startswith("low: ") for match in decision.matches)
    assert "no tool fits well" in decision.warnings[-1]


async def test_a_decision_is_whole_and_its_numbers_are_probabilities(router: Router) -> None:
    for query in (
        CLEAR,
        VAGUE,
        "use jira to create a bug",
        "search my documents",
        "find flights and post them to slack",
    ):
        decision = await router.route(query)
        assert decision.query == query
        assert decision.tenant == "local"
        assert decision.catalogue == sample().version
        assert 0 < len(decision.matches) <= 10
        assert len(set(keys(decision))) == len(decision.matches)
        for number in (decision.confidence, decision.gate_confidence, *(m.score for m in decision.matches)):
            assert 0 <= number <= 1
        assert all(0 <= score <= 1 for match in decision.matches for score in match.evidence.values())
        assert all(match.why for match in decision.matches)
        assert set(decision.recommended) <= set(keys(decision))
        assert len(decision.rejected) <= MAX_REJECTED
        assert not {item.tool for item in decision.rejected} & set(keys(decision))
        assert 0 < decision.tokens.after < decision.tokens.before
        assert 0.9 < decision.tokens.saved < 1
        assert decision.timings_ms["total"] == pytest.approx(
            sum(ms for stage, ms in decision.timings_ms.items() if stage != "total"), abs=5
        )


async def test_only_the_recommended_mcp_tools_servers_are_connected() -> None:
    tools = [tool("time:now", "Tell the time in a city"), tool("clock:now", "A workflow", kind=Kind.WORKFLOW)]
    async with Router(Catalogue([*tools, *sample()])) as router:
        decision = await router.route("tell the time in a city")
    assert decision.recommended == ("time:now",)
    assert decision.servers == ("time",)


async def test_a_compound_task_recommends_a_tool_for_each_part(router: Router) -> None:
    decision = await router.route("refund the charge of the customer and create an invoice for the customer")
    assert set(decision.recommended) == {"stripe:refund_charge", "stripe:create_invoice"}


async def test_an_open_gate_embeds_nothing() -> None:
    embedder = BrokenEmbedder(AssertionError("must not be called"))
    async with Router(sample(), embedder=embedder) as router:
        for query in (CLEAR, "search my documents for the travel policy"):
            decision = await router.route(query)
            assert not decision.semantic_ran
        assert decision.warnings == ()
        await router.route(request(VAGUE, route_hint=RouteHint.KEYWORD))
    assert embedder.calls == 0


@pytest.mark.parametrize("error", [EmbedderUnavailable("gone fishing"), Unauthorised("the key was refused")])
async def test_a_failing_embedder_leaves_the_keyword_answer_and_a_warning(error: Exception) -> None:
    embedder = BrokenEmbedder(error)
    query = "somebody should warm up the room, the climate is cold"
    async with Router(sample(), embedder=embedder) as router:
        decision = await router.route(request(query, route_hint=RouteHint.SEMANTIC))
        by_words = await router.route(request(query, route_hint=RouteHint.KEYWORD))
    assert embedder.calls == 1
    assert not decision.semantic_ran
    assert f"keyword leg alone: {error}" in decision.warnings
    assert keys(decision) == keys(by_words) != []


async def test_an_embedder_that_knows_no_word_of_the_query_has_no_say() -> None:
    async with Router(sample(), embedder=BrokenEmbedder()) as router:
        decision = await router.route(request(CLEAR, route_hint=RouteHint.SEMANTIC))
    assert (decision.stage, decision.semantic_ran) == (Stage.KEYWORD, False)
    assert "keyword leg alone: the embedder knows no word of the query" in decision.warnings


async def test_a_remote_embedder_that_does_not_answer_in_time_is_given_up() -> None:
    options = Options(semantic_timeout_s=0.05)
    embedder = BrokenEmbedder(seconds=0.3, remote=True)
    async with Router(sample(), embedder=embedder, options=options) as router:
        decision = await router.route(request(CLEAR, route_hint=RouteHint.SEMANTIC))
    assert "keyword leg alone: no answer within 0.05 s" in decision.warnings
    assert decision.matches[0].tool.key == "stripe:refund_charge"
    assert decision.timings_ms["semantic"] < 300


async def test_the_route_hint_decides_whether_meaning_is_asked(router: Router) -> None:
    assert (await router.route(request(CLEAR, route_hint=RouteHint.SEMANTIC))).semantic_ran
    assert not (await router.route(request(VAGUE, route_hint=RouteHint.KEYWORD))).semantic_ran
    for hint, ran in ((RouteHint.AUTO, False), (RouteHint.SEMANTIC, True)):
        assert (await router.route(request(CLEAR, route_hint=hint))).semantic_ran is ran


@pytest.mark.parametrize("limit", [1, 3, 10, 50])
async def test_at_most_the_limit_is_answered_and_the_best_stay_the_same(router: Router, limit: int) -> None:
    found = keys(await router.route(request("create an issue", limit=limit)))
    assert len(found) <= limit
    assert found[0] == keys(await router.route(request("create an issue")))[0]


async def test_every_filter_must_hold_and_only_tools_that_pass_are_answered(router: Router) -> None:
    for filters in ({"kind": "agent"}, {"server": "jira"}, {"maturity": "emerging", "kind": "integration"}):
        decision = await router.route(request("create an issue for the review", filters=filters, limit=50))
        assert decision.matches
        for match in decision.matches:
            own = {"kind": str(match.tool.kind), "server": match.tool.server, **match.tool.labels}
            assert filters.items() <= own.items()
    nothing = await router.route(request("create an issue", filters={"kind": "agent", "server": "jira"}))
    assert (nothing.stage, nothing.matches) == (Stage.NONE, ())


async def test_a_filter_holds_for_always_available_capabilities_too(router: Router) -> None:
    decision = await router.route(request("search my documents", filters={"kind": "integration"}))
    assert {match.tool.kind for match in decision.matches} == {Kind.INTEGRATION}


@pytest.mark.parametrize("fusion", list(Fusion))
async def test_every_fusion_finds_the_tool_that_both_legs_put_first(router: Router, fusion: Fusion) -> None:
    decision = await router.route(request(CLEAR, fusion=fusion, route_hint=RouteHint.SEMANTIC))
    assert decision.matches[0].tool.key == "stripe:refund_charge"
    assert all(0 <= match.score <= 1 for match in decision.matches)


async def test_a_token_cap_is_kept_by_shrinking_and_then_by_dropping(router: Router) -> None:
    whole = await router.route("create an issue")
    for cap in (whole.tokens.after - 1, whole.tokens.after // 2, 60, 1):
        decision = await router.route(request("create an issue", token_cap=cap))
        assert decision.tokens.after <= cap
        assert len(decision.matches) + len([r for r in decision.rejected if "does not fit" in r.why]) >= len(
            whole.matches
        )
    assert decision.matches == ()


@pytest.mark.parametrize("limit", [10, 50])
async def test_a_decision_takes_at_most_128_kib_whatever_its_tools_carry(limit: int) -> None:
    words = {"enum": [f"value {number} 读" for number in range(60)]}
    properties = {f"p{number}": words for number in range(12)}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    labels = {f"label {number}": "value " * 30 for number in range(40)}
    for given in ({"input_schema": schema}, {"labels": labels}):
        heavy = [tool(f"big:read_thing_{number}", "Read a thing", **given) for number in range(60)]
        async with Router(Catalogue(heavy)) as large:
            decision = await large.route(request("read a thing", limit=limit))
        assert 50_000 < len(json.dumps(asdict(decision))) <= 128 * 1024


async def test_a_decision_that_is_too_large_keeps_what_a_call_needs() -> None:
    prose = {f"p{number}": {"type": "string", "description": "word " * 100} for number in range(100)}
    schema = {"type": "object", "properties": {**prose, "path": {"type": "string"}}, "required": ["path"]}
    long = [tool(f"big:read_thing_{number}", "Read a thing", input_schema=schema) for number in range(50)]
    async with Router(Catalogue(long)) as large:
        decision = await large.route(request("read a thing", limit=50))
    definitions = json.dumps([asdict(match.tool) for match in decision.matches])
    assert len(definitions) <= 128 * 1024
    assert len(decision.matches) == 50
    assert decision.tokens.after * 3 < len(definitions)
    assert "shortened to 128 KiB" in decision.warnings[0]
    assert all(list(match.tool.input_schema["properties"]) == ["path"] for match in decision.matches)
    async with Router(Catalogue(long)) as large:
        capped = await large.route(request("read a thing", limit=50, token_cap=4_000))
    assert not any("128 KiB" in warning for warning in capped.warnings)


async def test_candidates_beyond_the_limit_are_rejected_with_what_they_lack(router: Router) -> None:
    decision = await router.route(request("create a jira issue for the bug", limit=2))
    assert decision.rejected
    assert all("behind the 2 matches" in item.why for item in decision.rejected)
    assert any("lacks" in item.why for item in decision.rejected)


async def test_a_match_says_which_words_stand_in_which_field(router: Router) -> None:
    best = (await router.route("refund the customers charged twice")).matches[0]
    assert set(best.words["name"]) == {"refund", "charged"}
    assert "customers" in best.words["description"]
    assert f"name: {', '.join(best.words['name'])}" in best.why


async def test_where_nothing_matched_the_most_used_are_shown_without_a_claim() -> None:
    tools = [tool(f"s:t{n}", "thing", labels={"usage": str(n)}) for n in range(5)]
    async with Router(Catalogue(tools)) as router:
        decision = await router.route(request("qwertzuiop", route_hint=RouteHint.KEYWORD))
    assert keys(decision) == [f"s:t{n}" for n in (4, 3, 2, 1, 0)]
    assert {match.score for match in decision.matches} == {0.0}


async def test_concurrent_requests_share_one_index_and_do_not_mix(router: Router) -> None:
    queries = {CLEAR: "stripe:refund_charge", "create a jira issue for the bug": "jira:create_issue"}
    decisions = await asyncio.gather(*(router.route(query) for query in [*queries] * 20))
    assert all(decision.matches[0].tool.key == queries[decision.query] for decision in decisions)


async def test_a_decision_resolves_calls_to_its_own_tools() -> None:
    async with Router(Catalogue([tool("mail:send", "Send a letter", input_schema=taking("to", to="who"))])) as router:
        decision = await router.route("send a letter")
    (offered,) = decision.tools("anthropic")
    call = {"type": "tool_use", "id": "1", "name": offered["name"], "input": {"to": "Ana"}}
    assert decision.resolve(call).tool.key == "mail:send"


def test_a_router_takes_a_catalogue_or_a_store() -> None:
    with pytest.raises(InvalidInput, match="either a catalogue or a store"):
        Router()
