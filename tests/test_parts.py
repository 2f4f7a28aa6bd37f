"""A task of several parts: each part has its tools among the first matches."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.calibration import shipped
from orchestrator.index.embed import embedder_for
from orchestrator.index.features import KEYWORD, SEMANTIC
from orchestrator.index.index import Index
from orchestrator.options import Options
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Stage
from orchestrator.routing import parts
from orchestrator.routing import understand as understanding
from orchestrator.routing.parts import in_turn, raised_by_parts
from orchestrator.routing.router import Router
from orchestrator.routing.search import Search
from orchestrator.routing.understand import understand
from tests.catalogues import sample, tool

THREE = "refund charge ch_3PqX, create a jira issue for the bug, and tell the team in the channel"
"""Three parts, each of another server."""


def served(*rows: list[float]) -> np.ndarray:
    return np.array(rows)


def test_a_part_that_nothing_serves_yet_brings_its_tool_forward() -> None:
    scores = [0.9, 0.6, 0.5, 0.4]
    chances = served([0.9, 0.8, 0.7, 0.0], [0.0, 0.0, 0.0, 0.9])
    assert in_turn(scores, chances, ahead=1, most=4) == [0, 3, 1, 2]


def test_what_is_said_outright_stays_ahead_and_serves_its_part() -> None:
    chances = served([0.0, 0.9, 0.0, 0.9], [0.0, 0.0, 0.9, 0.0])
    assert in_turn([0.9, 0.8, 0.3, 0.3], chances, ahead=2, most=4) == [0, 1, 2, 3]


def test_only_so_many_are_chosen_in_turn_and_the_others_follow_by_score() -> None:
    chances = served([0.9, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.9])
    assert in_turn([0.9, 0.5, 0.4, 0.3, 0.3], chances, ahead=1, most=2) == [0, 4, 1, 2, 3]


def test_parts_that_nothing_serves_leave_the_order_by_score() -> None:
    assert in_turn([0.9, 0.5, 0.4], np.zeros((2, 3)), ahead=1, most=3) == [0, 1, 2]


async def test_named_servers_leave_room_for_the_other_parts_of_the_task(router: Router) -> None:
    task = "use jira to create an issue, then use slack to post a message, then refund a charge, then send an email"
    decision = await router.route(RouteRequest(query=task, tenant="local", limit=4))
    assert {match.tool.server for match in decision.matches} == {"jira", "slack", "stripe", "gmail"}
    assert set(decision.recommended) == {"slack:post_message", "jira:create_issue"}


async def test_the_second_recommendation_is_that_of_the_surest_part(router: Router) -> None:
    decision = await router.route("text Anna, refund the charge ch_3PqX, and translate the document to German")
    assert decision.recommended == ("translate:translate_document", "stripe:refund_charge")


async def test_a_part_that_is_less_sure_of_a_tool_takes_nothing_from_one_that_is_surer_of_it(router: Router) -> None:
    query = (
        "refund the charge ch_3PqX of the customer, give the customer the money back, create a jira issue for the bug"
    )
    for task in (query, f"{query}, then raise a problem about the bug"):
        decision = await router.route(RouteRequest(query=task, tenant="local", route_hint=RouteHint.KEYWORD))
        assert decision.recommended == ("stripe:refund_charge", "jira:create_issue")


@pytest.mark.parametrize("hint", list(RouteHint))
async def test_each_part_of_a_task_has_a_tool_among_the_first_and_is_told_as_the_reason(
    router: Router, hint: RouteHint, monkeypatch: pytest.MonkeyPatch
) -> None:
    decision = await router.route(RouteRequest(query=THREE, tenant="local", route_hint=hint))
    assert {match.tool.server for match in decision.matches[:3]} == {"stripe", "jira", "slack"}
    third = decision.matches[2]
    assert 'moved up for "tell the team in the channel"' in third.why
    assert third.tool.server == "slack"
    # Without parts all that is told to have moved up stands lower.
    monkeypatch.setattr(parts, "PART", 0.0)
    by_whole = await router.route(RouteRequest(query=THREE, tenant="local", route_hint=hint, limit=50))
    before = [match.tool.key for match in by_whole.matches]
    for place, match in enumerate(decision.matches):
        if "moved up" in match.why:
            assert match.tool.key not in before[: place + 1]


@pytest.mark.parametrize(
    "task",
    [
        "list overdue invoices, search flights, request time off, void envelope 17 and text him",
        "list overdue invoices, then search flights, then request time off, then void envelope 17, then text him",
        "1) list overdue invoices 2) search flights 3) request time off 4) void envelope 17 5) text him",
        "list overdue invoices -> search flights -> request time off -> void envelope 17 -> text him",
        "list overdue invoices & search flights & request time off & void envelope 17 & text him",
    ],
)
async def test_five_terse_parts_bring_their_five_tools_however_they_are_written_down(router: Router, task: str) -> None:
    decision = await router.route(RouteRequest(query=task, tenant="local", limit=10))
    assert {"quickbooks", "amadeus", "bamboohr", "docusign", "twilio"} <= {
        match.tool.server for match in decision.matches
    }


TOLD = (
    "Our customer wants her money back. Post the weather for Oslo to the trips channel, "
    "create a jira issue about the slow map, and translate the letter to German."
)


async def test_a_sentence_that_only_tells_how_things_are_has_a_tool_where_both_legs_ran() -> None:
    async with Router(sample()) as router:
        both = await router.route(RouteRequest(query=TOLD, tenant="local", limit=5))
        words = await router.route(RouteRequest(query=TOLD, tenant="local", limit=5, route_hint=RouteHint.KEYWORD))
    why = {match.tool.key: match.why for match in both.matches}
    assert 'moved up for "Our customer wants her money back"' in why["stripe:refund_charge"]
    assert "stripe" not in {match.tool.server for match in words.matches}
    assert both.gate_confidence == words.gate_confidence
    assert both.recommended == ("jira:create_issue", "translate:translate_text")


def test_what_is_only_told_is_no_clause_by_which_the_whole_is_judged() -> None:
    index, embedder, understood = Index(sample()), embedder_for(Options()), understand(TOLD)
    vectors = embedder.embed(understood.texts)
    found = Search(index, understood, shipped(), width=30).by_both(index.semantic(embedder), vectors)
    assert (len(found.clauses), len(found.told)) == (3, 1)
    refund = index.catalogue.positions["stripe:refund_charge"]
    best_clause = found.rows[found.chosen == refund][0, [*KEYWORD, *SEMANTIC].index("cos_clause_rank")]
    assert found.told[0].chosen[found.told[0].chances.argmax()] == refund
    assert best_clause > 0  # The best of any clause has 0.


async def test_the_keyword_leg_alone_spends_nothing_on_what_is_only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    found = understanding.told_beside

    def told_beside(text: str, clauses: Sequence[str]) -> list[str]:
        asked.append(text)
        return found(text, clauses)

    monkeypatch.setattr(understanding, "told_beside", told_beside)
    for hint in (RouteHint.SEMANTIC, RouteHint.KEYWORD):
        async with Router(sample()) as router:
            decision = await router.route(RouteRequest(query=TOLD, tenant="local", route_hint=hint))
        assert decision.semantic_ran == bool(asked)
        asked.clear()


def test_a_part_is_described_beside_others_as_it_is_alone() -> None:
    index = Index(sample())
    found = Search(index, understand(THREE), shipped(), width=30).by_keyword()
    assert len(found.clauses) == 3
    # The server is the only evidence that a part takes from the whole task.
    own = [column for column, name in enumerate(KEYWORD) if name != "kw_server"]
    for clause, part in zip(understand(THREE).clauses, found.clauses, strict=True):
        alone = Search(index, understand(clause.text), shipped(), width=10).by_keyword()
        assert part.chosen.tolist() == alone.chosen.tolist()
        np.testing.assert_allclose(part.rows[:, own], alone.rows[:, own], atol=1e-6)


async def test_a_task_of_parts_of_which_none_finds_a_tool_is_answered() -> None:
    query = "create a jira issue for the bug, and then email the report to Ana"
    assert len(understand(query).clauses) == 2
    async with Router(Catalogue([tool("clock:now", "what time it is")])) as router:
        decision = await router.route(RouteRequest(query=query, tenant="local", route_hint=RouteHint.KEYWORD))
    assert decision.stage is Stage.NONE


def test_a_tool_that_serves_a_part_scores_half_of_its_chance_there_and_less_than_the_best() -> None:
    chances = served([0.9, 0.1, 0.8, 0.0], [0.0, 0.2, 0.0, 0.9])
    assert raised_by_parts(np.array([0.6, 0.3, 0.1, 0.1]), chances).tolist() == pytest.approx([0.6, 0.3, 0.4, 0.45])
    raised = raised_by_parts(np.array([0.3, 0.2, 0.1, 0.1]), chances)
    assert int(raised.argmax()) == 0
    assert raised.tolist() == pytest.approx([0.3, 0.2, 0.3, 0.3])


def test_a_task_of_one_part_is_scored_as_a_whole() -> None:
    scores = np.array([0.6, 0.3])
    assert raised_by_parts(scores, served([0.0, 1.0])).tolist() == scores.tolist()
    assert raised_by_parts(np.zeros(0), np.zeros((2, 0))).tolist() == []


async def test_a_tool_named_in_full_by_a_part_scores_so_however_long_the_task_is(router: Router) -> None:
    alone = await router.route("request time off")
    beside = await router.route(
        RouteRequest(query="list overdue invoices, search flights to Oslo, and request time off", tenant="local")
    )
    scores = [{match.tool.key: match.score for match in one.matches} for one in (alone, beside)]
    assert scores[1]["bamboohr:request_time_off"] > scores[0]["bamboohr:request_time_off"] / 3


async def test_a_deprecated_tool_that_is_the_best_is_not_overtaken_by_one_that_a_part_raised_to_its_old_score() -> None:
    task = "post the news to the trips channel, and book the trip"
    async with Router(sample()) as router:
        kept = await router.route(RouteRequest(query=task, tenant="local"))
    best = kept.matches[0].tool.key
    old = [
        replace(known, labels={"maturity": "deprecated"} if known.key == best else known.labels) for known in sample()
    ]
    async with Router(Catalogue(old)) as router:
        lowered = await router.route(RouteRequest(query=task, tenant="local"))
    assert lowered.matches[0].tool.key == best
    assert lowered.matches[0].score == pytest.approx(0.8 * kept.matches[0].score)
    assert max(match.score for match in lowered.matches) == lowered.matches[0].score


async def test_under_coverage_a_tool_tells_for_which_part_it_stands_where_it_does(router: Router) -> None:
    task = "list overdue invoices, search flights to Oslo, and request time off"
    decision = await router.route(RouteRequest(query=task, tenant="local", coverage=0.9))
    why = {match.tool.key: match.why for match in decision.matches}
    assert 'moved up for "request time off"' in why["bamboohr:request_time_off"]
    assert "moved up" not in decision.matches[0].why


async def test_a_decision_tells_each_tools_chance_for_each_part_and_of_a_whole_task_none(router: Router) -> None:
    decision = await router.route("show the open issues and close the duplicates")
    chances = {match.tool.key: match.for_parts for match in decision.matches}
    assert decision.parts == ("show the open issues", "close the duplicates")
    assert {len(own) for own in chances.values()} == {2}
    assert [max(chances, key=lambda key: chances[key][part]) for part in (0, 1)] == [
        "jira:search_issues",
        "zendesk:merge_tickets",
    ]
    whole = await router.route("show the open issues")
    assert (whole.parts, {match.for_parts for match in whole.matches}) == ((), {()})


async def test_what_is_told_beside_the_parts_has_chances_where_both_legs_ran(router: Router) -> None:
    task = "The customer paid twice. Refund charge ch_3PqX, then post a summary to #finance."
    both = await router.route(RouteRequest(query=task, tenant="local", route_hint=RouteHint.SEMANTIC))
    words = await router.route(RouteRequest(query=task, tenant="local", route_hint=RouteHint.KEYWORD))
    assert both.parts == (*words.parts, "The customer paid twice")
    assert [{len(match.for_parts) for match in decision.matches} for decision in (both, words)] == [{3}, {2}]
