"""`toolroute runs`: a tenant's runs on Temporal, the calls that wait for approval, and a person's word on them."""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from orchestrator.cli.options import Place, pairs, taking
from orchestrator.cli.output import as_json, console, counted, dim, lines, note, present, table
from orchestrator.cli.temporal import connect, page_of, quiet, target, ui_pages
from orchestrator.errors import InvalidInput, Unavailable
from orchestrator.options import Options
from orchestrator.records import durable_names as names
from orchestrator.records.run import Approval, Progress, Standing

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution

_SOON = timedelta(seconds=10)
_BY = click.option("--by", default="the command line", metavar="NAME", help="Who says so, for the history.")


@click.group()
def runs() -> None:
    """List, show, approve, refuse and cancel runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A run as lists show it: `waiting` are the steps that wait for approval, each with its tool."""

    id: str
    status: str
    started: str
    waiting: tuple[str, ...]
    link: str


@dataclass(frozen=True, slots=True)
class Desk:
    """A tenant's view of a Temporal namespace; `pages`: where its UI shows workflows, "" where that is not known."""

    client: "Client"
    tenant: str
    pages: str = ""

    async def runs(self, *, ended: bool) -> list[Listed]:
        """Return the tenant's runs, the latest first; those that ended only where wanted."""
        query = f"WorkflowType = '{names.RUN}'" + ("" if ended else " AND ExecutionStatus = 'Running'")
        found = [(one, await _standing(one)) async for one in self.client.list_workflows(query)]
        return [self._listed(one, its) for one, its in found if its and its.tenant == self.tenant]

    async def run(self, run_id: str) -> Listed:
        """Return one run; InvalidInput where the tenant has none of this id."""
        from temporalio.service import RPCError, RPCStatusCode

        try:
            found = await self.client.get_workflow_handle(run_id).describe(rpc_timeout=_SOON)
            standing = await _standing(found) if found.workflow_type == names.RUN else None
        except RPCError as error:
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                raise Unavailable(f"the Temporal server does not say how {run_id!r} stands: {error.message}") from None
            standing = None
        if standing is None or standing.tenant != self.tenant:
            raise InvalidInput(f"{self.tenant} has no run {run_id!r}: `toolroute runs list --all` shows those it has")
        return self._listed(found, standing)

    async def progress(self, run_id: str) -> Progress | None:
        """Return how a run's steps stand; None where no worker answers."""
        from temporalio.service import RPCError

        try:
            handle = self.client.get_workflow_handle(run_id)
            asked: Progress = await handle.query(names.PROGRESS, result_type=Progress, rpc_timeout=_SOON)
        except RPCError:
            return None
        return asked

    async def say(self, run_id: str, word: Approval) -> None:
        """Give a word on a step; InvalidInput where it does not count."""
        from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
        from temporalio.service import RPCError

        handle = self.client.get_workflow_handle(run_id)
        try:
            await handle.execute_update(names.APPROVE, word, rpc_timeout=_SOON)
        except WorkflowUpdateFailedError as error:
            raise InvalidInput(f"{run_id}: {error.cause}") from None
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            raise Unavailable(f"{run_id}: no worker takes the word; start one with `toolroute worker`") from None
        except RPCError as error:
            raise InvalidInput(f"{run_id} takes no word on a step: {error.message}") from None

    def _listed(self, found: "WorkflowExecution", standing: Standing) -> Listed:
        status = found.status.name.lower().replace("_", " ") if found.status else "unknown"
        running = status == "running"
        return Listed(
            id=found.id,
            status="waiting for approval" if running and standing.waiting else status,
            started=found.start_time.astimezone().isoformat(sep=" ", timespec="seconds"),
            waiting=standing.waiting if running else (),
            link=page_of(self.pages, found.id),
        )


async def _standing(found: "WorkflowExecution") -> Standing | None:
    """Return what a run's memo says; None where there is no such memo, as no worker has taken the run up yet."""
    try:
        standing: Standing | None = await found.memo_value(names.RUN, None, type_hint=Standing)
    except (LookupError, TypeError, ValueError, RuntimeError):  # somebody else's, or of a client with a codec
        return None
    return standing


@asynccontextmanager
async def _desk(place: Place, options: Options) -> AsyncIterator[Desk]:
    from orchestrator.temporal.devserver import settle

    quiet()
    to = target(options)
    try:
        yield Desk(await connect(to), place.tenant, ui_pages(to, options))
    finally:
        await settle()


