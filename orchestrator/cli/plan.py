"""`toolroute plan`: the steps that a task would take."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.options import (
    Place,
    calibration_option,
    model_option,
    output_option,
    place_options,
    request_options,
    settings,
)
from orchestrator.cli.output import echo_json
from orchestrator.errors import InvalidInput
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.request import RouteRequest

argument_option = click.option(
    "--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument for the steps' tools; s1.NAME for one."
)
min_confidence_option = click.option(
    "--min-confidence", default=0.3, show_default=True, metavar="P", help="Call nothing when routing is less sure."
)


@click.command()
@click.argument("task")
@place_options("catalogue")
@request_options()
@model_option
@argument_option
@calibration_option
@min_confidence_option
@output_option
def plan(
    place: Place,
    request: RouteRequest,
    model: str | None,
    arguments: tuple[str, ...],
    calibration: Path | None,
    min_confidence: float,
    output: str,
) -> int:
    """Show the plan for TASK; nothing is called.

    It is routed, and planned from the same matches.
    """
    from orchestrator.llm.client import models_for
    from orchestrator.llm.plan import make_plan

    options, given = settings(model=model, calibration=calibration), parsed_arguments(arguments)

    async def planned() -> tuple[Decision, Plan]:
        async with AsyncExitStack() as stack:
            router = await stack.enter_async_context(await place.open_router(options))
            decision = await router.route(request)
            asked = PlanRequest(
                decision=decision,
                arguments=given,
                min_confidence=min_confidence,
                conversation=request.conversation,
            )
            models = models_for(options)
            return decision, await make_plan(models and await stack.enter_async_context(models), asked)

    decision, made = asyncio.run(planned())
    if output == "json":
        echo_json({"decision": decision.to_json(), "plan": asdict(made)})
    else:
        from orchestrator.cli.show import show_plan

        show_plan(decision, made)
    return 0 if made.steps or answered(made) else 3


def parsed_arguments(arguments: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of `--arg` by name."""
    if wrong := [item for item in arguments if "=" not in item]:
        raise InvalidInput(f"--arg {wrong[0]!r}: write NAME=VALUE, e.g. --arg timezone=Europe/Berlin")
    pairs = [item.partition("=")[::2] for item in arguments]
    if twice := [name for name, number in Counter(name for name, _ in pairs).items() if number > 1]:
        raise InvalidInput(f"--arg {twice[0]} is given twice: a parameter has one value")
    return dict(pairs)


def answered(made: Plan) -> bool:
    """Return whether a model answered the task without any tool."""
    return made.choice is not None and bool(made.choice.answer)
