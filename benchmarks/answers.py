"""How many tokens an answer of `serve`'s search has, against one with the whole definition of each match.

python -m benchmarks.answers --data FOLDER [--queries 200] [--limit 5]: FOLDER/bench holds the development sets.
"""

import argparse
import asyncio
import statistics
from pathlib import Path

from orchestrator import Match, Router
from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.evaluate.runner import read_set
from orchestrator.mcp.listing.offers import Offer
from orchestrator.server.search_answer import matches_shown

SETS = (
    "azure_mcp",
    "bfcl",
    "metatool",
    "restbench",
    "seal_tools",
    "toolalpaca",
    "toolbench_stable",
    "api_bank",
)
NONE: dict[str, Offer] = {}


def whole(match: Match) -> dict[str, object]:
    """Return a match as `search` gave each before."""
    tool = match.tool
    own = {"tool": tool.key, "description": tool.description, "input_schema": parameters(tool)}
    return {**own, "probability": round(match.probability, 4), "why": match.why}


async def measure(data: Path, queries: int, limit: int) -> None:
    print(
        "| set | whole definitions (tokens, mean) | first whole, others a line | ratio |\n| --- | --- | --- | --- |"
    )
    for name in SETS:
        given = read_set(data / "bench" / name)
        before, after = list[int](), list[int]()
        async with Router(given.catalogue) as router:
            for query in given.queries[:queries]:
                found = list((await router.route(query.text, limit=limit)).matches)
                before.append(count_tokens(compact([whole(match) for match in found])))
                after.append(
                    count_tokens(compact(matches_shown(found, NONE, (), first_complete=True)))
                )
        old, new = statistics.mean(before), statistics.mean(after)
        print(f"| {name} | {old:,.0f} | {new:,.0f} | {new / old:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--limit", type=int, default=5)
    given = parser.parse_args()
    asyncio.run(measure(given.data, given.queries, given.limit))


if __name__ == "__main__":
    main()
