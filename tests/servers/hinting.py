"""A server of protocol 2026-07-28 that states how long its listing may be used, and which parameter is a header.

Run: `python hinting.py`, or `python hinting.py http PORT`. Each listing has one tool more, and no notification says so.
"""

import sys
from typing import Annotated

import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

server = MCPServer("hinting", cache_hints={"tools/list": CacheHint(ttl_ms=100, scope="private")})
Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


@server.tool()
def store(region: Region, ctx: Context) -> str:
    """Say which region the header of the request names."""
    request = ctx.request_context.request
    return str(request.headers.get("Mcp-Param-Region")) if request else "no request"


class Growing:
    """Adds a tool with each listing."""

    def __init__(self) -> None:
        self._listings = 0
        self._list = server.list_tools

    async def __call__(self) -> list[object]:
        self._listings += 1

        def late() -> str:
            """A tool that a later listing has."""
            return "late"

        server.add_tool(late, name=f"late_{self._listings}")
        return [*await self._list()]


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        uvicorn.run(server.streamable_http_app(), port=int(sys.argv[2]), log_level="error")
    else:
        server.list_tools = Growing()  # type: ignore[method-assign, assignment]
        server.run("stdio")
