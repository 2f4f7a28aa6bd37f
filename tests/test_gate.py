"""The gate: how much of a query its best tool must hold before meaning is left unasked."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.routing.router import Router
from tests.catalogues import sample, tool


@pytest.mark.parametrize("query", ["refund", "refund him"])
async def test_the_gate_stays_closed_for_one_word(router: Router, query: str) -> None:
    decision = await router.route(query)
    assert decision.gate_confidence == 0
    assert decision.semantic_ran
    assert decision.recommended == ("stripe:refund_charge",)


async def test_the_gate_stays_closed_where_the_best_tool_holds_one_word_of_many(router: Router) -> None:
    decision = await router.route("refund Ottokar Blumenthal Zwetschge Quendel")
    assert decision.gate_confidence <= 2 / 5
    assert decision.semantic_ran


async def test_a_tool_that_hardly_fits_opens_no_gate_because_its_rivals_do_another_thing() -> None:
    beds = tool("plants:get_bed", "Get a garden bed.")
    rival = tool("plants:water_bed", "Water a garden bed in the morning or in the evening, with rain water.")
    async with Router(Catalogue([*sample().tools, beds, rival])) as router:
        decision = await router.route("which beds of the garden get water")
    assert max(match.evidence.get("keyword", 0) for match in decision.matches) < 0.5
    assert decision.gate_confidence < 0.7  # It was .79: a question makes little of what waters.
    assert decision.semantic_ran
