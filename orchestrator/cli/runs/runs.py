"""`toolroute runs`: lists a tenant's runs on Temporal, and approves, refuses or cancels them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial

import click

from orchestrator.cli.runs.reporter import step_line
from orchestrator.cli.runs.temporal import connect, quiet, target, ui_pages
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.derived_options import pairs
from orchestrator.cli.shared.output import console, counted, dim, lines, note, present, print_table
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited
from orchestrator.cli.trust.consent import is_at_terminal, without_digests
from orchestrator.common.lines import shown_json
from orchestrator.errors import InvalidInput
from orchestrator.options import Options
from orchestrator.records.run import Approval, Progress
from orchestrator.temporal.client.run_client import SOON, Listed, RunClient
from orchestrator.trust.audit import of_step

_BY = click.option(
    "--by",
    default="the command line",
    metavar="NAME",
    help="The name that the run's history records.",
)


@click.group()
def runs() -> None:
    """List, show, approve, refuse and cancel runs."""


async def open_run_client(workspace: Workspace, options: Options) -> RunClient:
    """Return the tenant's view of the Temporal server that the options name."""
    quiet()
    server = target(options)
    return RunClient(await connect(server), workspace.tenant, ui_pages(server, options))


@asynccontextmanager
async def _client_of(workspace: Workspace, options: Options) -> AsyncIterator[RunClient]:
    from orchestrator.temporal.client.devserver import settle

    try:
        yield await open_run_client(workspace, options)
    finally:
        await settle()


@runs.command("list")
@taking("owner", "temporal server")
@click.option(
    "--all",
    "ended",
    is_flag=True,
    help="Also show finished runs, as long as the server keeps them.",
)
@click.option("--waiting", is_flag=True, help="Only runs that wait for approval.")
@taking("output")
async def list_runs(
    workspace: Workspace, options: Options, ended: bool, waiting: bool, output: str
) -> None:
    """List the tenant's runs, newest first. Finished runs need --all."""
    async with _client_of(workspace, options) as client:
        listed = await client.runs(ended=ended, waiting=waiting)
        present(output, [asdict(run) for run in listed], lambda: _print_list(client, listed))


def _print_list(client: RunClient, listed: list[Listed]) -> None:
    if listed:
        rows = [(run.id, run.status, run.started, ", ".join(run.waiting)) for run in listed]
        print_table(("run", "status", "started", "waits for"), rows)
    console().print(
        dim(f"{counted(len(listed), 'run')} of {client.tenant}  {client.pages}".rstrip())
    )


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--follow", is_flag=True, help="Print each change from the start of RUN to its end.")
@taking("owner", "temporal server", "output")
async def show(
    run_id: str, workspace: Workspace, options: Options, output: str, follow: bool
) -> None:
    """Show the steps of RUN and the waiting calls."""
    async with _client_of(workspace, options) as client:
        run = await client.run(run_id)
        if follow:
            async for change in client.follow(run_id):
                record = without_digests(asdict(change))
                present(output, record, partial(_print_change, change))
            return
        progress = await client.progress(run_id)
        if progress is None:
            note(
                "toolroute: no worker answers, so the run's steps are unknown. Start one with `toolroute worker`"
            )
        steps = without_digests(asdict(progress)) if progress else None
        record = {**asdict(run), "progress": steps}
        present(output, record, lambda: _print_run(client, run, progress))


def _print_change(change: Progress) -> None:
    steps = list(map(step_line, change.steps))
    console().print(lines(*(steps or [change.phase])))


def _print_run(client: RunClient, run: Listed, progress: Progress | None) -> None:
    screen = console()
    screen.print(lines(run.id, style="bold"))
    screen.print(dim(f"  {run.workflow}: {run.status}, started {run.started}  {run.link}".rstrip()))
    if progress is None:
        return
    rows = []
    for step in progress.steps:
        status = f"{step.status.in_words}: {step.reason}".removesuffix(": ")
        rows.append((step.step, step.task, step.tool or "no tool matches", status))
    print_table(("step", "task", "tool", "status"), rows)
    for step in progress.steps:
        if step.digest:
            call = f"{step.step} waits for approval: {step.tool} with {shown_json(step.arguments)}"
            if is_at_terminal():
                command = client.command("approve", run.id, f"{step.step}={step.digest}")
            else:
                command = (
                    f"{client.command('show', run.id)}  # in a terminal, which shows the digest"
                )
            # A command that is folded cannot be pasted.
            screen.print(lines(call, f"  {command}"), soft_wrap=True)
    if progress.reason:
        screen.print(lines(progress.reason, style="red"))


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("calls", metavar="STEP=DIGEST...", nargs=-1, required=True)
@_BY
@taking("owner", "temporal server")
async def approve(
    run_id: str, calls: tuple[str, ...], by: str, workspace: Workspace, options: Options
) -> None:
    """Approve these calls of RUN.

    `toolroute runs show RUN` shows the calls with their digests in a terminal. Only calls with these digests
    are approved.
    """
    remedy = f"as `toolroute runs show {run_id}` prints it"
    digests = pairs("approve", calls, remedy, form="STEP=DIGEST")
    approvals = [Approval(step=step, digest=digest, by=by) for step, digest in digests.items()]
    await _answer(run_id, approvals, workspace, options)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("steps", metavar="STEP...", nargs=-1, required=True)
@_BY
@taking("owner", "temporal server")
async def refuse(
    run_id: str, steps: tuple[str, ...], by: str, workspace: Workspace, options: Options
) -> None:
    """Refuse steps of RUN. Their tools are not called."""
    await _answer(
        run_id, [Approval(step=step, allowed=False, by=by) for step in steps], workspace, options
    )


async def _answer(
    run_id: str, approvals: list[Approval], workspace: Workspace, options: Options
) -> None:
    async with _client_of(workspace, options) as client:
        await client.run(run_id)  # It raises an error for a run of another tenant.
        progress = await client.progress(run_id)
        tools = {step.step: step.tool for step in progress.steps} if progress else {}
        for approval in approvals:
            await client.answer(run_id, approval)
            tool = tools.get(approval.step, "")
            audited(
                "approval",
                client.tenant,
                **of_step(run_id, tool, approval.digest, allowed=approval.allowed),
            )
            note(f"{approval.step} {'approved' if approval.allowed else 'refused'}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@taking("owner", "temporal server")
async def cancel(run_id: str, workspace: Workspace, options: Options) -> None:
    """Cancel RUN and the calls that are in progress.

    `toolroute runs show RUN` then shows how each step ended.
    """
    async with _client_of(workspace, options) as client:
        run = await client.run(run_id)
        if not run.under_way:
            raise InvalidInput(f"{run_id} is {run.status}: there is nothing to cancel")
        await client.client.get_workflow_handle(run_id).cancel(rpc_timeout=SOON)
        note(f"{run_id} is being cancelled")
