"""Fits the maps of `data/calibration.json`.

    python -m research.confidence --data ../shared --vendors ../vendors

Each map is a logistic regression, fitted by Newton's method with a small ridge. Every set of queries has the same
weight, so that the largest does not dominate. Small catalogues and toolroute's own tasks have a lower weight.
`--leave-out SET` fits on the other sets.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from orchestrator import Calibration, Embedder, Options
from orchestrator.index.calibration import (
    CONFIDENCE,
    GATE,
    LogisticMap,
    blend,
    from_json,
    top_features,
)
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.index.features import KEYWORD, QUERY, SEMANTIC
from orchestrator.pipeline.sentences import ORDER, best_candidates, order_features, ordered
from research.examples import (
    Collected,
    Example,
    Part,
    Rows,
    collect,
    collect_abroad,
    collect_further,
    collect_korean,
    collect_nothing,
    collect_small,
    collect_tasks,
)
from research.sources import FURTHER, KOREAN, SETS

REMOVED = 0.02
"""How much a query without its relevant tools weighs against the real one; one that no tool answers weighs in full
(docs/decisions/confidence.md)."""
RIDGE = 1.0
TERMS = QUERY.index("log_terms")
WRONG_OPENING = 3.0
"""How much a query with a wrong best tool weighs where the gate is fitted: an opened gate leaves out the semantic leg,
and a closed one costs a millisecond (docs/decisions/confidence.md)."""


def fit(rows: Rows, target: Rows, weight: Rows) -> tuple[Rows, float]:
    """Return the weights and the bias of a logistic regression. The columns are standardized for the fit, and the
    weights are for raw columns.

    Args:
        rows: The features, shape [rows, columns].
        target: 1 for right rows and 0 for wrong ones, shape [rows].
        weight: The weight of each row, shape [rows].
    """
    mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    inputs = np.hstack([(rows - mean) / scale, np.ones((len(rows), 1))])
    weight = weight / weight.mean()
    ridge = RIDGE * np.eye(inputs.shape[1])
    ridge[-1, -1] = 0
    solution = np.zeros(inputs.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ solution, -30, 30)))
        slope = inputs.T @ (weight * (target - chance)) - ridge @ solution
        curve = (inputs * (weight * chance * (1 - chance))[:, None]).T @ inputs + ridge
        step = np.linalg.solve(curve, slope)
        solution += step
        if np.abs(step).max() < 1e-7:
            break
    weights = solution[:-1] / scale
    return weights, float(solution[-1] - mean @ weights)


def _stack(sets: Sequence[Collected], part: str) -> tuple[Rows, Rows, Rows]:
    rows, target, weight = [], [], []
    for collected in sets:
        for example in collected.examples:
            columns = {
                "keyword": [example.keyword],
                "semantic": [example.semantic],
                "merged": [example.keyword, example.semantic],
            }[part]
            kept = example.overlap if part == "keyword" else np.ones(len(example.overlap), np.bool_)
            if not kept.any() or not example.gold:
                continue
            query = np.broadcast_to(example.query[: len(QUERY)], (int(kept.sum()), len(QUERY)))
            rows.append(np.hstack([*(column[kept] for column in columns), query]))
            target.append(example.relevant[kept].astype(np.float64))
            weight.append(np.full(int(kept.sum()), collected.weight / len(collected.examples)))
    return np.vstack(rows), np.concatenate(target), np.concatenate(weight)


def fit_all(sets: Sequence[Collected]) -> dict[str, dict[str, object]]:
    """All six maps in their JSON form."""
    names = {
        "keyword": KEYWORD + QUERY,
        "semantic": SEMANTIC + QUERY,
        "merged": KEYWORD + SEMANTIC + QUERY,
    }
    maps = {part: _record(columns, *fit(*_stack(sets, part))) for part, columns in names.items()}
    legs = {part: LogisticMap.from_json(maps[part]) for part in names}
    maps["order"] = _record(ORDER, *_fit_order(sets, legs))
    legs["order"] = LogisticMap.from_json(maps["order"])
    gate = _fit_top(sets, partial(top_by_keyword, legs), wrong=WRONG_OPENING)
    maps["gate"] = _record(GATE, *gate)
    maps["confidence"] = _record(CONFIDENCE, *_fit_top(sets, partial(top_by_both, legs)))
    return maps


Maps = Mapping[str, LogisticMap]


def _by_words(maps: Maps, example: Example | Part) -> Rows:
    """Return the candidates' probabilities by the keyword leg, 0 without a common word."""
    return maps["keyword"](_with_query(example.keyword, example)) * example.overlap


def by_both(maps: Maps, example: Example | Part) -> Rows:
    """Return the candidates' probabilities by both legs, blended."""
    semantic = maps["semantic"](_with_query(example.semantic, example))
    rows = np.hstack([example.keyword, example.semantic])
    merged = maps["merged"](_with_query(rows, example))
    return blend(_by_words(maps, example), semantic, merged)


