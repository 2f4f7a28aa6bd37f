"""`toolroute explain`: the whole Decision for a task, with its evidence."""

from pathlib import Path

import click

from orchestrator.cli.routing.decision_view import show_decision
from orchestrator.cli.routing.route import exit_code
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import present, write_file
from orchestrator.cli.shared.parameter_types import FILE
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.options import Options
from orchestrator.pipeline.selection.explain import explained
from orchestrator.records.request import RouteRequest


@click.command()
@click.argument("query")
@taking("catalogue", "listed", "sources", "request", "calibration")
@click.option(
    "--html",
    metavar="FILE",
    type=FILE,
    help="Also write the Decision as a self-contained HTML page.",
)
@taking("output")
async def explain(
    workspace: Workspace, request: RouteRequest, options: Options, html: Path | None, output: str
) -> int:
    """Show the whole Decision for QUERY.

    Each match is shown with the words and fields that it matched. Tools that were rejected are shown with the reason.
    """
    async with await workspace.open_router(options) as router:
        decision = await router.route(request)
        past = await router.past_like(request)
    explanation = explained(decision, past)
    if html is not None:
        from orchestrator.ui.decision import as_file

        write_file("--html", html, as_file(explanation, options.gate))
    present(output, explanation, lambda: show_decision(decision, past=past))
    return exit_code(decision, output)
