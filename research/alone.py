"""Measures the confidence over catalogues of one tool: `python -m research.alone --data ../shared`.

Each task has one tool in its catalogue: half of the tasks a right tool, the others a tool that is drawn from the same
set. The rows are values of the second probability (`ALONE`), which is chosen on the development sets. The maps were not
fitted to the other sets. The sets whose labels name prerequisites or whole servers are left out.
"""

import argparse
import asyncio
import random
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.quality import table
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate import metrics
from orchestrator.evaluate.runner import read_set
from orchestrator.index import calibration
from orchestrator.index.embed import Embedder, embedder_for
from orchestrator.options import Options
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router
from research.sources import SETS

OTHERS = ("apibench", "metatool", "seal_tools")
TASKS = 200
VALUES = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
Claims = list[tuple[float, bool]]
Asked = list[tuple[str, Tool, bool]]
"""The text of each task, its only tool, and whether that is right."""


def drawn(folder: Path) -> Asked:
    read, draw = read_set(folder), random.Random(folder.name)
    known = [(query.text, sorted(query.relevant & read.catalogue.positions.keys())) for query in read.queries]
    asked: Asked = []
    known = [pair for pair in known if pair[1]]
    for number, (text, right) in enumerate(draw.sample(known, min(TASKS, len(known)))):
        keys = right if number % 2 else sorted(read.catalogue.positions.keys() - set(right))
        asked.append((text, read.catalogue[draw.choice(keys)], bool(number % 2)))
    return asked


async def claims(asked: Asked, embedder: Embedder) -> Claims:
    found = []
    for text, tool, is_right in asked:
        async with Router(Catalogue([tool]), embedder=embedder) as router:
            found.append(((await router.route(RouteRequest(query=text, tenant="local"))).confidence, is_right))
    return found


def figures(found: Claims) -> list[object]:
    """Return the calibration error and the Brier score."""
    sure, right = np.array(found).T
    return [metrics.confidence(sure, right, gate=Options().gate)["ece"], float(np.mean((sure - right) ** 2))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/ and train/")
    given = parser.parse_args()
    embedder = embedder_for(Options())
    own = [pair for name in SETS for pair in drawn(given.data / "bench" / name)]
    sets = {"development sets": own, **{name: drawn(given.data / "train" / name) for name in OTHERS}}
    rows: dict[str, list[object]] = {}
    for value in VALUES:
        with patch.object(calibration, "ALONE", value):
            found = [asyncio.run(claims(asked, embedder)) for asked in sets.values()]
        rows[f"{value:g}"] = [figure for one in found for figure in figures(one)]
    print(table([f"{name}: {figure}" for name in sets for figure in ("ece", "Brier")], rows))


if __name__ == "__main__":
    main()
