"""Routing quality on the development sets, each measured with maps fitted on the others: `make bench`.

Prints, and writes between the marks of docs/quality.md: the targets, recall of each way of ranking beside the peers',
what the confidence is worth, and the floor of `none`. Ways of ranking share the candidates of one run of both legs.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks import no_answer, peer_recall
from benchmarks.judging import WAYS, Judged, judge
from benchmarks.page import write
from benchmarks.peer_recall import PEERS, Recalls
from benchmarks.targets import Claims, claims_of, target_table
from orchestrator.confidence import Calibration, from_json
from orchestrator.embed import embedder_for
from orchestrator.options import Options
from training.confidence import SETS, Collected, collect, collect_small, fit_all, sampled

T = TypeVar("T")
Means = dict[str, tuple[float, float]]
"""A way of ranking to its mean recall at 5 and at 10."""
FLOOR_TITLE = "What each floor does, on queries labelled `needs a tool` or not (the default is bold):"
MOST_RANKED = 300
"""Queries of a set in the table of recall: some peers need a quarter of a second for each."""


def fit_without(place: int, kinds: Sequence[Sequence[Collected]]) -> Calibration:
    """Maps fitted on all sets but one. Each kind (whole, small) has the sets in the same order."""
    return from_json(fit_all([one for sets in kinds for one in (*sets[:place], *sets[place + 1 :])]))


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
    arguments = parser.parse_args()
    embedder = embedder_for(Options())
    folders = [arguments.data / "bench" / name for name in SETS]
    peers = {folder.name: peer_recall.of_all(folder, spaced(sampled(folder)), arguments.keep) for folder in folders}
    kinds = [[way(folder, embedder) for folder in folders] for way in (collect, collect_small)]
    maps = [fit_without(place, kinds) for place in range(len(SETS))]
    judged = {
        one.name: [judge(example, own) for example in one.examples] for one, own in zip(kinds[0], maps, strict=True)
    }
    floors = no_answer.measure(arguments.data, maps[SETS.index(no_answer.CATALOGUE)], Options().floor)
    text = f"{tables(judged, peers)}\n\n{FLOOR_TITLE}\n\n{chr(10).join(floors)}"
    print(text)
    if arguments.write:
        write(arguments.write, text)


if __name__ == "__main__":
    main()
