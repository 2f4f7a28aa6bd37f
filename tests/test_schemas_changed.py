"""Schemas that are changed for a provider, a prompt or a token cap keep their parameters and references."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from orchestrator import Catalogue, Provider, Tool
from orchestrator.catalogue.shrink import LADDER
from orchestrator.errors import InvalidArguments
from tests.catalogues import tool
from tests.decisions import check_arguments, decision, export, plan_without_model
from tests.timing import seconds

PROVIDERS: tuple[Provider, ...] = ("openai", "openai-chat", "anthropic")
BRANCHES = ("anyOf", "oneOf", "allOf")
TEXT = {"type": "string"}
EITHER = {
    "type": "object",
    "anyOf": [
        {"type": "object", "properties": {"content": TEXT, "title": TEXT}, "required": ["content", "title"]},
        {"type": "object", "properties": {"source_url": TEXT, "title": TEXT}, "required": ["source_url", "title"]},
    ],
}


def exported(own: Tool, provider: Provider = "openai") -> dict[str, Any]:
    shape = export([own], provider)[0]
    shape = shape.get("function", shape)
    schema: dict[str, Any] = shape.get("parameters") or shape["input_schema"]
    return schema


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects of a schema."""
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        yield from parts(part)


def stated(schema: dict[str, Any], part: Any, depth: int = 0) -> set[str]:
    """The names of the parameters that a schema's root has, also in branches and behind references to definitions."""
    if not isinstance(part, dict) or depth > 20:
        return set()
    own = part.get("properties")
    found = set(own) if isinstance(own, dict) else set()
    for key in BRANCHES:
        found = found.union(*(stated(schema, one, depth + 1) for one in part.get(key, ())))
    if str(to := part.get("$ref", "")).startswith("#/$defs/"):
        found |= stated(schema, schema.get("$defs", {}).get(to.removeprefix("#/$defs/")), depth + 1)
    return found


def hangs(schema: dict[str, Any]) -> list[str]:
    """The references of a schema that mean nothing within it."""
    hanging = []
    for part in parts(schema):
        if isinstance(to := part.get("$ref"), str):
            there: Any = schema
            for key in to.removeprefix("#").split("/")[1:]:
                there = there.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(there, dict) else None
            if not isinstance(there, dict | bool):
                hanging.append(to)
    return hanging


def check_changes(own: Tool) -> None:
    names = stated(own.input_schema or {}, own.input_schema)
    assert names == set(exported(own)["properties"])
    for provider in PROVIDERS:
        schema = exported(own, provider)
        assert len(schema["properties"]) == len(names)
        assert not {*BRANCHES, "$ref"} & schema.keys()
        assert hangs(schema) == []
        Draft202012Validator.check_schema(schema)
        for shrink in LADDER:
            assert hangs(exported(shrink(own), provider)) == []


async def test_parameters_of_branches_at_the_root_are_exported_planned_and_checked() -> None:
    own = tool("docs:add", input_schema=EITHER)
    for provider in PROVIDERS:
        schema = exported(own, provider)
        assert schema["properties"] == {"content": TEXT, "title": TEXT, "source_url": TEXT}
        assert schema["required"] == ["title"]
    assert export([own], "mcp")[0]["inputSchema"]["anyOf"] == EITHER["anyOf"]
    (step,) = (await plan_without_model(decision('add content "A text", title "Plan"', [own]))).steps
    assert step.arguments == {"content": "A text", "title": "Plan"}
    assert check_arguments(own, {"content": "a", "title": "b"})
    with pytest.raises(InvalidArguments, match=r"its parameters: title .required., content, source_url"):
        check_arguments(own, {"content": "a"})


def test_a_parameter_that_branches_describe_differently_may_be_either() -> None:
    number = {"type": "integer"}
    both = [{"properties": {"id": TEXT}, "required": ["id"]}, {"properties": {"id": number}, "required": ["id"]}]
    schema = exported(tool("a:b", input_schema={"oneOf": both, "properties": {"id": {}}}))
    assert (schema["properties"], schema["required"]) == ({"id": {"anyOf": [TEXT, number]}}, ["id"])


