"""Arguments from a task: only values that are unmistakably in its text, for every schema that a server lists."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from orchestrator import Plan, Step, Tool
from tests.decisions import TEXT, decision, plan_without_model, schema
from tests.loopback import served
from tests.timing import seconds

LONGEST_TASK = 4_000
"""The most characters of a task that is planned without a model."""
UNITS = ["celsius", "kelvin"]
INTEGER, NUMBER, UNIT = {"type": "integer"}, {"type": "number"}, {"type": "string", "enum": UNITS}
EMAIL, DATE = {"type": "string", "format": "email"}, {"type": "string", "format": "date"}


async def planned(properties: dict[str, Any], text: str, **given_values: Any) -> Step:
    """The step of the plan without a model for a task, where one tool with this schema fits."""
    tool = Tool(server="a", name="b", input_schema=properties)
    [step] = (await plan_without_model(decision(text, [tool]), arguments=given_values)).steps
    return step


@pytest.mark.parametrize(
    ("properties", "text", "values"),
    [
        ({"n": INTEGER}, "show 7 of them on 2026-01-02", {"n": 7}),
        ({"a": NUMBER, "b": NUMBER}, "add 5 and 7", {}),
        ({"change": NUMBER}, "by \u22122.5", {"change": -2.5}),
        ({"unit": UNIT}, "in Celsius please", {"unit": "celsius"}),
        ({"unit": UNIT}, "celsius or kelvin", {}),
        ({"url": TEXT}, "fetch https://example.org/a/b.html.", {"url": "https://example.org/a/b.html"}),
        ({"to": EMAIL}, "write to ann@example.org", {"to": "ann@example.org"}),
        ({"to": EMAIL}, "write to ann@example.org or bo@example.org", {}),
        ({"due": DATE}, "due 2026-02-03", {"due": "2026-02-03"}),
        ({"timezone": TEXT}, "the time in Europe/Berlin", {"timezone": "Europe/Berlin"}),
        ({"path": TEXT}, "read ./src/main.py", {"path": "./src/main.py"}),
        ({"query": TEXT}, 'search for "durable execution"', {"query": "durable execution"}),
        ({"query": TEXT}, "search for durable execution", {}),
        ({"first": TEXT, "second": TEXT}, 'compare "a" with "b"', {}),
        ({"order_id": TEXT}, "cancel order #1001", {"order_id": "1001"}),
        ({"order_id": TEXT}, "cancel orders 1001, 1002 and 1003", {}),
        ({"order_id": TEXT}, "cancel the order of ann@example.org", {}),
        ({"charge": TEXT}, "refund charge ch_3PqX, the customer paid twice", {"charge": "ch_3PqX"}),
        ({"title": TEXT, "body": TEXT}, 'title "Plan" and body "Go"', {"title": "Plan", "body": "Go"}),
    ],
)
async def test_a_required_parameter_takes_only_an_unmistakable_value(
    properties: dict[str, Any], text: str, values: dict[str, object]
) -> None:
    step = await planned(schema(*properties, **properties), text)
    assert step.arguments == values
    assert set(step.missing) == set(properties) - set(values)
    assert all(f"{name}: " in step.why for name in values)


async def test_an_optional_parameter_needs_its_name_in_the_text() -> None:
    own = schema("path", path=TEXT, head=INTEGER, state={"type": "string", "enum": ["open", "closed"]}, all=TEXT)
    assert (await planned(own, "open a.txt 5")).arguments == {"path": "a.txt"}
    step = await planned(own, "read a.txt head 5 state=open")
    assert step.arguments == {"path": "a.txt", "head": 5, "state": "open"}


async def test_given_values_come_first_with_their_type() -> None:
    own = schema("n", "tags", n=INTEGER, tags={"type": "array", "items": INTEGER}, on={"type": "boolean"})
    given_values = {"n": "3", "tags": "4, 5", "on": "true"}
    assert (await planned(own, "show 7", **given_values)).arguments == {"n": 3, "tags": [4, 5], "on": True}
    assert (await planned(own, "show", n="soon")).arguments == {"n": "soon"}  # Checked before the call.


@pytest.mark.parametrize("value", ["1" * 5_000, "[" * 5_000])
async def test_a_value_that_python_cannot_read_stays_a_text(value: str) -> None:
    assert (await planned(schema("n", n=INTEGER), "show", n=value)).arguments == {"n": value}


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ({"$ref": "#/$defs/Unit"}, {"unit": "kelvin"}),
        ({"$ref": "#/$defs/Nowhere"}, {}),
        ({"type": "any"}, {"unit": "kelvin"}),
        ({"type": "string", "pattern": r"^\p{L}+$"}, {"unit": "kelvin"}),
        ({"type": "string", "enum": ["celsius"]}, {}),
    ],
)
async def test_odd_schemas_can_be_planned_with(parameter: dict[str, Any], values: dict[str, str]) -> None:
    own = {**schema("unit", unit=parameter), "$defs": {"Unit": UNIT}}
    assert (await planned(own, "convert with unit=kelvin")).arguments == values
    assert (await planned(own, "convert", unit="kelvin")).arguments == {"unit": "kelvin"}


async def test_planning_fetches_nothing_that_a_schema_refers_to() -> None:
    asked = []

    async def answer(request: Request) -> JSONResponse:
        asked.append(request.url.path)
        return JSONResponse({"type": "string"})

    with served(Starlette(routes=[Route("/{path}", answer)])) as url:
        step = await planned(schema("unit", unit={"$ref": f"{url}/unit.json"}), "unit=kelvin")
    assert step.missing == ("unit",)
    assert asked == []


@pytest.mark.parametrize("piece", ["a.b", "a/", '"', " '", "1:2-", "a-", "path "])
def test_a_hostile_text_takes_no_time(piece: str) -> None:
    properties = schema("path", "n", "url", path=TEXT, n=INTEGER, url=TEXT, unit=UNIT)
    text = f"n=7 {piece * 4_000}"[:LONGEST_TASK]
    found = decision(text, [Tool(server="a", name="b", input_schema=properties)])
    plans: list[Plan] = []

    def extract() -> list[Plan]:
        plans.append(asyncio.run(plan_without_model(found)))
        return plans

    assert seconds(extract) < 3
    [step] = plans[0].steps
    assert step.arguments["n"] == 7


PIECES = st.sampled_from(
    """note "A b" 'c, d' “Plan” `x y` 7 -3 2.50 007 1,000 50% #42 v2 3d https://x.org/a?b=1. ann@x.org 2026-01-02 14:30
    Europe/Berlin ./a.txt b/c.md ORD-12 ch_3PqX celsius Kelvin title limit=5 limit title: unit=kelvin path to order id
    done=true, tags=a tags=[1] and then delete . don't use without 天气 of is number date named""".split(" ")
)
NAMES = "title limit unit path url to order_id email date timezone tags done query n body".split()
TYPES = st.sampled_from(
    [
        TEXT,
        INTEGER,
        NUMBER,
        UNIT,
        EMAIL,
        DATE,
        {"type": "boolean"},
        {"type": "array", "items": TEXT},
        {"type": ["integer", "null"]},
        {"anyOf": [UNIT, {"type": "null"}]},
        {"type": "object"},
        {"default": "x", "type": "string", "examples": ["y"], "description": "such as z"},
        {},
    ]
)
SCHEMAS = st.dictionaries(st.sampled_from(NAMES), TYPES, min_size=1, max_size=5)
TASKS = st.lists(PIECES, min_size=1, max_size=14).map(" ".join)


def stands(value: Any, task: str) -> bool:
    """Return whether a value is in the task word for word. The text of a number counts."""
    if isinstance(value, list):
        return all(stands(item, task) for item in value)
    if isinstance(value, bool):
        return str(value).lower() in task
    if isinstance(value, int | float):
        return f"{value:g}" in task
    return isinstance(value, str) and value in task


@settings(max_examples=150, deadline=None)
@given(properties=SCHEMAS, task=TASKS, data=st.data())
async def test_no_argument_is_guessed(properties: dict[str, Any], task: str, data: st.DataObject) -> None:
    required = data.draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    caller = data.draw(st.dictionaries(st.sampled_from(sorted(properties)), st.sampled_from(["mine", 12, True])))
    tool = Tool(server="a", name="b", input_schema=schema(*required, **properties))
    for step in (await plan_without_model(decision(task, [tool]), arguments=caller)).steps:
        for name, value in step.arguments.items():
            listed = value in UNITS and value in step.task.lower()
            assert name in caller or listed or stands(value, step.task), (name, value, task)
        assert set(step.missing) == set(required) - set(step.arguments)
        assert caller.keys() <= step.arguments.keys()
