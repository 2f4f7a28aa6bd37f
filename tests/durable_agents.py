"""Durable agents of users. Their tools are the tools of toolroute's catalogue."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from agents import Agent as OpenAIAgent, Runner
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.temporal import TemporalDurability

    from orchestrator import ToolRouter
    from orchestrator.integrations.openai_agents import catalogue_tools
    from orchestrator.integrations.pydantic_ai import CatalogueToolset

    TOOLS = CatalogueToolset(ToolRouter(tenant="org:acme"), limit=2, approve="never")
    PYDANTIC = Agent("openai:scripted", name="desk", toolsets=[TOOLS], capabilities=[TemporalDurability()])


@workflow.defn
class PydanticDesk:
    @workflow.run
    async def run(self, task: str) -> str:
        return (await PYDANTIC.run(task)).output


@workflow.defn
class OpenAIDesk:
    @workflow.run
    async def run(self, task: str, approve: str) -> str:
        router = ToolRouter(tenant="org:acme")
        decision = await router.route(task)
        tools = catalogue_tools(router, decision, approve=approve)
        result = await Runner.run(OpenAIAgent(name="desk", model="scripted", tools=tools[:2]), task)
        asked = ", ".join(str(item.name) for item in result.interruptions)
        return f"waits for approval: {asked}" if asked else str(result.final_output)
