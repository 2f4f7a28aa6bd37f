"""Measures the share of a prompt that stays in a provider's cache when tools are appended.

Run: `python -m benchmarks.appended [--write docs/measured/prompt-cache.md]`.

The conversation has 12 turns on the sample catalogue, each with a call and its result. A request is read as providers
read it, tool definitions first. The part that equals the start of the request before it is cached.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.page import write
from orchestrator import Decision, Delta, Router, Tool, Turn
from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import compact, count_tokens

CATALOGUE = Path(__file__).parents[1] / "examples" / "tools.jsonl"
TASKS = (
    "which customers are late with their bills",
    "email the first of them a reminder",
    "refund charge ch_3PqX, the customer paid twice",
    "open a ticket that says the payment page charged someone twice",
    "use jira to create a bug for the broken login page",
    "assign it to Ana",
    "tell the channel #payments that a fix is on its way",
    "schedule a meeting about it on Friday at ten",
    "search my documents for the travel policy",
    "a fresh hire joins our staff on Monday",
    "book an appointment for the patient Mrs Lee",
    "what did we decide about the refund of ch_3PqX",
)
RESULT = "Done. " + "The record was read and its fields are as the system has them. " * 8


def said(decision: Decision) -> list[str]:
    """A turn's messages: the task, the call, its result, the answer."""
    call = {"name": decision.matches[0].tool.name, "arguments": {"id": "ch_3PqX"}}
    return [decision.query, compact(call), RESULT, f"That is done: {decision.query}."]


Request = Callable[[list[Decision]], tuple[Any, list[str]]]
"""The tools and messages of a request, after so many Decisions."""


def whole(decisions: list[Decision]) -> tuple[Any, list[str]]:
    return decisions[-1].tools(), [text for one in decisions for text in said(one)][:-3]


def one_list(decisions: list[Decision]) -> tuple[Any, list[str]]:
    return deltas(decisions)[-1].tools(), whole(decisions)[1]


def items(decisions: list[Decision]) -> tuple[Any, list[str]]:
    """Each turn's new tools are directly before its task. The first turn's tools are the request's own."""
    found, messages = deltas(decisions), list[str]()
    for decision, delta in zip(decisions, found, strict=True):
        later = delta.items("additional_tools") if delta is not found[0] else []
        messages += [*map(compact, later), *said(decision)]
    return found[0].tools(), messages[:-3]


def all_tools(tools: list[Tool]) -> Request:
    definitions = export(tools, "openai")
    return lambda decisions: (definitions, whole(decisions)[1])


def deltas(decisions: list[Decision]) -> list[Delta]:
    found = [decisions[0].delta()]
    for decision in decisions[1:]:
        found.append(decision.delta(found[-1]))
    return found


def measured(request: Request, decisions: list[Decision]) -> tuple[int, int]:
    """Tokens of all requests, and those of them that the request before had in the same place."""
    total, cached, before = 0, 0, ""
    for turn in range(1, len(decisions) + 1):
        tools, messages = request(decisions[:turn])
        text = "\n".join([*map(compact, tools), *messages, ""])
        total += count_tokens(text)
        cached += count_tokens(os.path.commonprefix([before, text]))  # noqa: RUF071  (by characters is what is wanted)
        before = text
    return total, cached


async def decided() -> tuple[list[Decision], list[Tool]]:
    decisions, turns = list[Decision](), list[Turn]()
    async with Router(CATALOGUE) as router:
        for task in TASKS:
            decisions.append(await router.route(task, conversation=turns))
            turns.append(decisions[-1].turn(*decisions[-1].recommended[:1]))
        return decisions, list(await router.engine.catalogue("local"))


def table(decisions: list[Decision], tools: list[Tool]) -> str:
    ways: dict[str, Request] = {
        f"all {len(tools)} tools, always": all_tools(tools),
        "each Decision whole, `decision.tools()`": whole,
        "one list that grows, `delta.tools()`": one_list,
        'appended, `delta.items("additional_tools")`': items,
    }
    lines = [
        "| tools of each turn | prompt tokens | cached | read again |",
        "| --- | --- | --- | --- |",
    ]
    for name, request in ways.items():
        total, cached = measured(request, decisions)
        lines.append(f"| {name} | {total:,} | {cached / total:.0%} | {total - cached:,} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    page = parser.parse_args().write
    found = table(*asyncio.run(decided()))
    print(found)
    if page:
        write(page, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
