"""Routing end to end on the sample catalogue: the Decision, its stages, and awkward requests."""

import asyncio
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import (
    Catalogue,
    Decision,
    Fusion,
    Kind,
    Options,
    RouteHint,
    Router,
    RouteRequest,
    Stage,
    Store,
    Turn,
    Vectors,
)
from orchestrator.common.threads import now
from orchestrator.errors import EmbedderUnavailable, InvalidConfig, InvalidInput, StoreUnavailable, Unauthorised
from tests.catalogues import KEYWORD_ALONE, keys, sample, tool
from tests.stores import by_server, shipped

CLEAR = "refund charge ch_3PqX, the customer paid twice"
"""Settled by its words."""
VAGUE = "the boardroom is ice cold, warm it up"
"""Shares no word with the tool that it means."""


def request(query: str, **given: Any) -> RouteRequest:
    return RouteRequest(query=query, tenant="local", **given)


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
    ("query", "stage", "best"),
    [
        ("search my documents for the travel policy", Stage.ALWAYS, "builtin:workspace_rag_query"),
        ("use jira to create an issue", Stage.EXPLICIT, "jira:create_issue"),
        (CLEAR, Stage.KEYWORD, "stripe:refund_charge"),
        (VAGUE, Stage.SEMANTIC, "facilities:set_room_climate"),
    ],
)
async def test_each_stage_settles_the_tasks_that_are_its_own(
    router: Router, query: str, stage: Stage, best: str
) -> None:
    decision = await router.route(query)
    assert (decision.stage, decision.matches[0].tool.key, decision.recommended[0]) == (stage, best, best)
    assert decision.semantic_ran == (stage is Stage.SEMANTIC)
    assert stage.value in decision.matches[0].evidence
    assert decision.catalogue == sample().version
    assert 0.9 < decision.tokens.saved < 1
    total = sum(ms for name, ms in decision.timings_ms.items() if name != "total")
    assert decision.timings_ms["total"] == pytest.approx(total, abs=5)


async def test_what_no_tool_can_do_ends_at_none_with_low_matches_and_connects_nothing(router: Router) -> None:
    decision = await router.route(request("write a poem on love", route_hint=RouteHint.KEYWORD))
    assert (decision.stage, decision.recommended, decision.servers) == (Stage.NONE, (), ())
    assert decision.confidence < Options().floor
    assert all(match.why.startswith("low probability: ") for match in decision.matches)
    assert "no tool matches well" in decision.warnings[-1]


async def test_only_the_recommended_mcp_tools_servers_are_connected() -> None:
    tools = [tool("time:now", "Tell the time in a city"), tool("clock:now", "A workflow", kind=Kind.WORKFLOW)]
    async with Router(Catalogue([*tools, *sample()])) as router:
        decision = await router.route("tell the time in a city")
    assert (decision.recommended, decision.servers) == (("time:now",), ("time",))


async def test_an_open_gate_or_the_keyword_hint_embeds_nothing() -> None:
    embedder = BrokenEmbedder(AssertionError("must not be called"))
    async with Router(sample(), embedder=embedder) as router:
        for query in (CLEAR, "search my documents for the travel policy"):
            assert (await router.route(query)).warnings == ()
        await router.route(request(VAGUE, route_hint=RouteHint.KEYWORD))
    assert embedder.calls == 0


@pytest.mark.parametrize(
    ("embedder", "reason"),
    [
        (BrokenEmbedder(EmbedderUnavailable("gone fishing")), "gone fishing"),
        (BrokenEmbedder(Unauthorised("the key was refused")), "the key was refused"),
        (BrokenEmbedder(KeyError("word")), "embedder 'broken' failed (KeyError: 'word')"),
        (BrokenEmbedder(), "the embedder knows no word of the task"),
        (
            BrokenEmbedder(seconds=0.3, remote=True),
            "the embedder did not answer within 0.05 seconds (semantic_timeout_s)",
        ),
    ],
)
async def test_a_failing_embedder_leaves_the_keyword_answer_and_a_warning(
    embedder: BrokenEmbedder, reason: str
) -> None:
    async with Router(sample(), embedder=embedder, options=Options(semantic_timeout_s=0.05)) as router:
        decision = await router.route(request(CLEAR, route_hint=RouteHint.SEMANTIC))
        by_words = await router.route(request(CLEAR, route_hint=RouteHint.KEYWORD))
    assert (decision.stage, decision.semantic_ran) == (Stage.KEYWORD, False)
    assert f"{KEYWORD_ALONE}{reason}" in decision.warnings
    assert keys(decision) == keys(by_words) != []


