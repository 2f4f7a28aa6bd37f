"""`toolroute route`: the few tools that fit a task."""

from dataclasses import asdict
from typing import TYPE_CHECKING, get_args

import click

from orchestrator.catalogue.export import Provider
from orchestrator.cli.shared.command_options import taking, typed
from orchestrator.cli.shared.output import echo_json, echo_text, warn
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.errors import InvalidInput
from orchestrator.options import Options
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Stage

if TYPE_CHECKING:
    from orchestrator.records.completion import Choice

OUTPUTS = ("table", "json", "markdown", *get_args(Provider))
NO_MATCH = 3
"""The exit code if no tool is good enough."""


@click.command()
@click.argument("query")
@taking("catalogue", "listed", "sources", "request", "calibration")
@click.option(
    "--model",
    metavar="NAME",
    help="Also ask this language model whether to answer, call one tool, or plan.",
)
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table")
async def route(workspace: Workspace, request: RouteRequest, options: Options, output: str) -> int:
    """Find the few tools that fit QUERY.

    Prints why each tool matches, and which servers to connect. `-o markdown` prints a prompt with the task and the
    tools' definitions, limited to 6,000 tokens.

    Exit code 3: no tool matches.
    """
    model = _model(output)
    async with await workspace.open_router(options) as router:
        decision = await router.route(request)
    choice = await _choice(options, decision, request) if model else None
    _print(decision, choice, output)
    return exit_code(decision, output)


async def _choice(options: Options, decision: Decision, request: RouteRequest) -> "Choice":
    """Ask the model whether to answer, call one tool, or plan."""
    from orchestrator.llm.client import Models
    from orchestrator.llm.plan import choose

    async with Models(options) as models:
        return await choose(models, decision, conversation=request.conversation)


def _model(output: str) -> str | None:
    """Return the value of --model. Its choice is shown in two forms only."""
    model: str | None = typed("model")
    if model and output not in ("table", "json"):
        raise InvalidInput(
            f"--model {model!r} with -o {output}: a model's choice is shown with -o table or -o json"
        )
    return model


def _print(decision: Decision, choice: "Choice | None", output: str) -> None:
    if output == "json":
        content = decision.to_json(definitions=False)
        echo_json({**content, "choice": asdict(choice)} if choice else content)
    elif output == "table":
        from orchestrator.cli.routing.decision_view import show_choice, show_decision

        show_decision(decision)
        if choice:
            show_choice(choice)
    elif output == "markdown":
        from orchestrator.llm.context import for_decision

        echo_text(for_decision(decision).markdown)
    else:
        echo_json(decision.tools(output))  # type: ignore[arg-type]


def exit_code(decision: Decision, output: str) -> int:
    """Return 3 when no tool is good enough. Writes warnings to standard error, unless a table showed them."""
    if output != "table":
        warn(*decision.warnings)
    return NO_MATCH if decision.stage is Stage.NONE else 0
