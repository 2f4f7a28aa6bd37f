"""Measures quality, tokens and time of each preset on the development sets, in one process.

Run: python -m benchmarks.pipelines --data FOLDER [SET ...]. It prints the tables of docs/measured/pipelines.md.
"""

import argparse
import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from orchestrator import Options, Router
from orchestrator.evaluate.runner import Answer, QuerySet, answer_all, read_set, report
from orchestrator.pipeline.presets import PRESETS
from research.sources import SETS as DEVELOPMENT_SETS

SETS = (*DEVELOPMENT_SETS, "toollinkos")
MOST = 400
"""Queries of a set, spread over all of it."""
MEASURES = ("recall@5", "recall@10", "hit@1", "ece", "tokens", "ms")
Figures = Mapping[str, float]


async def _answers(found: QuerySet, preset: str) -> tuple[list[Answer], float]:
    """Return the answers and the milliseconds that a route took in the mean."""
    async with Router(found.catalogue, pipeline=preset) as router:
        await router.route("warm up")
        begin = time.perf_counter()
        answers = await answer_all(router, found.queries)
        return answers, (time.perf_counter() - begin) * 1000 / len(found.queries)


def _figures(found: QuerySet, preset: str) -> Figures:
    answers, took = asyncio.run(_answers(found, preset))
    said = report(found, answers, gate=Options().gate)
    metrics: dict[str, Any] = said["metrics"]
    others = {"ece": said["confidence"]["ece"], "tokens": said["tokens"]["after_mean"], "ms": took}
    return {**{measure: metrics[measure] for measure in MEASURES[:3]}, **others}


def _row(name: str, *cells: str) -> None:
    print(f"| {' | '.join((name, *cells))} |", flush=True)


def _head(*names: str) -> None:
    _row(*names)
    _row(*("---" for _ in names))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("sets", nargs="*", default=SETS)
    given = parser.parse_args()
    by_set: dict[str, dict[str, Figures]] = {}
    for name in given.sets:
        found = read_set(given.data / "bench" / name)
        found = replace(found, queries=found.queries[:: -(-len(found.queries) // MOST)])
        by_set[name] = {preset: _figures(found, preset) for preset in PRESETS}

    def mean(preset: str, measure: str) -> float:
        return fmean(own[preset][measure] for own in by_set.values())

    _head("preset", *MEASURES, "time against default")
    for preset in PRESETS:
        shown = [f"{mean(preset, m):.3f}" for m in MEASURES[:4]] + [
            f"{mean(preset, 'tokens'):,.0f}"
        ]
        times = f"{mean(preset, 'ms'):.1f}", f"{mean(preset, 'ms') / mean('default', 'ms'):.2f}"
        _row(f"`{preset}`", *shown, *times)
    print()
    _head("recall@5 / hit@1", *PRESETS)
    for name, own in by_set.items():
        _row(
            name,
            *(f"{own[preset]['recall@5']:.3f} / {own[preset]['hit@1']:.3f}" for preset in PRESETS),
        )


if __name__ == "__main__":
    main()
