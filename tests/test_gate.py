"""The gate: how much of a query its best tool must hold before meaning is left unasked."""

import pytest

from orchestrator.router import Router


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
