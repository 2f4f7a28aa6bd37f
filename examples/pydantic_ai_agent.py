"""pydantic-ai: the model reads the few tools that fit. `OPENAI_API_KEY=... python -m examples.pydantic_ai_agent`."""

import asyncio

from pydantic_ai import Agent

from examples.functions import FUNCTIONS
from orchestrator.integrations.pydantic_ai import ToolRouting


async def main(model: str = "openai:gpt-5.4-mini") -> None:
    agent = Agent(model, tools=FUNCTIONS, capabilities=[ToolRouting(limit=3)])
    async with agent.run_stream("what is the weather like in Oslo?") as answer:
        async for piece in answer.stream_text(delta=True):
            print(piece, end="", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
