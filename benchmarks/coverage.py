"""Coverage sets on each development set left out: `python -m benchmarks.coverage --data ../shared`.

Maps and thresholds come from the other sets. Prints, and with `--write` puts between the marks of docs/coverage.md, how
often all needed tools were held and what that cost, beside fixed numbers of tools.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from orchestrator.coverage import LEVELS, Coverage
from orchestrator.embed import embedder_for
from orchestrator.models import MAX_LIMIT
from orchestrator.options import Options
from training.coverage import Routed, route_all, shares

WANTED = (0.8, 0.9, 0.95)
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")

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


def covering(coverage: Coverage, wanted: float, legs: str) -> Count:
    """As `RouteRequest.coverage` counts."""

    def count(query: Routed) -> int:
        known = "both" if legs == "both" else "keyword"
        return coverage.smallest(query.scores, wanted, known, most=MAX_LIMIT, everything=False).count  # type: ignore[arg-type]

    return count


def above(share: float) -> Count:
    """All down to the last that has this share of the best score."""
    return lambda query: max(n for n, score in enumerate(query.scores, 1) if score >= share * max(query.scores))


def left_out(routed: Mapping[str, Sets], name: str) -> Coverage:
    """The thresholds that the other sets give."""
    return Coverage(
        shares={
            legs: shares({other: queries for other, queries in sets.items() if other != name})
            for legs, sets in routed.items()
        }
    )


def mean(rows: Sequence[Figures]) -> Figures:
    held, size, tokens = (float(np.mean(column)) for column in zip(*rows, strict=True))
    return held, size, tokens


def coverage_table(routed: Mapping[str, Sets], legs: str) -> list[str]:
    """Each set with thresholds from the others, beside ten tools and the fixed number that holds as much in mean."""
    sets = routed[legs]
    ways: dict[str, list[Figures]] = {"10 tools": [measure(queries, fixed(10)) for queries in sets.values()]}
    for wanted in WANTED:
        rows = [measure(own, covering(left_out(routed, name), wanted, legs)) for name, own in sets.items()]
        ways[f"coverage {wanted:g}"] = rows
        k = _as_good(sets, mean(rows)[0])
        ways[f"{k} tools"] = [measure(queries, fixed(k)) for queries in sets.values()]
    lines = [f"| set | {' | '.join(ways)} |", f"| --- |{' --- |' * len(ways)}"]
    for place, name in enumerate(sets):
        lines.append(f"| {name} | " + " | ".join(_shown(rows[place]) for rows in ways.values()) + " |")
    lines.append("| **mean** | " + " | ".join(_shown(mean(rows)) for rows in ways.values()) + " |")
    return lines


def _as_good(sets: Sets, wanted: float) -> int:
    """The smallest fixed number of tools that holds as much in the mean over sets."""
    held = {k: np.mean([measure(queries, fixed(k))[0] for queries in sets.values()]) for k in range(1, MAX_LIMIT + 1)}
    return next((k for k, share in held.items() if share >= wanted - 1e-9), MAX_LIMIT)


def _shown(figures: Figures) -> str:
    held, size, tokens = figures
    return f"{held:.3f}, {size:.1f}, {tokens:,.0f}"


def own_table(sets: Sets, wanted: float = 0.9) -> list[str]:
    """What it takes for 90 % of each set's queries, with the threshold and the fixed number that fit the set itself."""
    lines = [
        "| set | coverage set: tools, tokens | fixed number: tools, tokens | 10 tools: held, tokens |",
        "| --- | --- | --- | --- |",
    ]
    both: list[tuple[Figures, Figures]] = []
    for name, queries in sets.items():
        reached = sorted((query.conformity for query in queries), reverse=True)
        share = reached[int(np.ceil(wanted * len(reached))) - 1]
        ten = measure(queries, fixed(10))
        tens = f"{ten[0]:.3f}, {ten[2]:,.0f}"
        if not share:
            lines.append(f"| {name} | not within {MAX_LIMIT} tools | not within {MAX_LIMIT} tools | {tens} |")
            continue
        adaptive, same = measure(queries, above(share)), measure(queries, fixed(_as_good({name: queries}, wanted)))
        both.append((adaptive, same))
        lines.append(f"| {name} | {adaptive[1]:.1f}, {adaptive[2]:,.0f} | {same[1]:.0f}, {same[2]:,.0f} | {tens} |")
    one, other = (mean([pair[side] for pair in both]) for side in (0, 1))
    lines.append(f"| **mean of those {len(both)}** | {one[1]:.1f}, {one[2]:,.0f} | {other[1]:.1f}, {other[2]:,.0f} | |")
    return lines


def tables(routed: Mapping[str, Sets]) -> list[str]:
    """All of docs/coverage.md's tables, in Markdown."""
    reach = {legs: max((level for level, share in zip(LEVELS, shares(sets), strict=True) if share), default=0.0)
             for legs, sets in routed.items()}  # fmt: skip
    return [
        "Thresholds from the other eight sets, both legs. Each cell: share of queries that had all needed tools, mean",
        "number of tools, mean tokens of their definitions.",
        "",
        *coverage_table(routed, "both"),
        "",
        "The same with the keyword leg alone (`--route-hint keyword`):",
        "",
        *coverage_table(routed, "keyword"),
        "",
        (
            "The most that 50 tools hold, every set counting the same: "
            f"{reach['both']:g} by both legs, {reach['keyword']:g} by the keyword leg."
        ),
        "",
        "What it takes for 90 % of a set's queries to have all their tools, thresholds and numbers fitted to the set",
        "itself, as `toolroute eval FOLDER --fit` does for yours:",
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
        before, _, rest = arguments.write.read_text(encoding="utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        arguments.write.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
