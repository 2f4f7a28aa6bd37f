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


def catalogues(data: Path) -> list[Tool]:
    """Every tool of the benchmark and the training folders, one of each text."""
    folders = sorted(path.parent for part in ("bench", "train") for path in (data / part).glob("*/tools.jsonl"))
    unique = {(t.server, t.name, t.description): t for folder in folders for t in tools(folder)}
    return list(unique.values())
