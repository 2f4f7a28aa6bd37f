"""What needs no tool is nearer to that than to any tool, and is not claimed."""

from importlib.resources import files
from pathlib import Path

import pytest

from orchestrator import Router
from orchestrator.index.calibration import NOT_IDLE
from orchestrator.index.calibration import shipped as shipped_maps
from orchestrator.index.embed import Embedder, StaticEmbedder, embedder_for, no_tool_of
from orchestrator.index.index import Index
from orchestrator.options import Options
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Stage
from orchestrator.routing.found import Candidates
from orchestrator.routing.parts import LEAST
from orchestrator.routing.search import Search
from orchestrator.routing.understand import understand
from tests.catalogues import sample


@pytest.mark.parametrize(
    "said",
    [
        "good evening everybody",
        "a limerick about a database that forgot its keys",
        "cheers, you saved my morning",
        "is a tomato a fruit?",
        "do you believe in ghosts?",
    ],
)
async def test_small_talk_ends_at_none_though_tools_share_its_words(router: Router, said: str) -> None:
    decision = await router.route(RouteRequest(query=said, tenant="local", route_hint=RouteHint.SEMANTIC))
    assert decision.stage is Stage.NONE
    assert decision.recommended == ()


@pytest.mark.parametrize("asked", ["my card got billed twice, give me one back", "do I need an umbrella on Friday?"])
async def test_a_request_in_everyday_words_is_nearer_to_a_tool(router: Router, asked: str) -> None:
    decision = await router.route(RouteRequest(query=asked, tenant="local", route_hint=RouteHint.SEMANTIC))
    assert decision.stage is not Stage.NONE


def test_the_shipped_model_sets_small_talk_nearer_to_no_tool_than_a_request() -> None:
    embedder = embedder_for(Options())
    no_tool = no_tool_of(embedder)
    assert no_tool is not None
    talk, request = embedder.embed(["hope you are having a lovely sunday", "refund the last charge of Ann"]) @ no_tool
    assert talk > 2 * request


def test_a_model_that_was_not_taught_what_needs_no_tool_claims_as_before(tmp_path: Path) -> None:
    shipped = Path(str(files("orchestrator") / "data" / "embedder"))
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes((shipped / name).read_bytes())
    (tmp_path / "config.json").write_text("{}")
    assert no_tool_of(StaticEmbedder(tmp_path)) is None
    found = [search("good morning", StaticEmbedder(folder)) for folder in (tmp_path, shipped)]
    assert [one.idle == NOT_IDLE for one in found] == [True, False]


REMARK = "She is strong but she hates needles."
"""Without a doubt about it, `workflows:patient_referral` takes a place for this."""


async def test_a_remark_that_asks_for_nothing_takes_no_place_from_what_is_asked(router: Router) -> None:
    asked = "Refund the last charge of Ann, and open a jira issue about the slow map."
    decision = await router.route(RouteRequest(query=f"{REMARK} {asked}", tenant="local", limit=5))
    assert {match.tool.server for match in decision.matches} == {"stripe", "jira"}
    assert not any(REMARK[:20] in match.why for match in decision.matches)


@pytest.mark.parametrize("part", ["text him", "What is the weather in Paris?", "who is on call"])
def test_an_action_or_a_question_asks(part: str) -> None:
    found = search(f"Refund the last charge of Ann. {part}", embedder_for(Options()))
    assert [one.asking for one in found.clauses] == [1, 1]


def test_what_is_said_in_words_unknown_here_keeps_a_fifth_of_its_odds() -> None:
    found = search("Übersetze den Brief. Suche Flüge nach Oslo. Hier regnet es.", embedder_for(Options()))
    assert min(one.asking for one in (*found.clauses, *found.told)) >= LEAST - 1e-6


async def test_a_part_that_begins_with_an_action_asks_however_near_to_small_talk_it_is(router: Router) -> None:
    asked = "Search flights to Oslo, translate the letter to German, and text it to Ana."
    decision = await router.route(RouteRequest(query=asked, tenant="local", limit=5))
    scores = {match.tool.server: match.score for match in decision.matches}
    assert scores["twilio"] > 0.15  # Half of that where the part is doubted.


def test_a_remark_is_doubted_and_what_is_told_of_the_task_is_not() -> None:
    told = "Our customer wants her money back."
    found = search(
        f"{told} {REMARK} Post the news to the trips channel, and create a jira issue.", embedder_for(Options())
    )
    customer, remark = found.told
    assert customer.asking > 3 * remark.asking
    assert [one.asking for one in found.clauses] == [1, 1]


def search(query: str, embedder: Embedder) -> Candidates:
    index, understood = Index(sample()), understand(query)
    vectors = embedder.embed(understood.texts)
    found = Search(index, understood, shipped_maps(), width=30)
    return found.by_both(index.semantic(embedder), vectors, no_tool_of(embedder))
