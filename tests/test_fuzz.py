"""Random inputs: every input gets an answer or one of our own errors, and the invariants are true."""

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from orchestrator import Catalogue, Fusion, RouteHint, Router, RouteRequest, Tool
from orchestrator.catalogue.export import export
from orchestrator.catalogue.formats import tool_from, tool_to_json
from orchestrator.catalogue.resolve import check_arguments
from orchestrator.errors import InvalidArguments, InvalidCatalogue, InvalidInput
from orchestrator.pipeline.clauses import MAX_CLAUSES, masked
from orchestrator.pipeline.understand import understand
from tests.catalogues import sample, tool
from tests.decisions import plan_without_model

WORDS = (
    "use without not in via from the mcp server slack jira github and then , . ; ? @slack search look up google ask me"
    " document create issue refund weather send email 天气 погода الطقس createIssue don't ' _ - \x00 \ud800 \u202e 🚀 "
    ' never instead of deleting nothing avoid it one " “ ” ‘ ’ ``` > -- \n 1) 2) : ('
).split(" ")
any_text = st.text(max_size=30) | st.sampled_from(["\ud800", "a\udfffb", "\x00"])
valid_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def sentence(seed: int) -> str:
    """Return up to 24 of the words, by a seed, because drawing each word takes five times as long."""
    random = Random(seed)
    return " ".join(random.choices(WORDS, k=random.randrange(25)))


queries = st.integers(0, 2**40).map(sentence) | any_text
schema_keys = st.sampled_from("type properties required items enum $ref anyOf description default x".split())
json_values = st.recursive(
    st.sampled_from([None, True, 3, 0.5, "text", "object", "string", "array", "#"]) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(schema_keys, inner, max_size=4),
    max_leaves=6,
)
tools = st.builds(
    Tool,
    server=st.sampled_from(["", "slack", "a_b", "weiß", "天"]),
    name=valid_text.filter(bool),
    description=valid_text,
    input_schema=st.none() | st.dictionaries(schema_keys, json_values, max_size=4),
)
requests = st.builds(
    RouteRequest,
    query=queries,
    tenant=st.just("local"),
    limit=st.sampled_from([1, 3, 10, 50, 0]),
    filters=st.sampled_from([{}, {}, {"kind": "agent"}, {"maturity": "stable"}, {"x": ""}]),
    route_hint=st.sampled_from(RouteHint),
    token_cap=st.sampled_from([None, None, None, 1, 300]),
    fusion=st.sampled_from([None, *Fusion]),
)


def runs(number: int) -> Callable[[Any], Any]:
    """Take this many inputs, as fast as they come."""
    return settings(max_examples=number, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def routers() -> list[Router]:
    catalogues = [sample(), Catalogue([tool("slack:search", "Search the web")]), Catalogue()]
    return [Router(catalogue) for catalogue in catalogues]


@runs(300)
@given(request=requests, which=st.integers(0, 2))
async def test_any_request_is_answered_and_planned_soundly_or_refused(
    routers: list[Router], request: RouteRequest, which: int
) -> None:
    try:
        decision = await routers[which].route(request)
    except InvalidInput:
        has_no_effect = request.fusion is not None and request.route_hint is RouteHint.KEYWORD
        assert not request.query.strip() or request.limit == 0 or has_no_effect
        return
    keys = [match.tool.key for match in decision.matches]
    assert len(set(keys)) == len(keys) <= request.limit
    assert set(decision.recommended) <= set(keys)
    assert len(decision.recommended) <= 2
    numbers = [decision.confidence, decision.gate_confidence, *(match.probability for match in decision.matches)]
    numbers += [score for match in decision.matches for score in match.evidence.values()]
    assert all(0 <= number <= 1 for number in numbers)
    assert request.token_cap is None or decision.tokens.after <= request.token_cap
    assert all(match.tool.filtered_by.items() >= request.filters.items() for match in decision.matches)
    assert not set(keys) & {item.tool for item in decision.rejected}
    json.dumps(decision.to_json(), allow_nan=False)
    assert {step.tool for step in (await plan_without_model(decision)).steps} <= {*keys, ""}


@runs(600)
@given(queries)
def test_any_query_is_understood(query: str) -> None:
    understood = understand(query)
    assert 1 <= len(understood.clauses) <= MAX_CLAUSES
    assert set(understood.words) == set(understood.terms)
    assert all(weight > 0 for clause in understood.clauses for weight in clause.terms.values())
    assert len(masked(understood.text)) == len(understood.text)


@runs(300)
@given(tools, st.dictionaries(st.sampled_from("type properties x".split()), json_values, max_size=2))
def test_any_tool_is_exported_and_read_again_and_any_arguments_are_returned_or_refused(
    own: Tool, arguments: dict[str, Any]
) -> None:
    json.dumps([export([own], provider) for provider in ("openai", "mcp")])
    assert tool_from(json.loads(json.dumps(tool_to_json(own)))) == own
    with suppress(InvalidArguments):
        assert check_arguments(own, arguments) == arguments


FIELDS = st.sampled_from([*tool_to_json(tool("a:b")), "labels", "keywords", "annotations", "\ud800"])


@runs(300)
@given(json_values | st.dictionaries(FIELDS, json_values, max_size=5))
def test_any_record_is_a_tool_or_refused(record: Any) -> None:
    try:
        found = tool_from(record)
    except InvalidCatalogue:
        return
    assert Catalogue([found])[found.key] == found
