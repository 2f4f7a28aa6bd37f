"""`toolroute tools changes`: the changed definitions that wait for a person."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, note, present
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.common.lines import as_json, one_line

if TYPE_CHECKING:
    from orchestrator.trust.pins import Waiting


@click.command("changes")
@taking("config", "tenant", "output")
def show_changes(workspace: Workspace, output: str) -> None:
    """Show the changed definitions that wait for you.

    A tool with a waiting definition is not recommended, and each call needs approval until you accept the definition.
    """
    from orchestrator.trust.pins import waiting

    changes = waiting(workspace.known_store(), workspace.owner)
    records = [
        {
            "tool": change.tool.key,
            "why": change.why,
            "differences": [difference._asdict() for difference in change.differences],
        }
        for change in changes
    ]
    present(
        output, {"tenant": workspace.owner, "changes": records}, lambda: _print_changes(changes)
    )
    remedy = ""
    if changes:
        servers = sorted({change.tool.server for change in changes})
        command = shlex.join([*servers, *workspace.repeated_options])
        remedy = f": read and accept with `toolroute tools accept {command}`"
    note(f"{counted(len(changes), 'changed tool')} waiting{remedy}")


def _print_changes(changes: "Sequence[Waiting]") -> None:
    for change in changes:
        print_change(change)


def print_change(change: "Waiting", *, err: bool = False) -> None:
    """Show a changed definition: why it waits, and each difference. With `err`, on standard error."""
    lines = [one_line(f"{change.tool.key}: {change.why}")]
    for difference in change.differences:
        reason = " (the reason for the wait)" if difference.risk else ""
        lines.append(f"  {one_line(difference.part)}{reason}")
        if difference.before:
            lines.append(f"    - {quoted_line(difference.before)}")
        if difference.now:
            lines.append(f"    + {quoted_line(difference.now)}")
    click.echo("\n".join(lines), err=err)


def quoted_line(text: str) -> str:
    """Return a text of a definition on one line, with its line ends and invisible characters escaped."""
    escaped = as_json(text)[1:-1]
    return one_line(escaped.replace('\\"', '"'))
