"""The ToolReader: it reads the tools that a tenant sees, while others may write them.

Several reads are no snapshot. Each method therefore notices when a writer came between its reads, and reads again.
"""

import time
from dataclasses import replace
from functools import partial

from orchestrator.common.keys import split_key
from orchestrator.common.tenant import SHARED, check_tenant
from orchestrator.errors import StoreUnavailable
from orchestrator.records.tool import Tool
from orchestrator.store.backend import Backend, Damaged
from orchestrator.store.points import Vectors
from orchestrator.store.read_cache import ReadCache
from orchestrator.store.snapshot import Snapshot, read_snapshot
from orchestrator.store.tools import manifest_records
from orchestrator.store.tools.manifest import Entries, Manifest
from orchestrator.store.tools.server_tools import ServerTools, read_server_tools
from orchestrator.store.tools.stored_tools import Stored, read_stored
from orchestrator.store.tools.tool_points import ToolPoints
from orchestrator.store.tools.tool_records import damaged, stored_tool, tool_id

_ATTEMPTS = 5
"""The tries to read tools while others write. The waits between them grow to 0.8 s."""
_REMEMBERED = 10_000
"""Tenants whose version is remembered. It only saves a read, so all are forgotten together."""


class ToolReader:
    """Reads the tools of all tenants.

    Args:
        backend: The store.
        tool_points: The tools' points.
        entries: The entries of the configuration that sees the tools. None: every server is seen.

    Attributes:
        entries: The same entries.
    """

    def __init__(self, backend: Backend, tool_points: ToolPoints, entries: Entries | None) -> None:
        self.entries = entries
        self._backend = backend
        self._tool_points = tool_points
        self._versions: dict[str, tuple[str, str]] = {}
        """By tenant: the stamp of the store at the last read, and the version of the tools that it gave."""
        self._snapshots: ReadCache[Snapshot] = ReadCache()
        self._manifests: ReadCache[tuple[Manifest, ...]] = ReadCache()

    def see(self, entries: Entries | None) -> None:
        """From now on, read only the tools that these entries of a configuration listed. None: all."""
        self.entries = entries
        self._versions.clear()
        self._snapshots.clear()
        self._manifests.clear()

    def visible(self, tenant: str) -> tuple[Manifest, ...]:
        """Return the manifests of the tools that the tenant sees, its own before the shared one."""
        check_tenant(tenant, shared=True)
        read = partial(manifest_records.visible, self._backend, tenant, self.entries)
        return self._manifests.get(tenant, self._stamp(tenant), read)

    def snapshot(self, tenant: str) -> Snapshot:
        """Return the data of a tenant that one request of the gateway needs."""
        check_tenant(tenant)
        read = partial(self._read_snapshot, tenant)
        return self._snapshots.get(tenant, self._stamp(tenant), read)

    def _read_snapshot(self, tenant: str) -> Snapshot:
        shared = manifest_records.shared(self._backend, ()).tools
        return self._backend.read(
            tenant, lambda points: read_snapshot(points, tenant, self.entries, shared)
        )

    # --- versions

    def version(self, tenant: str) -> str:
        """Read the version of the tenant's tools."""
        check_tenant(tenant, shared=True)
        stamp = self._stamp(tenant)
        version = manifest_records.version(self._backend, tenant, self.entries)
        self._remember(tenant, stamp, version)
        return version

    def is_current(self, tenant: str, version: str) -> bool:
        """Return True if this is certainly the tenant's current version. False may also mean "unknown"."""
        stamp = self._stamp(tenant)
        return bool(stamp) and self._versions.get(tenant) == (stamp, version)

    def _remember(self, tenant: str, stamp: str, version: str) -> None:
        if len(self._versions) >= _REMEMBERED:
            self._versions.clear()
        self._versions[tenant] = stamp, version

    def _stamp(self, tenant: str) -> str:
        stamps = [self._backend.stamp(owner) for owner in (tenant, SHARED)]
        return " ".join(stamps) if all(stamps) else ""

    # --- all tools

    def load(self, tenant: str, earlier: Stored | None, version: str) -> Stored:
        """Return the tenant's tools. Only definitions that `earlier` lacks are read.

        Args:
            tenant: The tenant.
            earlier: The tools that were read before.
            version: The version, if it was just read.

        Raises:
            StoreUnavailable: The tools cannot be read.
        """
        check_tenant(tenant, shared=True)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.05 * 2**attempt)  # A writer came between our reads: read again.
            version = version or self.version(tenant)
            stamp = self._stamp(tenant)
            stored = read_stored(
                self._backend, self._tool_points, tenant, version, earlier, entries=self.entries
            )
            if not stored.damaged:
                return stored
            if manifest_records.version(self._backend, tenant, self.entries) == version:
                # Writing a damaged record again makes no new version of the tools, so the version has a mark here.
                self._remember(tenant, stamp, f"{version} damaged")
                return replace(stored, version=f"{version} damaged")
            version = ""
        raise self._kept_changing()

    def renewed(self, tenant: str, earlier: Stored, version: str) -> Stored:
        """Return the tenant's current tools, or `earlier` itself if nothing has changed.

        Args:
            tenant: The tenant.
            earlier: The tools that were read before.
            version: The version, if it was just read.
        """
        version = version or self.version(tenant)
        if version == earlier.version:
            return earlier
        stored = self.load(tenant, earlier, version)
        # Damaged records may still be damaged.
        is_same = (stored.version, stored.damaged) == (earlier.version, earlier.damaged)
        return earlier if is_same else stored

    # --- some tools

    def tool(self, tenant: str, key: str) -> Tool | None:
        """Return the definition of one tool, without reading the others. None: the tenant has no such tool."""
        server, name = split_key(key)
        owner = next(
            (owner for owner in self.visible(tenant) if name in owner.tools.get(server, {})), None
        )
        if owner is None:
            return None
        point = tool_id(owner.tenant, key, owner.tools[server][name])
        records = self._backend.read(
            owner.tenant, lambda points: points.get(owner.collection, [point])
        )
        tool = stored_tool(records[point].payload) if records else None
        if tool is not None:
            return tool
        if owner not in self.visible(tenant):
            return self.tool(tenant, key)  # A writer came between our reads.
        raise Damaged(damaged([key]))

    def server_tools(self, tenant: str, server: str) -> ServerTools:
        """Return the tools of one server, without reading the others, and the names of those with damaged records.

        Raises:
            StoreUnavailable: Other writers kept changing the server's tools.
        """
        for _ in range(_ATTEMPTS):
            owner = self._owner(tenant, server)
            if owner is None:
                return ServerTools()
            read = partial(read_server_tools, owner=owner, tenant=tenant, server=server)
            tools = self._backend.read(owner.tenant, read)
            # A writer may have replaced a definition since the manifest was read. If it were missing, a changed tool
            # would count as a new one, which nobody has to accept.
            if tools.is_complete or self._owner(tenant, server) == owner:
                return tools
        raise self._kept_changing()

    def second_vectors(self, tenant: str) -> dict[str, Vectors]:
        """Return the tools' vectors of the encoder for other languages, by the hash of the definition."""
        vectors: dict[str, Vectors] = {}
        for owner in self.visible(tenant):
            read = partial(self._tool_points.second, owner=owner)
            vectors |= self._backend.read(owner.tenant, read)
        return vectors

    def _owner(self, tenant: str, server: str) -> Manifest | None:
        """Return the manifest whose tools of this server the tenant sees, its own before the shared one."""
        owners = (owner for owner in self.visible(tenant) if server in owner.tools)
        return next(owners, None)

    def _kept_changing(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the store {self._backend} cannot be read: writers kept changing it; try again"
        )
