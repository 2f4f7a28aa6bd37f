"""An agent of pydantic-ai in a workflow. A ToolRouter chooses its tools."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic_ai import Agent, FunctionToolset
    from pydantic_ai.durable_exec.temporal import TemporalDurability

    from examples.functions import FUNCTIONS
    from orchestrator import ToolRouter
    from orchestrator.integrations.pydantic_ai import ToolRouting

TOOLS = FunctionToolset(FUNCTIONS, id="functions")
ROUTING = ToolRouting(ToolRouter(tenant="org:acme"), limit=1)
AGENT = Agent("openai:scripted", name="assistant", toolsets=[TOOLS], capabilities=[TemporalDurability(), ROUTING])

NOBODY = ToolRouting(ToolRouter(tenant="nobody"))
LOST = Agent("openai:scripted", name="lost", toolsets=[TOOLS], capabilities=[TemporalDurability(), NOBODY])
"""Its tenant is none, so that routing fails."""


@workflow.defn
class Assistant:
    @workflow.run
    async def run(self, task: str) -> str:
        return (await AGENT.run(task)).output


@workflow.defn
class Lost:
    @workflow.run
    async def run(self, task: str) -> str:
        return (await LOST.run(task)).output
