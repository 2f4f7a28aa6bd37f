"""Lists servers and stores their tools, so that from then on they are known without a connection."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.digests import same_server
from orchestrator.errors import InvalidConfig, StoreBusy, ToolrouteError
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.connection import OnListed
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.listing.offers import Offer, OnOffer, stored_offer
from orchestrator.records.tool import Tool, as_chosen
from orchestrator.store.snapshot import Snapshot
from orchestrator.store.store import Changes, Store
from orchestrator.trust.pins import store_judged

logger = logging.getLogger(__name__)

_OFFER_TRIES = 6
"""Each try waits 10 s for the store."""

AtHand = Callable[[], Catalogue | None]
"""Returns the tenant's catalogue that this process has loaded, or None."""

OnOfferChanged = Callable[[Offer, Offer], Awaitable[None]]
"""Called with a server's offers before and after a change."""

EntryOf = Callable[[str], str]
"""Returns the identity of a server's present entry, or an empty text if there is none."""


NO_TOOLS = "it lists no tools; if it needs a key or another setting, add that to its entry"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """One server's result: the changes of its listing in the store, or the error."""

    server: str
    tools: int = 0
    changes: Changes = field(default_factory=Changes)
    error: str = ""
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """The server and how it went, for people."""
        tools = "1 tool" if self.tools == 1 else f"{self.tools} tools"
        outcome = without_name(self.server, self.error) or NO_TOOLS * (not self.tools)
        return f"{self.server}: {outcome or f'{tools} stored in {self.seconds:.1f} s'}"

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {**asdict(self), "seconds": round(self.seconds, 3)}
        changes: dict[str, Any] = record.pop("changes")
        return record | changes


def exit_code(failed: Sequence[bool]) -> int:
    """Return 0 if no server failed, 1 if all failed, 4 if some failed."""
    if not any(failed):
        return 0
    return 1 if all(failed) else 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """All servers, in the configuration's order."""

    tenant: str
    servers: tuple[ServerReport, ...]

    @property
    def exit_code(self) -> int:
        """0: all were stored. 1: none. 4: some failed."""
        return exit_code([bool(report.error) for report in self.servers])

    def to_json(self) -> dict[str, Any]:
        return {"tenant": self.tenant, "servers": [report.to_json() for report in self.servers]}


async def sync(
    connections: Connections,
    store: Store,
    tenant: str,
    on_progress: Callable[[ServerReport], None] | None = None,
    servers: Sequence[str] | None = None,
) -> SyncReport:
    """List each server once and store its tools. Keywords and labels from a catalogue are kept.

    A server that fails keeps its stored tools, and the error is recorded. It does not affect the other servers. Errors
    of the store or embedder are raised. The store is checked before any server is connected.

    Args:
        connections: The servers.
        store: The store.
        tenant: The tenant.
        on_progress: Called with each server's report.
        servers: Names of the servers to list. Default: all.
    """
    names = connections.config.servers if servers is None else servers
    entries = {name: connections.config.servers[name].identity for name in names}
    await asyncio.to_thread(store.version, tenant)
    writing = asyncio.Lock()

    async def sync_server(server: str) -> ServerReport:
        began = time.monotonic()
        try:
            listed = await connections.tools(server, fresh=True)
            await _list_offer(connections, server)
        except ToolrouteError as error:
            report = ServerReport(server=server, error=str(error), seconds=time.monotonic() - began)
        else:
            entry = entries[server]
            file = connections.config.file
            # One after the other, because each write replaces the tenant's manifest.
            async with writing:
                changes = await asyncio.to_thread(
                    store_judged, store, tenant, server, entry, listed, file
                )
            seconds = time.monotonic() - began
            report = ServerReport(
                server=server, tools=len(listed), changes=changes, seconds=seconds
            )
        if on_progress is not None:
            on_progress(report)
        return report

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(sync_server(name)) for name in names]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    reports = tuple(task.result() for task in tasks)
    # Empty ones, too: they remove the error of an earlier listing.
    errors = {report.server: report.error for report in reports}
    await asyncio.to_thread(store.records.note_failures, tenant, errors, entries)
    return SyncReport(tenant=tenant, servers=reports)


async def _list_offer(connections: Connections, server: str) -> None:
    try:
        await connections.offer(server)
    except Exception as error:  # Its tools count all the same.
        logger.warning(
            "server %s: its resources and prompts were not listed: %s", server, type(error).__name__
        )


