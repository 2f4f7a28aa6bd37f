"""OpenAI Agents SDK: the model reads few tools. `OPENAI_API_KEY=... python -m examples.openai_agents_agent`."""

import asyncio

from agents import Agent, Runner, function_tool

from examples.functions import FUNCTIONS
from orchestrator.integrations.openai_agents import ToolRoutedModel


async def main(model: str = "gpt-5.4-mini") -> None:
    agent = Agent(
        name="Assistant",
        tools=[*map(function_tool, FUNCTIONS)],
        model=ToolRoutedModel(model, limit=3),
    )
    result = Runner.run_streamed(agent, "what is the weather like in Oslo?")
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
