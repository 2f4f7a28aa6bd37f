"""`toolroute route` and `toolroute explain`."""

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from orchestrator.cli.common import (
    calibration_option,
    echo_json,
    open_router,
    options_with,
    source_options,
    tenant_from,
)
from orchestrator.cli.conversation import CONVERSATION, read_conversation
from orchestrator.cli.plain import echo_text, note, one_line
from orchestrator.completions import Choice
from orchestrator.decision import Decision
from orchestrator.errors import InvalidInput
from orchestrator.exports import Provider
from orchestrator.models import Fusion, RouteHint, RouteRequest, Stage, Turn
from orchestrator.options import Options

OUTPUTS = ("table", "json", "markdown", *get_args(Provider))


def routing_options(command: Any) -> Any:
    """The options that make a RouteRequest."""
    options = (
        click.option("--limit", type=int, metavar="N", help="At most so many matches (1 to 50).  [default: 10]"),
        click.option(
            "--coverage",
            type=float,
            metavar="P",
            help="Instead of a limit: the fewest matches that hold all needed tools with this probability, e.g. 0.9.",
        ),
        click.option(
            "--route-hint",
            type=click.Choice([str(hint) for hint in RouteHint]),
            default="auto",
            show_default=True,
            help="Which legs run: by the gate, keyword alone, or both.",
        ),
        click.option(
            "--fusion",
            type=click.Choice([str(fusion) for fusion in Fusion]),
            help="How the legs are merged: a fitted blend, 0.6 max + 0.4 min, or reciprocal ranks. [default: learnt]",
        ),
        click.option("--filter", "filters", multiple=True, metavar="KEY=VALUE", help="kind, server, name or a label."),
        CONVERSATION,
        click.option("--token-cap", type=int, metavar="N", help="Tokens that the matches' definitions may take."),
    )
    for option in reversed(options):
        command = option(command)
    return source_options(calibration_option(command))


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
    decision = _decide(query, **given)
    turns = read_conversation(given["conversation"])
    choice = asyncio.run(_choose(decision, model, turns)) if model else None
    if output == "json":
        echo_json(decision.to_json() | ({"choice": asdict(choice)} if choice else {}))
    elif output == "table":
        from orchestrator.cli.show import show_choice, show_decision

        show_decision(decision)
        if choice:
            show_choice(choice)
    elif output == "markdown":
        from orchestrator.context import for_decision

        echo_text(for_decision(decision).markdown)
    else:
        echo_json(decision.tools(output))  # type: ignore[arg-type]
    _leave(decision, quiet=output == "table")


@click.command()
@click.argument("query")
@routing_options
def explain(query: str, **given: Any) -> None:
    """Show the whole Decision for QUERY.

    Each match's words and fields, and what the others lacked.
    """
    from orchestrator.cli.show import show_explanation

    decision = _decide(query, **given)
    show_explanation(decision)
    _leave(decision, quiet=True)


def _decide(
    query: str,
    catalogue: Path | None,
    store: str | None,
    organization: str | None,
    user: str | None,
    limit: int | None,
    coverage: float | None,
    route_hint: str,
    fusion: str | None,
    filters: tuple[str, ...],
    token_cap: int | None,
    conversation: Path | None,
    calibration: Path | None,
) -> Decision:
    tenant = tenant_from(organization, user)
    if limit is not None and coverage is not None:
        raise InvalidInput("--coverage finds the number of matches itself: leave out --limit, or cap with --token-cap")
    request = RouteRequest(
        query=query,
        tenant=tenant,
        limit=10 if limit is None else limit,
        coverage=coverage,
        conversation=read_conversation(conversation),
        filters=_parse_filters(filters),
        route_hint=RouteHint(route_hint),
        token_cap=token_cap,
        fusion=Fusion(fusion) if fusion else None,
    )
    request.validate()

    options = Options.from_env(calibration=calibration and str(calibration))

    async def decide() -> Decision:
        async with open_router(catalogue, store, tenant, options) as router:
            return await router.route(request)

    return asyncio.run(decide())


async def _choose(decision: Decision, model: str, turns: tuple[Turn, ...]) -> Choice:
    from orchestrator.deciding import choose
    from orchestrator.llm import Models

    async with Models(options_with(model)) as models:
        return await choose(models, decision, conversation=turns)


def _parse_filters(filters: tuple[str, ...]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for item in filters:
        key, equals, value = item.partition("=")
        if not equals:
            raise InvalidInput(f"--filter {item!r}: write KEY=VALUE, e.g. kind=agent or domain=finance")
        if parsed.setdefault(key, value) != value:
            raise InvalidInput(f"--filter {item!r}: {key} is already {parsed[key]!r}; a tool has one value for a key")
    return parsed


def _leave(decision: Decision, *, quiet: bool) -> None:
    """Warnings to standard error unless they were shown; exit code 3 when nothing is good enough."""
    for warning in () if quiet else decision.warnings:
        note(one_line(f"toolroute: {warning}"))
    if decision.stage is Stage.NONE:
        sys.exit(3)
