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
"""The same, if other servers are already known."""
_AGAIN_S = 60.0
"""Seconds between a failed listing and the next attempt."""


class InitialSync:
    """The servers that one tenant's store does not hold: listed before its first search, and again where one fails.

    Later listings, a minute or more after one that failed, run while searches are answered.
    """

    def __init__(self, pool: Connections, store: Store, tenant: str, note: Note) -> None:
        self._pool, self._store, self._tenant, self._note = pool, store, tenant, note
        self.why: dict[str, str] = {}
        """The servers whose tools are not in the store now, with the reason for each."""
        self.stored: set[str] = set()
        """Servers with tools that were listed after the catalogue was last read."""
        self._missing: set[str] = set()
        self._noted: set[str] = set()
        self._listing: asyncio.Task[None] | None = None
        self._until: tuple[float, ...] = ()
        self._again_at, self._signed_in = 0.0, 0
        self._looked = asyncio.Event()
        self._some_known = self._complete = False

    async def listed(self, server: str | None = None) -> None:
        """Wait until the tenant's unknown servers are listed and stored, or a time limit passes. Late servers are
        stored later.

        With `server`, wait only for this server.
        """
        now = asyncio.get_running_loop().time()
        signed_in = self._signed_in != sign_ins.stamp()
        again = now >= self._again_at or signed_in
        if self._listing is None or (self._listing.done() and not self._complete and again):
            if signed_in or not self._until:
                self._until = now + _WAIT_S, now + _WAIT_KNOWN_S
            self._listing = asyncio.create_task(self._list())
        await self._looked.wait()
        if server is not None and server not in self._missing:
            return
        left_s = self._until[self._some_known and server is None] - asyncio.get_running_loop().time()
        if not self._listing.done() and left_s > 0:
            await asyncio.wait([self._listing], timeout=left_s)

    async def close(self) -> None:
        self._looked.set()
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    async def _list(self) -> None:
        self._signed_in = sign_ins.stamp()
        try:
            self._pool.restore(await asyncio.to_thread(self._store.servers, self._tenant))
            missing = await asyncio.to_thread(not_listed, self._pool.config, self._store, self._tenant)
            unknown = [server for server, some_known in missing.items() if not some_known]
            self.why = {server: self.why.get(server, "it is still being listed; try again soon") for server in unknown}
            self._some_known, self._missing = len(unknown) < len(self._pool.config.servers), set(missing)
            self._looked.set()
            if missing:
                await sync(self._pool, self._store, self._tenant, self._listed_one, list(missing))
                self._pool.release(missing)  # From here on a server is connected when one of its tools is called.
            self._complete = not self._missing
        except ToolrouteError as error:
            self._note(f"listing the servers failed: {error}")
        finally:
            self._looked.set()
            self._again_at = asyncio.get_running_loop().time() + _AGAIN_S

    def _listed_one(self, report: ServerReport) -> None:
        if not report.error:
            self.stored.update([report.server] if report.tools else [])
            self._missing.discard(report.server)
            self.why.pop(report.server, None)
        elif report.server in self.why:
            self.why[report.server] = f"listing it failed ({without_name(report.server, report.error)})"
        if not report.error or report.server not in self._noted:  # That it fails again is no news.
            self._noted.add(report.server)
            self._note(report.line)