class HangingEmbedder:
    """An endpoint's embedder that answers for the tools, and for a query only when it is released."""

    id, dimension, remote = "hanging", 8, True

    def __init__(self) -> None:
        self.release = threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        if len(texts) < 5:
            self.release.wait(50)
        return np.ones((len(texts), self.dimension), np.float32)


async def test_a_hanging_embedder_holds_up_no_other_thread_and_leaves_none_behind() -> None:
    embedder, asked = HangingEmbedder(), request("warm it up", route_hint=RouteHint.SEMANTIC)
    before = threading.enumerate()
    async with Router(sample(), embedder=embedder, options=Options(semantic_timeout_s=40)) as router:
        await asyncio.to_thread((await router.engine.index("local")).semantic, embedder)
        more_than_asyncio_has = min(32, (os.cpu_count() or 1) + 4) + 2
        routes = asyncio.gather(*(router.route(asked) for _ in range(more_than_asyncio_has)))
        try:
            async with asyncio.timeout(20):
                assert await asyncio.to_thread(threading.active_count)
        finally:
            embedder.release.set()
        assert all(decision.semantic_ran for decision in await routes)
        own = [thread for thread in threading.enumerate() if thread.name.startswith("toolroute embedding")]
    for thread in set(own) - set(before):
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_at_most_the_limit_is_answered_and_the_others_are_rejected_with_what_they_lack(
    router: Router, limit: int
) -> None:
    decision = await router.route(request("create a jira issue for the bug", limit=limit))
    assert len(decision.matches) <= limit
    assert decision.matches[0].tool.key == "jira:create_issue"
    first = "the only match" if limit == 1 else f"the {limit} matches"
    assert all(f"after {first}" in item.why for item in decision.rejected)
    assert any("without the words: " in item.why for item in decision.rejected) == (limit < 50)


@pytest.mark.parametrize("hint", [RouteHint.SEMANTIC, RouteHint.KEYWORD])
async def test_a_filtered_route_answers_as_the_catalogue_of_what_passes(hint: RouteHint) -> None:
    labelled = [replace(one, labels={"part": "kept" if place % 2 else "other"}) for place, one in enumerate(sample())]
    kept = [one for one in labelled if one.labels["part"] == "kept"]
    apart = []
    async with Router(Catalogue(labelled)) as whole, Router(Catalogue(kept)) as alone:
        for query in ("open an issue about the crash", "refund the payment", "will it rain", "book a desk", VAGUE):
            filtered = await whole.route(request(query, route_hint=hint, filters={"part": "kept"}))
            expected = await alone.route(request(query, route_hint=hint))
            assert keys(filtered)[0] == keys(expected)[0], query
            apart.append(abs(filtered.confidence - expected.confidence))
    assert np.mean(apart) < 0.03


@pytest.mark.parametrize(
    ("filters", "warning"),
    [
        ({"kind": "agnet"}, "no tool matches the filters kind=agnet; did you mean kind=agent?"),
        ({"sever": "jira"}, "no tool matches the filters sever=jira; did you mean server=jira?"),
        ({"server": "xxxxxxxx"}, "no tool matches the filters server=xxxxxxxx; `toolroute tools list` shows them all"),
    ],
)
async def test_a_filter_that_no_tool_passes_warns_with_what_may_be_meant(
    router: Router, filters: dict[str, str], warning: str
) -> None:
    assert warning in (await router.route(request("a page", filters=filters))).warnings


