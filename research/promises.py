"""What coverage sets and fits keep on sets that they have not seen: `python -m research.promises --data ../shared`.

Each development set is one's own catalogue in turn, with maps and thresholds of the others. Writes the tables of
docs/coverage.md and docs/calibration.md where `--write` names the folder of the pages.
"""

import argparse
import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.page import write
from benchmarks.quality import table
from orchestrator.evaluate.findability import examine
from orchestrator.evaluate.fit import cross_validated, fit_made, try_all, worth
from orchestrator.evaluate.runner import read_set
from orchestrator.index.calibration import Calibration
from orchestrator.index.coverage import Coverage
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.records.request import MAX_LIMIT
from research.coverage import HINTS, Routed, left_out_maps, route_set, thresholds
from research.sources import SETS

WANTED = (0.8, 0.9, 0.95)
MOST_QUERIES = 300
OPTIONS = Options()


def held_by(queries: Sequence[Routed], coverage: Coverage | None, wanted: float) -> str:
    """Return the share of queries that have all needed tools, the mean number of tools and their mean tokens.

    Without thresholds the ten best tools are taken.
    """
    rows = []
    for query in queries:
        size = 10
        if coverage is not None:
            size = coverage.smallest(query.scores, wanted, "both", most=MAX_LIMIT, everything=False).count
        rows.append((sum(query.needed[:size]) == query.gold, len(query.scores[:size]), sum(query.tokens[:size])))
    share, tools, tokens = np.mean(rows, axis=0)
    return f"{share:.3f}, {tools:.1f}, {tokens:,.0f}"


def coverage_table(routed: Mapping[str, Sequence[Routed]]) -> str:
    """Return what each set's queries get with thresholds of the other sets."""
    rows = {}
    for name, queries in routed.items():
        others = thresholds({other: own for other, own in routed.items() if other != name})
        coverage = Coverage(thresholds={"both": others})
        rows[name] = [held_by(queries, None, 0), *(held_by(queries, coverage, wanted) for wanted in WANTED)]
    return table(("10 tools", *(f"coverage {wanted:g}" for wanted in WANTED)), rows)


async def fits_of(folder: Path, maps: Calibration) -> list[object]:
    """Return error, `none` and refused of the maps as they are, with a floor without labels, and with labels."""
    found = read_set(folder)
    known = [query for query in found.queries if query.relevant and query.relevant <= found.catalogue.positions.keys()]
    queries = random.Random(folder.name).sample(known, min(MOST_QUERIES, len(known)))
    trials = await try_all(found.catalogue, queries, OPTIONS, maps=maps)
    plain, labelled = cross_validated(trials, OPTIONS)
    made = worth([(fit_made((await examine(found.catalogue, OPTIONS, maps=maps))[1], OPTIONS), trials)], OPTIONS)
    return [getattr(one, name) for name in ("ece", "none", "refused") for one in (plain, made, labelled)]


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
    columns = [f"{way}{name}" for name in ("ece", "none", "refused") for way in ("", "made: ", "labelled: ")]
    mean = [float(np.mean(column)) for column in zip(*rows.values(), strict=True)]
    pages = {"coverage": coverage_table(routed), "calibration": table(columns, {**rows, "**mean**": mean})}
    for page, text in pages.items():
        print(text, end="\n\n")
        if given.write:
            write(given.write / f"{page}.md", text)


if __name__ == "__main__":
    main()
