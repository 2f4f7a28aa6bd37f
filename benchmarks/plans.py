"""What plans do without a model: `python -m benchmarks.plans --data ../shared`.

Each labelled query is routed and planned. Of a set: how many of the right tools have a step, how many of the tools that
have one are right, and steps a query. A label may name more tools than a task asks for in words (lookups), so recall is
a lower bound. The shipped maps have seen the queries; compare versions, not sets.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.runner import read_queries
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.records.request import RouteRequest
from orchestrator.routing.router import Router
from research.sources import SETS
from research.tasks import tasks

MOST = 250
"""Queries of a set, evenly spaced."""

Asked = Sequence[tuple[str, frozenset[str]]]
"""Texts, and the tools that each needs."""


async def row(name: str, catalogue: Catalogue, asked: Asked) -> str:
    """One line of the table."""
    recall = right = tools = steps = 0.0
    async with Router(catalogue) as router:
        for text, needed in asked:
            made = plan(PlanRequest(decision=await router.route(RouteRequest(query=text, tenant="local"))))
            called = {step.tool for step in made.steps if step.tool}
            recall += len(needed & called) / len(needed)
            right, tools, steps = right + len(needed & called), tools + len(called), steps + len(made.steps)
    count = len(asked)
    return f"| {name} | {count} | {recall / count:.3f} | {right / max(1, tools):.3f} | {steps / count:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    data = parser.parse_args().data
    print("| set | queries | right tools that have a step | tools with a step that are right | steps |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in SETS:
        folder = data / "bench" / name
        queries = [query for query in read_queries(folder / "queries.jsonl") if query.relevant]
        asked = [(query.text, query.relevant) for query in queries[:: max(1, len(queries) // MOST)][:MOST]]
        print(asyncio.run(row(name, Catalogue.read(folder), asked)), flush=True)
    for file in tasks(data):
        own = [(record["query"], frozenset(record["relevant"])) for record in file.records]
        print(asyncio.run(row(file.name, file.catalogue, own)), flush=True)


if __name__ == "__main__":
    main()
