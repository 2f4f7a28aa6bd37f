"""`toolroute route`, `explain` and `plan`: the tools for a task, the evidence, and the steps."""

from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from orchestrator.catalogue.export import Provider
from orchestrator.cli.routing import views
from orchestrator.cli.shared.command_options import FILE, taking, typed
from orchestrator.cli.shared.output import echo_json, echo_text, present, warn
from orchestrator.cli.shared.workspace import Place
from orchestrator.errors import InvalidInput
from orchestrator.options import Options
from orchestrator.pipeline.explain import explained
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Stage

NEEDS_USER = 5
"""The exit code if nothing failed, but a person's input or approval is needed."""
OUTPUTS = ("table", "json", "markdown", *get_args(Provider))


@click.command()
@click.argument("query")
@taking("catalogue", "listed", "sources", "request", "calibration")
@click.option("--model", metavar="NAME", help="Also ask this language model whether to answer, call one tool, or plan.")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table")
async def route(place: Place, request: RouteRequest, options: Options, output: str) -> int:
    """Find the few tools that fit QUERY.

    Prints why each tool matches, and which servers to connect. `-o markdown` prints a prompt with the task and the
    tools' definitions, limited to 6,000 tokens.

    Exit code 3: no tool matches.
    """
    model = typed("model")
    if model and output not in ("table", "json"):
        raise InvalidInput(f"--model {model!r} with -o {output}: a model's choice is shown with -o table or -o json")
    decision, choice = await _decide(place, request, options), None
    if model:
        from orchestrator.llm.client import Models
        from orchestrator.llm.plan import choose

        async with Models(options) as models:
            choice = await choose(models, decision, conversation=request.conversation)
    if output == "json":
        echo_json(decision.to_json(definitions=False) | ({"choice": asdict(choice)} if choice else {}))
    elif output == "table":
        views.show_decision(decision)
        if choice:
            views.show_choice(choice)
    elif output == "markdown":
        from orchestrator.llm.context import for_decision

        echo_text(for_decision(decision).markdown)
    else:
        echo_json(decision.tools(output))  # type: ignore[arg-type]
    return _exit_code(decision, output)


@click.command()
@click.argument("query")
@taking("catalogue", "listed", "sources", "request", "calibration")
@click.option("--html", metavar="FILE", type=FILE, help="Also write the Decision as a self-contained HTML page.")
@taking("output")
async def explain(place: Place, request: RouteRequest, options: Options, html: Path | None, output: str) -> int:
    """Show the whole Decision for QUERY.

    Each match is shown with the words and fields that it matched. Tools that were rejected are shown with the reason.
    """
    async with await place.open_router(options) as router:
        decision, past = await router.route(request), await router.past_like(request)
    shown = explained(decision, past)
    if html is not None:
        _write_page(html, shown, options.gate)
    present(output, shown, lambda: views.show_decision(decision, past=past))
    return _exit_code(decision, output)


async def _decide(place: Place, request: RouteRequest, options: Options) -> Decision:
    async with await place.open_router(options) as router:
        return await router.route(request)


def _write_page(path: Path, shown: dict[str, Any], gate: float) -> None:
    from orchestrator.ui.decision import as_file

    try:
        path.write_text(as_file(shown, gate), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"--html {str(path)!r} cannot be written: {error.strerror}") from None


def _exit_code(decision: Decision, output: str) -> int:
    """Return 3 when no tool is good enough. Writes warnings to standard error, unless a table showed them."""
    if output != "table":
        warn(decision.warnings)
    return 3 if decision.stage is Stage.NONE else 0


@click.command()
@click.argument("query", metavar="TASK")
@taking("catalogue", "listed", "sources", "request", "model", "plan", "calibration", "output")
async def plan(
    place: Place, request: RouteRequest, options: Options, arguments: dict[str, Any], min_confidence: float, output: str
) -> int:
    """Show the plan for TASK without calling a tool.

    The task is routed, and the plan is made from the same matches.
    """
    from orchestrator.llm.client import models_for
    from orchestrator.llm.plan import make_plan

    async with AsyncExitStack() as stack:
        router = await stack.enter_async_context(await place.open_router(options))
        decision = await router.route(request)
        asked = PlanRequest(
            decision=decision, arguments=arguments, min_confidence=min_confidence, conversation=request.conversation
        )
        models = models_for(options)
        made = await make_plan(models and await stack.enter_async_context(models), asked)
    present(
        output,
        {"decision": decision.to_json(definitions=False), "plan": asdict(made)},
        lambda: views.show_plan(decision, made),
    )
    return NEEDS_USER if made.needs_input else 0 if made.steps or answered(made) else 3


def answered(made: Plan) -> bool:
    """Return True if a model answered the task without a tool."""
    return made.choice is not None and bool(made.choice.answer)
