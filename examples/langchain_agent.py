"""LangChain: the model reads the few tools that fit. `OPENAI_API_KEY=... python -m examples.langchain_agent`."""

import asyncio

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from examples.functions import FUNCTIONS
from orchestrator.integrations.langchain import ToolRouterMiddleware


async def main(model: str = "gpt-5.4-mini") -> None:
    tools = [tool(function) for function in FUNCTIONS]
    agent = create_agent(
        ChatOpenAI(model=model), tools=tools, middleware=[ToolRouterMiddleware(limit=3)]
    )
    task = HumanMessage("what is the weather like in Oslo?")
    async for message, _ in agent.astream({"messages": [task]}, stream_mode="messages"):
        print(message.text, end="", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
