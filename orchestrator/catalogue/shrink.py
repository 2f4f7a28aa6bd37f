"""Shorter definitions of a tool, so that more tools fit. LADDER has the steps."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.catalogue.schema import gathered, hoisted
from orchestrator.records.tool import Tool, altered

_SENTENCE = re.compile(r"(?<=[.!?])\s")


def _full(tool: Tool) -> Tool:
    return tool


def _short_descriptions(tool: Tool) -> Tool:
    """Keep only the first sentence of the tool's and of each parameter's description."""
    return altered(
        tool,
        description=_first_sentence(tool.description),
        input_schema=_map_schema(tool.input_schema, _shorten),
    )


def _required_parameters(tool: Tool) -> Tool:
    """Keep only the first sentence of the description, and the required parameters without descriptions."""
    schema = None
    if tool.input_schema is not None:
        schema = _map_schema(hoisted(gathered(tool.input_schema)), _without_prose)
    if schema and isinstance(schema.get("properties"), dict):
        required = schema.get("required")
        names = required if isinstance(required, list) else []
        schema["properties"] = {
            name: part for name, part in schema["properties"].items() if name in names
        }
    return altered(tool, description=_first_sentence(tool.description), input_schema=schema)


def _without_prose(part: dict[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in part.items() if keyword not in _PROSE}


LADDER = (_full, _short_descriptions, _required_parameters)
"""The steps from the whole definition to the shortest one with which a model can still call the tool."""
_PROSE = frozenset(("description", "title", "examples", "default", "$comment"))
"""Keywords that explain a value and do not restrict it."""


def _first_sentence(text: str, limit: int = 160) -> str:
    first = _SENTENCE.split(text.strip(), maxsplit=1)[0]
    return first if len(first) <= limit else first[: limit - 1].rstrip() + "…"


def _shorten(part: dict[str, Any]) -> dict[str, Any]:
    shortened = {
        name: value for name, value in part.items() if name not in _PROSE or name == "description"
    }
    if isinstance(shortened.get("description"), str):
        shortened["description"] = _first_sentence(shortened["description"], 80)
    return shortened


def _map_schema(
    schema: Mapping[str, Any] | None, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the schema with a change applied to it and to each schema within its properties and items."""
    if schema is None:
        return None
    changed = change(dict(schema))
    if isinstance(changed.get("properties"), dict):
        changed["properties"] = {
            name: _map_schema(part, change) if isinstance(part, dict) else part
            for name, part in changed["properties"].items()
        }
    if isinstance(changed.get("items"), dict):
        changed["items"] = _map_schema(changed["items"], change)
    return changed
