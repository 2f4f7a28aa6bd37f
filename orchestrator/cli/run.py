"""`toolroute run` and `toolroute plan`: a task carried out behind a budget, or only planned."""

import asyncio
import logging
import sys
import uuid
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.common import (
    calibration_option,
    echo_json,
    known_store,
    model_option,
    open_router,
    options_with,
    output_option,
)
from orchestrator.cli.ending import until_told
from orchestrator.cli.follow import follow
from orchestrator.cli.mcp_common import read_servers
from orchestrator.cli.plain import note
from orchestrator.cli.reaching import connect, temporal_server
from orchestrator.cli.routing import request_options, routing_options, take_request
from orchestrator.cli.temporal import clean_stdout, make_plugin, quiet, temporal_options
from orchestrator.errors import InvalidInput
from orchestrator.records.budget import Limits
from orchestrator.records.decision import Decision
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.run import Approve, RunRequest, RunResult, StepStatus

ARGUMENT = click.option(
    "--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument for the steps' tools; s1.NAME for one."
)
MIN_CONFIDENCE = click.option(
    "--min-confidence", default=0.3, show_default=True, metavar="P", help="Call nothing when routing is less sure."
)

NEEDS_USER = 5
"""Exit code: nothing went wrong, and a step waits for the user's word."""


@click.command()
@click.argument("task")
@temporal_options
@click.option(
    "--dev", is_flag=True, help="Start a local Temporal server, unless --address or TEMPORAL_ADDRESS names one."
)
@click.option("--task-queue", metavar="NAME", help="Use the workers of this queue. [default: one in this process]")
@click.option("--ask", is_flag=True, help="Ask before each tool that may destroy something. [default: no]")
@click.option("--budget", default=100_000, show_default=True, metavar="TOKENS", help="Tokens that the run may use.")
@model_option
@ARGUMENT
@request_options
@calibration_option
@MIN_CONFIDENCE
@output_option
def run(task: str, output: str, **given: Any) -> None:
    """Carry TASK out durably on Temporal.

    It is routed, and planned from the same matches.

    Exit codes: 0 every step done, 1 a step failed, 2 bad usage or input, 3 nothing good enough, 5 all that is lacking
    is your word: a step needs input or approval.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="%(name)s: %(message)s")
    route = take_request(task, given)
    request = RunRequest(
        task=task,
        tenant=route.tenant,
        limit=route.limit,
        conversation=route.conversation,
        filters=route.filters,
        route_hint=route.route_hint,
        coverage=route.coverage,
        arguments=_parse(given.pop("arguments")),
        limits=Limits(max_total_tokens=given.pop("budget")),
        min_confidence=given.pop("min_confidence"),
        approve=Approve.CHANGES if given.pop("ask") else Approve.NEVER,
    )
    request.validate()
    with clean_stdout():
        result = asyncio.run(until_told(_run(request, **given)))
    if output == "json":
        echo_json(result.to_json())
    else:
        from orchestrator.cli.show_run import show_run

        show_run(result)
    sys.exit(_exit_code(result))


@click.command()
@click.argument("task")
@routing_options
@model_option
@ARGUMENT
@MIN_CONFIDENCE
@output_option
def plan(task: str, output: str, **given: Any) -> None:
    """Show the plan for TASK; nothing is called.

    It is routed, and planned from the same matches.
    """
    from orchestrator.llm.client import models_for
    from orchestrator.llm.plan import make_plan

    request = take_request(task, given)
    calibration: Path | None = given["calibration"]
    options = options_with(given["model"], calibration=calibration and str(calibration))
    arguments = _parse(given["arguments"])

    async def planned() -> tuple[Decision, Plan]:
        async with AsyncExitStack() as stack:
            source = open_router(given["catalogue"], given["store"], request.tenant, options)
            router = await stack.enter_async_context(source)
            decision = await router.route(request)
            asked = PlanRequest(
                decision=decision,
                arguments=arguments,
                min_confidence=given["min_confidence"],
                conversation=request.conversation,
            )
            models = models_for(options)
            return decision, await make_plan(models and await stack.enter_async_context(models), asked)

    decision, made = asyncio.run(planned())
    if output == "json":
        echo_json({"decision": decision.to_json(), "plan": asdict(made)})
    else:
        from orchestrator.cli.show_run import show_plan

        show_plan(decision, made)
    sys.exit(0 if made.steps or _answered(made) else 3)


async def _run(
    request: RunRequest,
    catalogue: Path | None,
    store: str | None,
    config: Path | None,
    address: str | None,
    namespace: str | None,
    dev: bool,
    task_queue: str | None,
    model: str | None,
    calibration: Path | None,
) -> RunResult:
    from orchestrator.temporal.devserver import settle

    if model and task_queue:
        raise InvalidInput(f"--model {model!r} with --task-queue: its workers have their own; leave one of the two out")
    if task_queue:
        _tell_unused(
            task_queue, {"--catalogue": catalogue, "--store": store, "--config": config, "--calibration": calibration}
        )
    quiet()
    options = options_with(
        model,
        temporal_address=address,
        temporal_namespace=namespace,
        calibration=calibration and str(calibration),
    )
    servers = read_servers(config)
    if not (task_queue or catalogue or servers):
        known_store(store)
    plugin = None if task_queue else await make_plugin(catalogue, store, servers, request.tenant, options)
    try:
        async with AsyncExitStack() as stack:
            client = await connect(await stack.enter_async_context(temporal_server(options, dev=dev)), plugin)
            queue = task_queue or f"toolroute-run-{uuid.uuid4().hex[:12]}"
            if plugin is not None:
                from orchestrator.cli.worker import make_worker

                await stack.enter_async_context(make_worker(client, queue))
            return await follow(client, request, queue)
    finally:
        await settle()


def _tell_unused(task_queue: str, sources: dict[str, object]) -> None:
    if unused := [name for name, given in sources.items() if given]:
        note(f"{', '.join(unused)} not used here: the workers of {task_queue!r} have tools and servers of their own")


def _parse(arguments: tuple[str, ...]) -> dict[str, Any]:
    if wrong := [item for item in arguments if "=" not in item]:
        raise InvalidInput(f"--arg {wrong[0]!r}: write NAME=VALUE, e.g. --arg timezone=Europe/Berlin")
    pairs = [item.partition("=")[::2] for item in arguments]
    if twice := [name for name, number in Counter(name for name, _ in pairs).items() if number > 1]:
        raise InvalidInput(f"--arg {twice[0]} is given twice: a parameter has one value")
    return dict(pairs)


def _answered(made: Plan) -> bool:
    """Whether a model answered the task without any tool."""
    return made.choice is not None and bool(made.choice.answer)


def _exit_code(result: RunResult) -> int:
    """0 all done, 3 no plan, 5 when all that is lacking is the user's word, else 1."""
    if not result.steps:
        return 0 if _answered(result.plan) else 3
    ended = {step.status for step in result.steps} - {StepStatus.DONE}
    asked = {StepStatus.NEEDS_INPUT, StepStatus.NEEDS_APPROVAL}
    if not ended:
        return 0
    return NEEDS_USER if ended & asked and ended <= asked | {StepStatus.SKIPPED} else 1
