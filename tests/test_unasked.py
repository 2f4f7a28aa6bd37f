"""Nothing that nobody asked for: sentences that ask for no change, over a catalogue whose tools change much."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.fields import SHORTEST_S
from orchestrator.planning.approval import needs_approval
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router
from orchestrator.store.store import Store
from orchestrator.temporal.plugin import OrchestratorPlugin
from tests.catalogues import sample, taking, tool
from tests.runner import Serve, statuses
from tests.stores import shipped

TOOLS = (
    tool("desktop:empty_trash", "Empty the trash for good."),
    tool("database:drop_table", "Drop a table of the database.", input_schema=taking("table", table="Its name")),
    tool("git:delete_branch", "Delete a branch.", input_schema=taking("name", name="The branch")),
    tool("git:list_branches", "List the branches."),
    tool("files:read_file", "Read a text file.", input_schema=taking("path", path="Where it is")),
)


def sentences() -> Iterator[tuple[str, str]]:
    """Yield each with its kind; a fence of backquotes holds one of several lines."""
    kind, fence = "", list[str]()
    for line in (Path(__file__).parent / "cases" / "unasked.txt").read_text(encoding="utf-8").splitlines():
        fence = [*fence, line] if fence or line == "```" else []
        if line.startswith("# "):
            kind = line[2:]
        elif not fence:
            yield kind, line
        elif line == "```" and len(fence) > 1:
            yield kind, "\n".join(fence)
            fence = []


CHANGING = {"empty_trash", "drop_table", "delete_branch"}
READING = {
    "s3:list_objects",
    "shopify:getOrder",
    "files:read_file",
    "git:list_branches",
    "builtin:ask_user",
    "postgres:list_schemas",
}
"""What these sentences may call at once: each was looked at, and changes nothing."""


async def test_no_sentence_that_asks_for_no_change_changes_anything_without_a_persons_word() -> None:
    free, ready, kinds = set[str](), Counter[str](), Counter[str]()
    async with Router(Catalogue([*sample().tools, *TOOLS])) as router:
        for kind, task in sentences():
            decision = await router.route(task)
            steps = plan(PlanRequest(decision=decision)).steps
            waiting = [step for step in steps if (found := decision.tool(step.tool)) and needs_approval(found)]
            free |= {step.tool for step in steps if step.tool and step not in waiting}
            kinds[kind] += 1
            ready[kind] += any(not step.missing for step in waiting)
    assert free <= READING
    assert sum(kinds.values()) >= 130
    assert ready["negated"] == 0, "what a task says is not to be done needs no word: it is not planned"


@pytest.mark.slow
async def test_neither_does_any_run(serve: Serve) -> None:
    called: list[str] = []
    executors = {found.key: partial(called.append, found.key) for found in TOOLS if found.name in CHANGING}
    plugin = OrchestratorPlugin(catalogue=Catalogue(TOOLS), executors=executors)
    runner = await serve(plugin, max_cached_workflows=20)
    tasks = [*(task for _, task in sentences()), "Empty the trash."]
    waiting = {"approve": "changes", "approval_timeout_s": SHORTEST_S}
    runs = [await runner.start(task, **waiting) for task in tasks[::5]]
    ended = [statuses(await asyncio.wait_for(run.result(), 60)) for run in runs]
    assert called == []
    assert ended[-1] == ["needs_approval"]


def issues_of(server: str) -> tuple[Tool, ...]:
    return (tool(f"{server}:create_issue", "Create an issue"), tool(f"{server}:list_issues", "List the issues"))


async def test_neither_another_tenants_server_nor_one_that_cannot_be_listed_is_replaced(tmp_path: Path) -> None:
    alone, shared = Store(tmp_path / "alone", embedder=shipped()), Store(tmp_path / "shared", embedder=shipped())
    for store in (alone, shared):
        store.replace_server("org:a", "acme-live", issues_of("acme-live"))
        store.note_failures("org:a", {"github": "connection refused"})
    shared.replace_server("org:b", "acme-test", issues_of("acme-test"))
    seen = []
    for store in (alone, shared):
        async with Router(store=store) as router:
            for task in (
                "create an issue on acme-test",
                "use acme-test to list the issues",
                "create an issue on GitHub",
            ):
                decision = await router.route(RouteRequest(query=task, tenant="org:a"))
                made = plan(PlanRequest(decision=decision))
                assert (made.steps, len(made.needs_input)) == ((), 1), task
                seen.append((task, made.needs_input, decision.warnings, [match.tool.key for match in decision.matches]))
        store.close()
    assert seen[:3] == seen[3:], "whether another tenant has the server changes nothing"
    assert seen[0][1] == ("the task names the server 'acme-test', which has no tools here; did you mean acme-live?",)
