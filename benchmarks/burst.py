"""The workflow of `benchmarks.fairness`: many calls of one tool at the same time."""

import asyncio

from temporalio import workflow

from orchestrator import Decision, ToolRouter


@workflow.defn
class Burst:
    """Calls a tool many times at the same time."""

    @workflow.run
    async def run(self, tenant: str, tool: str, calls: int) -> None:
        router = ToolRouter(tenant)
        decision: Decision = await router.route(tool.replace("_", " "))
        await asyncio.gather(
            *(router.call(decision, tool, {"number": number}) for number in range(calls))
        )
