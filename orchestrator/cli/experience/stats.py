"""`toolroute experience stats`: how often routing was right, by week and by number of tasks."""

from collections.abc import Mapping
from itertools import starmap
from typing import Any

import click

from orchestrator.cli.experience.remembered import read_remembered
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.guarantees_view import share, show_guarantees
from orchestrator.cli.shared.output import counted, present, print_table
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.experience.figures import figures

_MOST_TOOLS = 20
"""The tools in the table. `-o json` has all of them."""
_TOOL_COLUMNS = ("tool", "calls", "failed", "ms")


@click.command()
@taking("tenant", "output")
def stats(workspace: Workspace, output: str) -> None:
    """Show how often routing was right.

    The table has the share of tasks whose first match was used, by week and by number of tasks. It also has the
    number of calls of each tool.
    """
    measured = figures(read_remembered(workspace).outcomes)
    present(output, {"tenant": workspace.tenant, **measured}, lambda: _print_figures(measured))


def _print_figures(measured: dict[str, Any]) -> None:
    weeks = [(week["week"], str(week["tasks"]), share(week["right"])) for week in measured["weeks"]]
    print_table(("week", "tasks", "best tool used"), weeks, numbers=("tasks", "best tool used"))
    click.echo()
    _print_tools(measured)
    if tasks := measured["guarantees"][0]["queries"]:
        click.echo()
        measured_on = f"the latest {counted(tasks, 'task')} of this tenant with a known choice"
        show_guarantees(measured["guarantees"], measured_on)


def _print_tools(measured: dict[str, Any]) -> None:
    calls_by_tool = list(measured["tools"].items())
    rows = starmap(_tool_row, calls_by_tool[:_MOST_TOOLS])
    more = len(calls_by_tool) - _MOST_TOOLS
    footer = [f"and {counted(more, 'tool')} more"] if more > 0 else []
    footer.append(_curve(measured))
    print_table(_TOOL_COLUMNS, rows, numbers=_TOOL_COLUMNS[1:], footer=footer)


def _curve(measured: dict[str, Any]) -> str:
    """Return how often the best tool was used, by the number of tasks."""
    steps = [f"{share(step['right'])} up to {step['tasks']:,}" for step in measured["curve"]]
    curve = ", ".join(steps) or "-"
    return f"{counted(measured['tasks'], 'task')}; best tool used: {curve}"


def _tool_row(key: str, calls: Mapping[str, Any]) -> tuple[str, ...]:
    ms = "-" if calls["ms"] is None else f"{calls['ms']:.0f}"
    return key, str(calls["calls"]), str(calls["failures"]), ms
