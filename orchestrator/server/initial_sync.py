"""Lists the servers of one tenant that its store does not have yet, during the tenant's first requests."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from orchestrator.errors import ToolrouteError
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.listing.waits import LISTING_WAIT_S, STILL_LISTED
from orchestrator.mcp.signin import files as sign_ins
from orchestrator.mcp.sync import ServerReport, not_listed, sync
from orchestrator.store.store import Store

Note = Callable[[str], None]

_WAIT_S = 20.0
"""Seconds that a call waits for its own server, and that a search waits while no server at all is known."""
_RETRY_AFTER_S = 60.0
"""Seconds between a failed listing and the next attempt."""


class InitialSync:
    """The servers that one tenant's store does not hold: listed when a client connects, and again where one fails.

    Until then, searches are answered from the store. Only if the store has no server's tools, a search waits for the
    first ones.

    Attributes:
        unlisted: The servers whose tools are not in the store, with the reason for each.
        stored: Servers with tools that were listed after the catalogue was last read.
    """

    def __init__(self, pool: Connections, store: Store, tenant: str, note: Note) -> None:
        self._pool = pool
        self._store = store
        self._tenant = tenant
        self._note = note
        self.unlisted: dict[str, str] = {}
        self.stored: set[str] = set()
        self._missing: set[str] = set()
        self._pending: set[str] = set()
        self._reported: set[str] = set()
        self._listing: asyncio.Task[None] | None = None
        self._wait_until = 0.0
        self._retry_at = 0.0
        self._first_listed_at = 0.0
        self._sign_ins = 0
        self._store_read = asyncio.Event()
        self._progress = asyncio.Event()
        self._some_known = False
        self._complete = False

    async def listed(self, server: str | None = None) -> None:
        """Wait until a server is listed and stored, or a time limit passes.

        Without `server`, wait only while no server at all is known: until the first ones are listed.
        """
        self.start()
        await self._store_read.wait()
        if server is not None:
            await self._wait_for(lambda: server not in self._pending, self._wait_until)
        elif not self._some_known:
            await self._wait_for(
                lambda: bool(self._first_listed_at or not self._pending), self._wait_until
            )
            # After the first server is listed, the search waits a little for the others.
            answer_at = min(self._wait_until, self._first_listed_at + LISTING_WAIT_S)
            await self._wait_for(lambda: not self._pending, answer_at)

    async def _wait_for(self, is_done: Callable[[], bool], deadline: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not is_done():
                    self._progress.clear()
                    await self._progress.wait()

    async def close(self) -> None:
        self._store_read.set()
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    def start(self) -> None:
        """List the missing servers in the background: at first, and again after a failure or a sign-in."""
        now = asyncio.get_running_loop().time()
        has_signed_in = self._sign_ins != sign_ins.stamp()
        is_first = self._listing is None
        is_due = (
            self._listing is not None
            and self._listing.done()
            and (has_signed_in or now >= self._retry_at)
        )
        if is_first or (is_due and not self._complete):
            if is_first or has_signed_in:
                self._wait_until = now + _WAIT_S
            # A caller waits until it is known what this listing is about, not what the former one was.
            self._store_read.clear()
            self._listing = asyncio.create_task(self._list())

    async def _list(self) -> None:
        self._sign_ins = sign_ins.stamp()
        try:
            await self._read_store()
            if self._missing:
                missing = list(self._missing)
                await sync(self._pool, self._store, self._tenant, self._on_report, missing)
            self._complete = not self._missing
        except ToolrouteError as error:
            self._note(f"listing the servers failed: {error}")
        finally:
            self._pending.clear()
            self._store_read.set()
            self._progress.set()
            self._retry_at = asyncio.get_running_loop().time() + _RETRY_AFTER_S

    async def _read_store(self) -> None:
        """Find out which servers the store lacks."""
        snapshot = await asyncio.to_thread(self._store.snapshot, self._tenant)
        counts = {server: len(tools) for server, tools in snapshot.tools.items()}
        self._pool.restore(counts)
        servers_to_list = not_listed(self._pool.config, snapshot)
        self._missing = set(servers_to_list)
        self._pending = set(servers_to_list)
        former_reasons = self.unlisted
        self.unlisted = {}
        for server, has_tools in servers_to_list.items():
            if not has_tools:
                self.unlisted[server] = former_reasons.get(server, STILL_LISTED)
        self._some_known = len(self.unlisted) < len(self._pool.config.servers)
        self._store_read.set()

    def _on_report(self, report: ServerReport) -> None:
        server = report.server
        # From here on it is connected when one of its tools is called.
        self._pool.release([server])
        if not report.error:
            self._missing.discard(server)
            self.unlisted.pop(server, None)
            if report.tools:
                self.stored.add(server)
                self._first_listed_at = self._first_listed_at or asyncio.get_running_loop().time()
        elif server in self.unlisted:
            self.unlisted[server] = f"listing it failed ({without_name(server, report.error)})"
        if not report.error or server not in self._reported:  # That it fails again is no news.
            self._reported.add(server)
            self._note(report.line)
        self._pending.discard(server)
        self._progress.set()
