"""Tools in each provider's shape, and a model's calls resolved."""

import json
import re
import types
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from jsonschema import Draft202012Validator

from orchestrator import Provider, Tool
from orchestrator.errors import InvalidArguments, InvalidInput, UnknownTool
from tests.catalogues import taking, tool
from tests.decisions import check_arguments, export, resolve

PROVIDERS: tuple[Provider, ...] = ("openai", "openai-chat", "anthropic", "mcp")
LEGAL = {provider: re.compile(r"[a-zA-Z0-9_-]{1,64}") for provider in PROVIDERS} | {
    "mcp": re.compile(r"[A-Za-z0-9._-]{1,128}")
}
AWKWARD = [
    *(("a", "b"), ("", "a__b"), ("a_", "b"), ("a", "_b"), ("a__", "b"), ("", "_b"), ("a_b", "c"), ("a", "b_c")),
    *(("a", "b.c"), ("a", "b/c"), ("a", "b c"), ("x" * 60, "long"), ("x" * 60, "longer"), ("", "y" * 200)),
    *(("城市", "天气"), ("城市", "天空"), ("🚀", "go"), ("", "搜索"), ("a", "b:c"), ("a", "b_1a2b3c4d")),
]
names = st.text(st.sampled_from("ab_.-:é0123456789abcdef"), max_size=12)


def name_of(shape: dict[str, Any]) -> str:
    return str(shape.get("name") or shape["function"]["name"])


def exported_name(own: Tool, provider: Provider = "openai") -> str:
    return name_of(export([own], provider)[0])


@settings(max_examples=50, deadline=None)
@example(set(AWKWARD))
@given(st.sets(st.tuples(names.filter(lambda server: ":" not in server), names.filter(bool)), max_size=12))
def test_names_are_legal_and_mapped_back_whatever_the_keys(keys: set[tuple[str, str]]) -> None:
    tools = [Tool(server=server, name=name) for server, name in keys]
    for provider in PROVIDERS:
        for own in tools:
            name = exported_name(own, provider)
            assert LEGAL[provider].fullmatch(name)
            assert resolve(tools, {"name": name}).tool == own


def test_a_name_is_plain_where_that_is_enough() -> None:
    assert exported_name(tool("google_drive:searchFiles")) == "google_drive__searchFiles"
    assert exported_name(tool(":search")) == "search"
    assert exported_name(tool("a:b.c"), "mcp") == "a__b.c"
    assert re.fullmatch(r"a__b_c_[0-9a-f]{8}", exported_name(tool("a:b.c")))


def test_each_provider_gets_its_own_shape() -> None:
    own = tool("mail:send", "Send it", input_schema=taking("to", to="receiver"))
    schema = taking("to", to="receiver")
    plain = {"name": "mail__send", "description": "Send it"}
    function = {**plain, "parameters": schema, "strict": False}
    assert export([own], "openai") == [{"type": "function", **function}]
    assert export([own], "openai-chat") == [{"type": "function", "function": function}]
    assert export([own], "anthropic") == [{**plain, "input_schema": schema}]
    assert export([own], "mcp") == [{**plain, "inputSchema": schema}]
    with pytest.raises(InvalidInput, match="provider 'gemini': choose one of openai, openai-chat, anthropic, mcp"):
        export([own], "gemini")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "schema", [None, {}, {"type": "string"}, {"type": "object", "properties": None}, {"properties": []}]
)
def test_every_exported_schema_is_an_object_with_properties(schema: dict[str, Any] | None) -> None:
    assert export([tool("a:b", input_schema=schema)])[0]["parameters"] == {"type": "object", "properties": {}}


