"""`toolroute serve` over standard input and output, and the signals that end it."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from orchestrator.server.gateway import Gateway

_LAST_ANSWERS_S = 0.2  # The last answers are written in this time. Nothing reports that they were.


async def serve_stdio(gateway: Gateway, server: Server[Any]) -> bool:
    """Serve one client over standard input and output until it ends. Returns True after a signal.

    After a signal a thread still reads the input, which only the client can end, and Python would wait for it.
    """

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    stop = asyncio.Event()
    on_signals(stop.set)
    # An earlier Ctrl-C ends it here. Later it would end everything except the reading thread.
    await asyncio.sleep(0)
    serving = asyncio.create_task(serve())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if serving.done():
        await serving
        return False
    await gateway.stop(0)
    await asyncio.wait({serving}, timeout=_LAST_ANSWERS_S)
    return True


def on_signals(stop: Callable[[], object]) -> None:
    """Let SIGTERM and SIGINT only ask to stop, so that the connections' processes are closed on the way out.

    MCP clients close the input and send SIGTERM two seconds later, in the middle of that.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
