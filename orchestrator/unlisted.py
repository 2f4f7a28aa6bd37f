"""The servers that a tenant's store does not hold yet: listed before its first search, and again while one fails."""

import asyncio
from collections.abc import Callable

from orchestrator.connections import Connections
from orchestrator.errors import ToolrouteError
from orchestrator.mcp.faults import without_name
from orchestrator.store import Store
from orchestrator.sync import ServerReport, sync

_WAIT_S = 20.0
_AGAIN_S = 60.0


class Unlisted:
    """One tenant's. Who asks waits for the first listing, all together 20 s from its beginning; later ones, a minute
    after one that failed, run beside the searches."""

    def __init__(self, pool: Connections, store: Store, tenant: str, note: Callable[[str], None]) -> None:
        self._pool, self._store, self._tenant, self._note = pool, store, tenant, note
        self._why: dict[str, str] = {}
        self._told: set[str] = set()
        self._listing: asyncio.Task[None] | None = None
        self._complete = False
        self._wait_until = self._again_at = 0.0

    async def listed(self) -> None:
        """Returns when what could be listed is stored, or has taken too long; what is late is stored all the same."""
        now = asyncio.get_running_loop().time()
        if self._listing is None:
            self._wait_until = now + _WAIT_S
            self._listing = asyncio.create_task(self._list())
        elif self._listing.done() and not self._complete and now >= self._again_at:
            self._listing = asyncio.create_task(self._list())
        if not self._listing.done() and now < self._wait_until:
            await asyncio.wait([self._listing], timeout=self._wait_until - now)

    def why(self, server: str) -> str:
        """Why the store does not hold this server's tools yet; "" where it does."""
        return self._why.get(server, "")

    def warnings(self) -> list[str]:
        """What a searcher should know: whose tools are missing."""
        return [f"the tools of server {name!r} are not among these: {why}" for name, why in self._why.items()]

    async def close(self) -> None:
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    async def _list(self) -> None:
        try:
            known = await asyncio.to_thread(self._store.servers, self._tenant)
            self._pool.know(known)
            missing = [server for server in self._pool.config.servers if server not in known]
            self._why = {server: self._why.get(server, "it is still being listed") for server in missing}
            if missing:
                await sync(self._pool, self._store, self._tenant, self._listed_one, missing)
                # Listed is not called: from here on a server is connected when one of its tools is.
                self._pool.let_go(missing)
            self._complete = not self._why
        except ToolrouteError as error:
            self._note(f"the servers could not be listed: {error}")
        finally:
            self._again_at = asyncio.get_running_loop().time() + _AGAIN_S

    def _listed_one(self, report: ServerReport) -> None:
        if not report.error:
            self._why.pop(report.server, None)
        else:
            self._why[report.server] = f"it could not be listed ({without_name(report.server, report.error)})"
            if report.server in self._told:
                return  # That it fails again, every minute, is no news.
            self._told.add(report.server)
        self._note(report.line)