def _ordered(maps: Maps, chances: Rows, example: Example) -> Rows:
    """Return the probabilities of the whole query's candidates after their sentences are read."""
    best = best_candidates(chances)
    return ordered(maps["order"], chances, best, example.read[best], example.query[TERMS])


def _fit_order(sets: Sequence[Collected], legs: Maps) -> tuple[Rows, float]:
    """Return a map that orders the best candidates of a query.

    The direction is fitted to whole sets, each query as a choice among its best candidates. Then slope and bias are
    fitted to the candidates, so that the result is a probability.
    """
    rows, target, weight, query = [], [], [], []
    for collected in sets:
        for example in collected.examples:
            chances = by_both(legs, example)
            best = best_candidates(chances)
            relevant = example.relevant[best]
            # With small catalogues and long tasks, hit@1 falls by .003 on requests that are not fitted to.
            if collected.weight < 1 or not relevant.any():
                continue
            rows.append(order_features(chances[best], example.read[best], example.query[TERMS]))
            target.append(relevant.astype(np.float64))
            weight.append(np.full(len(best), collected.weight / len(collected.examples)))
            query.append(np.full(len(best), len(query)))
    inputs, right, weights = np.vstack(rows), np.concatenate(target), np.concatenate(weight)
    direction = _fit_choice(inputs, right, weights, np.concatenate(query))
    (slope,), bias = fit((inputs @ direction)[:, None], right, weights)
    return direction * slope, bias


def _fit_choice(rows: Rows, target: Rows, weight: Rows, query: Rows) -> Rows:
    """Return the weights of a conditional logit: each query chooses one of its candidates.

    Args:
        rows: The features, shape [rows, columns].
        target: 1 for right rows and 0 for wrong ones, shape [rows].
        weight: The weight of each row's query, shape [rows].
        query: The number of each row's query, ascending, shape [rows].
    """
    scale = rows.std(axis=0) + 1e-9
    inputs = rows / scale
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    weight = weight / weight.mean()
    share = target / np.add.reduceat(target, starts)[query]
    solution = np.zeros(inputs.shape[1])
    for _ in range(50):
        odds = inputs @ solution
        chance = np.exp(odds - np.maximum.reduceat(odds, starts)[query])
        chance /= np.add.reduceat(chance, starts)[query]
        slope = inputs.T @ (weight * (share - chance)) - RIDGE * solution
        mean = np.add.reduceat(inputs * chance[:, None], starts)
        spread = (inputs * (weight * chance)[:, None]).T @ inputs
        curve = spread - (mean * weight[starts, None]).T @ mean + RIDGE * np.eye(len(solution))
        step = np.linalg.solve(curve, slope)
        solution += step
        if np.abs(step).max() < 1e-7:
            break
    return solution / scale


Top = tuple[list[float], bool] | None
"""What the gate or the confidence reads of a query's best candidate, and whether that is relevant; None where nothing
was found."""


def top_by_keyword(maps: Maps, example: Example) -> Top:
    """As the keyword leg alone has it: the candidates that share a word with the query."""
    found = example.overlap
    if not found.any():
        return None
    chances = _ordered(maps, _by_words(maps, example), example)[found]
    features = top_features(chances, example.keyword[found], example.query)
    return features, bool(example.relevant[found][np.argmax(chances)])


def top_by_both(maps: Maps, example: Example) -> Top:
    """As both legs have it."""
    if not len(example.relevant):
        return None
    chances = _ordered(maps, by_both(maps, example), example)
    rows = np.hstack([example.keyword, example.semantic])
    top = top_features(chances, rows, example.query, for_parts(maps, example), example.unfamiliar)
    return top, bool(example.relevant[np.argmax(chances)])


def for_parts(maps: Maps, example: Example) -> Rows:
    """Each candidate's chance for each part alone, by both legs [parts, candidates]."""
    return example.of_parts([by_both(maps, part) for part in example.parts])


def _with_query(rows: Rows, example: Example | Part) -> Rows:
    return np.hstack([rows, np.broadcast_to(example.query[: len(QUERY)], (len(rows), len(QUERY)))])


Tops = tuple[Rows, Rows, Rows]
"""One row a query: the features of its best candidate, whether that is relevant, and what the query weighs."""


def _fit_top(
    sets: Sequence[Collected], top: Callable[[Example], Top], *, wrong: float = 1.0
) -> tuple[Rows, float]:
    """As `_fit_tops`. A wrong best candidate weighs `wrong` times as much as a right one."""
    rows, target, weight = _tops(sets, top, removed=False)
    weight = np.where(target > 0, weight, wrong * weight)
    return _fit_tops((rows, target, weight), _tops(sets, top, removed=True))


