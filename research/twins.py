"""Counts twins of public catalogues: `python -m research.twins --data ../shared`.

It prints the number of tools that have a twin on another server, and the number of tasks that get the warning about a
twin. The tasks are the first words of the descriptions of tools, drawn by chance.
"""

import argparse
import asyncio
import random
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.records.request import RouteRequest
from orchestrator.runtime.router import Router

SETS = ("mcp_catalog_docker", "mcp_catalog_toolsdk", "mcp_catalog_toucan")
TASKS, WORDS, LEAST_CHARS = 200, 25, 40


async def counted(catalogue: Catalogue) -> tuple[int, int]:
    """Return the number of tools with a twin, and of tasks whose Decision names a twin."""
    described = [tool for tool in catalogue if len(tool.description) > LEAST_CHARS]
    drawn = random.Random(7).sample(described, TASKS)
    warned = 0
    async with Router(catalogue, embedder=embedder_for(Options())) as router:
        graph = (await router._index("local")).graph
        twins = sum(bool(graph.twins(place)) for place in range(len(catalogue)))
        for tool in drawn:
            request = RouteRequest(query=" ".join(tool.description.split()[:WORDS]), tenant="local")
            decision = await router.route(request)
            warned += any("have the same name" in warning for warning in decision.warnings)
    return twins, warned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    arguments = parser.parse_args()
    print(f"| catalogue | tools | with a twin | tasks of {TASKS} with the warning |\n| --- | --- | --- | --- |")
    for name in SETS:
        catalogue = Catalogue.read(arguments.data / "bench" / name)
        twins, warned = asyncio.run(counted(catalogue))
        print(f"| {name} | {len(catalogue):,} | {twins:,} | {warned} |", flush=True)


if __name__ == "__main__":
    main()