def test_what_openai_and_anthropic_refuse_at_the_top_is_left_out_and_still_checked() -> None:
    either = {"anyOf": [{"required": ["id"]}, {"required": ["name"]}]}
    own = tool("crm:find", input_schema={**taking(id="number", name="full name"), **either})
    assert "anyOf" in export([own], "mcp")[0]["inputSchema"]
    assert "anyOf" not in export([own], "openai")[0]["parameters"]
    assert "anyOf" not in export([own], "anthropic")[0]["input_schema"]
    assert check_arguments(own, {"id": "7"}) == {"id": "7"}
    with pytest.raises(InvalidArguments, match="not valid under any"):
        check_arguments(own, {})


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": {"type": "Array"}}, {"type": "array", "items": {"type": "array", "items": {}}}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "items": {}}),
        ({"type": ["Null", "array"]}, {"type": ["null", "array"], "items": {}}),
        ({"type": ["string", 7]}, {}),
        ({"type": "any", "default": None}, {"default": None}),
        ({"type": ["string", "any"]}, {}),
        ({"type": "string", "required": True, "pattern": 7}, {"type": "string"}),
        ({"type": "integer", "minimum": "1", "maximum": 9}, {"type": "integer", "maximum": 9}),
        ({"minLength": True, "uniqueItems": True, "readOnly": 1}, {"uniqueItems": True}),
        ({"required": ["a", 5], "dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}),
        ({"enum": ["a"], "default": {"type": "any"}}, {"enum": ["a"], "default": {"type": "any"}}),
        ({"anyOf": [{"type": "array"}, "text"]}, {"anyOf": [{"type": "array", "items": {}}]}),
    ],
)
def test_what_is_no_json_schema_is_left_out_of_what_a_provider_gets(given: Any, taken: Any) -> None:
    own = tool("odd:one", input_schema={"type": "object", "properties": {"a": given, "b": "no schema"}})
    schema = export([own], "openai")[0]["parameters"]
    assert schema["properties"] == {"a": taken}
    Draft202012Validator.check_schema(schema)
    assert export([own], "mcp")[0]["inputSchema"] == own.input_schema


def test_parameters_that_anthropic_does_not_allow_are_renamed_there_and_mapped_back() -> None:
    odd = {"$top": {"type": "integer"}, "año": {"type": "string"}, "x" * 80: {}, "plain": {}}
    own = tool("drive:list", input_schema={"type": "object", "properties": odd, "required": ["$top", "plain"]})
    schema = export([own], "anthropic")[0]["input_schema"]
    top, year, _, plain = schema["properties"]
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in schema["properties"])
    assert (plain, schema["required"]) == ("plain", [top, "plain"])
    assert list(export([own], "openai")[0]["parameters"]["properties"]) == list(odd)
    given = {top: 5, year: "2026", "plain": 1}
    assert resolve([own], {"name": "drive__list", "input": given}).arguments == {"$top": 5, "año": "2026", "plain": 1}
    with pytest.raises(InvalidArguments, match=r"drive:list: \$top: 'five' is not of type 'integer'"):
        resolve([own], {"name": "drive__list", "input": {top: "five", "plain": 1}})


SEND = tool("mail:send.now", input_schema=taking("to", to="receiver"))
OTHER = tool("mail:send", input_schema=taking())
NAME = exported_name(SEND)
ARGUMENTS = {"to": "Ana"}
JSON = json.dumps(ARGUMENTS)
CALLS = {
    "OpenAI Responses": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": NAME, "arguments": JSON},
    "OpenAI Chat": {"id": "call_1", "type": "function", "function": {"name": NAME, "arguments": JSON}},
    "Anthropic": {"type": "tool_use", "id": "call_1", "name": NAME, "input": ARGUMENTS},
    "MCP": {"id": "call_1", "name": exported_name(SEND, "mcp"), "arguments": ARGUMENTS},
    "key": {"id": "call_1", "name": "mail:send.now", "arguments": ARGUMENTS},
}


def as_object(value: Any) -> Any:
    """Return a dict as the object of a provider's package. The arguments stay a dict."""
    parts = {key: as_object(part) if key == "function" else part for key, part in value.items()}
    return types.SimpleNamespace(**parts)


@pytest.mark.parametrize("shape", CALLS)
@pytest.mark.parametrize("form", [dict, as_object])
def test_a_call_of_any_provider_is_mapped_back(shape: str, form: Any) -> None:
    resolved = resolve([OTHER, SEND], form(CALLS[shape]))
    assert (resolved.tool, resolved.arguments, resolved.call_id) == (SEND, ARGUMENTS, "call_1")


