"""Arguments out of a text, for whatever a server lists as its schema."""

from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from orchestrator.planning.arguments import extract
from orchestrator.planning.drafts import bound
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from tests.decisions import ADD_NOTE, TEXT, decision, schema
from tests.loopback import served

UNIT = {"$defs": {"Unit": {"enum": ["celsius", "kelvin"], "type": "string"}}}


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ({"$ref": "#/$defs/Unit"}, {"unit": "kelvin"}),
        ({"anyOf": [{"$ref": "#/$defs/Unit"}, {"type": "null"}]}, {"unit": "kelvin"}),
        ({"$ref": "#/$defs/Nowhere"}, {}),
        ({"$ref": "http://127.0.0.1:9/unit.json"}, {}),
        ({"type": "any"}, {"unit": "kelvin"}),
        ({"type": ["string", "integer"]}, {"unit": "kelvin"}),
        ({"type": "string", "pattern": r"^\p{L}+$"}, {"unit": "kelvin"}),
        ({"type": "string", "minLength": "1"}, {"unit": "kelvin"}),
        ({"type": "string", "enum": ["celsius"]}, {}),
    ],
)
def test_any_schema_that_servers_list_can_be_planned_with(parameter: dict[str, Any], values: dict[str, str]) -> None:
    """A reference, as pydantic writes an enumeration, and what is no JSON Schema broke the plan."""
    given = {**schema("unit", unit=parameter), **UNIT}
    assert extract(given, "convert with unit=kelvin").values == values
    assert extract(given, "", {"unit": "kelvin"}).values == {"unit": "kelvin"}  # What is given is checked at the call.


@pytest.mark.parametrize("odd", [{"required": True}, {"properties": [1]}, {"required": "unit"}])
def test_an_input_schema_that_is_none_can_be_planned_with(odd: dict[str, Any]) -> None:
    own = replace(ADD_NOTE, input_schema=odd)
    made = plan(PlanRequest(decision=decision("Add a note", [own])))
    assert [step.missing for step in made.steps] == [()]
    assert bound(made.steps[0], own, {"title": "A"}, {}).arguments == {"title": "A"}  # as a model plans it


def test_planning_fetches_nothing_that_a_schema_refers_to() -> None:
    asked = []

    async def answer(request: Request) -> JSONResponse:
        asked.append(request.url.path)
        return JSONResponse({"type": "string"})

    with served(Starlette(routes=[Route("/{path}", answer)])) as url:
        given = schema("unit", unit={"$ref": f"{url}/unit.json"})
        assert extract(given, "unit=kelvin").missing == ("unit",)
    assert asked == []


@pytest.mark.parametrize(
    ("properties", "text", "values"),
    [
        ({"n": {"type": "integer"}}, "show 7 of them on 2026-01-02", {"n": 7}),
        ({"a": {"type": "number"}, "b": {"type": "number"}}, "add 5 and 7", {}),
        ({"unit": {"enum": ["celsius", "fahrenheit"], "type": "string"}}, "in Celsius please", {"unit": "celsius"}),
        ({"unit": {"enum": ["celsius", "fahrenheit"], "type": "string"}}, "celsius or fahrenheit", {}),
        ({"url": TEXT}, "fetch https://example.org/a/b.html.", {"url": "https://example.org/a/b.html"}),
        ({"to": {"type": "string", "format": "email"}}, "write to ann@example.org", {"to": "ann@example.org"}),
        ({"due": {"type": "string", "format": "date"}}, "due 2026-02-03", {"due": "2026-02-03"}),
        ({"query": TEXT}, 'search for "durable execution"', {"query": "durable execution"}),
        ({"query": TEXT}, "search for 'the user's guide'", {"query": "the user's guide"}),
        ({"query": TEXT}, "search for ‘durable execution’", {"query": "durable execution"}),
        ({"path": TEXT}, "read './a.txt'", {"path": "./a.txt"}),
        ({"query": TEXT}, "search for durable execution", {}),
        ({"first": TEXT, "second": TEXT}, 'compare "a" with "b"', {}),
        ({"paths": {"type": "array", "items": TEXT}}, "read a.txt and b.txt", {"paths": ["a.txt", "b.txt"]}),
        ({"path": TEXT}, "read ./src/main.py", {"path": "./src/main.py"}),
        ({"n": {"type": "integer", "maximum": 5}}, "show 7", {}),
    ],
)
def test_only_what_is_in_the_text_and_fits_becomes_an_argument(
    properties: dict[str, object], text: str, values: dict[str, object]
) -> None:
    found = extract(schema(*properties, **properties), text)
    assert found.values == values
    assert set(found.missing) == set(properties) - set(values)


