"""MCP client: a model reads the tools of the servers that fit. `OPENAI_API_KEY=... python -m examples.mcp_client`."""

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI

from orchestrator import Catalogue, Connections, Router
from orchestrator.integrations.mcp import RoutedSession


async def main(model: str = "gpt-5.4-mini", task: str = "what time is it in Oslo?") -> None:
    async with Connections("examples/mcp.json") as servers, AsyncOpenAI() as client:
        listed = [tool for name in servers.config.servers for tool in await servers.tools(name)]
        async with (
            Router(Catalogue(listed)) as router,
            RoutedSession(task, router, servers, limit=3) as session,
        ):
            own: Any = [
                (tool.name, tool.input_schema) for tool in (await session.list_tools()).tools
            ]
            tools: Any = [
                {"type": "function", "strict": False, "name": n, "parameters": form}
                for n, form in own
            ]
            for item in (
                await client.responses.create(model=model, input=task, tools=tools)
            ).output:
                if item.type == "function_call":
                    print((await session.call_tool(item.name, json.loads(item.arguments))).content)


if __name__ == "__main__":
    asyncio.run(main())
