"""The new part of a conversation's tools, after the tools that the model has read, in the providers' shapes."""

from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest
from anthropic.types.beta import BetaMessageParam, BetaToolResultBlockParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from orchestrator import Appended, Decision, Delta, Router, Turn
from orchestrator.catalogue.export import exported_name
from orchestrator.errors import InvalidInput, UnknownTool
from tests.catalogues import sample, tool

TASKS = (
    "refund charge ch_3PqX, the customer paid twice",
    "use jira to create a bug for the broken login page",
    "sing me a song about the sea",
    "refund the charge in stripe and book an appointment for the patient Mrs Lee",
)


@pytest.fixture(scope="module")
async def decisions() -> AsyncIterator[list[Decision]]:
    found: list[Decision] = []
    turns: list[Turn] = []
    async with Router(sample()) as router:
        for task in TASKS:
            found.append(await router.route(task, limit=4, conversation=turns))
            turns.append(found[-1].turn())
        yield found


def names(tools: list[dict[str, Any]]) -> list[str]:
    return [str(own["name"]) for own in tools]


def test_every_turn_only_appends_to_what_the_model_has_read(decisions: list[Decision]) -> None:
    delta, before = Delta(), list[dict[str, Any]]()
    for decision in decisions:
        delta = decision.delta(delta)
        now = delta.tools("openai")
        assert now[: len(before)] == before
        assert now[len(before) :] == [own for own in decision.tools() if own not in before] * bool(decision.recommended)
        assert len(set(names(now))) == len(now)
        before = now
    assert decisions[0].tools("openai") == before[:4]
    assert decisions[1].delta(decisions[0]).tools() == before[:8]


def test_what_recommends_nothing_adds_nothing(decisions: list[Decision]) -> None:
    assert not decisions[2].recommended
    assert decisions[2].matches
    assert decisions[2].delta().tools() == []


def test_a_call_of_a_tool_from_an_earlier_turn_is_resolved(decisions: list[Decision]) -> None:
    delta = decisions[1].delta(decisions[0])
    call = {"name": "stripe__refund_charge", "arguments": {"charge": "ch_3PqX"}, "id": "1"}
    assert delta.resolve(call).tool.key == "stripe:refund_charge"
    with pytest.raises(UnknownTool):
        decisions[1].delta().resolve(call)


def test_a_changed_definition_is_named_and_not_swapped() -> None:
    old = tool("a:one", "First")
    new, other = tool("a:one", "Second", input_schema={"type": "object", "properties": {"b": {}}}), tool("a:two")
    delta = Delta.between([old], [other, new])
    assert (delta.offered, delta.changed, delta.new) == ((old, other), ("a:one",), (other,))
    assert delta.resolve({"name": "a__one", "arguments": {}}).tool == new
    assert Delta.between(delta.offered, [new]).changed == ("a:one",)


READERS: dict[str, Any] = {
    "additional_tools": ResponseInputItemParam,
    "tool_search_output": ResponseInputItemParam,
    "inline_tools": BetaMessageParam,
    "tool_reference": BetaMessageParam,
    "tool_result": BetaToolResultBlockParam,
}


def _named(item: Any) -> list[str]:
    """Return all names of tools in an item, at any place."""
    if isinstance(item, dict):
        own = [item[key] for key in ("name", "tool_name") if isinstance(item.get(key), str)]
        return own or [name for part in item.values() for name in _named(part)]
    return [name for part in item for name in _named(part)] if isinstance(item, list) else []


@pytest.mark.parametrize("shape", get_args(Appended))
def test_each_shape_is_what_its_provider_s_own_types_read(shape: Appended, decisions: list[Decision]) -> None:
    delta = decisions[1].delta(decisions[0])
    call = "call_1" if shape in ("tool_search_output", "tool_result") else ""
    (item,) = delta.items(shape, call)
    assert _named(item) == [exported_name(own) for own in delta.new]
    kept: Any = TypeAdapter(READERS[shape]).validate_python(item)
    assert kept["type" if "type" in item else "role"] == item["type" if "type" in item else "role"]
    empty = Delta(seen=delta.offered).items(shape, call)
    assert [_named(item) for item in empty] == ([[]] if call else [])


def test_an_unknown_shape_or_call_is_refused() -> None:
    delta = Delta(new=(tool("a:one"),))
    with pytest.raises(InvalidInput, match="shape 'swapped': choose one of additional_tools"):
        delta.items("swapped")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="tool_search_output needs a search call's id"):
        delta.items("tool_search_output")
    with pytest.raises(InvalidInput, match="'7': additional_tools does not take"):
        delta.items("additional_tools", "7")
