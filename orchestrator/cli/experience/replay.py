"""`toolroute experience replay`: past tasks routed again, before something changes for good."""

from dataclasses import replace
from typing import Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.derived_options import derived
from orchestrator.cli.shared.output import counted, present, print_table, progress, warn
from orchestrator.cli.shared.parameter_types import DATE, TOOLS
from orchestrator.cli.shared.typed_options import typed
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.replay_decisions import (
    Replayed,
    replay_all,
    summary,
    tasks_of,
)
from orchestrator.options import Options
from orchestrator.runtime.router import Router

_MOST_TASKS = 20
"""The tasks in the table. `-o json` has all of them."""
_MEANS = ("confidence", "tokens", "servers")
_CHANGES = ("catalogue", "embedder", "pipeline", "calibration")
"""The options of which at least one is needed. Without a change, both routes of a task would be the same."""
LOST_TOOLS = 6
"""The exit code if a task lost a tool that it used."""


@click.command()
@taking("sources", "calibration")
@click.option(
    "--catalogue",
    metavar="FILE|FOLDER",
    type=TOOLS,
    help="Route among these tools instead of the store's.",
)
@derived(Options, "embedder", "Use this embedder: static, a model2vec folder, or openai:MODEL.")
@click.option("--since", metavar="DATE", type=DATE, help="Only tasks since this date.")
@taking("output")
async def replay(
    workspace: Workspace,
    options: Options,
    since: float | None,
    output: str,
) -> int:
    """Route past tasks again and show how a change affects them.

    The change can be another catalogue, pipeline, embedder or calibration. The past tasks are read from the store. They
    are not used as experience during the replay.

    Exit codes: 6 a task lost a tool that it used, 1 the semantic search was needed and failed, 2 there is nothing to
    replay, or no change is given.
    """
    if not any(map(typed, _CHANGES)):
        raise InvalidInput(
            "nothing to change: give --catalogue, --pipeline, --embedder or --calibration"
        )
    replayed = await _replay(workspace, options, since or 0.0)
    result = summary(replayed)
    present(output, result, lambda: _print_replayed(result, replayed))
    failures = result["semantic_failures"]
    for reason, number in failures.items():
        warn(
            f"semantic search failed for {counted(number, 'task')}, compared by keyword search only: {reason}"
        )
    if failures:
        return 1
    return LOST_TOOLS if result["lost"] else 0


async def _replay(workspace: Workspace, options: Options, since: float) -> list[Replayed]:
    """Route the tasks before and after the change."""
    tasks = tasks_of(workspace.known_store().outcomes.read(workspace.tenant).outcomes, since)
    if not tasks:
        remedy = "`toolroute experience list` shows the remembered tasks"
        raise InvalidInput(
            f"nothing to replay: {workspace.tenant!r} has no successful task with its text. {remedy}"
        )
    stores = workspace.stores
    # With experience, each task would find itself, and no change would show.
    unchanged = replace(Options.from_env(), experience="off")
    changed = replace(options, experience="off")
    before = Router(stores=stores, options=unchanged)
    if workspace.catalogue:
        after = Router(workspace.catalogue, options=changed)
    else:
        after = Router(stores=stores, options=changed)
    async with before, after:
        with progress("replaying tasks") as show:
            return await replay_all(tasks, before, after, workspace.tenant, show)


def _print_replayed(result: dict[str, Any], replayed: list[Replayed]) -> None:
    different = [task for task in replayed if task.lost or task.gained or task.moved]
    columns = ("task", "lost", "gained", "moved", "confidence")
    rows = map(_row, different[:_MOST_TASKS])
    print_table(columns, rows, footer=(_counts(result), _means(result)))


def _counts(result: dict[str, Any]) -> str:
    tasks = counted(result["tasks"], "task")
    changes = ", ".join(f"{result[name]} {name}" for name in ("lost", "gained", "moved"))
    return f"{tasks}: {changes}, {result['gate_flips']} found by other legs"


def _means(result: dict[str, Any]) -> str:
    changes = list[str]()
    for name in _MEANS:
        means = result[name]
        changes.append(f"{name} {means['before']:g} to {means['after']:g}")
    return f"mean {', '.join(changes)}"


def _row(task: Replayed) -> tuple[str, ...]:
    moved = ", ".join(f"{key} {before} to {after}" for key, (before, after) in task.moved.items())
    confidence = f"{task.before.confidence:.2f} to {task.after.confidence:.2f}"
    return task.query[:60], ", ".join(task.lost), ", ".join(task.gained), moved, confidence
