"""The servers of one tenant that its store does not hold yet are listed before its first search."""

import asyncio
from collections.abc import Callable

from orchestrator.errors import ToolrouteError
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.signin import files as sign_ins
from orchestrator.mcp.sync import ServerReport, not_listed, sync
from orchestrator.store.store import Store

Note = Callable[[str], None]

_WAIT_S = 20.0
"""Seconds that the first search waits until its servers are listed."""
_WAIT_KNOWN_S = 2.0
"""The same, if other servers are already known. A server that failed before is not waited for."""
_STILL_LISTED = "it is still being listed; try again soon"
_RETRY_AFTER_S = 60.0
"""Seconds between a failed listing and the next attempt."""


class InitialSync:
    """The servers that one tenant's store does not hold: listed before its first search, and again where one fails.

    Later listings, a minute or more after one that failed, run while searches are answered.

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
        self._reported: set[str] = set()
        self._listing: asyncio.Task[None] | None = None
        self._wait_until = self._wait_until_known = 0.0
        self._retry_at = 0.0
        self._sign_ins = 0
        self._store_read = asyncio.Event()
        self._some_known = False
        self._never_tried = False
        self._complete = False

    async def listed(self, server: str | None = None) -> None:
        """Wait until the tenant's unknown servers are listed and stored, or a time limit passes.

        Servers that are listed later are stored then. With `server`, wait only for this server.
        """
        loop = asyncio.get_running_loop()
        self._start_if_due(loop.time())
        await self._store_read.wait()
        if self._listing is None or self._listing.done():
            return
        if server is None:
            deadline = self._wait_until_known if self._some_known else self._wait_until
            is_worth_waiting = self._never_tried or not self._some_known
        else:
            deadline = self._wait_until
            is_worth_waiting = server in self._missing
        remaining_s = deadline - loop.time()
        if is_worth_waiting and remaining_s > 0:
            await asyncio.wait([self._listing], timeout=remaining_s)

    async def close(self) -> None:
        self._store_read.set()
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    def _start_if_due(self, now: float) -> None:
        """List the missing servers: at first, and again after a failure or a sign-in."""
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
                self._wait_until_known = now + _WAIT_KNOWN_S
            self._listing = asyncio.create_task(self._list())

    async def _list(self) -> None:
        self._sign_ins = sign_ins.stamp()
        try:
            await self._read_store()
            if self._missing:
                missing = list(self._missing)
                await sync(self._pool, self._store, self._tenant, self._on_report, missing)
                # From here on a server is connected when one of its tools is called.
                self._pool.release(missing)
            self._complete = not self._missing
        except ToolrouteError as error:
            self._note(f"listing the servers failed: {error}")
        finally:
            self._store_read.set()
            self._retry_at = asyncio.get_running_loop().time() + _RETRY_AFTER_S

    async def _read_store(self) -> None:
        """Find out which servers the store lacks."""
        snapshot = await asyncio.to_thread(self._store.snapshot, self._tenant)
        counts = {server: len(tools) for server, tools in snapshot.tools.items()}
        self._pool.restore(counts)
        missing = not_listed(self._pool.config, snapshot)
        self._missing = set(missing)
        former_reasons = self.unlisted
        self.unlisted = {}
        for server, has_tools in missing.items():
            if not has_tools:
                self.unlisted[server] = former_reasons.get(server, _STILL_LISTED)
        self._some_known = len(self.unlisted) < len(self._pool.config.servers)
        self._never_tried = not self.unlisted.keys() <= snapshot.failures.keys()
        self._store_read.set()

    def _on_report(self, report: ServerReport) -> None:
        server = report.server
        if not report.error:
            self._missing.discard(server)
            self.unlisted.pop(server, None)
            if report.tools:
                self.stored.add(server)
        elif server in self.unlisted:
            self.unlisted[server] = f"listing it failed ({without_name(server, report.error)})"
        if not report.error or server not in self._reported:  # That it fails again is no news.
            self._reported.add(server)
            self._note(report.line)
