"""Counts servers' names in tasks: `python -m research.explicit --data ../shared [--catalogue mcp_catalog_toucan]`.

A task is misread if it names a server of its own set without a right tool, or excludes a server with one. With
`--catalogue`, all tasks are read against the servers of that catalogue, where names occur by chance.
"""

import argparse
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.files import read_tools
from orchestrator.evaluate.runner import Query, read_queries
from orchestrator.index.index import Index
from orchestrator.index.servers import ServerIndex
from orchestrator.pipeline.legs.explicit import find_servers


def servers_of(folder: Path) -> ServerIndex:
    return Index(Catalogue(read_tools(folder / "tools.jsonl"))).servers


def is_misread(query: Query, servers: ServerIndex) -> bool:
    found = find_servers(query.text, servers)
    right = {key.partition(":")[0] for key in query.relevant}
    excluded = set(found.unwanted) - set(found.wanted)
    return bool(found.wanted and right.isdisjoint(found.wanted)) or not right.isdisjoint(excluded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--catalogue", help="a folder of bench/ whose servers all tasks are read against")
    arguments = parser.parse_args()
    bench: Path = arguments.data / "bench"
    others = servers_of(bench / arguments.catalogue) if arguments.catalogue else None
    print(f"{'set':18s}{'tasks':>9s}{'named':>7s}{'misread':>9s}")
    for path in sorted(bench.glob("*/queries.jsonl")):
        servers, queries = others or servers_of(path.parent), read_queries(path)
        named = sum(bool(find_servers(query.text, servers).mentions) for query in queries)
        misread = sum(is_misread(query, servers) for query in queries) if others is None else ""
        print(f"{path.parent.name:18s}{len(queries):9d}{named:7d}{misread:>9}")


if __name__ == "__main__":
    main()
