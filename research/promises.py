"""What coverage sets and fits keep on sets that they have not seen: `python -m research.promises --data ../shared`.

Each development set is one's own catalogue in turn, with maps and thresholds of the others. Writes the tables of
docs/coverage.md and docs/calibration.md where `--write` names the folder of the pages.
"""

import argparse
import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.page import write
from benchmarks.quality import table
from orchestrator.evaluate.fit import cross_validated, try_all
from orchestrator.evaluate.runner import read_set
from orchestrator.index.calibration import Calibration
from orchestrator.index.coverage import smallest
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.records.request import MAX_LIMIT
from research.coverage import HINTS, Routed, left_out_maps, route_set, thresholds
from research.sources import SETS

WANTED = (0.8, 0.9, 0.95)
MOST_QUERIES = 300
OPTIONS = Options()
FIGURES = ("ece", "resolved", "precision")


def held_by(queries: Sequence[Routed], thresholds: Sequence[float], wanted: float) -> str:
    """Return the share of queries that have all needed tools, the mean number of tools and their mean tokens.

    Without thresholds the ten best tools are taken.
    """
    rows = []
    for query in queries:
        size = 10
        if thresholds:
            size = smallest(query.scores, wanted, "both", most=MAX_LIMIT, thresholds={"both": thresholds}).count
        rows.append((sum(query.needed[:size]) == query.gold, len(query.scores[:size]), sum(query.tokens[:size])))
    share, tools, tokens = np.mean(rows, axis=0)
    return f"{share:.3f}, {tools:.1f}, {tokens:,.0f}"


def coverage_table(routed: Mapping[str, Sequence[Routed]]) -> str:
    """Return what each set's queries get with thresholds of the other sets."""
    rows = {}
    for name, queries in routed.items():
        others = thresholds({other: own for other, own in routed.items() if other != name})
        rows[name] = [held_by(queries, (), 0), *(held_by(queries, others, wanted) for wanted in WANTED)]
    return table(("10 tools", *(f"coverage {wanted:g}" for wanted in WANTED)), rows)


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
    routed = {
        name: asyncio.run(route_set(folder, maps[name], embedder, HINTS["both"])) for name, folder in folders.items()
    }
    rows = {name: asyncio.run(fits_of(folder, maps[name])) for name, folder in folders.items()}
    columns = [f"{way}{name}" for name in FIGURES for way in ("", "fitted: ")]
    mean = [
        float(np.mean([value for value in column if value is not None])) for column in zip(*rows.values(), strict=True)
    ]
    pages = {"coverage": coverage_table(routed), "calibration": table(columns, {**rows, "**mean**": mean})}
    for page, text in pages.items():
        print(text, end="\n\n")
        if given.write:
            write(given.write / f"{page}.md", text)


if __name__ == "__main__":
    main()
