"""`toolroute experience forget`: remembered tasks, deleted."""

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, present
from orchestrator.cli.shared.parameter_types import DATE
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.errors import InvalidInput
from orchestrator.records.outcome import Outcome
from orchestrator.runtime.recording import actor_name


@click.command()
@taking("tenant")
@click.option("--before", metavar="DATE", type=DATE, help="Tasks before this date.")
@click.option("--tool", metavar="KEY", help="Tasks that used this tool.")
@click.option("--actor", metavar="NAME", help="Tasks of this actor.")
@click.option("--all", "everything", is_flag=True, help="All tasks of the tenant.")
@taking("output")
def forget(
    workspace: Workspace,
    before: float | None,
    tool: str | None,
    actor: str | None,
    everything: bool,
    output: str,
) -> None:
    """Forget the tasks that match all given options."""
    is_filtered = any(value is not None for value in (before, tool, actor))
    # Without a filter, a slip would delete everything, so --all has to be written.
    if is_filtered == everything:
        raise InvalidInput("nothing to forget: give --before, --tool or --actor, or only --all")

    def matches(task: Outcome) -> bool:
        return (
            (before is None or task.at < before)
            and (tool is None or any(use.tool == tool for use in task.used))
            and (actor is None or task.actor in (actor, actor_name(actor)))
        )

    outcomes = workspace.known_store().outcomes
    number = (
        outcomes.forget_all(workspace.tenant)
        if everything
        else outcomes.forget(workspace.tenant, matches)
    )
    summary = f"{workspace.tenant}: {counted(number, 'task')} forgotten"
    present(
        output,
        {"tenant": workspace.tenant, "forgotten": number},
        summary,
    )
