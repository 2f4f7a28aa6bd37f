"""The servers that a tenant's store does not hold yet: listed before its first search, and again while one fails."""

import asyncio
from collections.abc import Callable

from orchestrator.errors import ToolrouteError
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.sync import ServerReport, not_listed, sync
from orchestrator.store.store import Store

_WAIT_S = 20.0
_WAIT_BESIDE_S = 2.0
"""Where something is stored already that the rest may be searched without."""
_AGAIN_S = 60.0
_AGAIN_AT_MOST_S = 1800.0


class Unlisted:
    """One tenant's. Who asks waits for the first listing, all together 20 s from its beginning, or 2 s where other
    servers are known; later ones, 1, 2, 4 ... 30 minutes after one that failed, run beside the searches."""

    def __init__(self, pool: Connections, store: Store, tenant: str, note: Callable[[str], None]) -> None:
        self._pool, self._store, self._tenant, self._note = pool, store, tenant, note
        self._why: dict[str, str] = {}
        self._missing: set[str] = set()
        self._told: set[str] = set()
        self._listing: asyncio.Task[None] | None = None
        self._complete = self._some_known = False
        self._looked = asyncio.Event()
        self._wait_until = self._wait_beside_until = self._again_at = 0.0
        self._tries = 0

    async def listed(self, server: str | None = None) -> None:
        """Returns when what could be listed is stored, or has taken too long; what is late is stored all the same.

        Who needs that one `server` waits as if nothing else were known.
        """
        clock = asyncio.get_running_loop().time
        if self._listing is None:
            self._wait_until, self._wait_beside_until = clock() + _WAIT_S, clock() + _WAIT_BESIDE_S
            self._listing = asyncio.create_task(self._list())
        elif self._listing.done() and not self._complete and clock() >= self._again_at:
            self._listing = asyncio.create_task(self._list())
        await self._looked.wait()
        beside = self._some_known and server not in self._missing
        left = (self._wait_beside_until if beside else self._wait_until) - clock()
        if not self._listing.done() and left > 0:
            await asyncio.wait([self._listing], timeout=left)

    def why(self, server: str) -> str:
        """Why the store does not hold this server's tools yet; "" where it does."""
        return self._why.get(server, "")

    def reasons(self) -> dict[str, str]:
        """Return the servers whose tools the store does not hold now, each with the reason."""
        return dict(self._why)

    async def close(self) -> None:
        self._looked.set()
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    async def _list(self) -> None:
        try:
            self._pool.know(await asyncio.to_thread(self._store.servers, self._tenant))
            missing = await asyncio.to_thread(not_listed, self._pool.config, self._store, self._tenant)
            unknown = [server for server, some_known in missing.items() if not some_known]
            self._why = {server: self._why.get(server, "it is still being listed") for server in unknown}
            self._some_known, self._missing = len(unknown) < len(self._pool.config.servers), set(missing)
            self._looked.set()
            if missing:
                self._tries += 1
                await sync(self._pool, self._store, self._tenant, self._listed_one, list(missing))
                # Listed is not called: from here on a server is connected when one of its tools is.
                self._pool.let_go(missing)
            self._complete = not self._missing
        except ToolrouteError as error:
            self._note(f"the servers could not be listed: {error}")
        finally:
            self._looked.set()
            pause = min(_AGAIN_S * 2 ** max(0, self._tries - 1), _AGAIN_AT_MOST_S)
            self._again_at = asyncio.get_running_loop().time() + pause

    def _listed_one(self, report: ServerReport) -> None:
        if not report.error:
            self._missing.discard(report.server)
            self._why.pop(report.server, None)
        else:
            if report.server in self._why:
                self._why[report.server] = f"it could not be listed ({without_name(report.server, report.error)})"
            if report.server in self._told:
                return  # That it fails again is no news.
            self._told.add(report.server)
        self._note(report.line)