def test_a_name_that_was_not_offered_is_refused_with_those_that_were() -> None:
    with pytest.raises(
        UnknownTool, match=r"the model called 'mail__burn', which was not offered; the offered tools: .*mail__send"
    ):
        resolve([SEND, OTHER], {"name": "mail__burn"})


@pytest.mark.parametrize("call", [None, "send", 3, {}, {"name": 4}, {"function": {}}])
def test_what_is_no_call_is_refused(call: Any) -> None:
    with pytest.raises(InvalidInput, match="not a tool call"):
        resolve([SEND], call)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "'to' is a required property"),
        ({"to": 3}, "to: 3 is not of type 'string'"),
        ("{", "arguments are not JSON"),
        ("[" * 100_000, "arguments are not JSON"),
        ("9" * 5_000, "arguments are not JSON"),
        ("[]", "arguments are list, not an object"),
        ('{"amount": "\\ud83d"}', "arguments cannot be sent as JSON"),
        ('{"amount": 1e999}', "arguments cannot be sent as JSON"),
        ('{"amount": NaN}', r"arguments are not JSON \(NaN is not a JSON number\)"),
        ('{"amount": 1, "amount": 2}', "'amount' is twice in one object"),
        (7, "arguments are int, not an object"),
    ],
)
def test_arguments_against_the_schema_are_refused_with_the_reason(arguments: Any, reason: str) -> None:
    with pytest.raises(InvalidArguments, match=f"mail:send.now: .*{reason}"):
        resolve([SEND], {"name": NAME, "arguments": arguments})


def test_no_arguments_are_an_empty_object() -> None:
    for without in ({}, {"arguments": ""}, {"arguments": " "}, {"arguments": "null"}, {"input": None}):
        assert resolve([OTHER], {"name": "mail__send", **without}).arguments == {}


TYPED = {
    "fields": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "list": {"type": "array", "items": {"type": "integer"}},
    "number": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    "flag": {"type": "boolean"},
    "level": {"enum": [1, 2]},
    "text": {"type": "string"},
    "code": {"type": "string", "pattern": "^[a-z]+$"},
    "any": {},
}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"fields": '{"description": "kept"}'}, {"fields": {"description": "kept"}}),
        ({"fields": '{"n": "5"}'}, {"fields": {"n": 5}}),
        ({"list": "[1, 2]"}, {"list": [1, 2]}),
        ({"list": ["1", 2]}, {"list": [1, 2]}),
        ({"number": "5.5", "flag": "true", "level": "2"}, {"number": 5.5, "flag": True, "level": 2}),
        ({"number": "5", "flag": "True"}, {"number": 5, "flag": True}),
        ({"fields": "", "list": None, "flag": " ", "level": "null"}, {}),
        ({"text": "5", "any": "[1]", "number": None}, {"text": "5", "any": "[1]", "number": None}),
        ({"text": "", "any": ""}, {"text": "", "any": ""}),
        ('"{\\"text\\": \\"a\\"}"', {"text": "a"}),
    ],
)
def test_values_that_are_encoded_twice_or_blank_are_read_where_the_schema_wants_another_type(
    written: Any, read: dict[str, Any]
) -> None:
    assert check_arguments(tool("a:b", input_schema={"properties": TYPED}), written) == read


@pytest.mark.parametrize("wrong", [{"code": "5"}, {"number": "five"}, {"list": "1, 2"}, {"text": 5}, {"level": "3"}])
def test_what_no_reading_fits_is_refused_as_it_was_written(wrong: dict[str, Any]) -> None:
    (value,) = wrong.values()
    with pytest.raises(InvalidArguments, match=re.escape(repr(value))):
        check_arguments(tool("a:b", input_schema={"properties": TYPED}), wrong)


def test_a_required_value_that_is_blank_stays_missing() -> None:
    with pytest.raises(InvalidArguments, match="n: '' is not of type 'integer'"):
        check_arguments(
            tool("a:b", input_schema={"properties": {"n": {"type": "integer"}}, "required": ["n"]}), {"n": ""}
        )
