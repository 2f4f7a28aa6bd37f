"""What values are held to by a stranger's schema: nothing is fetched, nothing takes long, nothing breaks."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from orchestrator.catalogue.schema import ElsewhereSchema, UnusableSchema, checkable, faults
from tests.timing import seconds

FOREVER = r"^(a+)+$"
CRAFTED = "a" * 40 + "!"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string", "pattern": FOREVER}}},
        {"properties": {"a": {"anyOf": [{"pattern": FOREVER}]}}},
        {"properties": {"a": {"$ref": "#/components/Name"}}, "components": {"Name": {"pattern": FOREVER}}},
        {"propertyNames": {"pattern": FOREVER}},
        {"patternProperties": {FOREVER: {"type": "string"}}, "additionalProperties": False},
        {"allOf": [{"patternProperties": {FOREVER: {}}}], "unevaluatedProperties": False},
        {"properties": {"a": {"pattern": "^a?" + "a?" * 40 + "a" * 41}}},
        {"properties": {"a": {"pattern": "^" + "(a|a)" * 40 + "$"}}},
    ],
)
def test_a_pattern_that_may_take_for_ever_is_left_to_the_server(schema: dict[str, Any]) -> None:
    assert seconds(lambda: faults(schema, {"a": CRAFTED, CRAFTED: "x"}) == []) < 1
    assert FOREVER not in str(checkable(schema))


DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def _doubling(times: int, part: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Each reference leads to two of the next; each definition has this, too."""
    twice = {f"d{n}": {**part, "allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(times)}
    return {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**twice, f"d{times}": {"type": "string"}}}


@pytest.mark.parametrize("schema", [_doubling(60), _doubling(60, DIALECT)])
def test_a_schema_that_leads_to_more_checks_than_the_value_is_worth_is_left_to_the_server(
    schema: dict[str, Any],
) -> None:
    def refuse() -> object:
        with pytest.raises(ElsewhereSchema, match="more checks than can be made") as refused:
            faults(schema, {"a": "x"})
        return refused

    assert seconds(refuse) < 5
    mended = checkable(schema)
    assert seconds(lambda: faults(mended, {"a": "x"}) == []) < 5


def test_what_is_left_over_is_not_checked_as_that_may_take_for_ever() -> None:
    twice = {f"a{n}": {"dependentSchemas": {key: {"$ref": f"#/$defs/a{n + 1}"} for key in "pq"}} for n in range(40)}
    schema = {"$ref": "#/$defs/a0", "unevaluatedProperties": {"type": "string"}, "$defs": {**twice, "a40": {}}}
    with pytest.raises(ElsewhereSchema):
        faults(schema, {"p": 1, "q": 1})
    assert not faults({"unevaluatedProperties": False}, {"a": 1})


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_an_answer_is_never_refused_for_references_that_are_not_followed(keyword: str) -> None:
    either = {
        "properties": {"a": {keyword: [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}},
        "$defs": {"A": {}, "B": {}},
    }
    assert checkable(either) == {}
    assert checkable({"properties": {"a": {"type": "string"}}}) == {"properties": {"a": {"type": "string"}}}


def test_a_schema_of_references_is_held_to_where_that_takes_no_time() -> None:
    assert [fault.json_path for fault in faults(_doubling(5), {"a": 1})] == ["$.a"] * 32
    many = {"properties": {"a": {"items": {"$ref": "#/$defs/name"}}}, "$defs": {"name": {"minLength": 1}}}
    assert len(faults(many, {"a": ["x"] * 10_000 + [""]})) == 1


@pytest.mark.parametrize(
    ("pattern", "fits", "wrong"),
    [
        (r"^\d{4}-\d{2}-\d{2}$", "2026-01-02", "tomorrow"),
        ("^[a-z0-9-]+$", "a-slug", "No Slug"),
        ("^https?://", "http://a", "ftp://a"),
        ("^-?[0-9]+$", "-4", "four"),
        ("^[A-Z]{2,3}$", "EUR", "euro"),
        (r"^0x[a-fA-F0-9]*$", "0xAB", "0xyz"),
        (r"^\?[\]\[a]+$", "?[a]", "[a]b"),
    ],
)
def test_an_ordinary_pattern_is_held_to_however_long_the_value(pattern: str, fits: str, wrong: str) -> None:
    schema = {"properties": {"a": {"pattern": pattern}}}
    assert not faults(schema, {"a": fits})
    assert [fault.validator for fault in faults(schema, {"a": wrong})] == ["pattern"]
    assert seconds(lambda: [faults(schema, {"a": fits + "a0-" * 100_000 + "!"})]) < 1


@pytest.mark.parametrize("pattern", ["^" + "[a]" * 20_000 + "(", "^" + "a{1" * 20_000])
def test_telling_whether_a_pattern_is_ordinary_takes_no_time(pattern: str) -> None:
    assert seconds(lambda: checkable({"pattern": pattern}) == {}) < 1


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "cannot be used"),
        ({"properties": {"a": {"$ref": "#/components/A"}}, "components": {"A": {"type": "any"}}}, "Unknown type 'any'"),
        ({"properties": {"a": {"$ref": "#/components/A"}}, "components": {"A": {"minimum": "1"}}}, "cannot be used"),
        ({"properties": {"a": {"$ref": "#"}}, "$ref": "#"}, "without end"),
        ({"properties": {"a": {"multipleOf": 0}}}, "is broken"),
    ],
)
def test_a_schema_that_nothing_can_be_held_to_says_why(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(UnusableSchema, match=told):
        faults(schema, {"a": 1})


def test_a_parameters_own_values_are_held_to_the_whole_schemas_parts() -> None:
    schema = {
        "properties": {"unit": {"$ref": "#/$defs/Unit"}, "n": {"type": "integer"}},
        "required": ["unit", "n"],
        "$defs": {"Unit": {"enum": ["celsius", "kelvin"]}},
    }
    assert not faults(schema, "kelvin", parameter="unit")
    assert faults(schema, "miles", parameter="unit")
    assert not faults(schema, "anything", parameter="unknown")


def test_a_pattern_that_no_computer_can_hold_is_left_to_the_server() -> None:
    assert not faults({"properties": {"a": {"pattern": "^a{99999999999}$"}}}, {"a": "b"})
