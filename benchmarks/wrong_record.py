"""Measures the effect of one record by one person: `python -m benchmarks.wrong_record --data ../shared`.

Half of each development set, at most 300 tasks, is recorded as the past of several people. Then a further person
records another task with the right tool, or with a wrong tool that routing finds (the best or the second-best wrong
one), and this task is routed again. It counts the tasks for which the recorded tool is then first. Each record is
removed before the next.
"""

import argparse
import asyncio
import random
from pathlib import Path

from orchestrator import Catalogue, Options, Router, RouteRequest
from orchestrator.evaluate.runner import Query, read_set
from orchestrator.index.embedders.by_name import embedder_for
from research.sources import SETS

PAST, PRESENT, PEOPLE = 300, 40, 5


async def keys(router: Router, query: Query) -> list[str]:
    decision = await router.route(RouteRequest(query=query.text, tenant="local"))
    return [match.tool.key for match in decision.matches]


async def is_first_after(router: Router, query: Query, tool: str) -> bool:
    """Return True if a tool is first for a task after one record of it. The record is then forgotten."""
    before = router.engine.experience.at_hand("local")
    assert before is not None
    await router.record(query.text, used=[tool], actor="another person")
    first = (await keys(router, query))[:1]
    router.engine.experience.give("local", before)
    return first == [tool]


async def measured(folder: Path, people: int) -> list[int]:
    """Return the number of tasks, the number with a right first tool before and after a right record, and the number
    with a wrong first tool after a record of routing's best wrong tool and of its second-best wrong tool.
    """
    catalogue = Catalogue.read(folder)
    known = catalogue.positions.keys()
    queries = [
        query for query in read_set(folder).queries if query.relevant and query.relevant <= known
    ]
    random.Random(7).shuffle(queries)
    present, past = queries[:PRESENT], queries[len(queries) // 2 :][:PAST]
    counts = [len(present), 0, 0, 0, 0]
    async with Router(catalogue, embedder=embedder_for(Options())) as router:
        for number, query in enumerate(past):
            await router.record(
                query.text, used=sorted(query.relevant), actor=f"person {number % people}"
            )
        for query in present:
            found = await keys(router, query)
            is_right = found[0] in query.relevant
            wrong = [key for key in found if key not in query.relevant]
            counts[1] += is_right
            counts[2] += is_right or await is_first_after(router, query, min(query.relevant))
            for place, key in enumerate(wrong[:2]):
                counts[3 + place] += key != found[0] and await is_first_after(router, query, key)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument(
        "--people", type=int, default=PEOPLE, help="the number of people with past tasks"
    )
    arguments = parser.parse_args()
    print(
        "| set | tasks | right before | right after a right record | wrong after the best wrong tool | the second |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for name in arguments.sets:
        counts = asyncio.run(measured(arguments.data / "bench" / name, arguments.people))
        print(f"| {name} | {' | '.join(map(str, counts))} |", flush=True)


if __name__ == "__main__":
    main()
