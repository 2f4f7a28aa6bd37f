"""`toolroute runs`: lists a tenant's runs on Temporal, and approves, refuses or cancels them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial

import click

from orchestrator.cli.runs.temporal import connect, quiet, target, ui_pages
from orchestrator.cli.shared.command_options import pairs, taking
from orchestrator.cli.shared.output import console, counted, dim, lines, note, present, table
from orchestrator.cli.shared.workspace import Place
from orchestrator.cli.trust.audit import audited
from orchestrator.common.lines import as_json
from orchestrator.errors import InvalidInput
from orchestrator.options import Options
from orchestrator.records.run import Approval, Progress
from orchestrator.temporal.client.run_client import SOON, Listed, RunClient
from orchestrator.trust.audit import of_step

_BY = click.option("--by", default="the command line", metavar="NAME", help="The name that the run's history records.")


@click.group()
def runs() -> None:
    """List, show, approve, refuse and cancel runs."""


async def open_desk(place: Place, options: Options) -> RunClient:
    """Return the tenant's view of the Temporal server that the options name."""
    quiet()
    to = target(options)
    return RunClient(await connect(to), place.tenant, ui_pages(to, options))


@asynccontextmanager
async def _client_of(place: Place, options: Options) -> AsyncIterator[RunClient]:
    from orchestrator.temporal.client.devserver import settle

    try:
        yield await open_desk(place, options)
    finally:
        await settle()


@runs.command("list")
@taking("owner", "temporal server")
@click.option("--all", "ended", is_flag=True, help="Also show finished runs, as long as the server keeps them.")
@click.option("--waiting", is_flag=True, help="Only runs that wait for approval.")
@taking("output")
async def list_runs(place: Place, options: Options, ended: bool, waiting: bool, output: str) -> None:
    """List the tenant's runs, newest first. Finished runs need --all."""
    async with _client_of(place, options) as client:
        found = [one for one in await client.runs(ended=ended) if one.waiting or not waiting]
        present(output, [asdict(one) for one in found], lambda: _show_list(client, found))


def _show_list(client: RunClient, found: list[Listed]) -> None:
    out, rows = console(), table("run", "status", "started", "waits for")
    for one in found:
        rows.add_row(one.id, one.status, one.started, ", ".join(one.waiting))
    if found:
        out.print(rows)
    out.print(dim(f"{counted(len(found), 'run')} of {client.tenant}  {client.pages}".rstrip()))


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--follow", is_flag=True, help="Print each change from the start of RUN to its end.")
@taking("owner", "temporal server", "output")
async def show(run_id: str, place: Place, options: Options, output: str, follow: bool) -> None:
    """Show the steps of RUN and the waiting calls."""
    async with _client_of(place, options) as client:
        if follow:
            await client.run(run_id)
            async for change in client.follow(run_id):
                present(output, asdict(change), partial(_show_change, change))
            return
        found, progress = await client.run(run_id), await client.progress(run_id)
        if progress is None:
            note("toolroute: no worker answers, so the run's steps are unknown. Start one with `toolroute worker`")
        whole = {**asdict(found), "progress": asdict(progress) if progress else None}
        present(output, whole, lambda: _show_run(client, found, progress))


def _show_change(change: Progress) -> None:
    steps = [f"{step.step} {step.tool or 'no tool'}: {step.status.replace('_', ' ')}" for step in change.steps]
    console().print(lines(*(steps or [change.phase])))


def _show_run(client: RunClient, found: Listed, progress: Progress | None) -> None:
    out = console()
    out.print(lines(found.id, style="bold"))
    out.print(dim(f"  {found.workflow}: {found.status}, started {found.started}  {found.link}".rstrip()))
    if progress is None:
        return
    rows = table("step", "task", "tool", "status")
    for step in progress.steps:
        status = f"{step.status.replace('_', ' ')}: {step.reason}".removesuffix(": ")
        rows.add_row(step.step, step.task, step.tool or "no tool matches", status)
    out.print(rows)
    for step in progress.steps:
        if step.digest:
            call = f"{step.step} waits for approval: {step.tool} with {as_json(step.arguments)}"
            approving = client.command("approve", found.id, f"{step.step}={step.digest}")
            out.print(lines(call, f"  {approving}"), soft_wrap=True)  # A command that is folded cannot be pasted.
    if progress.reason:
        out.print(lines(progress.reason, style="red"))


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("calls", metavar="STEP=DIGEST...", nargs=-1, required=True)
@_BY
@taking("owner", "temporal server")
async def approve(run_id: str, calls: tuple[str, ...], by: str, place: Place, options: Options) -> None:
    """Approve these calls of RUN.

    `toolroute runs show RUN` prints the calls with their digests. Only calls with these digests are approved.
    """
    digests = pairs("approve", calls, f"as `toolroute runs show {run_id}` prints it", form="STEP=DIGEST")
    await _say(run_id, [Approval(step=step, digest=digest, by=by) for step, digest in digests.items()], place, options)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("steps", metavar="STEP...", nargs=-1, required=True)
@_BY
@taking("owner", "temporal server")
async def refuse(run_id: str, steps: tuple[str, ...], by: str, place: Place, options: Options) -> None:
    """Refuse steps of RUN. Their tools are not called."""
    await _say(run_id, [Approval(step=step, allowed=False, by=by) for step in steps], place, options)


async def _say(run_id: str, words: list[Approval], place: Place, options: Options) -> None:
    async with _client_of(place, options) as client:
        await client.run(run_id)
        progress = await client.progress(run_id)
        tools = {step.step: step.tool for step in progress.steps} if progress else {}
        for word in words:
            await client.say(run_id, word)
            about = of_step(run_id, tools.get(word.step, ""), word.digest, allowed=word.allowed)
            audited("approval", client.tenant, **about)
            note(f"{word.step} {'approved' if word.allowed else 'refused'}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@taking("owner", "temporal server")
async def cancel(run_id: str, place: Place, options: Options) -> None:
    """Cancel RUN and the calls that are in progress.

    `toolroute runs show RUN` then shows how each step ended.
    """
    async with _client_of(place, options) as client:
        found = await client.run(run_id)
        if not found.under_way:
            raise InvalidInput(f"{run_id} is {found.status}: there is nothing to cancel")
        await client.client.get_workflow_handle(run_id).cancel(rpc_timeout=SOON)
        note(f"{run_id} is being cancelled")
