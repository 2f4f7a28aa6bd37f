"""Reading the data folder: catalogues, query sets, and the general-language sources."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETS = (
    "api_bank",
    "azure_mcp",
    "bfcl",
    "bfcl_multi_turn",
    "metatool",
    "restbench",
    "seal_tools",
    "toolalpaca",
    "toolbench_stable",
)
"""The development sets whose labels name tools."""
FURTHER = ("vendor_dev", "acebench_en")
"""Further sets to which the maps are fitted: vendors' tests of their own servers, and functions."""
KOREAN = "functionchat_ko"
"""A set in Korean. Only the confidence is fitted to it."""

WRITTEN = Path(__file__).parent / "written"
"""What people say, written for toolroute and labelled with the tools that it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    server: str
    name: str
    description: str
    input_schema: dict[str, Any] | None

    @property
    def key(self) -> str:
        return f"{self.server}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    text: str
    relevant: frozenset[str]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the records of a JSON Lines file, or nothing if it does not exist."""
    if path.exists():
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def tools(folder: Path) -> list[Tool]:
    return [
        Tool(
            server=row["server"] or "",
            name=row["name"],
            description=row["description"] or "",
            input_schema=row["input_schema"],
        )
        for row in rows(folder / "tools.jsonl")
    ]


def queries(folder: Path) -> list[Query]:
    return [
        Query(text=row["query"], relevant=frozenset(row["relevant"]))
        for row in rows(folder / "queries.jsonl")
    ]


Request = tuple[str, list[Tool]]
"""What people say, and its tools."""


def requests(data: Path) -> Iterator[Request]:
    """Each request of our own: of a catalogue's tools, or of invented ones."""
    yield from _labelled("requests", data)
    invented = WRITTEN / "invented"
    yield from _asked(invented / "queries.jsonl", invented)


def abroad(data: Path) -> Iterator[Request]:
    """Requests of our own in other languages."""
    yield from _labelled("languages", data)


def _labelled(folder: str, data: Path) -> Iterator[Request]:
    """Return the labelled queries of a folder's files. Each file has the name of the catalogue with its tools."""
    for path in sorted((WRITTEN / folder).glob("*.jsonl")):
        yield from _asked(path, data / "bench" / path.stem)


def _asked(path: Path, folder: Path) -> Iterator[Request]:
    known = {tool.key: tool for tool in tools(folder)}
    for row in rows(path):
        yield row["query"], [known[key] for key in row["relevant"] if key in known]


Story = list[Request]
"""Its parts in their order, each with its tools; what only tells how things are has none."""


def stories(data: Path) -> Iterator[Story]:
    """Long tasks of our own."""
    known = {
        f"{folder.name}/{tool.key}": tool
        for folder in (data / "bench").iterdir()
        for tool in tools(folder)
    }
    for row in rows(WRITTEN / "stories.jsonl"):
        yield [
            (part["text"], [known[key] for key in part["relevant"] if key in known])
            for part in row["parts"]
        ]


NO_TOOL = "smalltalk, chitchat"
"""The text near which the model places what needs no tool; it goes with the model (`no_tool` in its config.json)."""


def idle(part: str = "taught") -> list[str]:
    """Return toolroute's own messages that need no tool: those for training, or others (`unseen`)."""
    return (WRITTEN / "idle" / f"{part}.txt").read_text(encoding="utf-8").splitlines()


def catalogues(data: Path) -> list[Tool]:
    """Every tool of the benchmark and the training folders, one of each text."""
    folders = sorted(
        path.parent for part in ("bench", "train") for path in (data / part).glob("*/tools.jsonl")
    )
    unique = {(t.server, t.name, t.description): t for folder in folders for t in tools(folder)}
    return list(unique.values())
