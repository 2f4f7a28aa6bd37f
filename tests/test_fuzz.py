"""10,000 made-up inputs: whatever comes in, an answer or an error of our own comes out, and the invariants hold."""

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import check_arguments, export
from orchestrator.catalogue.formats import tool_from, tool_to_json
from orchestrator.catalogue.tokens import count_tokens, cut
from orchestrator.errors import InvalidArguments, InvalidCatalogue, InvalidInput
from orchestrator.index.servers import ServerIndex
from orchestrator.index.text import card, terms
from orchestrator.language.clauses import MAX_CLAUSES
from orchestrator.language.quoted import masked
from orchestrator.records.decision import Decision
from orchestrator.records.request import Fusion, RouteHint, RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.routing.router import Router
from orchestrator.routing.select import LADDER
from orchestrator.routing.understand import understand
from tests.catalogues import sample, tool

WORDS = (
    "use without not in via from the mcp server slack jira github and then , . ; ? @slack search look up google ask me"
    " document create issue refund weather send email 天气 погода الطقس createIssue don't ' _ - \x00 \ud800 \u202e 🚀 "
    ' never instead of deleting nothing avoid it one " “ ” ‘ ’ ``` > -- \n 1) 2) : ('
).split(" ")
any_text = st.text(max_size=30) | st.sampled_from(["\ud800", "a\udfffb", "\x00"])


def sentence(seed: int) -> str:
    """Up to 24 of the words; from a seed, since drawing each by itself takes five times as long."""
    random = Random(seed)
    return " ".join(random.choices(WORDS, k=random.randrange(25)))


queries = st.integers(0, 2**40).map(sentence) | any_text
batches = st.builds(lambda text, seed: [text, *(sentence(seed + n) for n in range(9))], any_text, st.integers(0, 2**40))
"""Ten queries: drawing them together is what makes thousands cheap."""
plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
json_values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from([*tool_to_json(tool("a:b")), "labels", "keywords", "annotations", "\ud800"])
schema_keys = st.sampled_from("type properties required items enum $ref anyOf description default x".split())
schemas = st.recursive(
    st.sampled_from([None, True, 3, "text", "object", "string", "array", "#"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(schema_keys, inner, max_size=4),
    max_leaves=5,
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
tools = st.builds(
    Tool,
    server=st.sampled_from(["", "slack", "a_b", "weiß", "天"]),
    name=names,
    description=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    input_schema=st.none() | st.dictionaries(schema_keys, schemas, max_size=4),
)


def runs(number: int) -> Callable[[Any], Any]:
    """This many inputs, as fast as they come."""
    return settings(max_examples=number, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def routers() -> list[Router]:
    catalogues = [sample(), Catalogue([tool("slack:search", "Search the web")]), Catalogue()]
    return [Router(catalogue) for catalogue in catalogues]


def assert_sound(decision: Decision, request: RouteRequest) -> None:
    keys = [match.tool.key for match in decision.matches]
    assert len(keys) <= request.limit
    assert len(set(keys)) == len(keys)
    assert set(decision.recommended) <= set(keys)
    assert len(decision.recommended) <= 2
    numbers = [decision.confidence, decision.gate_confidence, *(match.score for match in decision.matches)]
    numbers += [score for match in decision.matches for score in match.evidence.values()]
    assert all(0 <= number <= 1 for number in numbers)
    assert request.token_cap is None or decision.tokens.after <= request.token_cap
    assert not set(keys) & {item.tool for item in decision.rejected}
    json.dumps(decision.to_json(), allow_nan=False)


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


@runs(2_500)
@given(request=requests, which=st.integers(0, 2))
async def test_any_request_is_answered_soundly_or_refused(
    routers: list[Router], request: RouteRequest, which: int
) -> None:
    try:
        decision = await routers[which].route(request)
    except InvalidInput:
        assert not request.query.strip() or request.limit == 0
    else:
        assert_sound(decision, request)


@runs(350)
@given(batches)
def test_any_query_is_understood(batch: list[str]) -> None:
    for query in batch:
        understood = understand(query)
        assert 1 <= len(understood.clauses) <= MAX_CLAUSES
        assert set(understood.words) == set(understood.terms)
        assert all(weight > 0 for clause in understood.clauses for weight in clause.terms.values())
        assert all(clause.text in understood.asked for clause in understood.clauses[: MAX_CLAUSES - 1])
        assert len(masked(understood.text)) == len(understood.text)


SERVERS = ("slack", "github", "jira", "google_calendar", "a/b-mcp-server", "天", "use", "@x")
INDEX = ServerIndex(SERVERS)


@runs(250)
@given(batches)
def test_any_query_names_only_known_servers_each_once(batch: list[str]) -> None:
    for query in batch:
        found = INDEX.find(query)
        assert {mention.server for mention in found.mentions} <= set(SERVERS)
        assert len(set(found.wanted)) == len(found.wanted)


@runs(500)
@given(tools)
def test_any_tool_is_searched_exported_shrunk_and_read_again(own: Tool) -> None:
    json.dumps([export([shrink(own)], provider) for provider in ("openai", "mcp") for shrink in LADDER])
    assert tool_from(json.loads(json.dumps(tool_to_json(own)))) == own
    assert terms(card(own)) is not None


@runs(250)
@given(tools, st.dictionaries(st.sampled_from("type properties x".split()), json_values, max_size=2))
def test_any_arguments_are_returned_or_refused(own: Tool, arguments: dict[str, Any]) -> None:
    with suppress(InvalidArguments):
        assert check_arguments(own, arguments) == arguments


@runs(500)
@given(json_values | st.dictionaries(FIELDS, json_values, max_size=5))
def test_any_record_is_a_tool_or_refused(record: Any) -> None:
    try:
        found = tool_from(record)
    except InvalidCatalogue:
        return
    assert Catalogue([found])[found.key] == found


@runs(250)
@given(st.lists(any_text, max_size=4), st.integers(0, 200))
def test_any_text_is_counted_and_cut(texts: list[str], limit: int) -> None:
    shorter, was_cut = cut("\n".join(texts), limit)
    assert was_cut == (count_tokens("\n".join(texts)) > limit)
    assert not was_cut or limit < 40 or count_tokens(shorter) <= limit
