"""`toolroute route` and `toolroute explain`."""

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from orchestrator.catalogue.export import Provider
from orchestrator.cli.common import echo_json, open_router, options_with, output_option
from orchestrator.cli.plain import echo_text, note, one_line
from orchestrator.cli.routing import routing_options, take_request
from orchestrator.errors import InvalidInput
from orchestrator.options import Options
from orchestrator.records.completion import Choice
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest, Turn
from orchestrator.records.tool import Stage

OUTPUTS = ("table", "json", "markdown", *get_args(Provider))


@click.command()
@click.argument("query")
@routing_options
@click.option("--model", metavar="NAME", help="Ask this language model, too: answer, one tool, or a plan?")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True)
def route(query: str, output: str, model: str | None, **given: Any) -> None:
    """Find the few tools that fit QUERY.

    Says why, and names the servers worth connecting. As `markdown` it is the context of a model that shall act:
    the task and the definitions, within 6,000 tokens.
    """
    if model and output not in ("table", "json"):
        raise InvalidInput(f"--model {model!r} with -o {output}: its choice is shown as table or json")
    request = take_request(query, given)
    decision = _decide(request, **given)
    choice = asyncio.run(_choose(decision, model, request.conversation)) if model else None
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
    _leave(decision, quiet=output == "table")


@click.command()
@click.argument("query")
@routing_options
@output_option
def explain(query: str, output: str, **given: Any) -> None:
    """Show the whole Decision for QUERY.

    Each match's words and fields, and what the others lacked.
    """
    decision = _decide(take_request(query, given), **given)
    if output == "json":
        echo_json(_explained(decision))
    else:
        from orchestrator.cli.show import show_explanation

        show_explanation(decision)
    _leave(decision, quiet=output == "table")


def _decide(request: RouteRequest, catalogue: Path | None, store: str | None, calibration: Path | None) -> Decision:
    options = Options.from_env(calibration=calibration and str(calibration))

    async def decide() -> Decision:
        async with open_router(catalogue, store, request.tenant, options) as router:
            return await router.route(request)

    return asyncio.run(decide())


def _explained(decision: Decision) -> dict[str, Any]:
    """The Decision as JSON, with the words of each match by field."""
    told = decision.to_json()
    words = [{field: list(found) for field, found in match.words.items()} for match in decision.matches]
    return {**told, "matches": [{**match, "words": own} for match, own in zip(told["matches"], words, strict=True)]}


async def _choose(decision: Decision, model: str, turns: tuple[Turn, ...]) -> Choice:
    from orchestrator.llm.client import Models
    from orchestrator.llm.plan import choose

    async with Models(options_with(model)) as models:
        return await choose(models, decision, conversation=turns)


def _leave(decision: Decision, *, quiet: bool) -> None:
    """Warnings to standard error unless they were shown; exit code 3 when nothing is good enough."""
    for warning in () if quiet else decision.warnings:
        note(one_line(f"toolroute: {warning}"))
    if decision.stage is Stage.NONE:
        sys.exit(3)
