"""`toolroute experience replay`: past tasks routed again, before something changes for good."""

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.shared.command_options import DATE, LOG, TOOLS, derived, taking, typed
from orchestrator.cli.shared.output import console, counted, dim, present, progress, table, warn
from orchestrator.cli.shared.workspace import Place
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.replay_decisions import Replayed, read_tasks, replay_all, summary, tasks_of
from orchestrator.options import Options
from orchestrator.runtime.router import Router

_SHOWN = 20
_MEANS = ("confidence", "tokens", "servers")


@click.command()
@taking("sources", "calibration")
@click.option("--catalogue", metavar="FILE|FOLDER", type=TOOLS, help="Route among these tools instead of the store's.")
@derived(Options, "embedder", "Use this embedder: static, a model2vec folder, or openai:MODEL.")
@click.option("--since", metavar="DATE", type=DATE, help="Only tasks since this date.")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=LOG,
    help="Read the past tasks from a file of `route -o json`, or from a Temporal history in JSON.",
)
@taking("output")
async def replay(
    place: Place,
    options: Options,
    since: float | None,
    source: Path | None,
    output: str,
) -> int:
    """Route past tasks again and show how a change affects them.

    The change can be another catalogue, pipeline, embedder or calibration. The past tasks are read from the store. They
    are not used as experience during the replay.

    Exit codes: 6 a task lost a tool that it used, 1 the semantic search was needed and failed, 2 there is nothing to
    replay, or no change is given.
    """
    if source is not None and since is not None:
        raise InvalidInput("--since applies to remembered tasks only: leave it out with --from")
    if source is None and not any(map(typed, ("catalogue", "embedder", "pipeline", "calibration"))):
        raise InvalidInput("nothing to change: give --catalogue, --pipeline, --embedder or --calibration")
    async with AsyncExitStack() as stack:
        store = None if source is not None and place.catalogue is not None else place.known_store()
        if source is not None:
            tasks = read_tasks(source)
        elif store is not None:
            tasks = tasks_of(store.outcomes.read(place.tenant).outcomes, since or 0.0)
        if not tasks:
            remedy = "`toolroute experience list` shows the remembered tasks"
            raise InvalidInput(f"nothing to replay: {place.tenant!r} has no successful task with its text. {remedy}")
        where: dict[str, Any] = {"catalogue": place.catalogue} if place.catalogue else {"stores": place.stores}
        after = await stack.enter_async_context(Router(**where, options=replace(options, experience="off")))
        before = None
        if store is not None:
            before = await stack.enter_async_context(
                Router(stores=place.stores, options=replace(Options.from_env(), experience="off"))
            )
        with progress("replaying tasks") as done:
            found = await replay_all(tasks, before, after, place.tenant, done)
    result = summary(found)
    present(output, result, lambda: _show(result, found))
    for reason, number in result["semantic_failures"].items():
        warn([f"semantic search failed for {counted(number, 'task')}, compared by keyword search only: {reason}"])
    return 1 if result["semantic_failures"] else 6 if result["lost"] else 0


def _show(result: dict[str, Any], found: list[Replayed]) -> None:
    out = console()
    rows = table("task", "lost", "gained", "moved", "confidence")
    for one in [one for one in found if one.lost or one.gained or one.moved][:_SHOWN]:
        moved = ", ".join(f"{key} {then} to {now}" for key, (then, now) in one.moved.items())
        sure = f"{one.before.confidence:.2f} to {one.after.confidence:.2f}"
        rows.add_row(one.query[:60], ", ".join(one.lost), ", ".join(one.gained), moved, sure)
    out.print(rows)
    means = (f"{name} {result[name]['before']:g} to {result[name]['after']:g}" for name in _MEANS)
    changes = ", ".join(f"{result[name]} {name}" for name in ("lost", "gained", "moved"))
    counts = f"{counted(result['tasks'], 'task')}: {changes}, {result['gate_flips']} found by other legs"
    out.print(dim(counts, f"mean {', '.join(means)}"))
