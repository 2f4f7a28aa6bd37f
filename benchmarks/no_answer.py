"""The floor below which nothing is recommended: what each height of it does, on queries labelled "needs a tool" or not.

The label says whether a chat model needs a tool, not whether a tool of the catalogue is near in words: "what would a
homeless person need if ..." has shops beside it. The maps are fitted without the queries of the same catalogue.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.index.calibration import Calibration
from orchestrator.records.request import RouteRequest
from orchestrator.routing.router import Router

CATALOGUE, LABELS = "metatool", "metatool_gate"
FLOORS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A labelled query, how sure its answer was, and whether the labelled tool came first."""

    needs_tool: bool
    confidence: float
    right: bool


async def ask_all(data: Path, maps: Calibration) -> list[Asked]:
    """Each labelled query, routed."""
    asked = []
    async with Router(data / "bench" / CATALOGUE, calibration=maps) as router:
        for line in (data / "bench" / LABELS / "labels.jsonl").read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            decision = await router.route(RouteRequest(query=record["query"], tenant="local", limit=1))
            right = bool(decision.matches) and decision.matches[0].tool.name == record["tool"]
            asked.append(Asked(needs_tool=record["needs_tool"], confidence=decision.confidence, right=right))
    return asked


def floor_table(asked: Sequence[Asked], own: float) -> list[str]:
    """For each floor the share of queries of each kind that end in `none`; `own` is the default."""
    idle = np.array([one.confidence for one in asked if not one.needs_tool])
    needing = np.array([one.confidence for one in asked if one.needs_tool])
    right = np.array([one.confidence for one in asked if one.right])
    lines = [
        "| floor | needs no tool: `none` | needs a tool: lost | of those answered right: lost |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for floor in FLOORS:
        shares = " | ".join(f"{(group < floor).mean():.3f}" for group in (idle, needing, right))
        lines.append(f"| {f'**{floor}**' if floor == own else floor} | {shares} |")
    return lines


def measure(data: Path, maps: Calibration, floor: float) -> list[str]:
    return floor_table(asyncio.run(ask_all(data, maps)), floor)
