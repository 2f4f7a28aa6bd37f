"""Small catalogues for tests of routing, and the sample catalogue of `examples/`."""

import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.catalogue.tokens import count_tokens
from orchestrator.common.keys import split_key
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def tool(key: str, description: str = "", /, **given: Any) -> Tool:
    """A tool from its key, its description, and any further field."""
    server, name = split_key(key)
    return Tool(server=server, name=name, description=description, **given)


def taking(*required: str, **properties: str) -> dict[str, Any]:
    """An input schema: parameters with their descriptions, and the names of the required ones."""
    parts = {name: {"type": "string", "description": text} for name, text in properties.items()}
    return {"type": "object", "properties": parts, "required": list(required)}


def sample() -> Catalogue:
    """The catalogue of `examples/tools.jsonl`."""
    return Catalogue.read(EXAMPLES / "tools.jsonl")


@pytest.fixture(scope="module")
async def router() -> AsyncIterator[Router]:
    """A router over the sample catalogue."""
    async with Router(sample()) as router:
        yield router


def tokens_of(text: object) -> int:
    """The size of a text, or of a value's JSON, as a model pays for it."""
    return count_tokens(text if isinstance(text, str) else json.dumps(text))


def write_tools(file: Path, tools: Iterable[Tool]) -> Path:
    """Write a catalogue file, one tool a line."""
    file.write_text("".join(f"{json.dumps(tool_to_json(tool))}\n" for tool in tools), encoding="utf-8")
    return file
