"""Durable agents of the frameworks' own Temporal plugins, with the tools of toolroute's catalogue."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

# pydantic-ai imports it within a workflow task, which has ten seconds: too few on a busy machine.
import openai.resources.responses.responses  # noqa: F401
import pytest
from agents import OpenAIProvider
from pydantic_ai.durable_exec.temporal import AgentPlugin, PydanticAIPlugin
from temporalio.client import Client, WorkflowHandle
from temporalio.openai_agents import OpenAIAgentsPlugin
from temporalio.worker import Replayer, Worker

from examples.functions import FUNCTIONS
from orchestrator import Catalogue, OrchestratorPlugin, ToolRouter
from orchestrator.errors import InvalidInput
from orchestrator.integrations.durable import CatalogueTool, tools_of
from orchestrator.integrations.openai_agents import catalogue_tools
from orchestrator.integrations.pydantic_ai import CatalogueToolset
from orchestrator.testing import ScriptedModel, ToolCalls
from tests.decisions import decision
from tests.durable_agents import PYDANTIC, OpenAIDesk, PydanticDesk
from tests.temporal import DEPLOYMENT, activities_of

pytestmark = pytest.mark.usefixtures("default_model")
TASK = "what is the weather like in Oslo?"
WEATHER = ToolCalls([("current_weather", {"city": "Oslo"})])
REPLIES = (ToolCalls([("current_weather", {"town": "Oslo"})]), WEATHER, "Grey.")
"""Wrong arguments, right arguments, the answer."""
OURS = ["toolroute.route", "toolroute.call_tool", "toolroute.call_tool"]


async def told(
    address: str, framework: list[Any], agents: list[Any], flow: type, *given: str
) -> tuple[str, WorkflowHandle[Any, Any]]:
    """Return the durable agent's answer, and replay its history."""
    ours = OrchestratorPlugin(catalogue=Catalogue.of(*FUNCTIONS))
    client = await Client.connect(address, plugins=[*framework, ours])
    queue = f"agents-{uuid4().hex[:8]}"
    settings: Any = {"deployment_config": DEPLOYMENT, "max_cached_workflows": 0}
    async with Worker(client, task_queue=queue, workflows=[flow], plugins=agents, **settings):
        run: Any = flow
        handle = await client.start_workflow(run.run, args=given, id=queue, task_queue=queue)
        answer = await handle.result()
    replayer = Replayer(workflows=[flow], plugins=[*framework, *agents, ours], debug_mode=True)
    await replayer.replay_workflow(await handle.fetch_history())
    return answer, handle


@pytest.mark.parametrize("arguments", ["[1]", "7", '{"city": ', '"\\ud83d"'])
async def test_arguments_that_are_no_object_are_an_answer_for_the_model(arguments: str) -> None:
    found = decision("x")
    tool = CatalogueTool(ToolRouter("org:1"), found, found.matches[0].tool)
    assert (await tool.call(arguments)).startswith("time__get_current_time failed: InvalidArguments: ")


def check_model(model: ScriptedModel) -> None:
    """It read two tools of the many, the remark on its wrong arguments, and then the tool's answer."""
    assert [len(request.tools) for request in model.asked] == [2, 2, 2]
    assert model.asked[0].tools[0] == "current_weather"
    assert "current_weather failed: InvalidArguments" in model.asked[1].text
    assert "Oslo: grey, 4 degrees, light wind" in model.asked[2].text


@pytest.mark.slow
async def test_a_durable_pydantic_ai_agent_calls_tools_of_the_catalogue(
    model: ScriptedModel, temporal_address: str
) -> None:
    model.replies = [*REPLIES]
    answer, handle = await told(temporal_address, [PydanticAIPlugin()], [AgentPlugin(PYDANTIC)], PydanticDesk, TASK)
    assert answer == "Grey."
    check_model(model)
    assert [name for name in await activities_of(handle) if name.startswith("toolroute")] == OURS


@pytest.mark.slow
async def test_a_durable_openai_agent_calls_tools_of_the_catalogue(model: ScriptedModel, temporal_address: str) -> None:
    model.replies = [*REPLIES]
    plugins = [OpenAIAgentsPlugin(model_provider=OpenAIProvider(use_responses=False))]
    answer, handle = await told(temporal_address, plugins, [], OpenAIDesk, TASK, "never")
    assert answer == "Grey."
    check_model(model)
    assert [name for name in await activities_of(handle) if name.startswith("toolroute")] == OURS
    model.replies = [WEATHER]
    plugins = [OpenAIAgentsPlugin(model_provider=OpenAIProvider(use_responses=False))]
    waits, _ = await told(temporal_address, plugins, [], OpenAIDesk, TASK, "always")
    assert waits == "waits for approval: current_weather"


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="approve='sometimes'"):
        CatalogueToolset(ToolRouter("org:1"), approve="sometimes")


def test_an_agent_gets_no_tool_if_none_matches() -> None:
    none = replace(decision("hum a tune"), recommended=())
    assert none.matches
    assert catalogue_tools(ToolRouter("org:1"), none) == []
    assert tools_of(ToolRouter("org:1"), none) == []
