"""Input schemas as providers accept them.

A provider refuses a whole request because of one wrong schema. OpenAI and Anthropic require draft 2020-12 and allow no
combinations at the top level. OpenAI requires the `items` of each array, and Anthropic requires plain parameter names.
Real catalogues have tools that break each of these rules:

    {"oneOf": [{"required": ["id"], "properties": {"id": {}}}, {"required": ["name"], "properties": {"name": {}}}]}
    {"properties": {"id": {}, "name": {}}}                       the form that a provider gets
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from orchestrator.catalogue.schema_checks import parts
from orchestrator.catalogue.schema_keywords import text_list, usable
from orchestrator.common.digests import digest

_REFUSED = frozenset("anyOf oneOf allOf not enum const $ref if then else $schema".split())
"""Keywords that providers refuse at the top level of a schema. The arguments are still checked against them."""
_JOINED = frozenset(("anyOf", "oneOf", "allOf", "$ref", "then", "else"))
"""Keywords whose branches may have parameters. `not` and `if` describe what need not hold."""
_DEFINITION = re.compile(r"#|#/(?:\$defs|definitions)/[^/]+")
_MAX_DEPTH = 50
"""The number of levels of branches from which parameters are gathered."""
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The names of parameters that Anthropic accepts."""


def accepted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without parts that are not JSON Schema or are refused at the top level, and with `items` for
    every array.

    The parameters of refused parts become parameters of the schema, and each reference keeps its meaning.
    """
    repaired = usable(hoisted(gathered(schema)))
    return {keyword: value for keyword, value in repaired.items() if keyword not in _REFUSED}


def gathered(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with the parameters of its root's branches and references among its own.

    A parameter is required if all branches require it. If branches describe it differently, any of the descriptions
    may hold.
    """
    if _JOINED.isdisjoint(schema):
        return dict(schema)
    parameters = _Gathering(schema).of(schema)
    joined = {**schema, "properties": parameters.properties}
    if parameters.required:
        joined["required"] = parameters.required
    return joined


class _Parameters(NamedTuple):
    """The properties of a part of a schema, and the required names among them."""

    properties: dict[str, Any]
    required: list[str]


class _Gathering:
    """Gathers the parameters of a schema. Each reference is followed once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._references: dict[str, _Parameters] = {}

    def of(self, part: Any, depth: int = 0) -> _Parameters:
        if not isinstance(part, dict) or depth > _MAX_DEPTH:
            return _Parameters({}, [])
        properties = part.get("properties")
        result = _Parameters(
            dict(properties) if isinstance(properties, dict) else {},
            list(text_list(part.get("required")) or ()),
        )
        for branch in _branches(part, "allOf"):
            result = _joined(result, self.of(branch, depth + 1))
        reference = part.get("$ref")
        if isinstance(reference, str):
            result = _joined(result, self._referenced(reference, depth))
        for keyword in ("anyOf", "oneOf"):
            result = _joined(
                result, _either([self.of(branch, depth + 1) for branch in _branches(part, keyword)])
            )
        conditional = [*_branches(part, "then"), *_branches(part, "else")]
        properties = _either([self.of(branch, depth + 1) for branch in conditional]).properties
        result = _joined(result, _Parameters(properties, []))
        return _Parameters(result.properties, list(dict.fromkeys(result.required)))

    def _referenced(self, reference: str, depth: int) -> _Parameters:
        if reference not in self._references:
            # A reference may lead back to itself.
            self._references[reference] = _Parameters({}, [])
            self._references[reference] = self.of(_target(self._root, reference), depth + 1)
        return self._references[reference]


def _joined(first: _Parameters, second: _Parameters) -> _Parameters:
    """Return the parameters of two parts that both hold. A shape that restricts nothing gives way."""
    properties = dict(second.properties)
    for name, shape in first.properties.items():
        if name not in properties or shape not in ({}, True):
            properties[name] = shape
    return _Parameters(properties, first.required + second.required)


def _branches(part: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the branches under a keyword, without branches that cannot be objects, because arguments are an object."""
    listed = part.get(keyword, [])
    branches = listed if isinstance(listed, list) else [listed]
    return [
        branch
        for branch in branches
        if not isinstance(branch, dict) or branch.get("type", "object") == "object"
    ]


