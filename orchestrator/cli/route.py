"""`toolroute route` and `toolroute explain`."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from orchestrator.catalogue.export import Provider
from orchestrator.cli.options import Place, calibration_option, output_option, place_options, request_options, settings
from orchestrator.cli.output import echo_json, echo_text, warn
from orchestrator.errors import InvalidInput
from orchestrator.records.completion import Choice
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Stage

OUTPUTS = ("table", "json", "markdown", *get_args(Provider))


@click.command()
@click.argument("task", metavar="QUERY")
@place_options("catalogue", "config")
@request_options()
@calibration_option
@click.option("--model", metavar="NAME", help="Ask this language model, too: answer, one tool, or a plan?")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True)
def route(place: Place, request: RouteRequest, calibration: Path | None, model: str | None, output: str) -> int:
    """Find the few tools that fit QUERY.

    Says why, and names the servers worth connecting. With --config its servers that are not known yet are listed
    first. As `markdown` it is the context of a model that shall act: the task and the definitions, within 6,000 tokens.
    """
    if model and output not in ("table", "json"):
        raise InvalidInput(f"--model {model!r} with -o {output}: its choice is shown as table or json")
    decision = _decide(place, request, calibration)
    choice = asyncio.run(_choose(decision, model, request)) if model else None
    if output == "json":
        echo_json(decision.to_json() | ({"choice": asdict(choice)} if choice else {}))
    elif output == "table":
        from orchestrator.cli.show import show_choice, show_decision

        show_decision(decision)
        if choice:
            show_choice(choice)
    elif output == "markdown":
        from orchestrator.llm.context import for_decision

        echo_text(for_decision(decision).markdown)
    else:
        echo_json(decision.tools(output))  # type: ignore[arg-type]
    return _exit_code(decision, shown=output == "table")


@click.command()
@click.argument("task", metavar="QUERY")
@place_options("catalogue", "config")
@request_options()
@calibration_option
@output_option
def explain(place: Place, request: RouteRequest, calibration: Path | None, output: str) -> int:
    """Show the whole Decision for QUERY.

    Each match's words and fields, and what the others lack.
    """
    decision = _decide(place, request, calibration)
    if output == "json":
        echo_json(_explained(decision))
    else:
        from orchestrator.cli.show import show_explanation

        show_explanation(decision)
    return _exit_code(decision, shown=output == "table")


def _decide(place: Place, request: RouteRequest, calibration: Path | None) -> Decision:
    async def decide() -> Decision:
        async with await place.open_router(settings(calibration=calibration)) as router:
            return await router.route(request)

    return asyncio.run(decide())


def _explained(decision: Decision) -> dict[str, Any]:
    """Return the Decision as JSON, with the words of each match by field."""
    shown = decision.to_json()
    words = [{field: list(found) for field, found in match.words.items()} for match in decision.matches]
    return {**shown, "matches": [{**match, "words": own} for match, own in zip(shown["matches"], words, strict=True)]}


async def _choose(decision: Decision, model: str, request: RouteRequest) -> Choice:
    from orchestrator.llm.client import Models
    from orchestrator.llm.plan import choose

    async with Models(settings(model=model)) as models:
        return await choose(models, decision, conversation=request.conversation)


def _exit_code(decision: Decision, *, shown: bool) -> int:
    """Return 3 when nothing is good enough; warnings go to standard error unless they were shown."""
    if not shown:
        warn(decision.warnings)
    return 3 if decision.stage is Stage.NONE else 0
