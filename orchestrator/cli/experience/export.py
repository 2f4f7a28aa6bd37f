"""`toolroute experience export`: all remembered tasks as lines of JSON."""

import click

from orchestrator.cli.experience.remembered import read_remembered, record_of
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, echo_json_lines, note
from orchestrator.cli.shared.workspace import Workspace


@click.command()
@taking("tenant")
def export(workspace: Workspace) -> None:
    """Write all tasks as JSON lines, for `import`."""
    tasks = read_remembered(workspace).outcomes
    echo_json_lines(map(record_of, tasks))
    without_text = sum(not task.query for task in tasks)
    if without_text:
        note(f"{counted(without_text, 'task')} kept without text. `import` cannot read them")
