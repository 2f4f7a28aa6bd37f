"""Tasks of our own over real servers, each file judged with maps fitted on all other queries."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.judging import WAYS, Judged, judge
from benchmarks.targets import claims_of
from orchestrator.index.calibration import from_json
from research.confidence import fit_all
from research.examples import Collected
from research.tasks import tasks

KINDS = ("story", "steps", "everyday", "plain")


def judge_all(data: Path, sets: Sequence[Collected], own: Sequence[Collected]) -> dict[str, list[Judged]]:
    """By kind of task. sets: what the maps are fitted on besides; own: what was collected of the files."""
    judged: dict[str, list[Judged]] = defaultdict(list)
    for place, (file, collected) in enumerate(zip(tasks(data), own, strict=True)):
        maps = from_json(fit_all([*sets, *own[:place], *own[place + 1 :]]))
        for record, example in zip(file.records, collected.examples, strict=True):
            judged[record["category"]].append(judge(example, maps))
    return judged


def table(judged: Mapping[str, list[Judged]]) -> list[str]:
    """A kind a line: recall at 5 and 10 by way of ranking, how often the first is right, and the mean confidence."""
    lines = [
        f"| kind | tasks | {' | '.join(WAYS)} | right | claimed | ece |",
        f"| --- | ---: |{' --- |' * (len(WAYS) + 3)}",
    ]
    for kind in KINDS:
        rows = judged[kind]
        recalls = " | ".join(
            "{:.3f} / {:.3f}".format(*np.mean([row.recall[way] for row in rows], axis=0)) for way in WAYS
        )
        claims = claims_of(rows)
        claimed = np.mean([row.confidence for row in rows])
        lines.append(f"| {kind} | {len(rows)} | {recalls} | {claims.right:.3f} | {claimed:.3f} | {claims.error:.3f} |")
    return lines
