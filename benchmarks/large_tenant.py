"""Search in the store beside the exact index: recall@10 of both on the development sets, time to the first Decision.

python -m benchmarks.large_tenant --data FOLDER [--sets api_bank ...] [--tools 97000]: each set is added to
mcp_catalog_toucan; `--tools 0` leaves the start out, which needs minutes of importing.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.quality import keys_of, recalls, spaced
from benchmarks.scale import started, tools_of
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

SETS = "api_bank azure_mcp bfcl bfcl_multi_turn metatool restbench seal_tools toolalpaca toolbench_stable".split()


def among(data: Path, name: str) -> list[Tool]:
    """Return a set's tools with distractors."""
    own = read_tools(data / "bench" / name)
    keys = {tool.key for tool in own}
    return [*own, *(tool for tool in read_tools(data / "bench" / "mcp_catalog_toucan") if tool.key not in keys)]


def filled(place: Path, tools: Sequence[Tool], limit: int) -> Store:
    """Return a store that holds these tools of `local`."""
    store = Store(place, embedder=embedder_for(Options()), timeout_s=60, index_limit=limit)
    servers: dict[str, list[Tool]] = {}
    for tool in tools:
        servers.setdefault(tool.server, []).append(tool)
    store.replace_servers("local", servers)
    return store


async def routed(router: Router, queries: Sequence[Query]) -> tuple[list[list[str]], float]:
    """Return the order of keys for each query, and the milliseconds of CPU for one."""
    async with router:
        await router.route("warm up")
        begin = time.process_time()
        found = [await router.route(RouteRequest(query=query.text, tenant="local")) for query in queries]
        return keys_of(found), (time.process_time() - begin) * 1000 / len(queries)


def compare(data: Path, name: str, most: int) -> str:
    tools, queries = among(data, name), spaced(read_queries(data / "bench" / name / "queries.jsonl"))
    queries = queries[:: -(-len(queries) // most)]
    with tempfile.TemporaryDirectory() as folder:
        beyond, slow = asyncio.run(routed(Router(store=filled(Path(folder) / "store", tools, 1)), queries))
    exact, fast = asyncio.run(routed(Router(Catalogue(tools)), queries))
    ten, other = (mean([at_ten for _, at_ten in recalls(order, queries)]) for order in (exact, beyond))
    same = mean([own[:1] == theirs[:1] for own, theirs in zip(exact, beyond, strict=True)])
    return (
        f"| {name} | {len(tools):,} | {len(queries)} | {ten:.3f} | {other:.3f} | {other - ten:+.3f} | {same:.2f} "
        f"| {slow / fast:.1f} |"
    )


def starts(data: Path, size: int) -> str:
    """Return the times of new processes to a first Decision: a tenant of this size, and one of five tools."""
    lines = [
        "| tools | import, CPU | new process to its first Decision, and peak memory |",
        "| ---: | ---: | --- |",
    ]
    for tools in (tools_of(data, size), tools_of(data, 5)):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.process_time()
            filled(place := Path(folder) / "store", tools, Options().index_limit)
            spent = time.process_time() - begin
            runs = [started(place, Options().index_limit) for _ in range(3)]
            lines.append(f"| {len(tools):,} | {spent:.1f} s | {'; '.join(runs)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=SETS)
    parser.add_argument("--queries", type=int, default=300, help="of each set, at most")
    parser.add_argument("--tools", type=int, default=97_000, help="of the tenant whose start is measured")
    given = parser.parse_args()
    print("| set | tools | queries | exact, recall@10 | in the store | difference | same first | CPU of a route |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in given.sets:
        print(compare(given.data, name, given.queries), flush=True)
    if given.tools:
        print(starts(given.data, given.tools))


if __name__ == "__main__":
    main()
