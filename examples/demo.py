"""`make demo`: real MCP servers listed once, tasks routed among 231 tools, one of them carried out on Temporal."""

import asyncio
import json
import os
import shutil
import textwrap
import uuid
from pathlib import Path

from rich.console import Console
from rich.text import Text

from orchestrator import (
    Catalogue,
    Connections,
    McpConfig,
    OrchestratorPlugin,
    PlanRequest,
    Router,
    RouteRequest,
    RunRequest,
    RunResult,
    Store,
    ToolCall,
    make_plan,
)
from orchestrator.cli.routing.decision_view import show_decision
from orchestrator.cli.routing.plan_view import show_run
from orchestrator.cli.runs.temporal import Target, connect
from orchestrator.cli.runs.worker import make_worker
from orchestrator.cli.shared.output import clean_stdout, console
from orchestrator.cli.tools.import_tools import store_tools
from orchestrator.errors import Unavailable
from orchestrator.mcp.sync import ServerReport, sync
from orchestrator.records import durable_names as names
from orchestrator.temporal.client.devserver import settle
from orchestrator.temporal.worker.executors import Executors
from orchestrator.testing import dev_server

HERE = Path(__file__).parent
STORE = HERE.parent / ".toolroute" / "demo"
TENANT = "org:demo"
DURABLE_TASK = "count the words in the file tasks.json"


async def main() -> None:
    """Run the whole demo. Fail if a required part does not work."""
    out = console()
    os.chdir(HERE.parent)
    shutil.rmtree(STORE, ignore_errors=True)
    config = McpConfig.read(HERE / "mcp.json")
    await learn(out, config)
    await route(out)
    try:
        await run_on_temporal(out, config)
    except Unavailable as error:
        out.print(
            Text(
                f"\n{error}\nNo Temporal server can start, so the task runs in this process.",
                style="yellow",
            )
        )
        await run_in_process(out, config)


def headline(out: Console, number: int, text: str) -> None:
    out.print(Text(f"\n{number}. {text}\n", style="bold reverse"))


async def learn(out: Console, config: McpConfig) -> None:
    """List the servers once and store their tools with the sample catalogue's in a folder store."""
    headline(out, 1, "List three real MCP servers once and store their tools in a folder")
    store = Store(STORE)

    def show_report(report: ServerReport) -> None:
        out.print(
            f"  {report.server}: {report.error or f'{report.tools} tools'} in {report.seconds:.1f} s"
        )

    async with Connections(config) as connections:
        await sync(connections, store, TENANT, show_report)
    changes = await asyncio.to_thread(
        store_tools, store, TENANT, Catalogue.read(HERE / "tools.jsonl")
    )
    new = sum(len(change.new) for change in changes.values())
    out.print(
        f"  examples/tools.jsonl: {new} tools of agents, integrations, workflows and built-ins"
    )
    out.print(
        "  All connections are closed. From now on, toolroute knows every tool without a connection."
    )


async def route(out: Console) -> None:
    """Route the sample tasks. Each shows something different."""
    headline(
        out,
        2,
        "Route tasks: the tools, the reasons, the confidence, the servers to connect, the tokens saved",
    )
    async with Router(store=STORE) as router:
        for task in json.loads((HERE / "tasks.json").read_text(encoding="utf-8")):
            decision = await router.route(RouteRequest(query=task["task"], tenant=TENANT))
            out.print(Text(textwrap.fill(task["shows"], 100), style="italic dim"))
            show_decision(decision, matches=3, to=out)
            out.print()


async def run_on_temporal(out: Console, config: McpConfig) -> None:
    """Route, plan and run one task on its own Temporal dev server."""
    headline(out, 3, "Run one task on a real Temporal server: route, plan, call")
    plugin = OrchestratorPlugin(store=STORE, mcp_servers=config)
    try:
        async with dev_server() as address:
            client = await connect(Target(address=address), plugin)
            queue = f"toolroute-demo-{uuid.uuid4().hex[:8]}"
            async with make_worker(client, queue):
                request = RunRequest(task=DURABLE_TASK, tenant=TENANT)
                run_id = f"toolroute-demo-{uuid.uuid4().hex[:8]}"
                with clean_stdout():
                    result = await client.execute_workflow(
                        names.RUN, request, id=run_id, task_queue=queue, result_type=RunResult
                    )
                show_run(result)
                show_connections(out, plugin.resources.connections(TENANT))
            out.print(Text(f"  workflow {run_id} on {address}", style="dim"))
    finally:
        await settle()


async def run_in_process(out: Console, config: McpConfig) -> None:
    """Run it without Temporal. Nothing survives a crash, and everything else is the same."""
    async with Router(store=STORE) as router, Connections(config) as connections:
        decision = await router.route(RouteRequest(query=DURABLE_TASK, tenant=TENANT))
        executors = Executors()
        plan = await make_plan(None, PlanRequest(decision=decision))
        for step in plan.steps:
            tool = decision.tool(step.tool)
            if tool is not None:
                call = ToolCall(tenant=TENANT, tool=tool, arguments=step.arguments)
                result = await executors.execute(call, connections)
                out.print(Text(f"  {step.task}: {result.text}"))
        show_connections(out, connections)


def show_connections(out: Console, connections: Connections | None) -> None:
    states = connections.states() if connections else ()
    line = ", ".join(f"{state.server} {state.state}" for state in states)
    out.print(Text(f"\n  connections: {line}", style="bold"))


if __name__ == "__main__":
    asyncio.run(main())
