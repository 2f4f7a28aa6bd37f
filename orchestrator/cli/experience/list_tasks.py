"""`toolroute experience list`: the newest remembered tasks."""

from typing import Any

import click

from orchestrator.cli.experience.remembered import read_remembered, record_of
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import present, print_table
from orchestrator.cli.shared.workspace import Workspace


@click.command("list")
@taking("tenant", "output", "last")
def list_tasks(workspace: Workspace, output: str, last: int) -> None:
    """List the newest remembered tasks and the tools that they used."""
    tasks = read_remembered(workspace).outcomes[-last:]
    records = [record_of(task) for task in tasks]
    columns = ("when", "who", "used", "task")
    present(
        output,
        {"tenant": workspace.tenant, "tasks": records},
        lambda: print_table(columns, map(_row, records)),
    )


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    used = ", ".join([*record["used"], *(f"{key} (failed)" for key in record["failed"])])
    prefix = "" if record["ok"] else "failed: "
    return record["at"][:16], record["actor"], prefix + used, record["query"][:60]
