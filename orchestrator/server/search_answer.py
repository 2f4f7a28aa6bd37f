"""Matches as a client's model reads them: the best one whole, the others in a line each."""

from collections.abc import Mapping
from typing import Any

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import cut
from orchestrator.mcp.listing.offers import Offer
from orchestrator.records.tool import Match, Tool
from orchestrator.trust.server_texts import definition_for_model, instructions_for_model

_LINE, _MOST_REQUIRED, _MOST_INSTRUCTIONS, _MOST_ICON = 160, 20, 500, 500
_HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}


def whole(tool: Tool, offer: Offer) -> dict[str, Any]:
    """Return a tool's whole definition."""
    hints = {name: said for name, own in _HINTS.items() if (said := getattr(tool.annotations, own)) is not None}
    aside = offer.tools.get(tool.name, {})
    icons = [icon for icon in aside.get("icons", ()) if len(str(icon.get("src", ""))) <= _MOST_ICON]
    found = {
        "tool": tool.key,
        "title": tool.title,
        "description": tool.description,
        "input_schema": parameters(tool),
        "output_schema": definition_for_model(aside.get("outputSchema")),
        "annotations": hints,
        "icons": definition_for_model(icons),
    }
    return {name: value for name, value in found.items() if value or name in ("description", "input_schema")}


def line(tool: Tool) -> dict[str, Any]:
    """Return a tool in a line: its name, the beginning of its description, and its required parameters."""
    schema = parameters(tool)
    own, required = schema.get("properties", {}), schema.get("required", [])
    text = " ".join(tool.description.split())
    first, end, _ = text.partition(". ")
    short = f"{first}{end.strip()}"
    return {
        "tool": tool.key,
        "description": short if len(short) <= _LINE else f"{short[:_LINE]}…",
        "required": {name: _kind(own.get(name)) for name in required[:_MOST_REQUIRED]},
        **({"required_more": len(required) - _MOST_REQUIRED} if len(required) > _MOST_REQUIRED else {}),
    }


def _kind(schema: Any) -> str:
    """Return the type of a parameter in a word or two."""
    if not isinstance(schema, dict):
        return "any"
    if isinstance(choices := schema.get("enum"), list):
        return "|".join(map(str, choices))[:_LINE]
    if (kind := schema.get("type")) == "array":
        return f"{_kind(schema.get('items'))}[]"
    if isinstance(kind, list):
        return "|".join(map(str, kind))
    options = schema.get("anyOf") or schema.get("oneOf") or ()
    return str(kind or "|".join(dict.fromkeys(_kind(option) for option in options)) or "any")


def matches(found: list[Match], offers: Mapping[str, Offer], *, first_whole: bool) -> list[dict[str, Any]]:
    """Return matches in compact form, and the first one with its whole definition if it fits.

    A server's instructions are included with its first match.

    Args:
        found: The matches.
        offers: The servers' offers by name.
        first_whole: True to include the whole definition of the first match.
    """
    shown, seen = list[dict[str, Any]](), set[str]()
    for place, match in enumerate(found):
        server = match.tool.server
        offer = offers.get(server, Offer())
        is_whole = place == 0 and first_whole
        own = {**whole(match.tool, offer), "why": match.why} if is_whole else line(match.tool)
        said = cut(instructions_for_model(offer.instructions), _MOST_INSTRUCTIONS)[0] if server not in seen else ""
        seen.add(server)
        shown.append({**own, "score": round(match.score, 4), **({"server_instructions": said} if said else {})})
    return shown
