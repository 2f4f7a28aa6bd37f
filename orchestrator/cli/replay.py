"""`toolroute replay`: past tasks routed again, before something changes for good."""

from contextlib import AsyncExitStack
from dataclasses import replace as with_other
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.experience import date
from orchestrator.cli.options import LOG, TEXT, TOOLS, Place, taking, typed
from orchestrator.cli.output import console, counted, dim, present, progress, table, warn
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.replay import Replayed, read_tasks, replay, summary, tasks_of
from orchestrator.options import Options
from orchestrator.runtime.router import Router

_SHOWN = 20
_MEANS = ("confidence", "tokens", "servers")


@click.command("replay")
@taking("sources", "calibration")
@click.option("--catalogue", metavar="FILE|FOLDER", type=TOOLS, help="Route among these tools instead of the store's.")
@click.option("--embedder", metavar="NAME", type=TEXT, help="Embed by this one.")
@click.option("--since", metavar="DATE", help="Only tasks from this date on.")
@click.option("--from", "source", metavar="FILE", type=LOG, help="Decisions, or a workflow's history, for past tasks.")
@taking("output")
async def replay_tasks(
    place: Place,
    options: Options,
    embedder: str | None,
    since: str | None,
    source: Path | None,
    output: str,
) -> int:
    """Show what a change would do to past tasks.

    They are routed again under another catalogue, pipeline, embedder or calibration.

    Past tasks are those that the store remembers; they do not count while they are replayed. Exit code 6 when a task
    lost a tool that it used, 1 when meaning was to be searched and failed.
    """
    if source is not None and since is not None:
        raise InvalidInput("--since chooses among remembered tasks: leave it out with --from")
    if source is None and not (place.catalogue or embedder or typed("pipeline") or typed("calibration")):
        raise InvalidInput("say what is to change: give --catalogue, --pipeline, --embedder or --calibration")
    still = with_other(options, experience="off")
    changed = with_other(still, embedder=embedder) if embedder else still
    async with AsyncExitStack() as stack:
        store = None if source is not None and place.catalogue is not None else place.known_store()
        if source is not None:
            tasks = read_tasks(source)
        elif store is not None:
            tasks = tasks_of(store.outcomes.read(place.tenant).outcomes, date("--since", since) if since else 0.0)
        if not tasks:
            remedy = "so none is replayed: `toolroute experience list` shows what is remembered"
            raise InvalidInput(f"no task of {place.tenant!r} that went well has its text kept, {remedy}")
        where: dict[str, Any] = {"catalogue": place.catalogue} if place.catalogue else {"stores": place.stores}
        after = await stack.enter_async_context(Router(**where, options=changed))
        plain = Options.from_env(experience="off")
        before = None if store is None else Router(stores=place.stores, options=plain)
        if before is not None:
            await stack.enter_async_context(before)
        with progress("replaying tasks") as done:
            found = await replay(tasks, before, after, place.tenant, done)
    result = summary(found)
    present(output, result, lambda: _show(result, found))
    for reason, number in result["semantic_failures"].items():
        warn([f"the semantic leg failed for {counted(number, 'task')}, compared by keywords alone: {reason}"])
    return 1 if result["semantic_failures"] else 6 if result["lost"] else 0


def _show(result: dict[str, Any], found: list[Replayed]) -> None:
    out = console()
    rows = table("task", "lost", "gained", "moved", "sure")
    for one in [one for one in found if one.lost or one.gained or one.moved][:_SHOWN]:
        moved = ", ".join(f"{key} {then} to {now}" for key, (then, now) in one.moved.items())
        sure = f"{one.before.confidence:.2f} to {one.after.confidence:.2f}"
        rows.add_row(one.query[:60], ", ".join(one.lost), ", ".join(one.gained), moved, sure)
    out.print(rows)
    means = (f"{name} {result[name]['before']:g} to {result[name]['after']:g}" for name in _MEANS)
    changes = ", ".join(f"{result[name]} {name}" for name in ("lost", "gained", "moved"))
    counts = f"{counted(result['tasks'], 'task')}: {changes}, {result['gate_flips']} by other legs"
    out.print(dim(counts, f"mean {', '.join(means)}"))
