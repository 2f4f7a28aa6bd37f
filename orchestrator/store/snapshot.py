"""A snapshot: everything that one request of the gateway asks about a tenant, from one read of the store."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.store import listing_records
from orchestrator.store.points import Points
from orchestrator.store.tools.manifest import Definitions, Entries
from orchestrator.store.tools.manifest_records import owned


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of the store for one tenant.

    Attributes:
        tools: The definition hashes of the tools, by server and name. Servers that all tenants share are included.
        entries: The identity of the entry that listed each of the tenant's own servers, if it is known.
        failures: The reason of the last failed listing, by server.
        offers: The resources and prompts of each server, as JSON text.
    """

    tools: Mapping[str, Definitions]
    entries: Entries
    failures: Mapping[str, str]
    offers: Mapping[str, str]


def read_snapshot(
    points: Points, tenant: str, entries: Entries | None, shared: Mapping[str, Definitions]
) -> Snapshot:
    """Return the tenant's snapshot.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        entries: The entries of the configuration that sees the store. None: every server is seen.
        shared: The tools of the servers that all tenants share.
    """
    listed = owned(points, tenant).seen(entries)
    connected = {**listed.entries, **(entries or {})}
    return Snapshot(
        tools={**shared, **listed.tools},
        entries=listed.entries,
        failures=listing_records.failed(points, tenant, entries),
        offers=listing_records.offers(points, tenant, connected),
    )
