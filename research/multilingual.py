"""Fits the maps for other languages, `data/languages.json`: `python -m research.multilingual --data ../shared`.

It needs the extra `languages`. The tasks are those in ten languages over English tools (`research.tasks.abroad`), and
the Korean development set over Korean tools. `--noticed` prints the share of tasks of each set that are noticed as
another language. `--left-out` prints recall and calibration of each language with maps that were fitted without it.
`--cost` prints the processor time and the memory of routes over the sample catalogue.
"""

import argparse
import json
import random
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality import table
from orchestrator import Calibration, Catalogue, Embedder, Options, Router
from orchestrator.evaluate import metrics
from orchestrator.index import language
from orchestrator.index.calibration import LogisticMap, language_maps, shipped
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.index.embedders.embedding import contrast_of, no_tool_of
from orchestrator.index.embedders.language_encoder import language_encoder
from orchestrator.index.features import SECOND, Rows
from orchestrator.index.index import Index
from orchestrator.index.text import corrections
from orchestrator.pipeline.clauses import masked
from orchestrator.pipeline.scoring import Search
from orchestrator.pipeline.understand import understand
from research.confidence import fit
from research.examples import sampled
from research.sources import FURTHER, KOREAN, SETS
from research.tasks import abroad, tasks

W = 1.6
"""The weight of the second encoder's z against the log-odds without it. `--weights` compares others."""
WEIGHTS = (0.0, 0.8, 1.2, 1.6, 2.0, 2.6)
SMALL = (2, 40)
"""The sizes of the small catalogues. Each task is asked over one."""
REMOVED = 1.0
"""How much a task without its tools weighs against the real one, for the confidence."""
CHANCES = ("log_odds", *SECOND)
Record = Mapping[str, Any]
Samples = Mapping[str, Sequence["Sample"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One task over one catalogue.

    Attributes:
        chances: The candidates' probabilities without the second encoder.
        second: Their features of the second encoder.
        relevant: Which of them are right.
        gold: The number of right tools, 0 if they were taken out of the catalogue.
        query: The features of the query.
        small: The catalogue is a small part of the set's.
    """

    chances: Rows
    second: Rows
    relevant: Rows
    gold: int
    query: list[float]
    small: bool = False


def ungauged() -> Calibration:
    """Return the shipped maps without an effect of the second encoder."""
    weights = dict.fromkeys(CHANCES, 0.0) | {"log_odds": 1.0}
    chances = LogisticMap.from_json({"weights": weights, "bias": 0.0})
    return replace(shipped(), languages=replace(language_maps(), chances=chances))


def collected(data: Path, embedder: Embedder) -> Samples:
    """Return the samples by language, and those of the Korean set."""
    samples: dict[str, list[Sample]] = {}
    korean = data / "bench" / KOREAN
    samples[KOREAN] = _samples(Index(Catalogue.read(korean)), sampled(korean)[::2], embedder)
    for one in tasks(data):
        index = Index(one.catalogue)
        for name, records in abroad(one).items():
            samples.setdefault(name, []).extend(_samples(index, records, embedder))
    return samples


def _samples(index: Index, records: Sequence[Record], embedder: Embedder) -> list[Sample]:
    draw = random.Random(len(records))
    catalogue = index.catalogue
    samples = []
    for record in records:
        wanted = set(record["relevant"])
        samples.append(_sample(index, record["query"], wanted, embedder))
        samples.append(_sample(index, record["query"], wanted, embedder, absent=True))
        others = draw.sample(catalogue.tools, min(draw.randint(*SMALL), len(catalogue)))
        tools = {tool.key: tool for tool in others}
        tools |= {key: catalogue[key] for key in wanted}
        small = Index(Catalogue(tools.values()))
        small.read_second = lambda: vectors_of(index)
        for absent in (False, True):
            sample = _sample(small, record["query"], wanted, embedder, absent=absent)
            samples.append(replace(sample, small=True))
    return samples


def vectors_of(index: Index) -> dict[str, Any]:
    """Return the second encoder's vectors of an index by hash."""
    return dict(zip(index.documents.hashes, index.second(language_encoder()).vectors, strict=True))


def _sample(
    index: Index, query: str, wanted: set[str], embedder: Embedder, *, absent: bool = False
) -> Sample:
    task = understand(query, stems=index.keyword.terms, actions=index.keyword.actions)
    allowed = None
    if absent:
        allowed = np.array([key not in wanted for key in index.keys], np.bool_)
    search = Search(index=index, understood=task, calibration=ungauged(), allowed=allowed)
    index.second(language_encoder())
    scores = search.by_meaning(
        index.semantic(embedder),
        embedder.embed(task.texts),
        no_tool_of(embedder),
        contrast_of(embedder),
        index.second_cosines(language_encoder().embed(task.texts)),
    ).of_task
    keys = [index.keys[position] for position in scores.positions.tolist()]
    return Sample(
        chances=scores.chances,
        second=scores.second,
        relevant=np.isin(keys, list(wanted)),
        gold=0 if absent else len(wanted),
        query=scores.query,
    )


def fitted_chances(samples: Samples, weight: float = W) -> LogisticMap:
    """Return the map of a tool's probability: slope and bias of the log-odds plus the weighted z, and of the cosine."""
    inputs, target, weights = [], [], []
    for of_set in samples.values():
        for sample in of_set:
            if not sample.gold or not len(sample.chances):
                continue
            inputs.append(_inputs(sample, weight))
            target.append(sample.relevant.astype(np.float64))
            weights.append(np.full(len(sample.chances), 1 / len(of_set)))
    (slope, of_cosine), bias = fit(
        np.vstack(inputs), np.concatenate(target), np.concatenate(weights)
    )
    values = np.array([slope, slope * weight, of_cosine])
    return LogisticMap(features=CHANCES, weights=values, bias=bias)


def _inputs(sample: Sample, weight: float) -> Rows:
    odds = language.log_odds(sample.chances, 1e-5)
    return np.column_stack([odds + weight * sample.second[:, 0], sample.second[:, 1]])


def fitted_confidence(samples: Samples, chances: LogisticMap) -> LogisticMap:
    """Return the map of the best tool's probability to be right. It falls if the right tools are missing."""
    inputs, target, weights = [], [], []
    for of_set in samples.values():
        for sample in of_set:
            if not len(sample.chances):
                continue
            inputs.append(top(sample, chances))
            target.append(float(is_right(sample, chances)))
            weights.append((1.0 if sample.gold else REMOVED) / len(of_set))
    rows_, right, weight = np.array(inputs), np.array(target), np.array(weights)
    values, bias = fit(rows_, right, weight)
    # Slope and bias again on real tasks only, because the confidence is about them.
    real = np.array(
        [
            bool(sample.gold)
            for of_set in samples.values()
            for sample in of_set
            if len(sample.chances)
        ]
    )
    (slope,), shift = fit((rows_[real] @ values + bias)[:, None], right[real], weight[real])
    return LogisticMap(features=language.TOP, weights=values * slope, bias=bias * slope + shift)


def with_second(sample: Sample, chances: LogisticMap) -> Rows:
    return chances(np.column_stack([language.log_odds(sample.chances, 1e-5), sample.second]))


def is_right(sample: Sample, chances: LogisticMap) -> bool:
    return bool(sample.gold and sample.relevant[np.argmax(with_second(sample, chances))])


def top(sample: Sample, chances: LogisticMap) -> list[float]:
    return language.top_features(with_second(sample, chances), sample.second, sample.query)


def fitted_other(data: Path) -> LogisticMap:
    """Return the map that notices another language: from the English sets, and the tasks in other languages."""
    english = {name: _evidence_of_set(data / "bench" / name) for name in (*SETS, *FURTHER)}
    others = {KOREAN: _evidence_of_set(data / "bench" / KOREAN)}
    for name, queries in _abroad(data).items():
        others[name] = [_evidence(query, index) for query, index in queries]
    inputs, target, weights = [], [], []
    for is_other, sets in ((0.0, english), (1.0, others)):
        for of_set in sets.values():
            inputs += of_set
            target += [is_other] * len(of_set)
            weights += [1 / len(of_set) / len(sets)] * len(of_set)
    values, bias = fit(np.array(inputs), np.array(target), np.array(weights))
    return LogisticMap(features=language.EVIDENCE, weights=values, bias=bias)


def _evidence_of_set(folder: Path) -> list[list[float]]:
    index = Index(Catalogue.read(folder))
    return [_evidence(record["query"], index) for record in sampled(folder)]


def _evidence(query: str, index: Index) -> list[float]:
    unquoted = masked(query)
    return language.evidence(
        unquoted, index.keyword.terms, corrections(unquoted.split(), index.keyword.terms)
    )


def _abroad(data: Path) -> dict[str, list[tuple[str, Index]]]:
    """Return each language's tasks, each with the index of its tools."""
    queries: dict[str, list[tuple[str, Index]]] = {}
    for one in tasks(data):
        index = Index(one.catalogue)
        for name, records in abroad(one).items():
            queries.setdefault(name, []).extend((record["query"], index) for record in records)
    return queries


def noticed(data: Path) -> str:
    """Return the table of the tasks that are noticed as another language, set by set."""
    counts: dict[str, list[object]] = {}
    for name in (*SETS, *FURTHER, KOREAN):
        index = Index(Catalogue.read(data / "bench" / name))
        counts[name] = _noticed([(r["query"], index) for r in sampled(data / "bench" / name)])
    counts |= {name: _noticed(queries) for name, queries in _abroad(data).items()}
    return table(("tasks", "noticed"), counts)


def _noticed(queries: Sequence[tuple[str, Index]]) -> list[object]:
    found = [
        understand(query, stems=index.keyword.terms, actions=index.keyword.actions).other_language
        for query, index in queries
    ]
    return [len(found), sum(found)]


COLUMNS = ("recall@5", "@10", "right", "ece", "0.7 and above", "right of these")


def left_out(samples: Samples) -> str:
    """Return the table of each language with maps that were fitted without it, and without the encoder."""
    lines: dict[str, list[object]] = {}
    for name, of_set in samples.items():
        others = {other: found for other, found in samples.items() if other != name}
        chances = fitted_chances(others)
        confidence = fitted_confidence(others, chances)
        real = real_tasks(of_set)
        lines[name] = [
            *_found(real, alone()),
            *_found(real, chances),
            *_sure(real, chances, confidence),
        ]
    head = ("alone: recall@5", "@10", "right", "with: recall@5", *COLUMNS[1:])
    return table(head, lines)


def real_tasks(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples over all tools, with the right ones."""
    return [sample for sample in samples if sample.gold and not sample.small]


def alone() -> LogisticMap:
    return ungauged().languages.chances


def _found(samples: Sequence[Sample], chances: LogisticMap) -> list[object]:
    """Return recall@5, recall@10 and hit@1."""
    figures = []
    for sample in samples:
        order = np.argsort(-with_second(sample, chances), kind="stable")
        relevant = sample.relevant[order]
        five, ten = relevant[:5].sum(), relevant[:10].sum()
        figures.append((five / sample.gold, ten / sample.gold, relevant[:1].sum()))
    return [float(mean) for mean in np.mean(figures, axis=0)]


def _sure(samples: Sequence[Sample], chances: LogisticMap, confidence: LogisticMap) -> list[object]:
    """Return the calibration error, the share of confidences of .7 and more, and the share of these that are right."""
    sure = np.array([language.limited(confidence, top(sample, chances)) for sample in samples])
    right = np.array([is_right(sample, chances) for sample in samples])
    worth = metrics.confidence(sure, right, gate=Options().gate)
    precision = worth["precision"]
    return [worth["ece"], worth["resolved"], "-" if precision is None else precision]


ENGLISH = "give the customer who paid twice her money back"
SPANISH = "devuelve el dinero al cliente que pagó dos veces"
ROUTES = 200


def cost() -> str:
    """Return the table of the first route and of later ones, in one process: English ones come first."""
    lines: dict[str, list[object]] = {}
    for name, options, task in (
        ("English", Options(), ENGLISH),
        ("Spanish, without the encoder", Options(languages="off"), SPANISH),
        ("Spanish, with the encoder", Options(), SPANISH),
    ):
        with Router("examples/tools.jsonl", options=options) as router:
            router.route_sync(ENGLISH)
            before = _memory_mb()
            started = time.process_time()
            router.route_sync(task)
            first = time.process_time() - started
            started = time.process_time()
            for _ in range(ROUTES):
                router.route_sync(task)
            later = (time.process_time() - started) / ROUTES
        lines[name] = [f"{1000 * first:.0f}", f"{1000 * later:.1f}", f"{_memory_mb() - before:.0f}"]
    return table(("first route, CPU ms", "later routes, CPU ms", "MB more"), lines)


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _record(fitted: LogisticMap) -> dict[str, object]:
    pairs = zip(fitted.features, fitted.weights.tolist(), strict=True)
    return {
        "weights": {name: round(value, 5) for name, value in pairs},
        "bias": round(fitted.bias, 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--out", type=Path, default=Path("orchestrator/data/languages.json"))
    parser.add_argument("--noticed", action="store_true", help="print the tasks that are noticed")
    parser.add_argument("--cost", action="store_true", help="print the cost of routes")
    parser.add_argument("--left-out", action="store_true", help="print the table by language")
    parser.add_argument(
        "--weights", action="store_true", help="compare WEIGHTS by recall and hit@1"
    )
    arguments = parser.parse_args()
    if arguments.cost:
        print(cost())
        return
    if arguments.noticed:
        print(noticed(arguments.data))
        return
    embedder = embedder_for(Options())
    samples = collected(arguments.data, embedder)
    if arguments.left_out:
        print(left_out(samples))
        return
    if arguments.weights:
        print(_weights(samples))
        return
    chances = fitted_chances(samples)
    maps = {
        "embedder": embedder.id,
        "other": _record(fitted_other(arguments.data)),
        "chances": _record(chances),
        "confidence": _record(fitted_confidence(samples, chances)),
    }
    arguments.out.write_text(json.dumps(maps, indent=1) + "\n", encoding="utf-8")


def _weights(samples: Samples) -> str:
    lines = {}
    for weight in WEIGHTS:
        chances = fitted_chances(samples, weight)
        figures = [_found(real_tasks(of_set), chances) for of_set in samples.values()]
        lines[str(weight)] = [float(mean) for mean in np.mean(figures, axis=0)]
    return table(("recall@5", "@10", "right"), lines)


if __name__ == "__main__":
    main()
