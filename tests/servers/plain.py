"""A small server that works. Its tools end its process, wait, count calls in a file, or change its listing.

Run: `python plain.py`, or `python plain.py http PORT [legacy|sse]`. `legacy` refuses the protocol of 2026, so that
clients open sessions. `sse` has only the older transport. COUNT_FILE names a file to which some tools add a line for
each call.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

server = MCPServer("plain")


def _note(line: str) -> None:
    if name := os.environ.get("COUNT_FILE"):
        with Path(name).open("a") as file:
            file.write(f"{line}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def pid() -> int:
    """The server's process id."""
    return os.getpid()


@server.tool()
async def wait(seconds: float, ctx: Context) -> str:
    """Wait, then answer; say so at the beginning."""
    _note("wait")
    await ctx.report_progress(0, seconds, f"waiting with {os.environ.get('API_KEY')}")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        _note("ended early")
        raise
    return "waited"


@server.tool()
async def progress(seconds: float, times: int, ctx: Context) -> str:
    """Report progress so many times, with so many seconds between."""
    for done in range(times):
        await ctx.report_progress(done, times)
        await asyncio.sleep(seconds)
    return "reported"


@server.tool()
def crash() -> str:
    """End the process in the middle of the call."""
    _note("crash")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
def fail() -> str:
    """Fail as a tool fails."""
    raise ValueError("no")


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool and say that the listing changed."""

    def grown(text: str) -> str:
        """A tool that was not there before."""
        return text

    server.add_tool(grown)
    await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
def extend() -> str:
    """Add a tool without saying so."""

    def extended(text: str) -> str:
        """A tool that was not there before either."""
        return text

    server.add_tool(extended)
    return "extended"


@server.tool()
async def change(ctx: Context) -> str:
    """Give `add` another definition, without saying so."""
    server.remove_tool("add")

    def add(first: int, second: int) -> int:
        """Add two numbers, under other names."""
        return first + second

    server.add_tool(add)
    return "changed"


def _legacy_only(app: ASGIApp) -> ASGIApp:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (b"mcp-protocol-version", b"2026-07-28") in scope["headers"]:
            await Response(status_code=400)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return refuse


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        app: ASGIApp = server.sse_app() if "sse" in sys.argv else server.streamable_http_app()
        uvicorn.run(_legacy_only(app) if "legacy" in sys.argv else app, port=int(sys.argv[2]), log_level="error")
    else:
        server.run("stdio")
