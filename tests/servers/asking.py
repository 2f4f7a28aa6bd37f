"""A server on the library's decorators whose tools ask the client in the middle of a call. Run: `python asking.py`."""

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("asking")


class Name(BaseModel):
    """The answer to the question."""

    name: str


@server.tool()
async def ask(context: Context) -> str:
    """Ask for a name."""
    answer = await context.elicit("Your name?", Name)
    return f"{answer.action} {getattr(answer, 'data', '')}"


@server.tool()
async def think(context: Context) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(text="Think"))
    answer = await context.session.create_message([message], max_tokens=5)
    return str(answer.content)


@server.tool()
async def roots(context: Context) -> str:
    """Ask for the client's folders."""
    return str((await context.session.list_roots()).roots[0].uri)


if __name__ == "__main__":
    server.run("stdio")
