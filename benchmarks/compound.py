"""Tasks of several parts: `python -m benchmarks.compound --data ../shared`.

One to five queries of a set, each with one or two relevant tools, are joined into one task, which needs all their
tools. Each is routed as it is, and without tools for each part in turn. The shipped maps have seen the queries one by
one, so compare the columns.
"""

import argparse
import asyncio
import random
import re
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.metrics import mean, recall
from orchestrator.evaluate.runner import Query, read_queries
from orchestrator.records.request import RouteRequest
from orchestrator.routing import parts
from orchestrator.routing.router import Router
from research.sources import SETS

PARTS = (1, 2, 3, 5)
TASKS = 60
"""Of each number of parts, a set."""
LONGEST = 250
"""Characters of a query that is joined with others."""

BETWEEN = {"sequence": ", then ", "arrows": " -> ", "ampersands": " & "}
_ARTICLE = re.compile(r"\b(?:the|an?) ", re.IGNORECASE)

Figures = tuple[float, float]
"""Mean recall at 5 and at 10."""


def joined(draw: random.Random, texts: Sequence[str]) -> str:
    """The texts as sentences, or in one sentence: in one of the ways in which people write several tasks down."""
    way = draw.choice(("sentences", "list", "terse list", "numbered", *BETWEEN))
    if way == "sentences" or len(texts) == 1:
        return " ".join(text.strip() if text.strip()[-1] in ".?!" else f"{text.strip()}." for text in texts)
    first, *rest = (text.strip().rstrip(".?! ") for text in texts)
    bare = [first, *(text[:1].lower() + text[1:] if text[1:2].islower() else text for text in rest)]
    if way == "terse list":
        bare = [_ARTICLE.sub("", text) for text in bare]
    if way == "numbered":
        return " ".join(f"{number}) {text}" for number, text in enumerate(bare, start=1))
    if way in BETWEEN:
        return BETWEEN[way].join(bare)
    return f"{', '.join(bare[:-1])} and {bare[-1]}."


def tasks(queries: Sequence[Query], count: int, draw: random.Random) -> list[tuple[str, frozenset[str]]]:
    """Texts, and the tools that each needs."""
    drawn = [draw.sample(queries, count) for _ in range(TASKS)]
    return [
        (joined(draw, [query.text for query in chosen]), frozenset().union(*(query.relevant for query in chosen)))
        for chosen in drawn
    ]


async def measure(router: Router, asked: Sequence[tuple[str, frozenset[str]]]) -> Figures:
    rows = []
    for text, needed in asked:
        decision = await router.route(RouteRequest(query=text, tenant="local"))
        keys = [match.tool.key for match in decision.matches]
        rows.append((recall(keys, needed, 5), recall(keys, needed, 10)))
    five, ten = (mean(column) for column in zip(*rows, strict=True))
    return five, ten


async def row(folder: Path) -> list[Figures]:
    """For each number of parts: by score alone, and with tools for each part in turn."""
    catalogue, draw = Catalogue.read(folder), random.Random(folder.name)
    queries = [
        query
        for query in read_queries(folder / "queries.jsonl")
        if 0 < len(query.relevant) <= 2 and len(query.text) <= LONGEST and query.relevant <= catalogue.positions.keys()
    ]
    found = []
    async with Router(catalogue) as router:
        for count in PARTS:
            asked = tasks(queries, count, draw)
            for part in (0.0, parts.PART):
                with patch.object(parts, "PART", part):
                    found.append(await measure(router, asked))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    data = parser.parse_args().data
    print(f"| set | {' | '.join(f'{count} by score | in turn' for count in PARTS)} |")
    print(f"| --- |{' --- |' * 2 * len(PARTS)}")
    rows = []
    for name in SETS:
        rows.append(asyncio.run(row(data / "bench" / name)))
        print(f"| {name} | {_shown(rows[-1])} |", flush=True)
    means = [(mean([r[place][0] for r in rows]), mean([r[place][1] for r in rows])) for place in range(2 * len(PARTS))]
    print(f"| **mean** | {_shown(means)} |")


def _shown(figures: Sequence[Figures]) -> str:
    return " | ".join(f"{five:.3f} / {ten:.3f}" for five, ten in figures)


if __name__ == "__main__":
    main()
