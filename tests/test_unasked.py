"""No unasked actions: sentences that ask for no change, over a catalogue whose tools change much."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from orchestrator import Catalogue, Router, RouteRequest, Store, Tool
from orchestrator.trust.approval_rules import needs_approval
from tests.catalogues import sample, taking, tool
from tests.decisions import plan_without_model
from tests.stores import shipped

TOOLS = (
    tool("desktop:empty_trash", "Empty the trash for good."),
    tool("database:drop_table", "Drop a table of the database.", input_schema=taking("table", table="Its name")),
    tool("git:delete_branch", "Delete a branch.", input_schema=taking("name", name="The branch")),
    tool("git:list_branches", "List the branches."),
    tool("files:read_file", "Read a text file.", input_schema=taking("path", path="Where it is")),
)


def sentences() -> Iterator[tuple[str, str]]:
    """Yield each sentence with its kind. A fence of backquotes encloses a sentence of several lines."""
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


READING = {
    "s3:list_objects",
    "shopify:getOrder",
    "files:read_file",
    "git:list_branches",
    "builtin:ask_user",
    "postgres:list_schemas",
    "translate:translate_text",
    "translate:detect_language",
    "gmail:search_messages",
    "datadog:search_logs",
}
"""What these sentences may call at once: each was looked at, and changes nothing."""


async def test_no_sentence_that_asks_for_no_change_changes_anything_without_a_persons_word() -> None:
    free, ready, kinds = set[str](), Counter[str](), Counter[str]()
    async with Router(Catalogue([*sample().tools, *TOOLS])) as router:
        for kind, task in sentences():
            decision = await router.route(task)
            steps = (await plan_without_model(decision)).steps
            waiting = [step for step in steps if (found := decision.tool(step.tool)) and needs_approval(found)]
            free |= {step.tool for step in steps if step.tool and step not in waiting}
            kinds[kind] += 1
            ready[kind] += any(not step.missing for step in waiting)
    assert free <= READING
    assert sum(kinds.values()) >= 130
    assert ready["negated"] == 0, "what a task says is not to be done needs no word: it is not planned"


def issues_of(server: str) -> tuple[Tool, ...]:
    return (tool(f"{server}:create_issue", "Create an issue"), tool(f"{server}:list_issues", "List the issues"))


async def test_another_tenants_servers_change_nothing_and_an_unlisted_one_is_not_replaced(tmp_path: Path) -> None:
    alone, shared = Store(tmp_path / "alone", embedder=shipped()), Store(tmp_path / "shared", embedder=shipped())
    for store in (alone, shared):
        store.replace_server("org:a", "acme-live", issues_of("acme-live"))
        store.records.note_failures("org:a", {"github": "connection refused"})
    shared.replace_server("org:b", "acme-test", issues_of("acme-test"))
    seen = []
    for store in (alone, shared):
        async with Router(store=store) as router:
            for task in ("use acme-test to list the issues", "create an issue on GitHub"):
                decision = await router.route(RouteRequest(query=task, tenant="org:a"))
                made = await plan_without_model(decision)
                seen.append((made.needs_input, decision.warnings, [match.tool.key for match in decision.matches]))
        store.close()
    assert seen[:2] == seen[2:], "whether another tenant has the server changes nothing"
    assert (made.steps, made.needs_input) == (
        (),
        ("the task names the server 'github', but its tools are not listed yet: run `toolroute tools sync`",),
    )
