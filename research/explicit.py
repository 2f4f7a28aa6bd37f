"""False explicit hits: `python -m research.explicit --data ../shared`.

A hit is false when a query of a set is read as naming a server of that set's own catalogue, and that server holds none
of the tools that the query is about (or is left out and holds one).
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.runner import read_queries
from orchestrator.index.servers import ServerIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One set's counts, and the first words of the queries that were misread."""

    name: str
    queries: int
    named: int
    unknown: int
    misread: tuple[str, ...]

    @property
    def false(self) -> int:
        return len(self.misread)


def measure(folder: Path, step: int = 1) -> Row:
    """The counts of every `step`th query of a set."""
    index = ServerIndex.of(Catalogue.read(folder))
    queries = named = unknown = 0
    misread = []
    for query in read_queries(folder / "queries.jsonl")[::step]:
        found = index.find(query.text)
        right = {key.partition(":")[0] for key in query.relevant}
        queries += 1
        named += bool(found.mentions)
        unknown += bool(found.unknown)
        if found.mentions and (right.isdisjoint(found.wanted) or not right.isdisjoint(found.unwanted)):
            said = ", ".join(mention.said for mention in found.mentions)
            misread.append(f"[{said}] {query.text[:100]}")
    return Row(name=folder.name, queries=queries, named=named, unknown=unknown, misread=tuple(misread))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--misread", action="store_true", help="show the queries that were misread")
    arguments = parser.parse_args()
    rows = [measure(path.parent) for path in sorted((arguments.data / "bench").glob("*/queries.jsonl"))]
    print(f"{'set':18s}{'queries':>9s}{'named':>7s}{'unknown':>9s}{'false':>7s}{'share':>9s}")
    for row in rows:
        print(
            f"{row.name:18s}{row.queries:9d}{row.named:7d}{row.unknown:9d}{row.false:7d}{row.false / row.queries:9.2%}"
        )
        for query in row.misread if arguments.misread else ():
            print(f"    {query}")
    queries, false = sum(row.queries for row in rows), sum(row.false for row in rows)
    print(f"{'all':18s}{queries:9d}{sum(row.named for row in rows):7d}{'':9s}{false:7d}{false / queries:9.2%}")


if __name__ == "__main__":
    main()
