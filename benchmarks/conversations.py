"""Follow-ups: `python -m benchmarks.conversations --data ../shared`.

The turns of bfcl_multi_turn are routed alone and within their conversation (with the tools that the earlier turns are
labelled with as used ones); and first turns are routed after a conversation about something else.
"""

import argparse
import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.runner import Query, read_queries
from orchestrator.records.request import RouteRequest, Turn
from orchestrator.routing.conversation import meant
from orchestrator.routing.router import Router

_ID = re.compile(r"(.+)-t(\d+)$")
CUTS = (1, 5, 10)

Asked = tuple[Query, tuple[Turn, ...]]
"""A query and the turns before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Mean recall at 1, 5 and 10 of some turns, and how many of them leaned on earlier ones."""

    name: str
    turns: int
    leaning: int
    recall: tuple[float, ...]


def conversations(folder: Path) -> list[list[Query]]:
    """Each conversation's turns in order."""
    found: dict[str, list[tuple[int, Query]]] = {}
    for query in read_queries(folder / "queries.jsonl"):
        if named := _ID.match(query.id):
            found.setdefault(named[1], []).append((int(named[2]), query))
    return [[query for _, query in sorted(turns, key=lambda turn: turn[0])] for turns in found.values()]


def later_turns(all_turns: Sequence[Sequence[Query]]) -> Iterator[Asked]:
    """Every turn but the first, with those before it."""
    for turns in all_turns:
        yield from ((query, _said(turns[:place])) for place, query in enumerate(turns) if place)


def changes(all_turns: Sequence[Sequence[Query]]) -> Iterator[Asked]:
    """First turns behind another conversation, none of whose servers they need."""
    for place, turns in enumerate(all_turns):
        others = (all_turns[(place + step) % len(all_turns)] for step in range(1, len(all_turns)))
        own = _servers(turns[:1])
        if foreign := next((other for other in others if not _servers(other) & own), None):
            yield turns[0], _said(foreign)


def _said(turns: Sequence[Query]) -> tuple[Turn, ...]:
    return tuple(Turn(text=turn.text, tools=tuple(sorted(turn.relevant))) for turn in turns)


def _servers(turns: Sequence[Query]) -> set[str]:
    return {key.partition(":")[0] for turn in turns for key in turn.relevant}


async def measure(router: Router, name: str, asked: Sequence[Asked], *, within: bool) -> Row:
    """The row of these turns, each routed within its conversation or alone."""
    hits = [0.0] * len(CUTS)
    leaning = 0
    for query, turns in asked:
        before = turns if within else ()
        decision = await router.route(RouteRequest(query=query.text, tenant="local", conversation=before))
        said = meant(query.text, before)
        leaning += bool(said.earlier) or said.text != query.text
        keys = [match.tool.key for match in decision.matches]
        for column, cut in enumerate(CUTS):
            hits[column] += len(query.relevant.intersection(keys[:cut])) / len(query.relevant)
    recall = tuple(total / len(asked) for total in hits)
    return Row(name=name, turns=len(asked), leaning=leaning, recall=recall)


async def rows(folder: Path, step: int = 1) -> list[Row]:
    """All rows, of every `step`th conversation."""
    turns = conversations(folder)[::step]
    async with Router(Catalogue.read(folder)) as router:
        return [
            await measure(router, f"{name}, {'within' if within else 'alone'}", asked, within=within)
            for name, asked in (("later turns", [*later_turns(turns)]), ("another topic", [*changes(turns)]))
            for within in (False, True)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    given = parser.parse_args()
    print("| turns | number | leaning | recall@1 | recall@5 | recall@10 |\n| --- | --- | --- | --- | --- | --- |")
    for row in asyncio.run(rows(given.data / "bench" / "bfcl_multi_turn")):
        print(f"| {row.name} | {row.turns} | {row.leaning} | {' | '.join(f'{value:.3f}' for value in row.recall)} |")


if __name__ == "__main__":
    main()
