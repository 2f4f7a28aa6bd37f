"""Measures the thresholds of `orchestrator/data/coverage.json`: `python -m research.coverage --data ../shared`.

Each set's queries are routed by a real Router whose maps were fitted on the other sets, and every set counts the same.
`research.promises` shows what thresholds from the other sets are worth on the one left out.
"""

import argparse
import asyncio
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from orchestrator.evaluate.runner import read_set
from orchestrator.index.calibration import Calibration, from_json
from orchestrator.index.coverage import LEVELS, Legs, conformities
from orchestrator.index.embed import Embedder, embedder_for
from orchestrator.options import Options
from orchestrator.records.request import MAX_LIMIT, RouteHint, RouteRequest
from orchestrator.runtime.router import Router
from research.confidence import fit_all
from research.examples import MOST_QUERIES, collect, collect_small, collect_tasks
from research.sources import SETS

HINTS: dict[Legs, RouteHint] = {"keyword": RouteHint.KEYWORD, "both": RouteHint.SEMANTIC}
"""The legs whose scores get thresholds, and the hint that runs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """One query's best 50, in the order of their scores: scores, which are needed, tokens; and how many are needed."""

    scores: tuple[float, ...]
    needed: tuple[bool, ...]
    tokens: tuple[int, ...]
    gold: int

    @property
    def conformity(self) -> float:
        return conformity(self.scores, self.needed, self.gold)


def conformity(scores: Sequence[float], needed: Sequence[bool], gold: int) -> float:
    """Return a query's conformity, that of the last tool it needs; 0 where not all `gold` are among these."""
    if gold == 0 or sum(needed) < gold:
        return 0.0
    return conformities(scores)[max(place for place, is_needed in enumerate(needed) if is_needed)]


def fit_thresholds(conformities_of: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
    """Return the thresholds for LEVELS from the conformity of each set's queries.

    Every set counts the same, and to each set's queries one is added that reaches nothing: the one to come.
    """
    sets = len(conformities_of)
    weighted = [(value, 1 / (sets * (len(own) + 1))) for own in conformities_of.values() for value in own]
    weighted.sort(reverse=True)
    reached = list(accumulate(weight for _, weight in weighted))
    places = [bisect_left(reached, level - 1e-9) for level in LEVELS]
    return tuple(weighted[place][0] if place < len(weighted) else 0.0 for place in places)


def left_out_maps(data: Path, embedder: Embedder) -> dict[str, Calibration]:
    """For each set the maps that the others give, with the tasks of our own."""
    folders = [data / "bench" / name for name in SETS]
    sets, small = ([way(folder, embedder) for folder in folders] for way in (collect, collect_small))
    own = collect_tasks(data, embedder)
    return {
        name: from_json(fit_all([*sets[:place], *sets[place + 1 :], *small[:place], *small[place + 1 :], *own]))
        for place, name in enumerate(SETS)
    }


async def route_set(
    folder: Path, maps: Calibration, embedder: Embedder, hint: RouteHint, most: int = MOST_QUERIES
) -> list[Routed]:
    """What routing answers to the set's queries whose tools are in the catalogue; of many, to some evenly spaced."""
    found = read_set(folder)
    known = found.catalogue.positions
    asked = [query for query in found.queries if query.relevant and query.relevant <= known.keys()]
    answers = []
    async with Router(found.catalogue, embedder=embedder, calibration=maps) as router:
        tokens = (await router.index("local")).sizes.tokens
        for query in asked[:: max(1, len(asked) // most)]:
            decision = await router.route(
                RouteRequest(query=query.text, tenant="local", limit=MAX_LIMIT, route_hint=hint)
            )
            # By score, as coverage cuts: near-duplicates stand at the end of a Decision's matches.
            matches = sorted(decision.matches, key=lambda match: -match.score)
            answers.append(
                Routed(
                    scores=tuple(match.score for match in matches),
                    needed=tuple(match.tool.key in query.relevant for match in matches),
                    tokens=tuple(int(tokens[known[match.tool.key]]) for match in matches),
                    gold=len(query.relevant),
                )
            )
    return answers


def route_all(data: Path, embedder: Embedder) -> dict[Legs, dict[str, list[Routed]]]:
    """By legs and set, what maps that have not seen the set answer."""
    maps = left_out_maps(data, embedder)
    return {
        legs: {name: asyncio.run(route_set(data / "bench" / name, maps[name], embedder, hint)) for name in SETS}
        for legs, hint in HINTS.items()
    }


def thresholds(routed: Mapping[str, Sequence[Routed]]) -> tuple[float, ...]:
    """The thresholds that these sets give, to four digits."""
    found = fit_thresholds({name: [query.conformity for query in queries] for name, queries in routed.items()})
    return tuple(float(f"{threshold:.4g}") for threshold in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--out", type=Path, default=Path("orchestrator/data/coverage.json"))
    arguments = parser.parse_args()
    embedder = embedder_for(Options())
    routed = route_all(arguments.data, embedder)
    about = {
        "source": "the development sets, each routed by maps fitted on the others",
        "levels": [LEVELS[0], LEVELS[-1]],
        "embedder": embedder.id,
        "queries": {name: len(queries) for name, queries in routed["both"].items()},
    }
    record = {**{legs: list(thresholds(sets)) for legs, sets in routed.items()}, "about": about}
    arguments.out.write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
