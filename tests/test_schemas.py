"""Values are checked against a stranger's schema: no request, no long work, no crash."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import pytest

from orchestrator.errors import InvalidArguments
from tests.catalogues import tool
from tests.decisions import check_arguments
from tests.timing import seconds

FOREVER = r"^(a+)+$"
CRAFTED = "a" * 40 + "!"
DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string", "pattern": FOREVER}}},
        {"properties": {"a": {"$ref": "#/components/Name"}}, "components": {"Name": {"pattern": FOREVER}}},
        {"propertyNames": {"pattern": FOREVER}},
        {"patternProperties": {FOREVER: {"type": "string"}}, "additionalProperties": False},
        {"allOf": [{"patternProperties": {FOREVER: {}}}], "unevaluatedProperties": False},
        {"properties": {"a": {"pattern": "^a?" + "a?" * 40 + "a" * 41}}},
        {"properties": {"a": {"pattern": "^" + "[a]" * 20_000 + "("}}},
        {"properties": {"a": {"pattern": "^(((a{0,50}){0,50}){0,40})b$"}}},
        {"properties": {"a": {"pattern": "^a{99999999999}$"}}},
    ],
)
def test_no_pattern_takes_long(schema: dict[str, Any]) -> None:
    own = tool("a:b", input_schema=schema)

    def check(**arguments: str) -> str:
        try:
            return f"fits {len(check_arguments(own, arguments))}"
        except InvalidArguments as error:
            return str(error)

    assert seconds(lambda: check(a=CRAFTED, **{CRAFTED: "x"})) < 1
    assert seconds(lambda: check(a="a" * 10_000 + "!")) < 1


def test_a_pattern_of_another_language_gives_no_warning() -> None:
    check_arguments(tool("a:b", input_schema={"properties": {"a": {"pattern": "[[a]"}}}), {"a": "a"})


@pytest.mark.parametrize(
    ("pattern", "fits", "wrong"),
    [
        (r"^\d{4}-\d{2}-\d{2}$", "2026-01-02", "tomorrow"),
        ("^https?://", "http://a", "ftp://a"),
        ("^(asc|desc)$", "asc", "up"),
        (r"^\p{L}+$", "größe", "4"),
    ],
)
def test_a_pattern_is_checked_however_long_the_value(pattern: str, fits: str, wrong: str) -> None:
    own = tool("a:b", input_schema={"properties": {"a": {"pattern": pattern}}})

    def check(value: str) -> bool:
        with suppress(InvalidArguments):
            check_arguments(own, {"a": value})
        return True

    assert check_arguments(own, {"a": fits}) == {"a": fits}
    with pytest.raises(InvalidArguments, match="does not match"):
        check_arguments(own, {"a": wrong})
    assert seconds(lambda: check(fits + "a0-" * 100_000 + "!")) < 1


def test_a_pattern_that_only_javascript_reads_is_left_to_the_server() -> None:
    own = tool("a:b", input_schema={"properties": {"a": {"pattern": r"^(?=.*\d).+$"}}})
    assert check_arguments(own, {"a": "x"}) == {"a": "x"}


def _doubling(times: int, part: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Each reference leads to two of the next one, and each definition has this, too."""
    twice = {f"d{n}": {**part, "allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(times)}
    return {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**twice, f"d{times}": {"type": "string"}}}


@pytest.mark.parametrize("schema", [_doubling(60), _doubling(60, DIALECT)])
def test_a_schema_of_too_many_checks_is_left_to_the_server(schema: dict[str, Any]) -> None:
    own = tool("a:b", input_schema=schema)
    assert seconds(lambda: check_arguments(own, {"a": 1}) == {"a": 1}) < 5


MANY = [f"v{number}" for number in range(30_000)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [{"n": number} for number in range(8_000)]),
        ({"items": {"required": MANY}}, [{}] * 200),
        ({"items": {"enum": MANY}}, ["v"] * 3_000),
        ({"allOf": [{"type": "string"}] * 900}, ["x" * 50] * 20_000),
    ],
    ids=["uniqueItems", "required", "enum", "message"],
)
def test_a_long_keyword_on_a_long_value_takes_no_time(schema: dict[str, Any], value: Any) -> None:
    own = tool("a:b", input_schema={"type": "object", "properties": {"a": schema}})

    def check() -> bool:
        with suppress(InvalidArguments):
            check_arguments(own, {"a": value})
        return True

    assert seconds(check) < 2


def test_equal_items_are_found() -> None:
    own = tool("a:b", input_schema={"properties": {"a": {"uniqueItems": True}}})
    with pytest.raises(InvalidArguments, match="a: the same item is in the list more than once"):
        check_arguments(own, {"a": [{"b": 1, "c": 2}, {"c": 2, "b": 1}]})
    assert check_arguments(own, {"a": [1, True, "1", [1]]})


def test_references_are_followed_where_that_takes_no_time() -> None:
    many = {"properties": {"a": {"items": {"$ref": "#/$defs/name"}}}, "$defs": {"name": {"minLength": 1}}}
    for schema, value, fault in (
        (_doubling(5), [], r"a: \[\] is not of type 'string'"),
        (many, ["x"] * 10_000 + [""], "a.10000: '' should be non-empty"),
    ):
        with pytest.raises(InvalidArguments, match=fault):
            check_arguments(tool("a:b", input_schema=schema), {"a": value})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"properties": {"a": {"$ref": "#/components/A"}}, "components": {"A": {"type": "any"}}},
        {"properties": {"a": {"$ref": "#"}}, "$ref": "#"},
        {"properties": {"a": {"multipleOf": 0}}},
    ],
)
def test_a_schema_that_nothing_can_be_checked_against_is_left_to_the_server(schema: dict[str, Any]) -> None:
    assert check_arguments(tool("a:b", input_schema=schema), {"a": 1}) == {"a": 1}


@pytest.mark.parametrize("to", ["{elsewhere}/schema.json", "{elsewhere}/schema.json#/$defs/to"])
def test_what_a_schema_refers_to_elsewhere_is_not_fetched(to: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.1)
        reference = to.format(elsewhere=f"http://127.0.0.1:{elsewhere.getsockname()[1]}")
        odd = tool("mail:odd", input_schema={"properties": {"to": {"$ref": reference}}})
        assert check_arguments(odd, {"to": "Ana"}) == {"to": "Ana"}
        with pytest.raises(TimeoutError):
            elsewhere.accept()