def _fit_tops(real: Tops, removed: Tops) -> tuple[Rows, float]:
    """Return a map of the best candidate's probability to be right, which falls if the right tools are missing.

    Each query is used twice, the second time without its relevant tools and with nothing right. Then slope and bias are
    fitted again on the real queries only, because the confidence is about them.
    """
    rows, target, weight = real
    none, never, light = removed
    weights, bias = fit(
        np.vstack([rows, none]), np.concatenate([target, never]), np.concatenate([weight, light])
    )
    (slope,), shift = fit((rows @ weights + bias)[:, None], target, weight)
    return weights * slope, bias * slope + shift


def confidence_tops(maps: Calibration, own: Collected) -> tuple[Tops, Tops]:
    """Return the data for fitting the confidence on one set with these maps: with and without the right tools."""
    names = ("keyword", "semantic", "merged", "order")
    top = partial(top_by_both, {name: getattr(maps, name) for name in names})
    return _tops([own], top, removed=False), _tops([own], top, removed=True)


def _joined(several: Sequence[Tops]) -> Tops:
    # A set of requests that nothing fits has no rows with a right tool.
    rows, target, weight = zip(*(tops for tops in several if len(tops[0])), strict=True)
    return np.concatenate(rows), np.concatenate(target), np.concatenate(weight)


def confidence_of(sets: Sequence[tuple[Tops, Tops]]) -> LogisticMap:
    """The confidence fitted to these sets."""
    weights, bias = _fit_tops(
        _joined([real for real, _ in sets]), _joined([removed for _, removed in sets])
    )
    return LogisticMap(features=CONFIDENCE, weights=weights, bias=bias)


def _tops(sets: Sequence[Collected], top: Callable[[Example], Top], *, removed: bool) -> Tops:
    """Return the rows of these sets.

    Args:
        removed: Rows of queries without their relevant tools, and of queries that no tool answers.
    """
    rows, target, weight = [], [], []
    for collected in sets:
        for example in collected.examples:
            found = top((example.absent or example) if removed else example)
            if found is None or not (example.gold or removed):
                continue
            rows.append(found[0])
            target.append(float(found[1]))
            counts = REMOVED if removed and example.gold else 1.0
            weight.append(counts * collected.claims / len(collected.examples))
    return np.array(rows), np.array(target), np.array(weight)


def _record(columns: Iterable[str], weights: Rows, bias: float) -> dict[str, object]:
    rounded = {name: round(float(value), 5) for name, value in zip(columns, weights, strict=True)}
    return {"weights": rounded, "bias": round(bias, 5)}


Collection = Mapping[str, Sequence[Collected]]
"""The collected sets by the name of their source, which is left out as a whole."""


def collect_all(data: Path, vendors: Path, embedder: Embedder) -> Collection:
    """Return everything to which the maps are fitted.

    Args:
        data: The folder that holds bench/.
        vendors: The folder that `research.vendors` made.
        embedder: The embedder.
    """
    bench = data / "bench"
    collection: dict[str, list[Collected]] = {}
    for name in SETS:
        collection[name] = [collect(bench / name, embedder), collect_small(bench / name, embedder)]
    for name in FURTHER:
        further = collect_further(bench / name, embedder, vendors=name == "vendor_dev")
        collection[name] = [further, collect_nothing(bench / name, embedder)]
    collection[KOREAN] = [
        collect_korean(bench / KOREAN, embedder),
        collect_nothing(bench / KOREAN, embedder),
    ]
    collection["vendors"] = [collect_further(vendors / "fitted", embedder, vendors=True)]
    collection["tasks"] = collect_tasks(data, embedder)
    collection["abroad"] = collect_abroad(data, embedder)
    return collection


def sets_of(collection: Collection, *left_out: str) -> list[Collected]:
    """Return the sets of all sources but these."""
    kept = [several for name, several in collection.items() if name not in left_out]
    return list(chain.from_iterable(kept))


def maps_without(collection: Collection, *left_out: str) -> Calibration:
    """Return the maps that the other sources give."""
    return from_json(fit_all(sets_of(collection, *left_out)))


def left_out_maps(collection: Collection) -> dict[str, Calibration]:
    """Return for each set the maps that the other sources give."""
    return {name: maps_without(collection, name) for name in (*SETS, *FURTHER)}


def data_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every command that fits the maps."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument(
        "--vendors",
        type=Path,
        required=True,
        help="the folder that `python -m research.vendors` made",
    )
    return parser


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("orchestrator/data/calibration.json"))
    parser.add_argument("--leave-out", choices=(*SETS, *FURTHER))
    arguments = parser.parse_args()
    embedder = embedder_for(Options())
    collection = collect_all(arguments.data, arguments.vendors, embedder)
    sets = sets_of(collection, arguments.leave_out)
    maps = {
        **fit_all(sets),
        "about": {"embedder": embedder.id, "sets": [collected.name for collected in sets]},
    }
    arguments.out.write_text(json.dumps(maps, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
