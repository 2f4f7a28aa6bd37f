"""The tenant, the store, the catalogue and the servers that a command uses, and the objects made from them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.cli.shared.output import note, progress, warn
from orchestrator.common.tenant import SHARED
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.index.embed import embedder_for
from orchestrator.mcp.config.parse import FILE_NAMES, McpConfig, find_config, own_config
from orchestrator.options import Options, default_store, stores_of
from orchestrator.runtime.router import Router
from orchestrator.store.sources import Source, Sources
from orchestrator.store.store import Changes, Store

if TYPE_CHECKING:
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import ServerReport

_LINE_S = 10.0
"""Seconds between two progress lines, if the output is not a terminal."""
_PATIENCE_S = 60.0
"""Seconds that a list waits for each of several stores."""
_FAILED_S = 600.0
"""Seconds for which a route does not list a server again after listing it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Names the tenant, the store, the catalogue and the servers that a command uses."""

    given: str = ""
    store: tuple[str, ...] = ()
    catalogue: Path | None = None
    config: Path | None = None

    @property
    def owner(self) -> str:
        """Return the given tenant, by default `local`. It may be `shared`."""
        return self.given or "local"

    @property
    def tenant(self) -> str:
        """Return the given tenant, by default `local`. Raises InvalidInput for `shared`."""
        if self.given == SHARED:
            raise InvalidInput(
                f"--tenant {SHARED}: only `tools import` and `tools remove` accept this tenant; give another tenant"
            )
        return self.owner

    @property
    def store_place(self) -> str:
        """Return the store to write to: the first `--store`, or the user's own store."""
        return self.stores[0]

    @property
    def stores(self) -> tuple[str, ...]:
        return self.store or stores_of(default_store())

    def open_store(self, options: Options | None = None) -> Store:
        """Open the store. Its embedder opens on first use."""
        return self._open(self.store_place, options)

    def _open(self, place: Store | str | Path, options: Options | None = None) -> Store:
        options = options or Options.from_env()
        limits: dict[str, Any] = {"timeout_s": options.store_timeout_s}
        limits["change_policy"] = options.changes
        entries = None if place != self.store_place else self.entries
        return Store(str(place), embedder=lambda: embedder_for(options), entries=entries, **limits)

    @property
    def entries(self) -> dict[str, str] | None:
        """Return the entries of the mcpServers file, or None if there is no readable file."""
        try:
            config = self.servers()
        except InvalidConfig as error:
            if self.config:
                raise
            warn([f"{error}; the last stored listing of the servers is used"])
            return None
        return config.entries if config else None

    def known_store(self) -> Store:
        """Open a store for reading. Raises InvalidInput if `--store` names a store that does not exist."""
        for given in self.store:
            if not (found := self._open(Source.of(given).store)).exists:
                made_by = "`toolroute tools import` and `toolroute tools sync` create a store"
                raise InvalidInput(f"store {str(found)!r} does not exist: {made_by}")
        return self.open_store()

    def catalogue_or_store(self) -> Catalogue:
        """Read the tools of `--catalogue`, or the tenant's tools from the stores."""
        if self.catalogue:
            return Catalogue.read(self.catalogue)
        store = self.known_store()
        if len(self.stores) == 1:
            return store.load(self.tenant).catalogue
        sources = [replace(own, store=self._open(own.store)) for own in map(Source.of, self.stores)]
        found = Sources(sources, _PATIENCE_S).load(self.tenant)
        if found.damaged:
            warn([found.damaged])
        return found.catalogue

    @property
    def file(self) -> Path | None:
        """Return the path of the mcpServers file: the given one, the working folder's, or the user's own.

        The user's own file is ignored if a tenant or a store is given, because their servers come from other files.
        """
        if found := self.config or find_config():
            return found
        own = own_config()
        return own if own.is_file() and not (self.given or self.store) else None

    def servers(self) -> McpConfig | None:
        """Read the mcpServers file, if there is one."""
        return McpConfig.read(found) if (found := self.file) else None

    def config_file(self) -> Path:
        """Return the path of the mcpServers file. Raises InvalidConfig if there is none."""
        found = self.file
        if found is None:
            raise InvalidConfig(
                f"no {' and no '.join(FILE_NAMES)} in this folder: give --config FILE, or run `toolroute setup`"
            )
        return found

    async def open_router(self, options: Options) -> Router:
        """Open a Router on the catalogue, or on the stores.

        Servers of `--config` that the store does not know are listed first. Tools of MCP servers that are not in the
        file do not match. Servers of a file that was only found, not named, are not started.
        """
        self.check()
        if self.catalogue is not None:
            return Router(self.catalogue, options=options)
        config = McpConfig.read(self.config) if self.config else None
        entries = self.entries
        if config is not None:
            await self.fill(config, options)
        elif (store := self.known_store()).exists and entries:
            new = entries.keys() - (await asyncio.to_thread(store.servers, self.tenant)).keys()
            if new:
                sync = f"`toolroute tools sync` lists the servers of {self.file}"
                note(f"no tools of {', '.join(sorted(new))} yet: {sync}")
        named = config.servers if config else None
        return Router(stores=self.stores, options=options, servers=named, entries=entries)

    def check(self, *, lists: bool = True) -> None:
        """Raise InvalidInput if `--catalogue` is combined with a store or with an option that lists servers into a
        store.
        """
        if self.catalogue is not None and (self.store or (lists and self.config)):
            also = "--store" if self.store else "--config, which lists servers into a store"
            remedy = f"leave one out, or store the tools: `toolroute tools import {self.catalogue}`"
            raise InvalidInput(f"--catalogue with {also}: {remedy}")

    async def fill(self, servers: McpConfig | None, options: Options) -> None:
        """List the servers that the store does not know for this tenant."""
        from orchestrator.mcp.connections import Connections
        from orchestrator.mcp.sync import sync

        with closing(self.open_store(options) if servers else self.known_store()) as store:
            if servers is None:
                await asyncio.to_thread(store.servers, self.tenant)  # One that does not answer is reported here.
            elif unknown := await asyncio.to_thread(self._to_list, servers, store):
                note(f"listing {', '.join(unknown)} (once) ...")
                async with (
                    Connections(servers, tenant=self.tenant) as connections,
                    connecting(connections, "listing servers", len(unknown)) as noted,
                ):
                    await sync(connections, store, self.tenant, noted, unknown)

    def _to_list(self, servers: McpConfig, store: Store) -> list[str]:
        """Return the servers that the store does not know, except servers that have just failed. Those are noted."""
        from orchestrator.mcp.faults import without_name
        from orchestrator.mcp.sync import not_listed

        unknown = {name: servers.servers[name].identity for name in not_listed(servers, store.snapshot(self.tenant))}
        failed = store.failed_lately(self.tenant, unknown, _FAILED_S) if unknown else {}
        for name, why in failed.items():
            note(f"no tools of {name}: {without_name(name, why)} (retry with `toolroute tools sync`)")
        return [name for name in unknown if name not in failed]


