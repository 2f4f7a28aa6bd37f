"""A server's process, beside the library's transport: that sees only the ends of its pipes."""

import asyncio
from collections.abc import AsyncIterator
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
async def attended(client: AbstractAsyncContextManager["TransportStreams"]) -> AsyncIterator["TransportStreams"]:
    """A `stdio_client` that ends with its process, also where a helper of it holds the pipes open, and leaves no helper
    behind."""
    from mcp.os.posix.utilities import terminate_posix_process_tree

    process: Process | None = None
    try:
        async with client as streams:
            process = _process_of(client)
            watching = asyncio.create_task(_end_with(process)) if process else None
            try:
                yield streams
            finally:
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


async def _end_with(process: "Process") -> None:
    """Closes the process's output once it has ended; the transport takes that for the end."""
    # Its own `wait` would wait for the ends of the pipes, too.
    while process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_EACH_S)
    await asyncio.sleep(_LAST_WORDS_S)
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if process.stdout is not None:
            await process.stdout.aclose()
