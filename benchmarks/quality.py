"""Routing quality on the development sets, each measured with maps fitted on the others: `make bench`.

Prints, and writes between the marks of docs/quality.md: the targets, recall of each way of ranking beside the peers',
what the confidence is worth, what each lever is worth, and the floor of `none`; pictures go beside the page. Ways of
ranking share the candidates of one run of both legs.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks import no_answer, own_tasks, peer_recall, pictures
from benchmarks.ablation import ablate, ablation_table
from benchmarks.judging import WAYS, Judged, judge
from benchmarks.page import write
from benchmarks.peer_recall import PEERS, Recalls
from benchmarks.targets import Claims, claims_of, target_table
from orchestrator.index.calibration import Calibration, from_json
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from research.confidence import fit_all
from research.examples import Collected, collect, collect_small, collect_tasks, sampled
from research.sources import SETS

T = TypeVar("T")
Means = dict[str, tuple[float, float]]
"""A way of ranking to its mean recall at 5 and at 10."""
LEVER_TITLE = (
    "What each lever is worth: mean recall of the sets with both legs and the learnt merge, and the same with the\n"
    "lever taken out and the maps fitted again. Both are fitted on the sets' queries of this table alone, each set's\n"
    "without its own; `worth` is what is lost without the lever, `pays on` counts the sets whose recall at 10 falls:"
)
TASKS_TITLE = "Tasks of our own over real servers, by kind, recall at 5 / at 10, each file with maps fitted without it:"
FLOOR_TITLE = "What each floor does, on queries labelled `needs a tool` or not (the default is bold):"
MOST_RANKED = 300
"""Queries of a set in the table of recall: some peers need a quarter of a second for each."""


def fit_without(place: int, kinds: Sequence[Sequence[Collected]], own: Sequence[Collected] = ()) -> Calibration:
    """Maps fitted on all sets but one, and on these tasks of our own. Each kind (whole, small) has the sets in the same
    order."""
    return from_json(fit_all([*(one for sets in kinds for one in (*sets[:place], *sets[place + 1 :])), *own]))


def spaced(of_a_set: Sequence[T]) -> Sequence[T]:
    """At most MOST_RANKED, evenly spaced."""
    return of_a_set[:: -(-len(of_a_set) // MOST_RANKED)]


def ranked_means(judged: Mapping[str, list[Judged]], peers: Mapping[str, dict[str, Recalls]]) -> dict[str, Means]:
    """Each set's recalls by way of ranking, the mean over the same queries for all; then the mean of the sets."""
    means: dict[str, Means] = {}
    for name, rows in judged.items():
        found = {**peers[name], **{way: [row.recall[way] for row in spaced(rows)] for way in WAYS}}
        means[name] = {way: _mean(recalls) for way, recalls in found.items()}
    means["**mean**"] = {way: _mean([row[way] for row in list(means.values())]) for way in (*PEERS, *WAYS)}
    return means


def _mean(recalls: Sequence[tuple[float, float]]) -> tuple[float, float]:
    five, ten = np.mean(recalls, axis=0)
    return float(five), float(ten)


def recall_table(means: Mapping[str, Means]) -> list[str]:
    ways = (*PEERS, *WAYS)
    lines = [f"| set | {' | '.join(ways)} |", f"| --- |{' --- |' * len(ways)}"]
    for name, row in means.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[way][0]:.3f} / {row[way][1]:.3f}" for way in ways) + " |")
    return lines


COLUMNS = {
    "right": "right",
    "error": "ece",
    "error_if_perfect": "ece if perfect",
    "settled": "settled",
    "precision": "precision",
    "gate_open": "gate open",
    "area": "area",
    "area_of_oracle": "oracle's",
    "auc": "auc absent",
}


def confidence_table(claims: Mapping[str, Claims]) -> list[str]:
    lines = [f"| set | queries | {' | '.join(COLUMNS.values())} |", f"| --- | ---: |{' --- |' * len(COLUMNS)}"]
    for name, row in claims.items():
        figures = " | ".join(f"{getattr(row, column):.3f}" for column in COLUMNS)
        lines.append(f"| {name} | {row.queries:,} | {figures} |")
    return lines


def tables(judged: Mapping[str, list[Judged]], peers: Mapping[str, dict[str, Recalls]]) -> str:
    """All of them, in Markdown."""
    means = ranked_means(judged, peers)
    claims = {name: claims_of(rows) for name, rows in judged.items()}
    pooled = claims_of([row for rows in judged.values() for row in rows])
    parts = [
        ["What it is held to, and where it stands:"],
        target_table(means["**mean**"], means["**mean**"], claims, pooled),
        ["Recall at 5 / at 10:"],
        recall_table(means),
        ["What the confidence is worth (event: `matches[0]` is relevant):"],
        confidence_table({**claims, "**pooled**": pooled}),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--write", type=Path, help="rewrite the tables of this Markdown file")
    parser.add_argument("--keep", type=Path, help="where the peers' figures are kept for the next time")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="try the command on a few: at least two")
    arguments = parser.parse_args()
    embedder = embedder_for(Options())
    folders = [arguments.data / "bench" / name for name in arguments.sets]
    asked = {folder.name: spaced(sampled(folder)) for folder in folders}
    peers = {folder.name: peer_recall.of_all(folder, asked[folder.name], arguments.keep) for folder in folders}
    kinds = [[way(folder, embedder) for folder in folders] for way in (collect, collect_small)]
    own = collect_tasks(arguments.data, embedder)
    maps = {folder.name: fit_without(place, kinds, own) for place, folder in enumerate(folders)}
    judged = {one.name: [judge(example, maps[one.name]) for example in one.examples] for one in kinds[0]}
    tasks = own_tasks.judge_all(arguments.data, [one for sets in kinds for one in sets], own)
    parts = [tables(judged, peers), TASKS_TITLE, "\n".join(own_tasks.table(tasks))]
    if arguments.write:
        parts.append(pictures.draw_all(arguments.write, arguments.data, judged, maps, embedder))
    fewer = [[replace(one, examples=list(spaced(one.examples))) for one in kinds[0]], kinds[1]]
    levers = ablate(folders, asked, fewer, fit_without, embedder)
    parts += [LEVER_TITLE, "\n".join(ablation_table(levers))]
    if no_answer.CATALOGUE in maps:
        floors = no_answer.measure(arguments.data, maps[no_answer.CATALOGUE], Options().floor)
        parts += [FLOOR_TITLE, "\n".join(floors)]
    text = "\n\n".join(parts)
    print(text)
    if arguments.write:
        write(arguments.write, text)


if __name__ == "__main__":
    main()
