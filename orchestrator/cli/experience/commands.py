"""`toolroute experience`: the remembered tasks of a tenant."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.experience.replay import replay
from orchestrator.cli.shared.command_options import DATE, LOG, taking
from orchestrator.cli.shared.output import console, counted, dim, echo_json, note, present, progress, table, warn
from orchestrator.cli.shared.workspace import Place
from orchestrator.common.digests import digest_of
from orchestrator.common.lines import inline
from orchestrator.errors import InvalidInput
from orchestrator.experience.figures import figures
from orchestrator.experience.logs import FORM, Past, read_past, with_keys
from orchestrator.options import Options
from orchestrator.records.outcome import Outcome
from orchestrator.records.tool import Tool
from orchestrator.runtime.recording import actor_name
from orchestrator.runtime.router import Router
from orchestrator.store.outcomes import StoredOutcomes
from orchestrator.store.store import Store

_TOGETHER = 256
"""The number of tasks that are recorded at a time, so that the store writes them together."""
_SHOWN_TOOLS = 20


@click.group()
def experience() -> None:
    """Import, list, measure, replay and forget finished tasks."""


experience.add_command(replay)


@experience.command("import")
@click.argument("logs", type=LOG, nargs=-1, required=True)
@taking("sources", "output")
async def import_log(logs: tuple[Path, ...], place: Place, output: str) -> None:
    """Remember the finished tasks in LOGS.

    The store must know the tenant's tools. A file of LOGS has one JSON object a line: a task
    ({"query": "...", "used": ["server:tool"], "ok", "actor", "at"}), or a chat with "messages" and tool calls in the
    form of OpenAI's or Anthropic's API. It may also be a transcript of Claude Code
    (~/.claude/projects/*/*.jsonl), Cursor (~/.cursor/projects/*/agent-transcripts/*/*.jsonl) or Codex
    (~/.codex/sessions/*/*/*/*.jsonl). `-` is standard input. A task that is imported twice counts once.
    """
    store, options = place.known_store(), Options.from_env()
    check_learns(options)
    async with Router(stores=[store, *place.stores[1:]], options=options) as router:
        tools = (await router.engine.catalogue(place.tenant)).tools
        if not tools:
            raise InvalidInput(f"tenant {place.tenant!r} has no tools: import them first with `toolroute tools import`")
        found, unknown = read_log(logs, tools)
        tasks = [*{_name(task): task for task in reversed(found) if task.uses}.values()][::-1]
        before = _ids(store, place.tenant)
        with progress("recording tasks") as done:
            for start in range(0, len(tasks), _TOGETHER):
                own = tasks[start : start + _TOGETHER]
                await asyncio.gather(*(_remember(router, task, place.tenant) for task in own))
                done(start + len(own), len(tasks))
        names, after = {_name(task) for task in tasks}, _ids(store, place.tenant)
    store.close()
    known, new = names & before, (names & after) - before
    counts = {"new": len(new), "known": len(known), "not_kept": len(names - after - before)}
    shown = {"tenant": place.tenant, "tasks": len(tasks), **counts, "unknown": unknown}
    text = f"{counted(len(new), 'task')} remembered, {len(known)} already known"
    if counts["not_kept"]:
        text += f", {counts['not_kept']} not kept: too old (experience_days), too many, or without a known word"
    present(output, shown, lambda: click.echo(inline(f"{place.tenant}: {text}")))


def check_learns(options: Options) -> None:
    """Refuse to record past tasks where none is remembered."""
    if options.experience == "off":
        raise InvalidInput("tasks are not remembered, because TOOLROUTE_EXPERIENCE=off. Unset it to record past tasks")


def read_log(logs: Sequence[Path], tools: Sequence[Tool]) -> tuple[list[Past], list[str]]:
    """Read the logs' tasks and replace tool names by these tools' keys.

    Names that fit no tool, or several tools, are returned separately and reported.
    """
    read = [task for log in logs for task in read_past(log)]
    tasks, unknown = with_keys([task for task in read if task.query], tools)
    if len(tasks) < len(read):
        warn([f"{counted(len(read) - len(tasks), 'task')} without text skipped"])
    if unknown:
        skipped = f"{counted(len(unknown), 'name')} skipped, e.g. {unknown[0]!r}"
        warn([f"{skipped}: no known tool, or several tools, have this name; run `toolroute tools sync`, or use keys"])
    if not any(task.uses for task in tasks):
        warn([f"{', '.join(map(str, logs))}: no task in it used a known tool; {FORM}"])
    return tasks, unknown


def _ids(store: Store, tenant: str) -> set[str]:
    return {outcome.id for outcome in store.outcomes.read(tenant).outcomes}


def _name(task: Past) -> str:
    return task.id or digest_of(task.query, task.used, task.failed, task.actor, task.at)


async def _remember(router: Router, task: Past, tenant: str) -> None:
    given: dict[str, Any] = {"ok": task.ok, "actor": task.actor, "at": task.at, "chosen": task.chosen}
    await router.record(task.query, used=task.uses, tenant=tenant, name=_name(task), source="import", **given)


@experience.command("list")
@taking("tenant", "output")
@click.option(
    "--last", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Show the newest N entries."
)
def list_tasks(place: Place, output: str, last: int) -> None:
    """List the newest remembered tasks and the tools that they used."""
    tasks = _kept(place).outcomes[-last:]
    rows = [_line(task) for task in tasks]

    def show() -> None:
        made = table("when", "who", "used", "task")
        for row in rows:
            failed = "" if row["ok"] else "failed: "
            used = ", ".join([*row["used"], *(f"{key} (failed)" for key in row["failed"])])
            made.add_row(row["at"][:16], row["actor"], failed + used, row["query"][:60])
        console().print(made)

    present(output, {"tenant": place.tenant, "tasks": rows}, show)


@experience.command()
@taking("tenant", "output")
def stats(place: Place, output: str) -> None:
    """Show how often routing was right.

    The table has the share of tasks whose first match was used, by week and by number of tasks. It also has the
    number of calls of each tool.
    """
    found = figures(_kept(place).outcomes)
    present(output, {"tenant": place.tenant, **found}, lambda: _show(found))


@experience.command()
@taking("tenant")
@click.option("--before", metavar="DATE", type=DATE, help="Tasks before this date.")
@click.option("--tool", metavar="KEY", help="Tasks that used this tool.")
@click.option("--actor", metavar="NAME", help="Tasks of this actor.")
@click.option("--all", "everything", is_flag=True, help="All tasks of the tenant.")
@taking("output")
def forget(
    place: Place, before: float | None, tool: str | None, actor: str | None, everything: bool, output: str
) -> None:
    """Forget the tasks that match all given options."""
    tests: list[Callable[[Outcome], bool]] = []
    if before is not None:
        tests.append(lambda task: task.at < before)
    if tool is not None:
        tests.append(lambda task: any(use.tool == tool for use in task.used))
    if actor is not None:
        tests.append(lambda task: task.actor in (actor, actor_name(actor)))
    if bool(tests) == everything:
        raise InvalidInput("nothing to forget: give --before, --tool or --actor, or only --all")
    outcomes = place.known_store().outcomes
    if everything:
        gone = outcomes.forget_all(place.tenant)
    else:
        gone = outcomes.forget(place.tenant, lambda task: all(test(task) for test in tests))
    shown = {"tenant": place.tenant, "forgotten": gone}
    present(output, shown, lambda: click.echo(inline(f"{place.tenant}: {counted(gone, 'task')} forgotten")))


@experience.command()
@taking("tenant")
def export(place: Place) -> None:
    """Write all tasks as JSON lines, for `import`."""
    tasks = _kept(place).outcomes
    for task in tasks:
        echo_json(_line(task), indent=None)
    if missing := sum(not task.query for task in tasks):
        note(f"{counted(missing, 'task')} kept without text. `import` cannot read them")


def _kept(place: Place) -> StoredOutcomes:
    kept = place.known_store().outcomes.read(place.tenant)
    if kept.damaged:
        warn(
            [f"{counted(kept.damaged, 'task')} cannot be read. Remove them with `toolroute experience forget --before`"]
        )
    return kept


def _line(task: Outcome) -> dict[str, Any]:
    return {
        "id": task.id,
        "query": task.query,
        "used": [use.tool for use in task.used if use.ok],
        "failed": [use.tool for use in task.used if not use.ok],
        "ok": task.ok,
        "actor": task.actor,
        "at": datetime.fromtimestamp(task.at, UTC).isoformat(),
        "source": task.source,
        "chosen": task.chosen,
    }


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _show(found: dict[str, Any]) -> None:
    out = console()
    weeks = table("week", "tasks", "best tool used", right=("tasks", "best tool used"))
    for week in found["weeks"]:
        weeks.add_row(week["week"], str(week["tasks"]), _share(week["right"]))
    tools = table("tool", "calls", "failed", "ms", right=("calls", "failed", "ms"))
    for key, own in list(found["tools"].items())[:_SHOWN_TOOLS]:
        tools.add_row(key, str(own["calls"]), str(own["failures"]), "-" if own["ms"] is None else f"{own['ms']:.0f}")
    out.print(weeks)
    out.print()
    out.print(tools)
    curve = ", ".join(f"{_share(step['right'])} up to {step['tasks']:,}" for step in found["curve"])
    more = max(0, len(found["tools"]) - _SHOWN_TOOLS)
    lines = [f"{counted(found['tasks'], 'task')}; best tool used: {curve or '-'}"]
    out.print(dim(*([f"and {counted(more, 'tool')} more"] if more else []), *lines))
    if tasks := found["guarantees"][0]["queries"]:
        out.print()
        show_guarantees(found["guarantees"], f"the latest {counted(tasks, 'task')} of this tenant with a known choice")


def show_guarantees(found: Sequence[Mapping[str, Any]], measured_on: str) -> None:
    """Show from which confidence on each level holds, and the scope of the promise."""
    columns = ("level", "confidence from", "recommended", "right")
    rows = table(*columns, right=columns)
    for own in found:
        shares = (own["recommended"] / own["queries"], own["right"] / own["recommended"]) if own["recommended"] else ()
        threshold = "-" if own["threshold"] is None else f"{own['threshold']:.3f}"
        rows.add_row(f"{own['level']:.0%}", threshold, *(map(_share, shares or (None, None))))
    out = console()
    out.print(rows)
    out.print(
        dim(
            "level: of the tools that are recommended from this confidence on, at least this share is right",
            "recommended: the share of tasks that reach it; right: how many of these had the right tool first",
            f"measured on {measured_on}; it holds in the mean for further tasks like these, not for other catalogues",
            "-: too few tasks, or too many wrong ones, for this level",
        )
    )
