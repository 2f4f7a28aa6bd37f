"""The answer of `search` as a client's model reads it: the best match whole, the others in a line each.

{"matches": [{"tool": "time:convert_time", "description": "...", "input_schema": {}, "why": "...", "probability": 0.8},
             {"tool": "time:now", "description": "The time now.", "required": {}, "probability": 0.21}],
 "recommended": ["time:convert_time"], "stage": "gate", "confidence": 0.83, "semantic_ran": false,
 "servers": ["time"], "warnings": []}
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import cut
from orchestrator.index.text import spaced
from orchestrator.mcp.listing.offers import Offer
from orchestrator.records.tool import Kind, Match, Tool
from orchestrator.server.apps import interface
from orchestrator.trust.server_texts import definition_for_model, instructions_for_model

_MAX_DESCRIPTION = 160
"""The characters of a description in a match of one line."""
_MAX_REQUIRED = 20
"""The required parameters in a match of one line. The complete definition is one search by name away."""
_MAX_INSTRUCTION_TOKENS = 250
"""A server's instructions stand beside its tools and must not outweigh them."""
_MAX_ICON_CHARACTERS = 500
"""A longer address contains the picture itself, which no model reads."""


def complete_definition(tool: Tool, offer: Offer) -> dict[str, Any]:
    """Return a tool's complete definition."""
    aside = offer.tools.get(tool.name, {})
    icons = [
        icon
        for icon in aside.get("icons", ())
        if len(str(icon.get("src", ""))) <= _MAX_ICON_CHARACTERS
    ]
    definition = {
        **callable_definition(tool),
        "output_schema": definition_for_model(aside.get("outputSchema")),
        "icons": definition_for_model(icons),
        "ui": definition_for_model(interface(tool, offer)),
    }
    return _without_empty(definition)


def callable_definition(tool: Tool) -> dict[str, Any]:
    """Return the parts of a definition that a model needs to call the tool."""
    hints = {name: value for name, value in asdict(tool.annotations).items() if value is not None}
    definition = {
        **_named(tool),
        "title": tool.title,
        "description": tool.description,
        "input_schema": parameters(tool),
        "annotations": hints,
    }
    return _without_empty(definition)


def _brief(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without the parts that a model does not need: titles that repeat names, and `$schema`.

    Pydantic writes such a title for each parameter, which is a tenth of an answer. `describe` has the whole schema.
    """
    brief = {name: value for name, value in schema.items() if name not in ("title", "$schema")}
    if brief.get("additionalProperties") is False:
        del brief["additionalProperties"]
    properties = schema.get("properties")
    if isinstance(properties, dict):
        brief["properties"] = {
            name: _without_repeated_title(name, shape) for name, shape in properties.items()
        }
    return brief


def _without_repeated_title(name: str, shape: Any) -> Any:
    if not isinstance(shape, dict):
        return shape
    title = shape.get("title")
    is_repeated = isinstance(title, str) and spaced(title).lower() == spaced(name).lower()
    return {key: value for key, value in shape.items() if key != "title" or not is_repeated}


def _without_empty(definition: dict[str, Any]) -> dict[str, Any]:
    always = ("description", "input_schema")
    return {name: value for name, value in definition.items() if value or name in always}


def summary(tool: Tool) -> dict[str, Any]:
    """Return a tool in a line: its name, the beginning of its description, and its required parameters."""
    schema = parameters(tool)
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    line: dict[str, Any] = {
        **_named(tool),
        "description": _first_sentence(tool.description),
        "required": {name: _type_name(properties.get(name)) for name in required[:_MAX_REQUIRED]},
    }
    if len(required) > _MAX_REQUIRED:
        line["required_more"] = len(required) - _MAX_REQUIRED
    return line


def _named(tool: Tool) -> dict[str, Any]:
    """Return a tool's key, and its kind if it is a skill."""
    return {"tool": tool.key, "kind": "skill"} if tool.kind is Kind.SKILL else {"tool": tool.key}


def _first_sentence(description: str) -> str:
    text = " ".join(description.split())
    sentence, end, _ = text.partition(". ")
    sentence += end.strip()
    return sentence if len(sentence) <= _MAX_DESCRIPTION else f"{sentence[:_MAX_DESCRIPTION]}…"


def _type_name(schema: Any) -> str:
    """Return the type of a parameter in a word or two."""
    if not isinstance(schema, dict):
        return "any"
    choices = schema.get("enum")
    if isinstance(choices, list):
        return "|".join(map(str, choices))[:_MAX_DESCRIPTION]
    kind = schema.get("type")
    if kind == "array":
        return f"{_type_name(schema.get('items'))}[]"
    if isinstance(kind, list):
        return "|".join(map(str, kind))
    if kind:
        return str(kind)
    options = schema.get("anyOf") or schema.get("oneOf") or ()
    return "|".join(dict.fromkeys(_type_name(option) for option in options)) or "any"


def matches_shown(
    matches: Sequence[Match],
    offers: Mapping[str, Offer],
    recommended: Collection[str],
    *,
    first_complete: bool,
) -> list[dict[str, Any]]:
    """Return matches in compact form, and the first one with its definition if it fits.

    The instructions of a server are included with its first match, if one of its tools is recommended.

    Args:
        matches: The matches.
        offers: The servers' offers by name.
        recommended: The servers with a recommended tool.
        first_complete: True to include the definition of the first match.
    """
    records = list[dict[str, Any]]()
    introduced = set[str]()
    for match in matches:
        is_first = not records
        server = match.tool.server
        offer = offers.get(server, Offer())
        if is_first and first_complete:
            record = {**callable_definition(match.tool), "why": match.why}
            record["input_schema"] = _brief(record["input_schema"])
        else:
            record = summary(match.tool)
        record["probability"] = round(match.probability, 2)
        ui = interface(match.tool, offer)
        if ui:
            record["ui"] = definition_for_model(ui)
        if server in recommended and server not in introduced and offer.instructions:
            record["server_instructions"], _ = cut(
                instructions_for_model(offer.instructions), _MAX_INSTRUCTION_TOKENS
            )
        introduced.add(server)
        records.append(record)
    return records
