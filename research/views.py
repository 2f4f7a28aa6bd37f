"""Views of a tool: the short texts about it that should lie close to one another."""

import re
from typing import Any

from research.sources import Tool

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[_\-./:{}]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_SPACE = re.compile(r"\s+")
_FIRST_LIMIT, _REST_LIMIT = 240, 600  # characters


def words(identifier: str) -> str:
    """'getUser_profile-v2' -> 'get User profile v2'."""
    return _SPACE.sub(" ", _SEPARATORS.sub(" ", _CAMEL.sub(" ", identifier))).strip()


def sentences(text: str) -> list[str]:
    return [
        part
        for part in (_SPACE.sub(" ", piece).strip(" -*#") for piece in _SENTENCE_END.split(text))
        if part
    ]


def name(tool: Tool) -> str:
    return f"{words(tool.server)} {words(tool.name)}".strip()


def first(tool: Tool) -> str:
    """The description's first sentence."""
    parts = sentences(tool.description)
    return parts[0][:_FIRST_LIMIT] if parts else ""


def rest(tool: Tool) -> str:
    """The description without its first sentence."""
    return " ".join(sentences(tool.description)[1:])[:_REST_LIMIT]


def parameters(tool: Tool) -> str:
    """Names and descriptions of the input's properties."""
    properties: dict[str, Any] = (tool.input_schema or {}).get("properties") or {}
    parts = []
    for key, value in properties.items():
        description = value.get("description") if isinstance(value, dict) else None
        parts.append(
            f"{words(key)} {description[:120] if isinstance(description, str) else ''}".strip()
        )
    return ", ".join(parts)[:_REST_LIMIT]


def card(tool: Tool) -> str:
    """Return the whole tool as one text, which the model embeds when a catalogue is indexed."""
    return ". ".join(
        part for part in (name(tool), tool.description[:1000], parameters(tool)) if part
    )
