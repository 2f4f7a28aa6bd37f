"""A server's process, beside the library's transport: that sees only the ends of its pipes."""

import asyncio
import fcntl
import os
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from anyio.abc import Process
    from mcp.client._transport import TransportStreams

_LOOK_EACH_S = 0.5
_LAST_WORDS_S = 0.3
"""What the process wrote before it ended is still read."""


@asynccontextmanager
async def attended(
    client: AbstractAsyncContextManager["TransportStreams"], unread: Callable[[], None]
) -> AsyncIterator["TransportStreams"]:
    """A `stdio_client` that ends with its process, also where a helper of it holds the pipes open, and leaves no helper
    behind. `unread` is called where the last that was sent had not been read in the end."""
    from mcp.os.posix.utilities import terminate_posix_process_tree

    process: Process | None = None
    try:
        async with client as streams:
            process = _process_of(client)
            watching = asyncio.create_task(_end_with(process)) if process else None
            given = _input_of(process, unread)
            try:
                yield streams
            finally:
                if given is not None:
                    if _unread_in(given):
                        unread()
                    os.close(given)  # The process is told to end by the end of its input.
                if watching:
                    watching.cancel()
    finally:
        if process:
            # The library signals the group only where the process itself did not end when asked to.
            with anyio.CancelScope(shield=True):
                await terminate_posix_process_tree(process)


def _process_of(client: Any) -> "Process | None":
    """The library keeps it to itself, a variable of the generator that it is; None where another version has none."""
    frame = getattr(getattr(client, "gen", None), "ag_frame", None)
    return frame.f_locals.get("process") if frame else None


def _input_of(process: Any, unread: Callable[[], None]) -> int | None:
    """An end of our own of the pipe to the process; None where another version of the library has none."""
    stream: Any = getattr(getattr(process, "stdin", None), "_stream", None)
    try:
        return os.dup(stream.transport.get_extra_info("pipe").fileno())
    except ValueError:  # It is closed: the process has ended before anything was sent.
        unread()
    except (AttributeError, OSError):
        pass
    return None


def _unread_in(pipe: int) -> bool:
    with suppress(OSError):
        return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) > 0
    return False


async def _end_with(process: "Process") -> None:
    """Closes the process's output once it has ended; the transport takes that for the end."""
    # Its own `wait` would wait for the ends of the pipes, too.
    while process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_EACH_S)
    await asyncio.sleep(_LAST_WORDS_S)
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if process.stdout is not None:
            await process.stdout.aclose()