async def test_patterns_that_no_tool_matches_warn(router: Router) -> None:
    wrong = "no tool matches the patterns of `only`, or of the profile: correct the patterns"
    for filters in ({}, {"kind": "mcp"}):
        assert (await router.route(request("a page", only=("jria:*",), filters=filters))).warnings == (wrong,)


async def test_a_token_cap_is_kept_by_shrinking_and_then_by_dropping(router: Router) -> None:
    whole = await router.route("create an issue")
    for cap in (whole.tokens.after - 1, whole.tokens.after // 2, 60, 1):
        decision = await router.route(request("create an issue", token_cap=cap))
        assert decision.tokens.after <= cap
        dropped = [item for item in decision.rejected if "its definition is larger" in item.why]
        assert len(decision.matches) + len(dropped) >= len(whole.matches)
    assert decision.matches == ()


async def test_a_decision_takes_at_most_128_kib_whatever_its_tools_carry_and_keeps_what_a_call_needs() -> None:
    wide = {f"p{place}": {"enum": [f"value {number} 读" for number in range(60)]} for place in range(12)}
    prose = {f"p{place}": {"type": "string", "description": "word " * 100} for place in range(100)}
    for given in (
        {"input_schema": {"type": "object", "properties": wide, "required": list(wide)}},
        {"labels": {f"label {number}": "value " * 30 for number in range(40)}},
        {"input_schema": {"type": "object", "properties": {**prose, "path": {}}, "required": ["path"]}},
    ):
        heavy = [tool(f"big:read_thing_{number}", "Read a thing", **given) for number in range(60)]
        async with Router(Catalogue(heavy)) as large:
            decision = await large.route(request("read a thing", limit=50))
        assert len(json.dumps(asdict(decision))) <= 128 * 1024
        assert "shortened to 128 KiB" in decision.warnings[0]
    assert len(decision.matches) == 50
    assert all(list((match.tool.input_schema or {})["properties"]) == ["path"] for match in decision.matches)


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
    assert {match.probability for match in decision.matches} == {0.0}


async def test_concurrent_requests_share_one_index_and_do_not_mix(router: Router) -> None:
    queries = {CLEAR: "stripe:refund_charge", "create a jira issue for the bug": "jira:create_issue"}
    decisions = await asyncio.gather(*(router.route(query) for query in [*queries] * 20))
    assert all(decision.matches[0].tool.key == queries[decision.query] for decision in decisions)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"query": " \n\t "}, "query is empty"),
        ({"query": "x" * 100_001}, "100,001 characters, limit 100,000"),
        ({"limit": 0}, "limit=0: give 1 to 50"),
        ({"limit": 51}, "limit=51"),
        ({"token_cap": 0}, "token_cap=0"),
    ],
)
async def test_a_request_that_cannot_be_routed_is_refused_with_the_remedy(
    router: Router, wrong: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidInput, match=error):
        await router.route(RouteRequest(**{"query": "q", **wrong}))


