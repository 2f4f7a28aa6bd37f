"""The keywords of JSON Schema and the values that each may have.

    usable({"type": "any", "properties": {"a": {"type": "String"}}})  ->  {"properties": {"a": {"type": "string"}}}

Real catalogues have schemas with types such as `any`, patterns of another language, and examples in place of lists. A
part that is not JSON Schema is removed, so that it restricts nothing.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))


def usable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without parts that are not JSON Schema, and with `items` for each array.

    Each required name becomes a property, because Gemini refuses all tools of a request otherwise.
    """
    keywords = {}
    for keyword, value in schema.items():
        read = _READERS[keyword](value) if keyword in _READERS else value
        if read is not None or keyword not in _READERS:
            keywords[keyword] = read
    kind = keywords.get("type")
    is_array = "array" in kind if isinstance(kind, list) else kind == "array"
    if is_array:
        keywords.setdefault("items", {})
    properties = keywords.get("properties")
    if isinstance(properties, dict):
        undescribed: dict[str, Any] = {
            name: {} for name in keywords.get("required") or () if name not in properties
        }
        keywords["properties"] = properties | undescribed
    return keywords


def text_list(value: Any) -> list[str] | None:
    """Return a list of texts, each once. None for another value."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    return list(dict.fromkeys(value))


@lru_cache(maxsize=1_000)
def matcher(pattern: str) -> Any:
    """Return the matcher of a pattern. None if the engine cannot compile it.

    It is the Rust engine in pydantic, which never backtracks. Python's engine may take forever for `^(a+)+$`.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, strict=True))
    except SchemaError:
        return None


def _schema(value: Any) -> Any:
    if isinstance(value, dict):
        return usable(value)
    return value if isinstance(value, bool) else None


def _schemas_by_name(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    schemas = {name: _schema(part) for name, part in value.items()}
    return {name: schema for name, schema in schemas.items() if schema is not None}


def _schema_list(value: Any) -> Any:
    if not isinstance(value, list):
        return None
    schemas = [_schema(part) for part in value]
    return [schema for schema in schemas if schema is not None] or None


def _type(value: Any) -> Any:
    """Return the types in lower case. None if one of them is unknown, so that any type is allowed."""
    names = text_list(value if isinstance(value, list) else [value])
    if not names:
        return None
    types = list(dict.fromkeys(name.lower() for name in names))
    if not _TYPES.issuperset(types):
        return None
    return types if isinstance(value, list) else types[0]


def _pattern(value: Any) -> Any:
    """Return a pattern that Rust's or Python's engine can compile."""
    if not isinstance(value, str):
        return None
    if matcher(value) is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # For example for `[[a]`.
                re.compile(value)
        except (re.error, OverflowError, RecursionError):
            return None
    return value


def _schemas_by_pattern(value: Any) -> Any:
    schemas = _schemas_by_name(value)
    return schemas and {
        pattern: part for pattern, part in schemas.items() if _pattern(pattern) is not None
    }


def _of_kind(*kinds: type) -> Callable[[Any], Any]:
    """Return a reader that keeps a value of one of these types. True and False are not numbers."""

    def reader(value: Any) -> Any:
        is_kind = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        return value if is_kind else None

    return reader


_KEYWORDS: dict[Callable[[Any], Any], str] = {
    _type: "type",
    text_list: "required",
    _schemas_by_name: "properties $defs definitions dependentSchemas",
    _schemas_by_pattern: "patternProperties",
    _pattern: "pattern",
    _schema_list: "anyOf oneOf allOf prefixItems",
    _schema: "items contains not if then else propertyNames "
    "additionalProperties unevaluatedItems unevaluatedProperties",
    _of_kind(str): "title description format $ref $id $schema $comment",
    _of_kind(list): "enum examples",
    _of_kind(int, float): "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    _of_kind(int): "minLength maxLength minItems maxItems minProperties maxProperties",
    _of_kind(bool): "uniqueItems deprecated readOnly writeOnly",
}
_READERS = {
    keyword: reader for reader, keywords in _KEYWORDS.items() for keyword in keywords.split()
}
"""The reader of each keyword's value. If it returns None, the keyword is removed."""
