"""Misspelt words: `python -m benchmarks.slips --data ../shared`.

Queries of each set are routed as they are and with two long words in five misspelt, each with slips corrected and not.
The shipped maps have seen the sets, so compare the columns; they do not tell how good routing is.
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
from orchestrator.language.slips import MOST
from orchestrator.records.request import RouteRequest
from orchestrator.routing.router import Router
from research.sources import SETS

SHARE, ASKED = 0.4, 100
"""Of words of five letters and more, and queries of a set."""
_WORD = re.compile(r"[A-Za-z]{5,}")

Figures = tuple[float, float, float]
"""Mean recall at 5 and at 10, and words corrected a query."""


def misspelt(text: str, draw: random.Random) -> str:
    """The text with slips in some of its long words: a letter left out, doubled, or swapped with the next one."""

    def slip(found: re.Match[str]) -> str:
        word, place = found.group(), draw.randrange(1, len(found.group()) - 1)
        before, letter, after = word[:place], word[place], word[place + 1 :]
        wrong = draw.choice((before + after, before + letter + letter + after, before + after[0] + letter + after[1:]))
        return wrong if draw.random() < SHARE else word

    return _WORD.sub(slip, text)


async def measure(router: Router, asked: Sequence[tuple[str, Query]], *, corrected: bool) -> Figures:
    rows = []
    with patch("orchestrator.language.slips.MOST", MOST if corrected else 0):
        for text, query in asked:
            decision = await router.route(RouteRequest(query=text, tenant="local"))
            keys = [match.tool.key for match in decision.matches]
            words = sum(warning.startswith("no tool says") for warning in decision.warnings)
            rows.append((recall(keys, query.relevant, 5), recall(keys, query.relevant, 10), words))
    five, ten, words = (mean(column) for column in zip(*rows, strict=True))
    return five, ten, words


async def row(folder: Path) -> list[Figures]:
    """As they are, corrected and not; misspelt, corrected and not."""
    queries = [query for query in read_queries(folder / "queries.jsonl") if query.relevant]
    queries = queries[:: -(-len(queries) // ASKED)]
    draw = random.Random(folder.name)
    plain = [(query.text, query) for query in queries]
    wrong = [(misspelt(query.text, draw), query) for query in queries]
    async with Router(Catalogue.read(folder)) as router:
        return [await measure(router, asked, corrected=on) for asked in (plain, wrong) for on in (False, True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    data = parser.parse_args().data
    print("| set | as written | corrected | misspelt | corrected |\n| --- | --- | --- | --- | --- |")
    rows = []
    for name in SETS:
        rows.append(asyncio.run(row(data / "bench" / name)))
        print(f"| {name} | {_shown(rows[-1])} |", flush=True)
    means = [tuple(mean([found[place][part] for found in rows]) for part in range(3)) for place in range(4)]
    print(f"| **mean** | {_shown(means)} |")


def _shown(figures: Sequence[tuple[float, ...]]) -> str:
    return " | ".join(f"{five:.3f} / {ten:.3f} ({words:.2f})" for five, ten, words in figures)


if __name__ == "__main__":
    main()
