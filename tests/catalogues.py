"""Small catalogues for tests of routing, and the sample catalogue of `examples/`."""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from rs_bpe import openai

from orchestrator import Catalogue, Decision, Options, Router, RouteRequest, State, Tool, preset

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


def keys(decision: Decision) -> list[str]:
    """The keys of the matches, best first."""
    return [match.tool.key for match in decision.matches]


@pytest.fixture(scope="module")
async def router() -> AsyncIterator[Router]:
    """A router over the sample catalogue."""
    async with Router(sample()) as router:
        yield router


def tokens_of(text: object) -> int:
    """The exact size of a text, or of a value's JSON, as a model pays for it. toolroute's estimate is never lower."""
    return len(openai.o200k_base().encode(text if isinstance(text, str) else json.dumps(text)))


HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
"""What a catalogue file calls the annotations of a tool."""


def line_of(tool: Tool) -> dict[str, Any]:
    """The tool as a line of a catalogue file, without its empty fields."""
    line = {name: value for name, value in asdict(tool).items() if value}
    hints = {HINTS[name]: hint for name, hint in line.pop("annotations").items() if hint is not None}
    return {**line, "annotations": hints} if hints else line


def write_tools(file: Path, tools: Iterable[Tool]) -> Path:
    """Write a catalogue file, one tool a line."""
    file.write_text("".join(f"{json.dumps(line_of(tool))}\n" for tool in tools), encoding="utf-8")
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
