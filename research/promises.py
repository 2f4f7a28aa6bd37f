"""Measures the gain of a fit to one's own queries on sets that the maps have not seen.

    python -m research.promises --data ../shared --vendors ../vendors [--write docs/measured]

Each development set is one's own catalogue in turn, with maps fitted on the others. `--write` rewrites the tables of
docs/measured/calibration.md.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import write
from benchmarks.quality import table
from orchestrator import Calibration, Options
from orchestrator.evaluate.fit import Trial, cross_validated, fitted, held_out, try_all
from orchestrator.evaluate.runner import read_set
from orchestrator.experience.guarantee import LEVELS, guarantees
from orchestrator.index.embedders.by_name import embedder_for
from research.abroad import by_language, languages
from research.confidence import collect_all, data_parser, left_out_maps
from research.sources import SETS

MOST_QUERIES = 300
OWN, DRAWS = 100, 30
OPTIONS = Options()
FIGURES = ("ece", "resolved", "precision")


async def trials_of(folder: Path, maps: Calibration) -> list[Trial]:
    """Return trials of a set's queries whose tools all exist."""
    found = read_set(folder)
    known = [
        query
        for query in found.queries
        if query.relevant and query.relevant <= found.catalogue.positions.keys()
    ]
    queries = random.Random(folder.name).sample(known, min(MOST_QUERIES, len(known)))
    return await try_all(replace(found, queries=tuple(queries)), OPTIONS, maps=maps)


def fits_of(trials: Sequence[Trial]) -> list[object]:
    """Return each figure of the unchanged maps, and of a fit to four fifths of the queries on the remaining fifth."""
    plain, labelled = cross_validated(trials, OPTIONS.gate)
    return [one[name] for name in FIGURES for one in (plain, labelled)]


def kept_promises(trials: Sequence[Trial], level: float) -> list[float]:
    """Return how often OWN queries give a threshold, the share of right answers among other queries that reach it, and
    the share of queries that reach it. All are means over DRAWS draws.
    """
    draw, kept = random.Random(0), []
    for _ in range(DRAWS):
        mixed = draw.sample(list(trials), len(trials))
        (found,) = guarantees(held_out(mixed[:OWN], OPTIONS.gate), [level])
        if found.threshold is not None:
            fit = fitted(mixed[:OWN])
            claims = [trial.under(fit, OPTIONS.gate) for trial in mixed[OWN:]]
            came = [right for confidence, right in claims if confidence >= found.threshold]
            kept.append((float(np.mean(came)), len(came) / len(claims)) if came else (1.0, 0.0))
    return [len(kept) / DRAWS, *np.mean(kept or [(np.nan, np.nan)], axis=0).tolist()]


def means(rows: Mapping[str, Sequence[Any]]) -> list[float]:
    columns = zip(*rows.values(), strict=True)
    return [
        float(np.nanmean([value for value in column if value is not None])) for column in columns
    ]


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument(
        "--sets", nargs="+", choices=SETS, default=SETS, help="only these sets: at least two"
    )
    parser.add_argument(
        "--write", type=Path, metavar="DOCS", help="rewrite the tables of the pages in this folder"
    )
    given = parser.parse_args()
    collection = collect_all(given.data, given.vendors, embedder_for(OPTIONS))
    maps = left_out_maps(collection)
    folders = {name: given.data / "bench" / name for name in given.sets}
    trials = {name: asyncio.run(trials_of(folder, maps[name])) for name, folder in folders.items()}
    rows = {name: fits_of(own) for name, own in trials.items()}
    columns = [f"{way}{name}" for name in FIGURES for way in ("", "fitted: ")]
    large = {name: own for name, own in trials.items() if len(own) >= 2 * OWN}
    promised = {
        name: [x for level in LEVELS for x in kept_promises(own, level)]
        for name, own in large.items()
    }
    figures = [
        f"{level:.0%}: {name}" for level in LEVELS for name in ("given", "right", "recommended")
    ]
    text = "\n\n".join(
        [
            table(columns, {**rows, "**mean**": means(rows)}),
            f"Thresholds from {OWN} queries, measured on the other queries ({DRAWS} draws for each set):",
            table(figures, {**promised, "**mean**": means(promised)}),
            "Tasks in other languages, with English tools. The confidence was fitted without the language of the row:",
            languages(by_language(given.data, collection)),
        ]
    )
    print(text)
    if given.write:
        write(given.write / "calibration.md", text)


if __name__ == "__main__":
    main()