def test_an_older_dialect_is_not_sent_to_providers_that_refuse_it() -> None:
    own = tool("a:b", input_schema={"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"x": TEXT}})
    assert all("$schema" not in exported(own, provider) for provider in PROVIDERS)


def test_a_reference_at_the_root_is_read() -> None:
    own = tool("a:b", input_schema={"$ref": "#/definitions/A", "definitions": {"A": {"properties": {"x": TEXT}}}})
    assert exported(own)["properties"] == {"x": TEXT}


def test_references_into_renamed_parameters_still_mean_the_same() -> None:
    draft = {"type": "object", "properties": {"from": {"type": "string", "format": "email"}}}
    properties = {"draft$": draft, "reply$": {"$ref": "#/properties/draft$/properties/from"}, "x": {"$ref": "#/none"}}
    own = tool("mail:draft", input_schema={"properties": properties, "required": ["reply$"]})
    schema = exported(own, "anthropic")
    (reply,) = schema["required"]
    _, _, name = schema["properties"][reply]["$ref"].partition("#/$defs/")
    assert schema["$defs"][name] == {"type": "string", "format": "email"}
    assert schema["properties"]["x"] == {}
    assert hangs(exported(LADDER[-1](own), "anthropic")) == []


def test_a_reference_to_a_nested_definition_is_read() -> None:
    nested = {"$ref": "#/$defs/Tree", "$defs": {"Tree": {"properties": {"next": {"$ref": "#/$defs/Tree"}}}}}
    schema = exported(tool("a:b", input_schema={"properties": {"tree": nested}}))
    name = schema["properties"]["tree"]["$ref"].removeprefix("#/$defs/")
    assert schema["$defs"][name] == {"properties": {"next": {"$ref": f"#/$defs/{name}"}}}


def test_patterns_that_no_engine_compiles_are_not_sent() -> None:
    patterns = {"a": "[", "b": r"^(?=.*\d).+$", "c": r"^\p{L}+$"}
    properties = {name: {"pattern": pattern} for name, pattern in patterns.items()}
    properties["d"] = {"patternProperties": {"(": TEXT, "^x": TEXT}}
    schema = exported(tool("a:b", input_schema={"properties": properties}))
    assert schema["properties"] == {
        "a": {},
        "b": {"pattern": patterns["b"]},
        "c": {"pattern": patterns["c"]},
        "d": {"patternProperties": {"^x": TEXT}},
    }


names = st.sampled_from(["a", "b", "c$", "größe", "x" * 70])
pointers = st.sampled_from(
    [
        "#",
        "#/$defs/one",
        "#/$defs/none",
        "#/properties/a",
        "#/properties/c$/properties/b",
        "#/anyOf/0/properties/a",
        "else",
    ]
)
leaves = st.sampled_from([{}, TEXT, {"type": "integer"}, {"type": "array"}, {"pattern": "("}, {"enum": ["a", None]}])
schemas = st.recursive(
    leaves | st.builds(lambda to: {"$ref": to}, pointers),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "$ref": pointers,
        },
    ),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(schemas, st.dictionaries(st.sampled_from(["one", "two"]), schemas, max_size=2))
def test_no_generated_schema_loses_a_parameter_or_a_reference(schema: dict[str, Any], defined: dict[str, Any]) -> None:
    own = tool("a:b", input_schema={**schema, "$defs": defined})
    for provider in PROVIDERS:
        for shrink in LADDER:
            assert hangs(exported(shrink(own), provider)) == []
    missing = stated(own.input_schema or {}, own.input_schema) - set(exported(own)["properties"])
    assert not missing


def test_no_public_schema_loses_a_parameter_or_a_reference(bench: Path) -> None:
    lines = {line for file in bench.glob("*/tools.jsonl") for line in file.read_text(encoding="utf-8").splitlines()}
    read = [line for line in lines if any(f'"{word}"' in line for word in (*BRANCHES, "$ref", "pattern"))]
    assert len(read) > 300
    for line in read:
        check_changes(*Catalogue([json.loads(line)]))


@pytest.mark.parametrize(
    "schema", [{"properties": {"x": {"anyOf": [{}] * 80_000}}}, {"properties": {f"p{n}": TEXT for n in range(80_000)}}]
)
def test_a_schema_of_too_many_parts_is_left_to_the_server(schema: dict[str, Any]) -> None:
    own = tool("a:b", input_schema=schema)
    assert seconds(lambda: check_arguments(own, {"x": 1}) == {"x": 1}) < 5


def test_no_value_takes_more_than_a_bounded_number_of_steps() -> None:
    own = tool("a:b", input_schema={"properties": {"x": {"items": {"anyOf": [TEXT] * 50}}}})
    numbers = {"x": [*range(20_000)]}
    assert seconds(lambda: check_arguments(own, numbers) == numbers) < 15
