"""`toolroute experience stats`: how often routing was right, by week and by number of tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from orchestrator.cli.experience.remembered import read_remembered
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import console, counted, present, print_table
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.experience.figures import figures

_MOST_TOOLS = 20
_GUARANTEE_COLUMNS = ("level", "confidence from", "recommended", "right")


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
    screen = console()
    weeks = [(week["week"], str(week["tasks"]), share(week["right"])) for week in measured["weeks"]]
    print_table(("week", "tasks", "best tool used"), weeks, numbers=("tasks", "best tool used"))
    screen.print()
    tools = list(measured["tools"].items())
    more = len(tools) - _MOST_TOOLS
    curve = ", ".join(
        f"{share(step['right'])} up to {step['tasks']:,}" for step in measured["curve"]
    )
    footer = [f"and {counted(more, 'tool')} more"] if more > 0 else []
    footer.append(f"{counted(measured['tasks'], 'task')}; best tool used: {curve or '-'}")
    rows = [_tool_row(key, calls) for key, calls in tools[:_MOST_TOOLS]]
    print_table(
        ("tool", "calls", "failed", "ms"), rows, numbers=("calls", "failed", "ms"), footer=footer
    )
    if tasks := measured["guarantees"][0]["queries"]:
        screen.print()
        measured_on = f"the latest {counted(tasks, 'task')} of this tenant with a known choice"
        show_guarantees(measured["guarantees"], measured_on)


def _tool_row(key: str, calls: Mapping[str, Any]) -> tuple[str, ...]:
    ms = "-" if calls["ms"] is None else f"{calls['ms']:.0f}"
    return key, str(calls["calls"]), str(calls["failures"]), ms


def share(value: float | None) -> str:
    """Return a share in percent, "-" for none."""
    return "-" if value is None else f"{value:.0%}"


def show_guarantees(guarantees: Sequence[Mapping[str, Any]], measured_on: str) -> None:
    """Show from which confidence on each level holds, and the scope of the promise."""
    print_table(
        _GUARANTEE_COLUMNS,
        map(_guarantee_row, guarantees),
        numbers=_GUARANTEE_COLUMNS,
        footer=(
            "level: of the tools that are recommended from this confidence on, at least this share is right",
            "recommended: the share of tasks that reach it; right: how many of these had the right tool first",
            f"measured on {measured_on}; it holds in the mean for further tasks like these, not for other catalogues",
            "-: too few tasks, or too many wrong ones, for this level",
        ),
    )


def _guarantee_row(guarantee: Mapping[str, Any]) -> tuple[str, ...]:
    threshold = "-" if guarantee["threshold"] is None else f"{guarantee['threshold']:.3f}"
    reached = guarantee["recommended"]
    of_all = reached / guarantee["queries"] if reached else None
    right = guarantee["right"] / reached if reached else None
    return f"{guarantee['level']:.0%}", threshold, share(of_all), share(right)