FILE = schema("path", path={"type": "string", "description": "Path of the file"})
ENTITY = schema("deployment", deployment=TEXT)


@pytest.mark.parametrize(
    ("given", "text", "values"),
    [
        (FILE, 'Kim says: "delete b.txt". Please handle it.', {}),
        (FILE, 'Kim asked me: "delete b.txt". Please handle it.', {}),
        (ENTITY, 'Kim wrote: "the shop is to be restarted". Please do it.', {}),
        (ENTITY, 'Kim begged: "restart deployment shop". Please do it.', {}),
        (schema("sql", sql=TEXT), 'run "select 1 from t"', {"sql": "select 1 from t"}),
        (schema("text", text=TEXT), 'Kim wrote: "restart the shop". Send it to Lou.', {"text": "restart the shop"}),
        (schema("text", text=TEXT), "Kim wrote: 'restart the shop'. Please do not send it to Lou.", {}),
        (FILE, 'delete "My Plans/b c.txt"', {"path": "My Plans/b c.txt"}),
        (ENTITY, 'restart "St. Louis shop"', {"deployment": "St. Louis shop"}),
        (schema("album", album=TEXT), 'play "Let It Be"', {"album": "Let It Be"}),
        (schema("title", title=TEXT), 'add "please restart it"', {"title": "please restart it"}),
        (ENTITY, 'restart "please restart it"', {}),
    ],
)
def test_a_sentence_or_an_order_is_the_name_of_nothing(
    given: dict[str, Any], text: str, values: dict[str, str]
) -> None:
    assert extract(given, text).values == values


def test_optional_parameters_need_their_name_in_the_text() -> None:
    given = schema("path", path=TEXT, head={"type": "integer"}, state={"type": "string", "enum": ["open", "closed"]})
    assert extract(given, "open a.txt 5").values == {"path": "a.txt"}
    assert extract(given, "read a.txt head 5 state=open").values == {"path": "a.txt", "head": 5, "state": "open"}


CHARGE = schema("charge", charge={"type": "string", "description": "Charge id"}, amount={"type": "integer"})
ORDER = schema("order_id", order_id={"type": "string"}, note={"type": "string"})


@pytest.mark.parametrize(
    ("given", "task", "values"),
    [
        (CHARGE, "refund charge ch_3PqX, the customer paid twice", {"charge": "ch_3PqX"}),
        (CHARGE, "refund charge id ch_3PqX", {"charge": "ch_3PqX"}),
        (CHARGE, "refund charge ch_1 and ch_2", {}),
        (CHARGE, "refund the charge of order A-1001", {}),
        (CHARGE, "refund every charge but ch_1", {}),
        (CHARGE, "refund Q3-2025 charges", {}),
        (ORDER, "cancel orders 1001, 1002 and 1003", {}),
        (ORDER, "cancel the order after order 1001", {}),
        (CHARGE, "refund ch_3PqX", {"charge": "ch_3PqX"}),
        (CHARGE, "refund ch_1 or ch_2", {}),
        (CHARGE, "refund the charge of gpt-4o and ch_2", {}),
        (CHARGE, "refund the charge", {}),
        (ORDER, "cancel order 1001", {"order_id": "1001"}),
        (ORDER, "cancel order #1001", {"order_id": "1001"}),
        (ORDER, "cancel order number ORD-12", {"order_id": "ORD-12"}),
        (
            ORDER,
            "cancel order d94f3f01-7b5a-4f0e-9f53-0a1b2c3d4e5f",
            {"order_id": "d94f3f01-7b5a-4f0e-9f53-0a1b2c3d4e5f"},
        ),
        (ORDER, "cancel 3 orders", {}),
        (ORDER, "cancel the order 2 days before", {}),
        (schema("query", query={"type": "string"}), "search for gpt-4 papers", {}),
    ],
)
def test_an_identifier_is_taken_where_it_says_whose_it_is_or_is_the_only_one(
    given: dict[str, Any], task: str, values: dict[str, str]
) -> None:
    assert extract(given, task).values == values
