"""Compares search in a Qdrant server with the exact index: recall@10 of both on the development sets.

python -m benchmarks.large_tenant --data FOLDER [--sets api_bank ...] [--store URL]: each set is added to
mcp_catalog_toucan. Without a URL, an HTTP server on loopback serves Qdrant's slow in-process engine.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from benchmarks.quality import keys_of, recalls, spaced
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.files import read_tools
from orchestrator.evaluate.metrics import mean
from orchestrator.evaluate.runner import Query, read_queries
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router
from orchestrator.store.store import Store
from tests.stores import server_place

SETS = "api_bank azure_mcp bfcl bfcl_multi_turn metatool restbench seal_tools toolalpaca toolbench_stable".split()


def among(data: Path, name: str) -> list[Tool]:
    """Return a set's tools with distractors."""
    own = read_tools(data / "bench" / name)
    keys = {tool.key for tool in own}
    return [*own, *(tool for tool in read_tools(data / "bench" / "mcp_catalog_toucan") if tool.key not in keys)]


def filled(url: str, tools: Sequence[Tool]) -> Store:
    """Return a store at this URL that holds these tools of `local`, all of them searched there."""
    store = Store(url, embedder=embedder_for(Options()), timeout_s=60, index_limit=1)
    servers: dict[str, list[Tool]] = {}
    for tool in tools:
        servers.setdefault(tool.server, []).append(tool)
    store.drop("local")
    store.replace_servers("local", servers)
    return store


async def routed(router: Router, queries: Sequence[Query]) -> tuple[list[list[str]], float]:
    """Return the order of keys for each query, and the milliseconds of CPU for one."""
    async with router:
        await router.route("warm up")
        begin = time.process_time()
        found = [await router.route(RouteRequest(query=query.text, tenant="local")) for query in queries]
        return keys_of(found), (time.process_time() - begin) * 1000 / len(queries)


def compare(data: Path, name: str, most: int, url: str) -> str:
    tools, queries = among(data, name), spaced(read_queries(data / "bench" / name / "queries.jsonl"))
    queries = queries[:: -(-len(queries) // most)]
    searched, slow = asyncio.run(routed(Router(store=filled(url, tools)), queries))
    exact, fast = asyncio.run(routed(Router(Catalogue(tools)), queries))
    ten, other = (mean([at_ten for _, at_ten in recalls(order, queries)]) for order in (exact, searched))
    same = mean([own[:1] == theirs[:1] for own, theirs in zip(exact, searched, strict=True)])
    return (
        f"| {name} | {len(tools):,} | {len(queries)} | {ten:.3f} | {other:.3f} | {other - ten:+.3f} | {same:.2f} "
        f"| {slow / fast:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=SETS)
    parser.add_argument("--queries", type=int, default=300, help="of each set, at most")
    parser.add_argument("--store", metavar="URL", default="", help="a Qdrant server; its tenant `local` is replaced")
    given = parser.parse_args()
    print("| set | tools | queries | exact, recall@10 | searched | difference | same first | CPU of a route |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in given.sets:
        with nullcontext(given.store) if given.store else server_place("http") as url:
            print(compare(given.data, name, given.queries, url), flush=True)


if __name__ == "__main__":
    main()
