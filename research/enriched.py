"""A simulation of `toolroute tools enrich` without a model: labelled queries stand for the requests that one writes.

Of each tool with several queries that want it alone, up to three become its example requests. The other queries are
routed without and with these. Queries of one author are more alike than a model's requests would be, so this is an
upper bound for the requests, and nothing is known here about the two sentences that a model adds.

    python -m research.enriched --data ../shared azure_mcp api_bank metatool
"""

import argparse
import asyncio
import random
from collections import defaultdict
from pathlib import Path

from orchestrator import Router
from orchestrator.evaluate.runner import Query, QuerySet, answer_all, read_set, report
from orchestrator.pipeline.refiners import enriched

WRITTEN = 3


def split(found: QuerySet, seed: int = 1) -> tuple[dict[str, list[Query]], list[Query]]:
    """Return the queries that stand for written ones, by tool, and those that are asked."""
    by_tool = defaultdict[str, list[Query]](list)
    for query in found.queries:
        if len(query.relevant) == 1:
            by_tool[next(iter(query.relevant))].append(query)
    chosen = random.Random(seed)
    written = {
        key: chosen.sample(own, min(WRITTEN, len(own) - 1))
        for key, own in by_tool.items()
        if len(own) > 1 and key in found.catalogue.positions
    }
    used = {query.id for own in written.values() for query in own}
    return written, [query for query in found.queries if query.id not in used]


async def measure(found: QuerySet, weights: list[float]) -> None:
    written, asked = split(found)
    print(f"{found.name}: {len(written)} of {len(found.catalogue)} tools enriched, {len(asked)} queries")
    for weight in weights:
        enriched.WEIGHT = weight
        async with Router(found.catalogue) as router:
            index, _ = await router._indexes.get("local")  # noqa: SLF001
            notes = {key: {"requests": [query.text for query in own]} for key, own in written.items()}
            index.written = notes if weight else {}
            own = report(found, await answer_all(router, asked), gate=router.options.gate)
        figures = (f"{name} {own['metrics'][name]:.4f}" for name in ("recall@5", "recall@10", "hit@1"))
        print(f"  weight {weight:g}: {', '.join(figures)}, ece {own['confidence']['ece']:.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared"))
    parser.add_argument("--weights", type=float, nargs="*", default=[0, 1, 2])
    parser.add_argument("sets", nargs="+")
    given = parser.parse_args()
    for name in given.sets:
        asyncio.run(measure(read_set(given.data / "bench" / name), given.weights))