async def test_a_text_takes_settings_by_name_and_is_locals(router: Router) -> None:
    decision = await router.route("create an issue", limit=3, fusion=Fusion.RRF)
    assert (decision.tenant, len(decision.matches)) == ("local", 3)
    with pytest.raises(InvalidInput, match=r"unknown setting 'limt'; did you mean 'limit'\?"):
        await router.route("create an issue", limt=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown setting 'x': give catalogue, store"):
        Router(sample(), x=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="not allowed with a RouteRequest"):
        await router.route(request("create an issue"), limit=3)
    with pytest.raises(InvalidInput, match="a Router needs tools"):
        Router()


async def test_a_query_of_100_000_characters_is_answered_in_time(router: Router) -> None:
    await router.route("查找文件")  # The first task in another language embeds the tools, whatever its length.
    text = "refund the charge of the customer. " + "The report says that all is well in the garden. " * 2_080
    for query in (text[:100_000], "x" * 100_000, "ab, " * 25_000, "汉" * 100_000, "use " * 25_000, "," * 100_000):
        started = time.process_time()  # Of this process alone, whatever else the machine does.
        assert len((await router.route(query)).matches) <= 10
        assert time.process_time() - started < 5


@pytest.mark.parametrize("query", ["\x00\x01\x02", "?!...", "\ud800\udfff", "🚀🔥", "the and of", "\u200b\u202e", "0"])
async def test_a_query_without_a_word_is_answered_and_claims_nothing(router: Router, query: str) -> None:
    decision = await router.route(query)
    assert decision.gate_confidence < 0.7
    assert decision.stage in (Stage.NONE, Stage.SEMANTIC)


async def test_an_empty_catalogue_says_how_to_fill_it_and_of_one_tool_that_one_wins() -> None:
    async with Router(Catalogue()) as empty, Router(Catalogue([tool("mail:send_letter", "Send a letter")])) as one:
        for hint in RouteHint:
            decision = await empty.route(request("send a letter and book a desk for Monday", route_hint=hint))
            assert (decision.stage, decision.matches, decision.confidence) == (Stage.NONE, (), 0.0)
            assert "the catalogue of local is empty: add tools" in decision.warnings[-1]
        assert (await one.route("send a letter to Ana")).recommended == ("mail:send_letter",)
        assert (await one.route(request("qwertzuiop", route_hint=RouteHint.KEYWORD))).stage is Stage.NONE


LANGUAGES = {
    "Chinese": ("帮我查询明天北京的天气", "查询天气预报", "发送电子邮件", "翻译文本"),
    "Cyrillic": ("прогноз погоды на завтра", "показать прогнозы погоды", "отправить письмо", "перевести текст"),
    "Arabic": ("ما هي توقعات الطقس غدا", "عرض توقعات الطقس", "إرسال رسالة بريد", "ترجمة النص"),
    "Greek": ("πρόγνωση του καιρού για αύριο", "πρόγνωση καιρού", "αποστολή μηνύματος", "μετάφραση κειμένου"),
    "Korean": ("내일 날씨 예보 알려줘", "날씨 예보 조회", "이메일 보내기", "텍스트 번역"),
}
"""A query, the description of the tool that it means, and those of others."""


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_query_in_any_script_finds_the_tool_in_that_script(language: str) -> None:
    query, *descriptions = LANGUAGES[language]
    tools = [tool(f"s{number}:t{number}", text) for number, text in enumerate(descriptions)]
    async with Router(Catalogue([*tools, *sample()])) as router:
        for hint in RouteHint:
            assert keys(await router.route(request(query, route_hint=hint)))[0] == "s0:t0", hint


async def test_a_decision_as_json_is_the_same_in_another_process(router: Router) -> None:
    turns = [Turn(text="hello github")]
    decision = await router.route("refund charge ch_3PqX, then say so in slack, not in jira", conversation=turns)
    text = json.dumps(decision.to_json())
    code = """
import sys
from orchestrator import Decision
decision = Decision.from_json(sys.stdin.read())
print(decision.resolve({"name": "stripe__refund_charge", "arguments": {"charge": "ch_3PqX"}}))
"""
    run = partial(subprocess.run, [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    done = await asyncio.to_thread(run)
    assert done.stdout == "ResolvedCall('stripe:refund_charge', {'charge': 'ch_3PqX'})\n"
    assert Decision.from_json(text) == Decision.from_json(decision.to_json()) == decision
    wrong: list[tuple[Any, str]] = [
        (decision.to_json(definitions=False), r"it has no definitions: write it with to_json\(definitions=True\)"),
        ("[]", "it is a list, not an object"),
        ([], r"data=\[\]: give a mapping or a text"),
        ({}, "it has no `matches`"),
    ]
    for given, problem in wrong:
        with pytest.raises(InvalidInput, match=problem):
            Decision.from_json(given)


class NoIdEmbedder:
    dimension, remote = 4, False

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.ones((len(texts), 3), np.float32)


class ShortEmbedder(NoIdEmbedder):
    id = "short"


def test_an_embedder_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="embedder NoIdEmbedder has no id"):
        Router(sample(), embedder=NoIdEmbedder())  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig, match="returned vectors of length 3, but its dimension is 4"):
        Router(sample(), embedder=ShortEmbedder()).route_sync("refund", route_hint="semantic")


def test_json_that_is_no_decision_is_refused() -> None:
    with pytest.raises(InvalidInput, match="query: Field required; give what"):
        Decision.from_json({"matches": []})


def test_a_program_without_an_event_loop_routes_and_records() -> None:
    with Router(sample()) as router:
        decision = router.route_sync("refund charge ch_3PqX", limit=2)
        assert len(decision.matches) == 2
        assert router.record_sync(decision, used=decision.recommended).ok


async def test_a_call_that_waits_within_another_is_refused(router: Router) -> None:
    async def inner() -> None:
        router.route_sync("refund")

    with pytest.raises(InvalidInput, match="await the async method instead"):
        await asyncio.to_thread(now, inner())
    assert router.route_sync("refund charge ch_3PqX").recommended  # From a coroutine of another loop it holds that.


async def test_warm_loads_all_that_a_first_route_takes(caplog: pytest.LogCaptureFixture) -> None:
    catalogue = sample()
    async with Router(catalogue) as router:
        await router.warm()
        index = router.engine.indexes.at_hand("local")
        assert index is not None
        assert index.vectors is not None
    async with Router(catalogue, embedder=BrokenEmbedder(RuntimeError("no weights"))) as router:
        await router.warm()
    assert "the embedder could not be warmed up: embedder 'broken' failed" in caplog.text
    with pytest.raises(StoreUnavailable):
        await Router(store="http://127.0.0.1:9").warm("org:a")


class SlowEmbedder(BrokenEmbedder):
    """An embedder behind an endpoint that takes longer for the tools than a route waits."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        time.sleep(2.5 if len(texts) > 5 else 0)
        return np.ones((len(texts), self.dimension), np.float32)


async def test_warm_returns_when_the_tools_are_embedded() -> None:
    options = Options(semantic_timeout_s=2)
    async with Router(sample(), embedder=SlowEmbedder(remote=True), options=options) as router:
        await router.warm()
        decision = await router.route("refund charge ch_3PqX", route_hint="semantic")
    assert decision.semantic_ran
    assert not [warning for warning in decision.warnings if KEYWORD_ALONE in warning]


def test_reprs_fit_on_a_line(router: Router) -> None:
    decision = router.route_sync("refund charge ch_3PqX and then send a very long report about it to everybody")
    first = decision.matches[0]
    call = decision.resolve({"name": "stripe__refund_charge", "arguments": {"charge": "x"}})
    for record in (router, sample(), decision, first, first.tool, decision.delta(), call):
        assert len(repr(record)) < 300
        assert repr(record).startswith(type(record).__name__ + "(")


def test_a_server_that_the_catalogue_lacks_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"servers: unknown name 'stirpe'; did you mean 'stripe'\?"):
        Router(sample(), servers=["stirpe"])


def water_plants(room: str) -> str:
    """Water the plants in a room."""
    return room


async def test_functions_and_a_store_are_routed_together(tmp_path: Path) -> None:
    store = Store(str(tmp_path), embedder=shipped())
    store.replace_servers("org:1", by_server(list(sample().tools)))
    async with Router(Catalogue.of(water_plants), store=store) as router:
        for task, tool in (("water the plants", "water_plants"), ("refund charge ch_3PqX", "stripe:refund_charge")):
            for hint in ("keyword", "semantic"):
                assert (await router.route(task, tenant="org:1", route_hint=hint)).recommended[0] == tool
        assert "water_plants" in keys(await router.route("water the plants", tenant="org:2"))
        rest = [other for other in sample() if other.key != "stripe:refund_charge"]
        store.replace_servers("org:1", by_server(rest))
        assert "stripe:refund_charge" not in keys(await router.route("refund charge ch_3PqX", tenant="org:1"))


# --- many routes at once


def test_a_pickled_router_says_why_not() -> None:
    with pytest.raises(TypeError, match="a Router cannot be pickled, because it has open stores and threads"):
        pickle.dumps(Router(sample()))
