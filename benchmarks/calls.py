"""How many of this package's functions a route calls: a figure that a busy machine does not change.

python -m benchmarks.calls prints, as JSON, the calls of a few routes by each way, among the sample tools and among
eight times as many. `tests/test_calls.py` compares them with stored figures. Comprehensions are left out, because newer
versions of Python make no call of them.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import orchestrator
from orchestrator import Catalogue, RouteHint, Router, RouteRequest
from orchestrator.catalogue.files import read_tools

PACKAGE = str(Path(orchestrator.__file__).parent)
SAMPLE = Path(__file__).parents[1] / "examples" / "tools.jsonl"
COPIES = 8
TASKS = (
    "refund charge ch_3PqX, the customer paid twice",
    "send an email to the team and create an issue about the outage",
    "what time is it in Tokyo",
)


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of functions of this package that the work calls in this thread."""
    calls = 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        code = frame.f_code
        calls += event == "call" and code.co_name[0] != "<" and code.co_filename.startswith(PACKAGE)

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def counted(copies: int) -> dict[str, int]:
    """Return the calls by route hint, among this number of copies of the sample tools, each on its own servers."""
    tools = read_tools(SAMPLE)
    many = [
        replace(own, server=f"{own.server}{n or ''}", hash="")
        for n in range(copies)
        for own in tools
    ]
    router, loop = Router(Catalogue(many)), asyncio.new_event_loop()

    def route(hint: RouteHint) -> None:
        for task in TASKS:
            loop.run_until_complete(
                router.route(RouteRequest(query=task, tenant="local", route_hint=hint))
            )

    found = {}
    for hint in (RouteHint.KEYWORD, RouteHint.SEMANTIC):
        route(hint)  # What is made once is made here.
        found[str(hint)] = calls_of(lambda hint=hint: route(hint))  # type: ignore[misc]
    loop.run_until_complete(router.aclose())
    loop.close()
    return found


if __name__ == "__main__":
    print(json.dumps({"sample": counted(1), "many": counted(COPIES)}))
