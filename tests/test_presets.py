"""Presets: published designs as pipelines, the context that narrows, and the refiners that they bring."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import NoReturn

import pytest

from orchestrator import Catalogue, Router, RouteRequest
from orchestrator.errors import EmbedderUnavailable, InvalidInput
from orchestrator.experience.calls import Calls
from orchestrator.pipeline.legs.lists import rrf, weighted
from orchestrator.pipeline.pipeline import PRESETS, Pipeline
from orchestrator.pipeline.refiners.diversify import diversify
from orchestrator.pipeline.refiners.graph_rerank import graph_rerank
from orchestrator.pipeline.refiners.health import health
from orchestrator.pipeline.running import Clock
from orchestrator.pipeline.select import recommend
from orchestrator.pipeline.state import Found, Ranking
from orchestrator.records.outcome import Use
from orchestrator.records.relation import Relation
from orchestrator.records.tool import Match, Tool
from tests.catalogues import sample, tool

TASK = "refund charge ch_3PqX, the customer paid twice"


@pytest.mark.parametrize("name", PRESETS)
async def test_every_preset_finds_what_the_words_say_and_keeps_to_filters_and_limit(name: str) -> None:
    async with Router(sample(), pipeline=name) as router:
        decision = await router.route(TASK, limit=3)
        assert decision.matches[0].tool.key == "stripe:refund_charge"
        assert len(decision.matches) == 3
        assert all(0 <= match.score <= 1 for match in decision.matches)
        others = await router.route(RouteRequest(query=TASK, tenant="local", filters={"server": "jira"}))
        assert {match.tool.server for match in others.matches} == {"jira"}
        assert decision.confidence <= max(match.score for match in decision.matches) + 0.2


async def test_below_the_gate_alone_fabric_reads_vectors_while_the_others_always_do() -> None:
    for name, ran in (("fabric", False), ("prismgate", True), ("toolpilot", True), ("koi", True)):
        assert (await Router(sample(), pipeline=name).route(TASK)).semantic_ran is ran
    vague = await Router(sample(), pipeline="fabric").route("the boardroom is ice cold, warm it up")
    assert vague.semantic_ran
    assert vague.matches[0].evidence.keys() >= {"vectors"}


def test_lists_are_merged_by_the_published_formulas() -> None:
    lists = {"bm25": {1: 8.0, 2: 4.0}, "vectors": {2: 0.5, 3: 0.25}}
    assert rrf(k=60)(lists) == pytest.approx({1: 1 / 61, 2: 1 / 62 + 1 / 61, 3: 1 / 62})
    assert weighted(bm25=0.6, vectors=0.4)(lists) == pytest.approx({1: 0.6, 2: 0.3 + 0.4, 3: 0.2})
    assert weighted(bm25=0.6, vectors=0.4)({"bm25": {1: 8.0}}) == {1: 0.6}


LABELLED = [
    tool("a:parse_json", "Parse JSON", labels={"language": "python", "licence": "mit", "published": "2026-03-01"}),
    tool("b:parse_json", "Parse JSON", labels={"language": "python", "licence": "gpl", "published": "2024-03-01"}),
    tool("c:parse_json", "Parse JSON", labels={"language": "go", "licence": "mit"}),
]


@pytest.mark.parametrize(
    ("context", "left", "relaxed"),
    [
        ({"language": "python", "licence": "mit"}, "a", ""),
        ({"language": "go", "licence": "gpl"}, "c", "licence=gpl"),
        ({"language": "rust", "licence": "gpl"}, "abc", "language=rust"),
        ({"published_from": "2026-01-01"}, "ac", ""),
        ({"published_from": "2026-01-01", "undated": "out"}, "a", ""),
        ({"published_to": "2024"}, "bc", ""),
        ({"publishd_from": "2026-01-01", "language": "go"}, "c", "no tool has a label 'publishd'"),
        ({"language": "go", "colour": "red"}, "c", "no tool has a label 'colour'"),
    ],
)
async def test_the_context_narrows_and_its_least_important_wishes_go_first(
    context: dict[str, str], left: str, relaxed: str
) -> None:
    decision = await Router(Catalogue(LABELLED)).route("parse json", context=context)
    assert {match.tool.server for match in decision.matches} == set(left)
    assert any(relaxed in warning for warning in decision.warnings) or not relaxed


async def test_a_context_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="most important first"):
        await Router(Catalogue(LABELLED)).route("parse json", context={"year": 2026})
    with pytest.raises(InvalidInput, match="undated='maybe': give in or out"):
        await Router(Catalogue(LABELLED)).route("parse json", context={"undated": "maybe"})
    for wrong in ("2026-9-1", "01/01/2026", ""):
        with pytest.raises(InvalidInput, match=f"published_from={wrong!r}: give a date as"):
            await Router(Catalogue(LABELLED)).route("parse json", context={"published_from": wrong})


async def test_what_belongs_to_the_other_candidates_comes_forward_by_the_graph() -> None:
    tools = [
        {"server": "s", "name": "list_rooms", "description": "List meeting rooms"},
        {"server": "t", "name": "meeting_notes", "description": "Meeting rooms of old"},
        {"server": "s", "name": "book", "description": "Meeting rooms are booked", "relations": [{"to": "list_rooms"}]},
    ]
    plain = replace(Pipeline.named("toolpilot"), refiners=())
    names = [
        [match.tool.name for match in (await Router(Catalogue(tools), pipeline=one).route("meeting rooms")).matches]
        for one in (plain, Pipeline.named("toolpilot"))
    ]
    assert names[0].index("book") > names[0].index("meeting_notes")
    assert names[1].index("book") < names[1].index("meeting_notes")


async def test_no_source_fills_the_answer_while_others_wait() -> None:
    tools = [tool(f"one:send_mail_{number}", "Send mail") for number in range(8)]
    tools += [tool("two:send_letter", "Send a letter")]
    koi = Pipeline.named("koi")
    assert diversify in koi.refiners
    found = await Router(Catalogue(tools), pipeline=koi).route("send mail", limit=5)
    assert [match.tool.server for match in found.matches].count("one") == 4
    assert "two" in [match.tool.server for match in found.matches[:4]]
    alone = await Router(Catalogue(tools[:8]), pipeline=koi).route("send mail", limit=5)
    assert len(alone.matches) == 5


POST = (Relation(to="a:list_addresses"), Relation(to="a:post", type="replaces"))
KOI = [
    tool("a:send_mail", "Send mail", relations=POST),
    tool("a:list_addresses", "Who is known"),
    tool("b:send_letter", "Send a letter by mail"),
]


@pytest.mark.parametrize(
    ("hint", "first"), [("auto", "send_mail"), ("vector", "send_mail"), ("graph", "list_addresses")]
)
async def test_koi_orders_by_the_list_that_is_asked_for(hint: str, first: str) -> None:
    found = await Router(Catalogue(KOI), pipeline="koi").route("send mail", route_hint=hint)
    assert (found.matches[0].tool.name, found.warnings) == (first, ())


async def test_a_hint_that_finds_nothing_falls_back_to_all_and_says_so() -> None:
    router = Router(Catalogue(KOI[1:]), pipeline="koi")
    found, plain = await router.route("send mail", route_hint="graph"), await router.route("send mail")
    assert found.matches == plain.matches
    assert [warning.startswith("route_hint graph: ") for warning in found.warnings] == [True]
    by_default = await Router(Catalogue(KOI)).route("send mail", route_hint="vector")
    assert "route_hint vector" in by_default.warnings[0]


async def test_koi_knows_former_names_lifts_what_is_named_and_classifies() -> None:
    router = Router(Catalogue(KOI), pipeline="koi")
    assert (await router.route("post it")).matches[0].tool.name == "send_mail"
    found = await router.route("mail, by b:send_letter")
    assert found.matches[0].tool.name == "send_letter"
    assert found.about is not None
    assert (found.about.intent, found.about.entities[0].means) == ("general", ("b:send_letter",))


async def test_without_vectors_koi_answers_by_words_and_graph() -> None:
    class Down:
        id, dimension, remote = "down", 8, True

        def embed(self, texts: object) -> NoReturn:
            raise EmbedderUnavailable("gone")

    found = await Router(Catalogue(KOI), embedder=Down(), pipeline="koi").route("send mail")
    assert found.matches[0].tool.name == "send_mail"
    assert found.warnings == ("keyword leg alone: gone",)


def test_health_reads_labels_and_what_is_no_number_counts_nothing() -> None:
    def of(**labels: str) -> float:
        return health(Tool(server="s", name="n", labels=labels))

    assert of() == of(stars="many") == of(last_release="soon") == 0
    assert of(stars="10000") == of(downloads="5000000") == 1
    assert of(last_release=datetime.now(UTC).date().isoformat()) > 0.99 > of(last_release="2025-11-24") > 0


def test_health_grows_with_calls_that_worked_and_the_faster_the_more() -> None:
    def of(calls: int, failures: int = 0, ms: float | None = None) -> float:
        return health(Tool(server="s", name="n"), Calls(calls=calls, failures=failures, ms=ms))

    assert of(0) == of(5, failures=5) == of(5, failures=5, ms=1) == 0
    assert 1 > of(50) > of(5) > of(1) > 0
    assert of(50) > of(50, failures=10)
    assert of(50, ms=10) > of(50, ms=1_000) > of(50, ms=60_000)


async def test_of_equals_the_one_whose_calls_work_comes_first_and_both_are_recommended() -> None:
    catalogue = Catalogue([tool("one:send_mail", "Send mail"), tool("two:send_mail", "Send mail")])
    fails, works = catalogue
    equal = Ranking(order=(0, 1), scores={0: 0.5, 1: 0.5}, evidence={0: {}, 1: {}}, confidence=0.5)
    async with Router(catalogue) as router:
        for number in range(12):
            await router.record(f"task {number}", used=[Use(tool=fails.key, ok=False, ms=90)])
            await router.record(f"other {number}", used=[Use(tool=works.key, ms=90)])
        task, _ = await router.begin(RouteRequest(query="send mail", tenant="local"), Clock())
    assert graph_rerank(task, Found(), equal).order == (1, 0)
    assert graph_rerank(replace(task, experience=None), Found(), equal).order == (0, 1)
    matches = [Match(tool=works, score=0.5), Match(tool=fails, score=0.5)]
    assert recommend(matches, (), task.calls) == (works.key, fails.key)
    assert recommend(matches) == (works.key,)
    assert task.calls(replace(works, hash="another definition")) == Calls()
