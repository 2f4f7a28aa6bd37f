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
    """The records of a JSON Lines file; nothing where there is no such file."""
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
    return [Query(text=row["query"], relevant=frozenset(row["relevant"])) for row in rows(folder / "queries.jsonl")]


def requests(data: Path) -> Iterator[tuple[str, list[Tool]]]:
    """Each request of our own, with its tools: of the catalogue that its file is called after, or invented."""
    invented = WRITTEN / "invented"
    asked = [(path, data / "bench" / path.stem) for path in sorted((WRITTEN / "requests").glob("*.jsonl"))]
    for path, folder in [*asked, (invented / "queries.jsonl", invented)]:
        known = {tool.key: tool for tool in tools(folder)}
        for row in rows(path):
            yield row["query"], [known[key] for key in row["relevant"] if key in known]


NO_TOOL = "smalltalk, chitchat"
"""The text beside which what needs no tool is set; it goes with the model (`no_tool` in its config.json)."""


def idle() -> list[str]:
    """Messages of our own that need no tool."""
    return (WRITTEN / "idle.txt").read_text(encoding="utf-8").splitlines()


def catalogues(data: Path) -> list[Tool]:
    """Every tool of the benchmark and the training folders, one of each text."""
    folders = sorted(path.parent for part in ("bench", "train") for path in (data / part).glob("*/tools.jsonl"))
    unique = {(t.server, t.name, t.description): t for folder in folders for t in tools(folder)}
    return list(unique.values())
