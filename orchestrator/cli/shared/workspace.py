"""The tenant, the store, the catalogue and the servers that a command uses, and the objects made from them."""

import asyncio
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.shared.connecting import connecting
from orchestrator.cli.shared.output import note, warn
from orchestrator.common.tenant import SHARED
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.mcp.config.locate import FILE_NAMES, find_config, user_config
from orchestrator.options import Options, default_store, stores_of

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.mcp.config.parse import McpConfig
    from orchestrator.runtime.router import Router
    from orchestrator.store.store import Store, Stored

_PATIENCE_S = 60.0
"""Seconds that a list waits for each of several stores."""
_FAILED_S = 600.0
"""Seconds for which a route does not list a server again after listing it failed."""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Names the tenant, the store, the catalogue and the servers that a command uses. The servers are read once."""

    given_tenant: str = ""
    store: tuple[str, ...] = ()
    catalogue: Path | None = None
    config: Path | None = None

    @property
    def owner(self) -> str:
        """Return the given tenant, by default `local`. It may be `shared`."""
        return self.given_tenant or "local"

    @property
    def tenant(self) -> str:
        """Return the given tenant, by default `local`. Raises InvalidInput for `shared`."""
        if self.given_tenant == SHARED:
            raise InvalidInput(
                f"--tenant {SHARED}: only `tools import` and `tools remove` accept this tenant; give another tenant"
            )
        return self.owner

    @property
    def repeated_options(self) -> list[str]:
        """Return the given options by which another command, named in a message, finds the same servers and tools."""
        options: list[str] = []
        if self.given_tenant:
            options += ["--tenant", self.given_tenant]
        if self.config:
            options += ["--config", str(self.config)]
        if self.store:
            options += ["--store", self.first_store]
        return options

    @cached_property
    def stores(self) -> tuple[str, ...]:
        """Return the stores to search: the given ones, or the user's own."""
        return self.store or stores_of(default_store())

    @property
    def first_store(self) -> str:
        """Return the store to write to: the first `--store`, or the user's own store."""
        return self.stores[0]

    @cached_property
    def servers_file(self) -> Path | None:
        """Return the path of the mcpServers file: the given one, the working folder's, or the user's own.

        The user's own file is ignored if a tenant or a store is given, because their servers come from other files.
        """
        named_file = self.config or find_config()
        if named_file:
            return named_file
        users = user_config()
        return users if users.is_file() and not (self.given_tenant or self.store) else None

    @cached_property
    def servers(self) -> "McpConfig | None":
        """Read the mcpServers file, if there is one."""
        if self.servers_file is None:
            return None
        from orchestrator.mcp.config.parse import McpConfig

        return McpConfig.read(self.servers_file)

    @property
    def required_file(self) -> Path:
        """Return the path of the mcpServers file. Raises InvalidConfig if no file is found."""
        if self.servers_file is None:
            raise _no_file()
        return self.servers_file

    @property
    def required_servers(self) -> "McpConfig":
        """Read the mcpServers file. Raises InvalidConfig if no file is found."""
        servers = self.servers
        if servers is None:
            raise _no_file()
        return servers

    @cached_property
    def entries(self) -> dict[str, str] | None:
        """Return the entries of the mcpServers file, or None if there is no readable file."""
        try:
            servers = self.servers
        except InvalidConfig as error:
            if self.config:
                raise
            warn(f"{error}; the last stored listing of the servers is used")
            return None
        return servers.entries if servers else None

    def open_store(self, options: Options | None = None, *, repeat_reads: bool = True) -> "Store":
        """Open the first store, which has the tenants' own tools. Its embedder opens on first use.

        Args:
            options: The settings. Default: those of the environment.
            repeat_reads: Whether a request is repeated while a server does not answer.

        Raises:
            InvalidInput: The location has the form STORE#TENANT, which is for further stores.
        """
        from orchestrator.store.sources import Source

        first = Source.of(self.first_store)
        if first.tenant:
            raise InvalidInput(
                f"store {self.first_store!r}: the first store has each tenant's own tools; give it without "
                f"#{first.tenant}, and --tenant {first.tenant} where that tenant is meant"
            )
        return self._open(self.first_store, options, repeat_reads=repeat_reads)

    def _open(
        self,
        path: "Store | str | Path",
        options: Options | None = None,
        *,
        repeat_reads: bool = True,
    ) -> "Store":
        from orchestrator.index.embedders.by_name import embedder_for
        from orchestrator.store.store import Store

        settings = options or Options.from_env()
        return Store(
            str(path),
            embedder=lambda: embedder_for(settings),
            entries=self.entries if path == self.first_store else None,
            timeout_s=settings.store_timeout_s,
            change_policy=settings.changes,
            collections=settings.collections,
            languages=settings.languages == "auto",
            repeat_reads=repeat_reads,
        )

    def known_store(self) -> "Store":
        """Open a store for reading. Raises InvalidInput if `--store` names a store that does not exist."""
        from orchestrator.store.sources import Source

        for location in self.store:
            store = self._open(Source.of(location).store)
            if not store.exists:
                made_by = "`toolroute tools import` and `toolroute tools sync` create a store"
                raise InvalidInput(f"store {str(store)!r} does not exist: {made_by}")
        return self.open_store()

    def catalogue_or_store(self) -> "Catalogue":
        """Read the tools of `--catalogue`, or the tenant's tools from the stores."""
        from orchestrator.catalogue.catalogue import Catalogue

        if self.catalogue is None:
            stored = self._stored_tools()
            if stored.damaged:
                warn(stored.damaged)
            return stored.catalogue
        self.require_one_source()
        if self.given_tenant:
            raise InvalidInput(
                f"--catalogue with tenant {self.given_tenant!r}: a file has the same tools for each tenant; "
                "leave the tenant out"
            )
        return Catalogue.read(self.catalogue)

    def _stored_tools(self) -> "Stored":
        from orchestrator.store.sources import Source, Sources

        first = self.known_store()
        if len(self.stores) == 1:
            return first.load(self.tenant)
        sources = [Source.of(location) for location in self.stores]
        opened = [replace(source, store=self._open(source.store)) for source in sources]
        return Sources(opened, _PATIENCE_S).load(self.tenant)

    async def open_router(self, options: Options) -> "Router":
        """Open a Router on the catalogue, or on the stores.

        Servers of `--config` that the store does not know are listed first. Tools of MCP servers that are not in the
        file do not match. Servers of a file that was only found, not named, are not started.
        """
        from orchestrator.runtime.router import Router
        from orchestrator.runtime.unused_settings import without_unasked_models

        options = without_unasked_models(options)  # `plan --model` asks it after the route.
        self.require_one_source()
        if self.catalogue is not None:
            return Router(self.catalogue, options=options)
        listed: tuple[str, ...] | None = None
        if self.config:
            await self.list_unknown(self.required_servers, options)
            listed = tuple(self.required_servers.servers)
        else:
            await self._note_unlisted(self.known_store())
        return Router(stores=self.stores, options=options, servers=listed, entries=self.entries)

    async def _note_unlisted(self, store: "Store") -> None:
        """Name the servers of a file that was only found, of which the store has no tools.

        A broken entry is named with its fault, because listing its server does not help.
        """
        entries = self.entries
        if not entries or not store.exists:
            return
        stored = await asyncio.to_thread(store.servers, self.tenant)
        unlisted = sorted(entries.keys() - stored.keys())
        specs = self.required_servers.servers
        for name in unlisted:
            if specs[name].problem:
                note(specs[name].problem)
        unlisted = [name for name in unlisted if not specs[name].problem]
        if unlisted:
            sync = f"`toolroute tools sync` lists the servers of {self.servers_file}"
            note(f"no tools of {', '.join(unlisted)} yet: {sync}")

    def require_one_source(self, *, lists: bool = True) -> None:
        """Raise InvalidInput if `--catalogue` is combined with a store or with an option that lists servers into
        a store.
        """
        if self.catalogue is not None and (self.store or (lists and self.config)):
            also = "--store" if self.store else "--config, which lists servers into a store"
            remedy = f"leave one out, or store the tools: `toolroute tools import {self.catalogue}`"
            raise InvalidInput(f"--catalogue with {also}: {remedy}")

    async def check_store(self) -> None:
        """Read the store, so that a store that does not answer is reported here."""
        with closing(self.known_store()) as store:
            await asyncio.to_thread(store.servers, self.tenant)

    async def list_unknown(self, servers: "McpConfig", options: Options) -> None:
        """List the servers that the store does not know for this tenant."""
        with closing(self.open_store(options)) as store:
            unknown = await asyncio.to_thread(self._unlisted, servers, store)
            if not unknown:
                return
            from orchestrator.mcp.connections import Connections
            from orchestrator.mcp.sync import sync

            note(f"listing {', '.join(unknown)} (once) ...")
            async with (
                Connections(servers, tenant=self.tenant) as connections,
                connecting(connections, "listing servers", len(unknown)) as count,
            ):
                await sync(connections, store, self.tenant, count, unknown)

    def _unlisted(self, servers: "McpConfig", store: "Store") -> list[str]:
        """Return the servers that the store does not know, except servers that have just failed. Those are noted."""
        from orchestrator.mcp.faults import without_name
        from orchestrator.mcp.sync import not_listed

        names = not_listed(servers, store.snapshot(self.tenant))
        if not names:
            return []
        entries = {name: servers.servers[name].identity for name in names}
        failed = store.records.failed_lately(self.tenant, entries, _FAILED_S)
        for name, reason in failed.items():
            why = without_name(name, reason)
            note(f"no tools of {name}: {why} (retry with `toolroute tools sync`)")
        return [name for name in entries if name not in failed]


def _no_file() -> InvalidConfig:
    names = " and no ".join(FILE_NAMES)
    return InvalidConfig(f"no {names} in this folder: give --config FILE, or run `toolroute setup`")
