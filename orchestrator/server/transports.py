"""How `toolroute serve` is reached and ends: standard input and output, or streamable HTTP behind the Door."""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from orchestrator.errors import InvalidConfig
from orchestrator.server.gateway import Gateway
from orchestrator.server.http_door import LOOPBACK, Door, Tokens
from orchestrator.server.protocol import make_server

PATH = "/mcp"
_GRACE_S = 5.0
"""How long requests under way may take after the signal."""
_LAST_WORDS_S = 0.2
"""For what is answered at the end to be written, where nobody tells that it was."""
_TAKEN = (errno.EADDRINUSE, errno.EACCES)


async def serve_stdio(gateway: Gateway, tenant: str) -> bool:
    """Serves one client over standard input and output, until it ends or a signal comes.

    After a signal the gateway's connections are closed, and it returns True: a thread still reads the input, which only
    the client can end, and Python would wait for it.
    """
    told = asyncio.Event()
    _on_signals(told.set)
    serving = asyncio.create_task(_serve_streams(gateway, tenant))
    waiting = asyncio.create_task(told.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if serving.done():
        await serving
        return False
    await gateway.stop(0)
    await asyncio.wait({serving}, timeout=_LAST_WORDS_S)
    return True


async def _serve_streams(gateway: Gateway, tenant: str) -> None:
    from mcp.server.lowlevel import NotificationOptions
    from mcp.server.stdio import stdio_server

    server = make_server(gateway, tenant)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))


def _on_signals(stop: Callable[[], object]) -> None:
    """SIGTERM and SIGINT only ask to stop, to the end of the loop, so that the connections' processes are closed on the
    way out: MCP clients close the input and send SIGTERM two seconds later, in the middle of that."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


def make_app(gateway: Gateway, tokens: Tokens, hosts: Iterable[str] = LOOPBACK, origins: Iterable[str] = ()) -> Any:
    """The ASGI app: streamable HTTP at /mcp, behind the Door."""
    from mcp.server.transport_security import TransportSecuritySettings

    # The Door looks at hosts and origins itself, once, for every path.
    open_inside = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    # Answers are streams where they take long: a client that hangs up ends its call, and is told of progress.
    app = make_server(gateway).streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, transport_security=open_inside
    )
    return Door(app, tokens, hosts, origins)


async def serve_http(
    app: Any, host: str, port: int, started: Callable[[int], None], stop: Callable[[float], Coroutine[Any, Any, None]]
) -> None:
    """Serves until a signal; `started` is told the port, which 0 leaves to the system.

    Then `stop` has what is still under way answered after so many seconds: uvicorn would only cut it off.
    """
    import uvicorn

    class Server(uvicorn.Server):
        def capture_signals(self) -> Any:
            # uvicorn's own handlers raise the signal again afterwards, before anything else is closed.
            _on_signals(lambda: setattr(self, "should_exit", True))
            return contextlib.nullcontext()

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started(listening.getsockname()[1])

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            stopping = asyncio.create_task(stop(_GRACE_S))
            await super().shutdown(sockets)
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    if not _may_be_host(host):
        raise InvalidConfig(f"--host {host!r} names no address: give 127.0.0.1, or 0.0.0.0 for all interfaces")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        why, _, _ = (error.strerror or str(error)).partition(" (while")  # Python adds the address, which stands here.
        remedy = "give another --port, or --port 0 for any free one" if error.errno in _TAKEN else "give another --host"
        raise InvalidConfig(f"{host}:{port} cannot be listened on ({why}): {remedy}") from None
    cut_off = round(2 * _GRACE_S)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=cut_off)
    await Server(config).serve([listening])


def _may_be_host(host: str) -> bool:
    """Whether it may be an address or a name; a blank one would be all interfaces."""
    try:
        return bool(host.strip().encode("idna"))
    except UnicodeError:
        return False