def keep_offer(
    store: Store, tenant: str, entry_of: EntryOf, on_changed: OnOfferChanged | None = None
) -> OnOffer:
    """Return an `on_offer` for a Host that stores changed offers.

    Args:
        store: The store.
        tenant: The tenant.
        entry_of: Returns the identity of a server's entry.
        on_changed: Called with the offers before and after a change.
    """

    from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

    async def on_offer(server: str, offer: Offer) -> None:
        entry = entry_of(server)
        text = offer.model_dump_json()
        stored = await asyncio.to_thread(store.records.offers, tenant, {server: entry})
        former = stored.get(server, "")
        if former == text:
            return
        # Another server's tools may be written for longer than a writer waits, and their own write waits its turn.
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(StoreBusy),
            stop=stop_after_attempt(_OFFER_TRIES),
            reraise=True,
        )
        await retrying(asyncio.to_thread, store.records.keep_offer, tenant, server, entry, text)
        if on_changed is not None:
            await on_changed(stored_offer(former), offer)

    return on_offer


def not_listed(config: McpConfig, snapshot: Snapshot) -> dict[str, bool]:
    """Return the servers whose present entries have not been listed, and True if some of their tools are stored.

    Imported tools have no entry and count as stored.

    Args:
        config: The configuration.
        snapshot: The tenant's part of the store.
    """
    unlisted = dict[str, bool]()
    for server, entry in config.entries.items():
        stored_entry = snapshot.entries.get(server, entry) if server in snapshot.tools else ""
        if stored_entry != entry:
            unlisted[server] = same_server(stored_entry, entry)
    return unlisted


def left_over(store: Store, tenant: str, config: McpConfig | None = None) -> dict[str, int]:
    """Return stored listings (`SERVER:ENTRY`) that no configuration contains any more, with their number of tools.

    Listings from a file that cannot be read are kept, and so are listings that may come from another machine's files.

    Args:
        store: The store.
        tenant: The tenant.
        config: The present configuration.
    """
    named: dict[str, Collection[str] | None] = (
        {config.file: {*config.servers, *config.off}} if config else {}
    )

    def names(file: str, server: str) -> bool:
        if file not in named:
            named[file] = None if store.remote else _named(Path(file))
        names_of_file = named[file]
        return names_of_file is None or server in names_of_file

    listings = store.listings(tenant).items()
    return {
        listing: tools
        for listing, (tools, files) in listings
        if files and not any(names(file, listing.partition(":")[0]) for file in files)
    }


def _named(file: Path) -> Collection[str] | None:
    """Return the names of all entries of a file, or None if it cannot be read."""
    try:
        config = McpConfig.read(file) if file.exists() else McpConfig({})
    except (InvalidConfig, OSError):
        return None
    return {*config.servers, *config.off}


def keep_current(
    store: Store,
    tenant: str,
    at_hand: AtHand,
    entry_of: EntryOf = lambda _: "",
    on_changed: Callable[[], Awaitable[None]] | None = None,
) -> OnListed:
    """Return an `on_listed` for Connections that stores a server's changed listing.

    Servers that are shared by all tenants or were never stored are left alone. The store is read only if no catalogue
    is given.

    Args:
        store: The store.
        tenant: The tenant.
        at_hand: Returns the present catalogue, if one is loaded.
        entry_of: Returns the identity of a server's entry.
        on_changed: Called after a change.
    """

    def take_over(server: str, tools: tuple[Tool, ...]) -> bool:
        if server not in store.servers(tenant, own=True):
            return False
        store_judged(store, tenant, server, entry_of(server), tools)
        return True

    async def on_listed(server: str, tools: tuple[Tool, ...]) -> None:
        catalogue = at_hand()
        if catalogue:
            stored: Sequence[Tool] = catalogue.of_server(server)
        else:
            stored = await asyncio.to_thread(store.of_server, tenant, server)
        if _hashes(_with_additions(tools, stored)) == _hashes(stored):
            return
        if await asyncio.to_thread(take_over, server, tools) and on_changed is not None:
            await on_changed()

    return on_listed


def _hashes(tools: Iterable[Tool]) -> dict[str, str]:
    return {tool.name: tool.hash for tool in tools}


def _with_additions(tools: Iterable[Tool], stored: Iterable[Tool]) -> list[Tool]:
    """Return the listed tools with a catalogue's additions to the stored ones."""
    by_name = {tool.name: tool for tool in stored}
    return [as_chosen(tool, by_name.get(tool.name, tool)) for tool in tools]
