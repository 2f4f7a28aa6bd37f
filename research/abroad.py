"""Measures the confidence in other languages: `python -m research.abroad --data ../shared`.

The tasks are toolroute's own in ten languages (written/abroad.jsonl), among all tools of the servers in each file of
tasks. Each language is measured with a confidence that was fitted without it. The extra `languages`
is off; `research.multilingual` measures it. `--folder` measures your labelled queries with the shipped maps: one
subfolder for each language, in the form of `toolroute eval`. `research.promises` writes the table.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality import table
from orchestrator import Calibration, Decision, Options, Router
from orchestrator.evaluate import metrics
from orchestrator.evaluate.runner import Query, QuerySet, answer_all, read_set
from orchestrator.index.calibration import shipped
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.pipeline.selection.explain import FOREIGN
from research.confidence import (
    Collection,
    collect_all,
    confidence_of,
    confidence_tops,
    data_parser,
    maps_without,
    sets_of,
)
from research.tasks import Tasks, abroad, tasks

MOST_QUERIES, SMALL = 1_500, 40
COLUMNS = (
    "tasks",
    "recall@5",
    "right",
    "confidence",
    "ece",
    "0.7 and above",
    "right of these",
    "warned",
)
Answered = list[tuple[Query, Decision]]


def without_encoder(maps: Calibration) -> Calibration:
    """Return the maps with which the extra `languages` is not used."""
    return replace(maps, languages=replace(maps.languages, embedder=""))


async def answered(one: Tasks, records: Sequence[dict[str, Any]], maps: Calibration) -> Answered:
    queries = [
        Query(id=str(n), text=r["query"], relevant=frozenset(r["relevant"]))
        for n, r in enumerate(records)
    ]
    alone = without_encoder(maps)
    async with Router(one.catalogue, options=Options(), calibration=alone) as router:
        return [(answer.query, answer.decision) for answer in await answer_all(router, queries)]


def figures(found: Answered) -> list[object]:
    """Return COLUMNS."""
    ranked = [[match.tool.key for match in decision.matches] for _, decision in found]
    right = np.array(
        [
            metrics.hit(order, query.relevant)
            for order, (query, _) in zip(ranked, found, strict=True)
        ]
    )
    five = [
        metrics.recall(order, query.relevant, 5)
        for order, (query, _) in zip(ranked, found, strict=True)
    ]
    sure = np.array([decision.confidence for _, decision in found])
    worth = metrics.confidence(sure, right, gate=Options().gate)
    warned = float(np.mean([_warns(decision) for _, decision in found]))
    own = [
        float(np.mean(five)),
        float(right.mean()),
        float(sure.mean()),
        worth["ece"],
        worth["resolved"],
    ]
    return [len(found), *own, "-" if worth["precision"] is None else worth["precision"], warned]


def _warns(decision: Decision) -> bool:
    return any(warning.startswith(FOREIGN) for warning in decision.warnings)


def by_language(data: Path, collection: Collection) -> dict[str, Answered]:
    """Return the answers language by language."""
    files, found = tasks(data), dict[str, Answered]()
    maps = maps_without(collection)
    read = {own.name: confidence_tops(maps, own) for own in sets_of(collection)}
    for own in collection["abroad"]:
        others = [top for name, top in read.items() if name != own.name]
        maps = replace(maps, confidence=confidence_of(others))
        name = own.name.removeprefix("tasks in ")
        asked = [(one, records) for one in files if (records := abroad(one).get(name))]
        found[name] = [
            pair for one, records in asked for pair in asyncio.run(answered(one, records, maps))
        ]
    return found


async def of_set(found: QuerySet) -> Answered:
    async with Router(found.catalogue, options=Options(), calibration=shipped()) as router:
        return [
            (answer.query, answer.decision) for answer in await answer_all(router, found.queries)
        ]


def languages(found: Mapping[str, Answered]) -> str:
    """Return the table of the languages and of all together."""
    pooled = [pair for own in found.values() for pair in own]
    return table(
        COLUMNS,
        {**{name: figures(own) for name, own in found.items()}, "**together**": figures(pooled)},
    )


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument(
        "--folder", type=Path, help="labelled queries in place of our own, a subfolder a language"
    )
    given = parser.parse_args()
    if given.folder is None:
        collection = collect_all(given.data, given.vendors, embedder_for(Options()))
        print(languages(by_language(given.data, collection)))
    else:
        print(
            languages(
                {
                    path.name: asyncio.run(of_set(read_set(path)))
                    for path in sorted(given.folder.iterdir())
                }
            )
        )


if __name__ == "__main__":
    main()
