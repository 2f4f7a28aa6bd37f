"""The Store: every tenant's tools and their vectors, in a folder or on a Qdrant server.

A tool's point is named by its definition, so new points never change a reader's catalogue. A write then replaces one
record, the tenant's manifest. Readers see the old catalogue or the new one, never a mixture, even if a writer dies.
Finally the writer deletes the points that the manifest no longer names. On a server it deletes only old points, because
another writer may be about to name a young one.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from platformdirs import user_cache_path

from orchestrator.common.digests import digest
from orchestrator.common.fields import named
from orchestrator.common.tenant import SHARED, check_tenant
from orchestrator.errors import InvalidCatalogue, InvalidConfig
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.index.embedders.embedder import Embedder
from orchestrator.options import Options
from orchestrator.records.call import ChangePolicy
from orchestrator.records.tool import Tool
from orchestrator.store import listing_records
from orchestrator.store.backend import EXPERIENCE, TOOLS
from orchestrator.store.listing_records import ListingRecords
from orchestrator.store.location import open_backend
from orchestrator.store.outcomes import Outcomes
from orchestrator.store.points import Vectors
from orchestrator.store.qdrant.backend import QdrantBackend
from orchestrator.store.snapshot import Snapshot
from orchestrator.store.tools import manifest_records
from orchestrator.store.tools.manifest import Changes, Definitions, Entries, Manifest
from orchestrator.store.tools.reader import ToolReader
from orchestrator.store.tools.server_tools import ServerTools
from orchestrator.store.tools.stored_tools import Stored
from orchestrator.store.tools.tool_points import SECOND, ToolPoints
from orchestrator.store.tools.tool_records import tool_id
from orchestrator.store.tools.writer import Progress, Write, Writer

__all__ = ["SHARED", "Changes", "Progress", "Store", "Stored"]


class Store:
    """The tools of all tenants.

    All methods block. From async code, call them in a thread. They may be called from any thread.

    Examples:
        >>> from orchestrator import Router, Store, Tool
        >>> store = Store()  # in memory
        >>> tool = Tool(server="stripe", name="refund_charge", description="Give a customer money back")
        >>> store.replace_server("org:acme", "stripe", [tool]).new
        ('refund_charge',)
        >>> with Router(store=store) as router:
        ...     router.route_sync("give the customer money back", tenant="org:acme").recommended
        ('stripe:refund_charge',)
        >>> store.close()
    """

    @named
    def __init__(
        self,
        location: str | Path | None = None,
        *,
        embedder: Embedder | Callable[[], Embedder] | None = None,
        timeout_s: float = 10.0,
        entries: Entries | None = None,
        change_policy: ChangePolicy = "safe",
        collections: str = "",
        repeat_reads: bool = False,
        languages: bool = False,
    ) -> None:
        """Create the store. It opens on first use.

        Args:
            location: A folder or a URL. None: in memory.
            embedder: An embedder, or a function that opens one on first use. None: the embedder that comes with
                toolroute.
            timeout_s: Seconds to wait for another writer, or for a Qdrant server's answer.
            entries: The entries of a configuration (`McpConfig.entries`). Only tools that these entries listed are
                seen. None: every server is seen as it was listed last.
            change_policy: The changed definitions that wait until somebody accepts them.
            collections: The beginning of the names of the collections on a Qdrant server.
            repeat_reads: Whether reads from a server that does not answer are repeated for 25 s, as for a command.
            languages: Whether a write also stores the tools' vectors of the extra `languages`, if it is installed.
        """
        self.change_policy = change_policy
        self.location = "" if location is None else str(location)
        self.backend = open_backend(
            self.location, timeout_s, collections=collections, repeat_reads=repeat_reads
        )
        self._tool_points = ToolPoints(
            self.backend, embedder or _shipped_embedder, languages=languages
        )
        self.outcomes = Outcomes(self.backend, lambda: self.embedder)
        """The Outcomes of all tenants."""
        self.records = ListingRecords(self.backend)
        """The failures, accepted definitions and offers of all tenants' servers."""
        self._reader = ToolReader(self.backend, self._tool_points, entries)

    def __str__(self) -> str:
        """Return the location without credentials."""
        return str(self.backend)

    @property
    def embedder(self) -> Embedder:
        """The embedder. It opens on first use."""
        return self._tool_points.embedder

    @property
    def remote(self) -> bool:
        return self.backend.remote

    @property
    def exists(self) -> bool:
        """False if the store is certainly empty. The first write creates a folder."""
        return self.backend.exists

    def see(self, entries: Entries | None) -> None:
        """From now on, show only the tools that these entries of a configuration listed. None: all."""
        self._reader.see(entries)

    def close(self) -> None:
        """Close the client. A later call opens it again. A store in memory is then empty."""
        self.backend.close()

    # --- reading

    def load(self, tenant: str, version: str = "") -> Stored:
        """Return the tenant's tools and the tools that all tenants share.

        Args:
            tenant: The tenant.
            version: The version, if it was just read.

        Raises:
            StoreUnavailable: The tools cannot be read.
        """
        return self._reader.load(tenant, None, version)

    def renewed(self, tenant: str, earlier: Stored, version: str = "") -> Stored:
        """Return the tenant's current tools. Only tools that `earlier` lacks are read.

        Args:
            tenant: The tenant.
            earlier: The tools that were read before. They are returned if nothing has changed.
            version: The version, if it was just read.
        """
        return self._reader.renewed(tenant, earlier, version)

    def version(self, tenant: str) -> str:
        """Read the version of the tenant's tools."""
        return self._reader.version(tenant)

    def is_current(self, tenant: str, version: str) -> bool:
        """Return True if this is certainly the tenant's current version.

        It never waits, so False may also mean "unknown".
        """
        return self._reader.is_current(tenant, version)

    def index_file(self, tenant: str) -> Path | None:
        """Return the path for a file with an index of the tenant's tools, or None if no folder can hold one.

        For a tenant on a server, the path is in the user's cache folder.
        """
        if self.remote:
            return (
                user_cache_path("toolroute")
                / "indexes"
                / digest(f"{self.location}\n{tenant}", 32)
                / "index.npz"
            )
        folder = self.backend.folder(tenant)
        return folder / "index.npz" if folder is not None and folder.is_dir() else None

    def servers(self, tenant: str, *, own: bool = False) -> dict[str, int]:
        """Return the number of tools of each of the tenant's servers, by name. Servers that all tenants share are
        included, unless `own` is True.
        """
        counts: dict[str, int] = {}
        for owner in self._reader.visible(tenant):
            if owner.tenant == tenant or not own:
                counts |= {server: len(tools) for server, tools in owner.tools.items()}
        return dict(sorted(counts.items()))

    def entries(self, tenant: str) -> dict[str, str]:
        """Return the identity of the entry (`ServerSpec.identity`) that listed each of the tenant's
        own servers, if known.
        """
        return dict(self._reader.visible(tenant)[0].entries)

    def listings(self, tenant: str) -> dict[str, tuple[int, tuple[str, ...]]]:
        """Return all listings of the tenant, seen or not, as `SERVER:ENTRY`: the number of tools, and the configuration
        files with the entry.
        """
        check_tenant(tenant, shared=True)
        owner = self.backend.read(tenant, lambda points: manifest_records.owned(points, tenant))
        listings = {name: tools for name, tools in owner.tools.items() if ":" in name}
        return {name: (len(tools), owner.files.get(name, ())) for name, tools in listings.items()}

    def snapshot(self, tenant: str) -> Snapshot:
        """Return the data of a tenant that one request of the gateway needs, from one read.

        In a folder, the last snapshot is returned again as long as nothing was written.

        Args:
            tenant: The tenant.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        return self._reader.snapshot(tenant)

    def failures(self, tenant: str) -> dict[str, str]:
        """Return the reason of the last failed listing, by server. Servers that were listed are left out."""
        check_tenant(tenant, shared=True)
        return self.backend.read(
            tenant, lambda points: listing_records.failed(points, tenant, self._reader.entries)
        )

    def tool(self, tenant: str, key: str) -> Tool | None:
        """Return the definition of one tool, without reading the others. None: the tenant has no such tool."""
        return self._reader.tool(tenant, key)

    def of_server(self, tenant: str, server: str) -> tuple[Tool, ...]:
        """Return the tools of one server, without reading the others. Tools with damaged records are left out.

        Raises:
            StoreUnavailable: Other writers kept changing the server's tools.
        """
        return tuple(self.server_tools(tenant, server).tools.values())

    def server_tools(self, tenant: str, server: str) -> ServerTools:
        """Return the tools of one server, and the names of those with damaged records.

        Raises:
            StoreUnavailable: Other writers kept changing the server's tools.
        """
        return self._reader.server_tools(tenant, server)

    def second_vectors(self, tenant: str) -> dict[str, Vectors]:
        """Return the tools' vectors of the encoder for other languages, by the hash of the definition.

        Tools that were written without the extra `languages` have none.
        """
        return self._reader.second_vectors(tenant)

    # --- writing

    def replace_server(
        self,
        tenant: str,
        server: str,
        tools: Sequence[Tool],
        on_progress: Progress | None = None,
        *,
        entry: str = "",
        file: str = "",
        replaced: ServerTools | None = None,
    ) -> Changes:
        """Replace a server's tools. Only new and changed definitions are embedded.

        Args:
            tenant: The tenant.
            server: The name of the server.
            tools: All its tools.
            on_progress: Is called with the number of tools written.
            entry: The identity of the configuration's entry that listed the tools. Empty: the tools replace those that
                are seen here, or they are imported.
            file: The configuration file with the entry.
            replaced: The tools that are replaced, as they were read. None: any tools are replaced.

        Raises:
            Outdated: The server has other tools than those in `replaced`.
        """
        listed = {server: entry} if entry else {}
        definitions = {} if replaced is None else {server: replaced.definitions}
        changes = self.replace_servers(
            tenant, {server: tools}, on_progress, listed, file, replaced=definitions
        )
        return changes[server]

    def replace_servers(
        self,
        tenant: str,
        servers: Mapping[str, Sequence[Tool] | None],
        on_progress: Progress | None = None,
        listed: Entries | None = None,
        file: str = "",
        *,
        replaced: Mapping[str, Definitions] | None = None,
    ) -> dict[str, Changes]:
        """Replace the tools of several servers in one write.

        Args:
            tenant: The tenant.
            servers: The tools by server. None removes the server, as `remove_server` does.
            on_progress: Is called with the number of tools written.
            listed: The identity of the entry that listed each server.
            file: The configuration file with the entries.
            replaced: The definitions that are replaced, by server. Of servers without them, any are replaced.

        Raises:
            Outdated: A server has other tools than those in `replaced`.
            StoreUnavailable: The store cannot be written.
            EmbedderUnavailable: The definitions cannot be embedded.
        """
        check_tenant(tenant, shared=True)
        definitions = {
            server: None if tools is None else _definitions(server, tools)
            for server, tools in servers.items()
        }
        written = [tool for tools in servers.values() for tool in tools or ()]
        write = Write(
            tenant=tenant,
            servers=list(servers),
            definitions=lambda _: definitions,
            wanted={tool_id(tenant, tool.key, tool.hash): tool for tool in written},
            listed=listed or {},
            entries=self._reader.entries,
            file=file,
            replaced=replaced or {},
        )
        return Writer(self.backend, self._tool_points).replace(write, on_progress)

    def exchange_tools(
        self, tenant: str, server: str, tools: Sequence[tuple[Tool, Tool]]
    ) -> Changes:
        """Replace some definitions of a server, if they are still the stored ones. Other tools stay as they are.

        Args:
            tenant: The tenant.
            server: The name of the server.
            tools: The stored definition and the new one of each tool.
        """
        check_tenant(tenant, shared=True)
        hashes = {stored.name: (stored.hash, new.hash) for stored, new in tools}

        def exchanged(before: Manifest) -> dict[str, Definitions | None]:
            stored = before.seen(self._reader.entries).tools.get(server)
            if stored is None:
                return {}
            return {
                server: {
                    name: _exchanged(hash_, hashes.get(name)) for name, hash_ in stored.items()
                }
            }

        write = Write(
            tenant=tenant,
            servers=[server],
            definitions=exchanged,
            wanted={tool_id(tenant, new.key, new.hash): new for _, new in tools},
            listed={},
            entries=self._reader.entries,
            file="",
        )
        return Writer(self.backend, self._tool_points).replace(write, None)[server]

    def drop(self, tenant: str) -> None:
        """Remove everything of the tenant: its tools and its experience."""
        check_tenant(tenant, shared=True)
        if self.remote:
            # Other writers may be at work, so the manifest is emptied first, under a condition.
            self.backend.check_version()
            manifest_records.forget(self.backend, tenant)
        else:
            for part in (TOOLS, EXPERIENCE):
                self.backend.drop(tenant, part)
        self.forget_index(tenant)

    def forget_index(self, tenant: str) -> None:
        """Remove the saved index of the tenant's tools."""
        file = self.index_file(tenant)
        if file is not None:
            file.unlink(missing_ok=True)

    def create_collections(self, replicas: int) -> list[str]:
        """Create the collections of a Qdrant server, unless they exist. Return the names of the new ones.

        Args:
            replicas: The number of nodes that hold each point.

        Raises:
            InvalidConfig: The store is a folder.
        """
        if not isinstance(self.backend, QdrantBackend):
            raise InvalidConfig(
                f"store {str(self)!r} is a folder, which needs no collections: give --store URL"
            )
        dimension = self.embedder.dimension or len(self.embedder.embed(["text"])[0])
        sizes = {
            manifest_records.CATALOGUES: 0,
            manifest_records.PARTS: 0,
            self._tool_points.collection: dimension,
        }
        if (encoder := self._tool_points.second_encoder) is not None:
            sizes[SECOND] = encoder.dimension
        return self.backend.create_collections(
            {**sizes, **self.outcomes.collections(dimension)}, replicas
        )

    def remove_server(self, tenant: str, server: str) -> Changes:
        """Remove the visible listing of a server with all its tools. `SERVER:ENTRY` removes that entry's listing."""
        name, _, entry = server.partition(":")
        # A server that is added again begins without earlier acceptances.
        entry = entry or self.entries(tenant).get(server, "")
        self.records.forget_accepted(tenant, name, entry)
        return self.replace_servers(tenant, {server: None})[server]


def _exchanged(stored: str, hashes: tuple[str, str] | None) -> str:
    """Return the hash of a definition after an exchange of the first of two hashes for the second."""
    return hashes[1] if hashes is not None and hashes[0] == stored else stored


def _definitions(server: str, tools: Sequence[Tool]) -> dict[str, str]:
    if wrong := next((tool for tool in tools if tool.server != server), None):
        raise InvalidCatalogue(
            f"tool {wrong.key!r} does not belong to server {server!r}: give each server its own tools"
        )
    return {tool.name: tool.hash for tool in tools}


def _shipped_embedder() -> Embedder:
    return embedder_for(Options())