def store_tools(store: Store, tenant: str, tools: Catalogue) -> dict[str, Changes]:
    """Replace the tools of the servers that occur in `tools`, with progress on standard error.

    Args:
        store: The store.
        tenant: The tenant.
        tools: The new tools.
    """
    with progress("storing tools") as done:
        return store.replace_servers(tenant, {server: tools.of_server(server) for server in tools.places}, done)


@asynccontextmanager
async def connecting(
    connections: "Connections", label: str, total: int
) -> AsyncIterator[Callable[["ServerReport | None"], None]]:
    """Show the progress while `total` servers connect. The yielded function counts a server and notes its report.

    Args:
        connections: The servers.
        label: The text before the progress.
        total: The number of servers.
    """
    done = 0
    with progress(label) as show:

        def one_more(report: "ServerReport | None" = None) -> None:
            nonlocal done
            done += 1
            if report is not None:
                note(report.line)
            show(done, total)

        async def show_phases() -> None:
            while True:
                await asyncio.sleep(1 if sys.stderr.isatty() else _LINE_S)
                if now := _in_words(connections.phases()):
                    show(done, total, now) if sys.stderr.isatty() else note(f"{done} of {total} done; {now}")

        show(0, total)
        showing = asyncio.create_task(show_phases())
        try:
            yield one_more
        except asyncio.CancelledError:
            if "installing" in connections.phases().values():
                note("interrupted: a running installation is rolled back to keep its cache intact (up to 20 s)")
            raise
        finally:
            showing.cancel()


def _in_words(phases: Mapping[str, str]) -> str:
    """Return a phrase such as "a, b connecting, 3 waiting" for the servers by phase."""
    named = {phase: [name for name, its in phases.items() if its == phase] for phase in dict.fromkeys(phases.values())}
    waiting = len(named.pop("waiting", ()))
    words = [f"{phase} {', '.join(names)}" for phase, names in named.items()]
    return "; ".join([*words, *([f"{waiting} waiting"] if waiting else [])])
