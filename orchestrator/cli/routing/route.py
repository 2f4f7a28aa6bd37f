"""`toolroute route`: the few tools that fit a task."""

from typing import get_args

import click

from orchestrator.catalogue.export import Provider
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import echo_json, echo_text, warn
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.options import Options
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Stage

OUTPUTS = ("table", "json", "markdown", *get_args(Provider))
NO_MATCH = 3
"""The exit code if no tool is good enough."""


@click.command()
@click.argument("query")
@taking("catalogue", "listed", "sources", "request", "calibration")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table")
async def route(workspace: Workspace, request: RouteRequest, options: Options, output: str) -> int:
    """Find the few tools that fit QUERY.

    Prints why each tool matches, and which servers to connect. `-o markdown` prints a prompt with the task and the
    tools' definitions, limited to 6,000 tokens.

    Exit code 3: no tool matches.
    """
    async with await workspace.open_router(options) as router:
        decision = await router.route(request)
    _print(decision, output)
    return exit_code(decision, output)


def _print(decision: Decision, output: str) -> None:
    if output == "json":
        echo_json(decision.to_json(definitions=False))
    elif output == "table":
        from orchestrator.cli.routing.decision_view import show_decision

        show_decision(decision)
    elif output == "markdown":
        from orchestrator.llm.context import decision_context

        echo_text(decision_context(decision).markdown)
    else:
        echo_json(decision.tools(output))  # type: ignore[arg-type]


def exit_code(decision: Decision, output: str) -> int:
    """Return 3 when no tool is good enough. Writes warnings to standard error, unless a table showed them."""
    if output != "table":
        warn(*decision.warnings)
    return NO_MATCH if decision.stage is Stage.NONE else 0
