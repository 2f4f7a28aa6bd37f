"""Small catalogues for tests of routing, and the sample catalogue of `examples/`."""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalogue, Options, Router, RouteRequest, State, Tool, preset
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.catalogue.tokens import count_tokens

KEYWORD_ALONE = "semantic search did not run, so only keyword search was used: "
"""How the warning of a Decision without meaning begins. The reason follows."""
PRESETS = ("default", "coderag", "fabric", "koi", "prismgate", "toolpilot")
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def tool(key: str, description: str = "", /, **given: Any) -> Tool:
    """A tool from its key, its description, and any further field."""
    server, colon, name = key.partition(":")
    assert colon, f"{key!r} is no key: write server:name"
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


async def understood(query: str, *tools: Tool, **request: Any) -> Any:
    """What a stage of a pipeline reads of a task over these tools: its text, its clauses, its weighted terms."""
    seen = []

    def read(state: State) -> State:
        seen.append(state.task.understood)
        return state

    pipeline = replace(preset("default"), first=(read, *preset("default").first))
    async with Router(Catalogue(tools), pipeline=pipeline, options=Options(languages="off")) as router:
        await router.route(RouteRequest(query=query, tenant="local", **request))
    return seen[0]
