"""What a fit to one's own queries gains on sets that the maps have not seen.

    python -m research.promises --data ../shared [--write docs]

Each development set is one's own catalogue in turn, with maps fitted on the others. `--write` rewrites the table of
docs/calibration.md.
"""

import argparse
import asyncio
import random
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.page import write
from benchmarks.quality import table
from orchestrator.evaluate.fit import cross_validated, try_all
from orchestrator.evaluate.runner import read_set
from orchestrator.index.calibration import Calibration
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from research.confidence import left_out_maps
from research.sources import SETS

MOST_QUERIES = 300
OPTIONS = Options()
FIGURES = ("ece", "resolved", "precision")


async def fits_of(folder: Path, maps: Calibration) -> list[object]:
    """Return each figure of the maps as they are, and with a fit to four fifths of the queries on the other fifth."""
    found = read_set(folder)
    known = [query for query in found.queries if query.relevant and query.relevant <= found.catalogue.positions.keys()]
    queries = random.Random(folder.name).sample(known, min(MOST_QUERIES, len(known)))
    trials = await try_all(replace(found, queries=tuple(queries)), OPTIONS, maps=maps)
    plain, labelled = cross_validated(trials, OPTIONS.gate)
    return [one[name] for name in FIGURES for one in (plain, labelled)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="only these sets: at least two")
    parser.add_argument("--write", type=Path, metavar="DOCS", help="rewrite the tables of the pages in this folder")
    given = parser.parse_args()
    embedder = embedder_for(OPTIONS)
    maps, folders = left_out_maps(given.data, embedder), {name: given.data / "bench" / name for name in given.sets}
    rows = {name: asyncio.run(fits_of(folder, maps[name])) for name, folder in folders.items()}
    columns = [f"{way}{name}" for name in FIGURES for way in ("", "fitted: ")]
    mean = [
        float(np.mean([value for value in column if value is not None])) for column in zip(*rows.values(), strict=True)
    ]
    text = table(columns, {**rows, "**mean**": mean})
    print(text)
    if given.write:
        write(given.write / "calibration.md", text)


if __name__ == "__main__":
    main()
