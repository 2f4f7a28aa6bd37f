"""Coverage sets on each development set left out: `python -m benchmarks.coverage --data ../shared`.

Maps and thresholds come from the other sets. Prints, and with `--write` puts between the marks of docs/coverage.md, how
often all needed tools were held and what that cost, beside fixed numbers of tools.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.page import write
from orchestrator.index.coverage import LEVELS, Coverage, Legs
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.records.request import MAX_LIMIT
from research.coverage import Routed, route_all, thresholds

WANTED = (0.8, 0.9, 0.95)

Sets = Mapping[str, Sequence[Routed]]
Count = Callable[[Routed], int]
"""How many of a query's best tools to give."""
Figures = tuple[float, float, float]
"""Over a set's queries: the share that had all needed tools, mean number of tools, mean tokens of definitions."""


def measure(queries: Sequence[Routed], count: Count) -> Figures:
    counts = [min(count(query), len(query.scores)) for query in queries]
    held = [sum(query.needed[:n]) >= query.gold for query, n in zip(queries, counts, strict=True)]
    tokens = [sum(query.tokens[:n]) for query, n in zip(queries, counts, strict=True)]
    return float(np.mean(held)), float(np.mean(counts)), float(np.mean(tokens))


def fixed(k: int) -> Count:
    return lambda query: k


def covering(coverage: Coverage, wanted: float, legs: Legs) -> Count:
    """As `RouteRequest.coverage` counts."""
    return lambda query: coverage.smallest(query.scores, wanted, legs, most=MAX_LIMIT, everything=False).count


def left_out(sets: Sets, name: str) -> Sets:
    return {other: queries for other, queries in sets.items() if other != name}


def mean(rows: Sequence[Figures]) -> Figures:
    held, size, tokens = (float(np.mean(column)) for column in zip(*rows, strict=True))
    return held, size, tokens


def coverage_table(sets: Sets, legs: Legs) -> list[str]:
    """Each set with thresholds from the others, beside ten tools and the fixed number that the others would choose."""
    ways: dict[str, list[Figures]] = {"10 tools": [measure(queries, fixed(10)) for queries in sets.values()]}
    for wanted in WANTED:
        rows, same = [], []
        for name, own in sets.items():
            others = left_out(sets, name)
            known = Coverage(thresholds={legs: thresholds(others)})
            rows.append(measure(own, covering(known, wanted, legs)))
            same.append(measure(own, fixed(smallest_fixed(others, wanted))))
        ways |= {f"coverage {wanted:g}": rows, f"fixed, {wanted:g}": same}
    lines = [f"| set | {' | '.join(ways)} |", f"| --- |{' --- |' * len(ways)}"]
    for place, name in enumerate(sets):
        lines.append(f"| {name} | " + " | ".join(_shown(rows[place]) for rows in ways.values()) + " |")
    lines.append("| **mean** | " + " | ".join(_shown(mean(rows)) for rows in ways.values()) + " |")
    return lines


def smallest_fixed(sets: Sets, wanted: float) -> int:
    """The smallest number of tools that holds all needed ones so often, in the mean over sets."""
    held = {k: np.mean([measure(queries, fixed(k))[0] for queries in sets.values()]) for k in range(1, MAX_LIMIT + 1)}
    return next((k for k, share in held.items() if share >= wanted), MAX_LIMIT)


def _shown(figures: Figures) -> str:
    held, size, tokens = figures
    return f"{held:.3f}, {size:.1f}, {tokens:,.0f}"


def own_table(sets: Sets) -> list[str]:
    """What it takes for 90 % of each set's queries, with the threshold and the fixed number that fit the set itself."""
    lines = [
        "| set | coverage set: tools, tokens | fixed number: tools, tokens | 10 tools: held, tokens |",
        "| --- | --- | --- | --- |",
    ]
    both: list[tuple[Figures, Figures]] = []
    wanted = 0.9
    for name, queries in sets.items():
        threshold = thresholds({name: queries})[LEVELS.index(wanted)]
        ten = measure(queries, fixed(10))
        tens = f"{ten[0]:.3f}, {ten[2]:,.0f}"
        if not threshold:
            lines.append(f"| {name} | not within {MAX_LIMIT} tools | not within {MAX_LIMIT} tools | {tens} |")
            continue
        known = Coverage(thresholds={"both": thresholds({name: queries})})
        adaptive = measure(queries, covering(known, wanted, "both"))
        same = measure(queries, fixed(smallest_fixed({name: queries}, wanted)))
        both.append((adaptive, same))
        lines.append(f"| {name} | {adaptive[1]:.1f}, {adaptive[2]:,.0f} | {same[1]:.0f}, {same[2]:,.0f} | {tens} |")
    one, other = (mean([pair[side] for pair in both]) for side in (0, 1))
    lines.append(f"| **mean of those {len(both)}** | {one[1]:.1f}, {one[2]:,.0f} | {other[1]:.1f}, {other[2]:,.0f} | |")
    return lines


def tables(routed: Mapping[Legs, Sets]) -> list[str]:
    """All of docs/coverage.md's tables, in Markdown."""
    most = {
        legs: max((level for level, least in zip(LEVELS, thresholds(sets), strict=True) if least), default=0.0)
        for legs, sets in routed.items()
    }
    return [
        "Both legs, each set with thresholds from the other eight (`coverage`), beside ten tools and the fixed number",
        "of tools that the other eight would choose (`fixed`). Each cell: the share of queries that had all needed",
        "tools, the mean number of tools, the mean tokens of their definitions.",
        "",
        *coverage_table(routed["both"], "both"),
        "",
        "The same with the keyword leg alone (`--route-hint keyword`):",
        "",
        *coverage_table(routed["keyword"], "keyword"),
        "",
        f"Within 50 tools, every set counting the same: {most['both']:g} by both legs, {most['keyword']:g} by one.",
        "",
        "What it takes for 90 % of a set's queries to have all their tools, threshold and fixed number chosen on the",
        "set itself, as `toolroute eval FOLDER --fit` does for yours:",
        "",
        *own_table(routed["both"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--write", type=Path, help="rewrite the tables of this Markdown file")
    arguments = parser.parse_args()
    text = "\n".join(tables(route_all(arguments.data, embedder_for(Options()))))
    print(text)
    if arguments.write:
        write(arguments.write, text)


if __name__ == "__main__":
    main()