@runs.command("list")
@taking("owner", "temporal server")
@click.option("--all", "ended", is_flag=True, help="Those that have ended, too, as long as the server keeps them.")
@click.option("--waiting", is_flag=True, help="Only those that wait for approval.")
@taking("output")
async def list_runs(place: Place, options: Options, ended: bool, waiting: bool, output: str) -> None:
    """List the tenant's runs, the latest first."""
    async with _desk(place, options) as desk:
        found = [one for one in await desk.runs(ended=ended) if one.waiting or not waiting]
        present(output, [asdict(one) for one in found], lambda: _show_list(desk, found))


def _show_list(desk: Desk, found: list[Listed]) -> None:
    out, rows = console(), table("run", "status", "started", "waits for")
    for one in found:
        rows.add_row(one.id, one.status, one.started, ", ".join(one.waiting))
    if found:
        out.print(rows)
    out.print(dim(f"{counted(len(found), 'run')} of {desk.tenant}  {desk.pages}".rstrip()))


@runs.command()
@click.argument("run_id", metavar="RUN")
@taking("owner", "temporal server", "output")
async def show(run_id: str, place: Place, options: Options, output: str) -> None:
    """Show how the steps of RUN stand, and what waits."""
    async with _desk(place, options) as desk:
        found, progress = await desk.run(run_id), await desk.progress(run_id)
        if progress is None:
            note("toolroute: no worker answers for this run, so its steps are not known; start one: `toolroute worker`")
        whole = {**asdict(found), "progress": asdict(progress) if progress else None}
        present(output, whole, lambda: _show_run(found, progress))


def _show_run(found: Listed, progress: Progress | None) -> None:
    out = console()
    out.print(lines(found.id, style="bold"))
    out.print(dim(f"  {found.status}, started {found.started}  {found.link}".rstrip()))
    if progress is None:
        return
    rows = table("step", "task", "tool", "stands")
    for step in progress.steps:
        stands = f"{step.status.replace('_', ' ')}: {step.reason}".removesuffix(": ")
        rows.add_row(step.step, step.task, step.tool or "no tool fits", stands)
    out.print(rows)
    for step in progress.steps:
        if step.digest:
            call = f"{step.step} waits for approval: {step.tool} with {as_json(step.arguments)}"
            approving = shlex.join(["toolroute", "runs", "approve", found.id, f"{step.step}={step.digest}"])
            out.print(lines(call, f"  {approving}"))
    if progress.reason:
        out.print(lines(progress.reason, style="red"))


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("calls", metavar="STEP=DIGEST...", nargs=-1, required=True)
@_BY
@taking("owner", "temporal server")
async def approve(run_id: str, calls: tuple[str, ...], by: str, place: Place, options: Options) -> None:
    """Approve calls of RUN, and no others.

    `toolroute runs show RUN` prints them with their digests.
    """
    digests = pairs("approve", calls, f"as `toolroute runs show {run_id}` prints it")
    await _say(run_id, [Approval(step=step, digest=digest, by=by) for step, digest in digests.items()], place, options)


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.argument("steps", metavar="STEP...", nargs=-1, required=True)
@_BY
@taking("owner", "temporal server")
async def refuse(run_id: str, steps: tuple[str, ...], by: str, place: Place, options: Options) -> None:
    """Refuse steps of RUN: their tools are not called."""
    await _say(run_id, [Approval(step=step, allowed=False, by=by) for step in steps], place, options)


async def _say(run_id: str, words: list[Approval], place: Place, options: Options) -> None:
    async with _desk(place, options) as desk:
        await desk.run(run_id)
        for word in words:
            await desk.say(run_id, word)
            note(f"{word.step} {'approved' if word.allowed else 'refused'}")


@runs.command()
@click.argument("run_id", metavar="RUN")
@taking("owner", "temporal server")
async def cancel(run_id: str, place: Place, options: Options) -> None:
    """Stop RUN and its calls under way.

    `toolroute runs show RUN` says how each step ended.
    """
    async with _desk(place, options) as desk:
        found = await desk.run(run_id)
        if found.status not in ("running", "waiting for approval"):
            raise InvalidInput(f"{run_id} is {found.status}: there is nothing to cancel")
        await desk.client.get_workflow_handle(run_id).cancel(rpc_timeout=_SOON)
        note(f"{run_id} is asked to stop")
