"""`toolroute experience import`: finished tasks of files, remembered."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, present, progress, warn
from orchestrator.cli.shared.parameter_types import LOG
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.common.digests import digest_of
from orchestrator.errors import InvalidInput
from orchestrator.experience.logs import FORM, Past, read_past, with_keys
from orchestrator.options import Options
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router

if TYPE_CHECKING:
    from orchestrator.store.store import Store

_TOGETHER = 256
"""The number of tasks that are recorded at a time, so that the store writes them together."""


@click.command("import")
@click.argument("logs", type=LOG, nargs=-1, required=True)
@taking("sources", "output")
async def import_log(logs: tuple[Path, ...], workspace: Workspace, output: str) -> None:
    """Remember the finished tasks in LOGS.

    The store must know the tenant's tools. A file of LOGS has one JSON object a line: a task
    ({"query": "...", "used": ["server:tool"], "ok", "actor", "at"}), or a chat with "messages" and tool calls in the
    form of OpenAI's or Anthropic's API. It may also be a transcript of Claude Code
    (~/.claude/projects/*/*.jsonl), Cursor (~/.cursor/projects/*/agent-transcripts/*/*.jsonl) or Codex
    (~/.codex/sessions/*/*/*/*.jsonl). `-` is standard input. A task that is imported twice counts once.
    """
    tenant = workspace.tenant
    store = workspace.known_store()
    options = Options.from_env()
    require_learning(options)
    async with Router(stores=[store, *workspace.stores[1:]], options=options) as router:
        tools = (await router.engine.catalogue(tenant)).tools
        if not tools:
            raise InvalidInput(
                f"tenant {tenant!r} has no tools: import them first with `toolroute tools import`"
            )
        logged, unknown = read_log(logs, tools)
        tasks = _once_each(logged)
        before = _ids(store, tenant)
        await _remember_all(router, tasks, tenant)
        after = _ids(store, tenant)
    store.close()
    # A store drops old and surplus tasks, so it is asked what it has kept.
    ids = {_id(task) for task in tasks}
    counts = {
        "new": len((ids & after) - before),
        "known": len(ids & before),
        "not_kept": len(ids - after - before),
    }
    record = {"tenant": tenant, "tasks": len(tasks), **counts, "unknown": unknown}
    present(output, record, f"{tenant}: {_in_words(counts)}")


def require_learning(options: Options) -> None:
    """Refuse to record past tasks where none is remembered."""
    if options.experience == "off":
        raise InvalidInput(
            "tasks are not remembered, because TOOLROUTE_EXPERIENCE=off. Unset it to record past tasks"
        )


def read_log(logs: Sequence[Path], tools: Sequence[Tool]) -> tuple[list[Past], list[str]]:
    """Read the logs' tasks and replace tool names by these tools' keys.

    Names that fit no tool, or several tools, are returned separately and reported.
    """
    logged = [task for log in logs for task in read_past(log)]
    tasks, unknown = with_keys([task for task in logged if task.query], tools)
    without_text = len(logged) - len(tasks)
    if without_text:
        warn(f"{counted(without_text, 'task')} without text skipped")
    if unknown:
        skipped = counted(len(unknown), "name")
        why = "no known tool, or several tools, have this name"
        remedy = "run `toolroute tools sync`, or use keys"
        warn(f"{skipped} skipped, e.g. {unknown[0]!r}: {why}; {remedy}")
    if not any(task.uses for task in tasks):
        files = ", ".join(map(str, logs))
        warn(f"{files}: no task in it used a known tool; {FORM}")
    return tasks, unknown


def _once_each(tasks: Sequence[Past]) -> list[Past]:
    """Return the tasks that used a tool, of those with the same id the first."""
    by_id: dict[str, Past] = {}
    for task in tasks:
        if task.uses:
            by_id.setdefault(_id(task), task)
    return list(by_id.values())


def _id(task: Past) -> str:
    return task.id or digest_of(task.query, task.used, task.failed, task.actor, task.at)


def _ids(store: "Store", tenant: str) -> set[str]:
    return {outcome.id for outcome in store.outcomes.read(tenant).outcomes}


async def _remember_all(router: Router, tasks: Sequence[Past], tenant: str) -> None:
    with progress("recording tasks") as show:
        for start in range(0, len(tasks), _TOGETHER):
            batch = tasks[start : start + _TOGETHER]
            await asyncio.gather(*(_remember(router, task, tenant) for task in batch))
            show(start + len(batch), len(tasks))


async def _remember(router: Router, task: Past, tenant: str) -> None:
    await router.record(
        task.query,
        used=task.uses,
        tenant=tenant,
        name=_id(task),
        source="import",
        ok=task.ok,
        actor=task.actor,
        at=task.at,
        chosen=task.chosen,
    )


def _in_words(counts: dict[str, int]) -> str:
    text = f"{counted(counts['new'], 'task')} remembered, {counts['known']} already known"
    if counts["not_kept"]:
        text += f", {counts['not_kept']} not kept: too old (experience_days), too many, or without a known word"
    return text