def _either(branches: Sequence[_Parameters]) -> _Parameters:
    """Return the parameters of parts of which one holds. A property is described by any of the parts that have it."""
    if not branches:
        return _Parameters({}, [])
    shapes: dict[str, dict[str, Any]] = {}
    for branch in branches:
        for name, shape in branch.properties.items():
            shapes.setdefault(name, {})[json.dumps(shape)] = shape
    properties = {}
    for name, by_text in shapes.items():
        different = list(by_text.values())
        properties[name] = different[0] if len(different) == 1 else {"anyOf": different}
    first = branches[0].required
    return _Parameters(
        properties, [name for name in first if all(name in branch.required for branch in branches)]
    )


def hoisted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with the targets of its references moved to `$defs`, so that changes of its parameters do not
    break them.

    A reference without a target in the schema is removed, because a provider would refuse it.
    """
    return _Hoisting(schema).result()


class _Hoisting:
    """Moves the targets of a schema's references to `$defs`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._nested = dict(_nested_definitions(schema))
        self._moved: dict[str, Any] = {}
        self._waiting: dict[str, Any] = {}

    def result(self) -> dict[str, Any]:
        schema: dict[str, Any] = self._rewritten(dict(self._schema))
        while self._waiting:
            name, target = self._waiting.popitem()
            self._moved[name] = True  # The definition may refer to itself.
            self._moved[name] = self._rewritten(target)
        if not self._moved:
            return schema
        definitions = schema.get("$defs")
        return {
            **schema,
            "$defs": {**(definitions if isinstance(definitions, dict) else {}), **self._moved},
        }

    def _rewritten(self, part: Any) -> Any:
        if isinstance(part, list):
            return [self._rewritten(item) for item in part]
        if not isinstance(part, dict):
            return part
        rewritten = {name: self._rewritten(value) for name, value in part.items()}
        if isinstance(part.get("$ref"), str):
            self._move_target(rewritten, part["$ref"])
        return rewritten

    def _move_target(self, part: dict[str, Any], reference: str) -> None:
        target = _target(self._schema, reference)
        if target is None:  # Some libraries nest their definitions.
            target = self._nested.get(reference)
            reference = f"nested {reference}"
        if not isinstance(target, dict | bool):
            del part["$ref"]
        elif not _DEFINITION.fullmatch(reference):
            name = f"ref_{digest(reference, 8)}"
            if name not in self._moved:
                self._waiting[name] = target
            part["$ref"] = f"#/$defs/{name}"


def _nested_definitions(schema: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the definitions in all parts of a schema, each with the reference that its library writes."""
    for part in parts(schema):
        if not isinstance(part, dict):
            continue
        for keyword in ("$defs", "definitions"):
            definitions = part.get(keyword)
            if isinstance(definitions, dict):
                for name, definition in definitions.items():
                    yield f"#/{keyword}/{name}", definition


def _target(schema: Any, reference: str) -> Any:
    """Return the target of a reference within a schema. Otherwise None."""
    document, _, pointer = reference.partition("#")
    if document or (pointer and not pointer.startswith("/")):
        return None
    for key in unquote(pointer).split("/")[1:]:
        schema = _member(schema, key.replace("~1", "/").replace("~0", "~"))
    return schema


def _member(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        return value[int(key)]
    return None


def with_plain_names(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with parameter names that Anthropic accepts."""
    plain_by_name = {name: plain for plain, name in plain_names(schema).items()}
    if not plain_by_name:
        return dict(schema)
    renamed = dict(schema)
    renamed["properties"] = {
        plain_by_name.get(name, name): shape for name, shape in schema["properties"].items()
    }
    if schema.get("required"):
        renamed["required"] = [plain_by_name.get(name, name) for name in schema["required"]]
    return renamed


def plain_names(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return a plain name for each parameter that needs one, with the parameter's own name."""
    plain = {}
    for name in schema.get("properties") or ():
        if not _PLAIN_NAME.fullmatch(name):
            stem = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:55]
            plain[f"{stem}_{digest(name, 8)}"] = name
    return plain
