"""What fits to one's own catalogue are worth: `python -m benchmarks.calibration --data ../shared`.

Each development set is one's own catalogue in turn, with maps fitted on the others. `made` is fitted to queries made
from the set's tools, without its labels, `labelled` to four fifths of its real queries; both are measured on its real
queries, whose right tools are taken out of the search for "absent". Prints, and with `--write` puts the table between
the marks of docs/calibration.md.
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.claims import auc
from benchmarks.page import write
from orchestrator.evaluate.findability import Examination
from orchestrator.evaluate.fitting import Worth, corrected, corrected_absent, cross_validated, fit_made, worth
from orchestrator.evaluate.runner import read_set
from orchestrator.evaluate.trials import Trial, tried
from orchestrator.index.calibration import Calibration
from orchestrator.index.embed import Embedder, embedder_for
from orchestrator.index.fit import Fit
from orchestrator.index.index import Index
from orchestrator.options import Options
from research.coverage import left_out_maps
from research.sources import SETS

MOST_QUERIES = 300
OPTIONS = Options()
COLUMNS = ("right", "auc absent", "ece", "made: ece", "labelled: ece", "none", "made: none", "labelled: none")
COLUMNS_FLOOR = ("made: floor", "refused", "made: refused", "labelled: refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One set: its real queries' trials, the fit without labels, and what each way is worth."""

    real: list[Trial]
    made: Fit
    shipped: Worth
    by_made: Worth
    by_labels: Worth


def measure(folder: Path, maps: Calibration, embedder: Embedder) -> Measured:
    found = read_set(folder)
    index, known = Index(found.catalogue), found.catalogue.positions
    examination = Examination(index=index, maps=maps, embedder=embedder)
    examination.run()
    made = fit_made(examination.all_trials(), OPTIONS, maps=True)
    asked = [query for query in found.queries if query.relevant and query.relevant <= known.keys()]
    asked = random.Random(folder.name).sample(asked, min(MOST_QUERIES, len(asked)))
    real = [
        tried(index, maps, embedder, query.text, [known[key] for key in query.relevant], deep=True) for query in asked
    ]
    shipped, by_labels = cross_validated(real, OPTIONS)
    return Measured(real=real, made=made, shipped=shipped, by_made=worth([(made, real)], OPTIONS), by_labels=by_labels)


def row(found: Measured) -> list[float]:
    none, gate = Fit(), OPTIONS.gate
    there = [corrected(none, trial, gate) for trial in found.real]
    away = [corrected_absent(none, trial, gate) for trial in found.real]
    confidences = np.array([confidence for confidence, _ in there])
    return [
        float(np.mean([right for _, right in there])),
        auc(confidences, np.array(away)),
        *(way.ece for way in (found.shipped, found.by_made, found.by_labels)),
        *(way.none for way in (found.shipped, found.by_made, found.by_labels)),
        found.made.floor or OPTIONS.floor,
        *(way.refused for way in (found.shipped, found.by_made, found.by_labels)),
    ]


def table(rows: dict[str, list[float]]) -> list[str]:
    columns = (*COLUMNS, *COLUMNS_FLOOR)
    lines = [f"| set | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    means = [float(np.mean(column)) for column in zip(*rows.values(), strict=True)]
    for name, values in {**rows, "**mean**": means}.items():
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    return lines


def better(rows: Sequence[list[float]], before: str, after: str, *, lower: bool) -> int:
    """On how many sets one column is better than another."""
    one, other = COLUMNS.index(before), COLUMNS.index(after)
    return sum((row[other] < row[one]) if lower else (row[other] > row[one]) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--write", type=Path, help="rewrite the tables of this Markdown file")
    arguments = parser.parse_args()
    embedder = embedder_for(OPTIONS)
    maps = left_out_maps(arguments.data, embedder)
    rows = {name: row(measure(arguments.data / "bench" / name, maps[name], embedder)) for name in SETS}
    counts = [
        f"{way}: the calibration error is lower on {better(list(rows.values()), 'ece', f'{way}: ece', lower=True)} of "
        f"{len(rows)} sets, `none` higher on {better(list(rows.values()), 'none', f'{way}: none', lower=False)}."
        for way in ("made", "labelled")
    ]
    text = "\n".join([*table(rows), "", *counts])
    print(text)
    if arguments.write:
        write(arguments.write, text)


if __name__ == "__main__":
    main()
