"""Measures plain tasks over a few real servers, as a newcomer has.

    python -m research.newcomers --data ../shared --vendors ../vendors

The tasks are toolroute's own that need one tool (written/tasks). Each is routed over its server with five other servers
of the same file, and over six servers of the file without its own. The maps are fitted without any task over the same
public catalogue. A foreign server may still do a part of the task, so the share of `none` is a lower bound.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality import table
from orchestrator import (
    Calibration,
    Catalogue,
    Decision,
    Embedder,
    Options,
    Router,
    RouteRequest,
    Stage,
)
from orchestrator.index.calibration import from_json
from orchestrator.index.embedders.by_name import embedder_for
from research.confidence import Collection, collect_all, data_parser, fit_all, sets_of
from research.tasks import Tasks, tasks

SERVERS = 6
COLUMNS = (
    "tasks",
    "right",
    "0.7 and above",
    "right of these",
    "`none`",
    "`none` without its server",
)
Routed = list[tuple[bool, Decision, Decision]]
"""For each task whether the first match is right, the Decision, and the Decision without the task's server."""


def is_plain(record: dict[str, Any]) -> bool:
    return bool(record["category"] == "plain")


async def decided(tools: Catalogue, query: str, maps: Calibration, embedder: Embedder) -> Decision:
    async with Router(tools, embedder=embedder, calibration=maps) as router:
        return await router.route(RouteRequest(query=query, tenant="local"))


async def routed(one: Tasks, maps: Calibration, embedder: Embedder) -> Routed:
    """Return the Decisions of a file's plain tasks."""
    draw, found = random.Random(one.name), Routed()
    every = sorted({tool.server for tool in one.catalogue.tools})
    for record in filter(is_plain, one.records):
        needed = {key.partition(":")[0] for key in record["relevant"]}
        others = draw.sample([server for server in every if server not in needed], SERVERS)
        own = {*needed, *others[: SERVERS - len(needed)]}
        small = Catalogue([tool for tool in one.catalogue.tools if tool.server in own])
        foreign = Catalogue([tool for tool in one.catalogue.tools if tool.server in others])
        fits = await decided(small, record["query"], maps, embedder)
        is_right = bool(fits.matches) and fits.matches[0].tool.key in record["relevant"]
        found.append((is_right, fits, await decided(foreign, record["query"], maps, embedder)))
    return found


def figures(found: Routed) -> list[object]:
    """Return COLUMNS."""
    sure = [is_right for is_right, fits, _ in found if fits.confidence >= Options().gate]
    decisions = [fits for _, fits, _ in found], [without for *_, without in found]
    refused = [float(np.mean([one.stage is Stage.NONE for one in own])) for own in decisions]
    return [
        len(found),
        float(np.mean([is_right for is_right, *_ in found])),
        len(sure),
        float(np.mean(sure)),
        *refused,
    ]


def measured(data: Path, collection: Collection, embedder: Embedder) -> dict[str, Routed]:
    """Return the Decisions file by file, with maps fitted without the file's catalogue."""
    sets = sets_of(collection, "tasks", "abroad")
    asked, found = tasks(data), dict[str, Routed]()
    for source in {one.source for one in asked if any(is_plain(record) for record in one.records)}:
        held_out = {one.name: one for one in asked if one.source == source}
        others = [one for one in collection["tasks"] if one.name not in held_out]
        maps = from_json(fit_all([*sets, *others]))
        found |= {name: asyncio.run(routed(one, maps, embedder)) for name, one in held_out.items()}
    return {name: answers for name, answers in sorted(found.items()) if answers}


def newcomers(data: Path, vendors: Path) -> str:
    """Return the table of the files and of all together."""
    embedder = embedder_for(Options())
    found = measured(data, collect_all(data, vendors, embedder), embedder)
    pooled = [pair for own in found.values() for pair in own]
    return table(
        COLUMNS,
        {**{name: figures(own) for name, own in found.items()}, "**together**": figures(pooled)},
    )


def main() -> None:
    arguments = data_parser(__doc__).parse_args()
    print(newcomers(arguments.data, arguments.vendors))


if __name__ == "__main__":
    main()
