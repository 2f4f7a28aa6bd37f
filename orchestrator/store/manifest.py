"""The ledger: which tools the servers of each tenant have, as records of a collection of their own.

The tenant's head is flipped in one step and then in force; the records of its servers follow.
"""

from collections.abc import Mapping, Sequence

from orchestrator.records.tenant import SHARED
from orchestrator.store.client import Points
from orchestrator.store.points import (
    Definitions,
    Servers,
    draft_id,
    draft_payload,
    head_id,
    head_payload,
    meta_id,
    meta_payload,
    new_stamp,
    read_servers,
    version_of,
)

CATALOGUES = "tool_catalogues"
"""The collection. It holds no vectors, so a change of the embedder does not touch it."""


def prepare(points: Points) -> None:
    """The collection exists."""
    if not points.has(CATALOGUES):
        points.create(CATALOGUES, indexed=("tenant", "type"))


def owned(points: Points, tenants: Sequence[str]) -> dict[str, Servers]:
    """Each tenant's own servers."""
    if not points.has(CATALOGUES):
        return {tenant: Servers(tenant=tenant, tools={}, pending={}) for tenant in tenants}
    heads = points.get(CATALOGUES, [head_id(tenant) for tenant in tenants])
    metas = [record.payload for record in points.find(CATALOGUES, {"tenant": tenants, "type": "meta"})]
    return {
        tenant: read_servers(tenant, heads[head].payload if (head := head_id(tenant)) in heads else None, metas)
        for tenant in tenants
    }


def visible(points: Points, tenant: str) -> tuple[Servers, ...]:
    """The tenant's own servers, and the shared ones that none of its own hides by its name."""
    found = owned(points, list(dict.fromkeys([tenant, SHARED])))
    own, shared = found[tenant], found[SHARED]
    if tenant == SHARED:
        return (own,)
    seen = {server: tools for server, tools in shared.tools.items() if server not in own.tools}
    return own, Servers(tenant=SHARED, stamp=shared.stamp, tools=seen, pending={})


def versions(points: Points, tenants: Sequence[str]) -> dict[str, str]:
    """Each tenant's version, as `version_of` what is visible to it; read from the heads alone."""
    names = list(dict.fromkeys([*tenants, SHARED]))
    heads = points.get(CATALOGUES, [head_id(name) for name in names]) if points.has(CATALOGUES) else {}

    def own(tenant: str) -> Servers:
        record = heads.get(head_id(tenant))
        return Servers(tenant=tenant, stamp=record.payload["stamp"] if record else "", tools={}, pending={})

    return {name: version_of(own(name), *([own(SHARED)] if name != SHARED else [])) for name in names}


def flip(points: Points, before: Servers, now: Mapping[str, Definitions | None], entries: Mapping[str, str]) -> None:
    """Makes these the servers' tools (None: the server goes), all at once, and `entries` what they were listed by.

    After the first line the new catalogue is in force; the rest is bookkeeping that any later writer can finish.
    """
    tenant, stamp, head = before.tenant, new_stamp(), head_id(before.tenant)
    points.put(CATALOGUES, {head: head_payload(tenant, stamp, now)})
    kept = {server: tools for server, tools in now.items() if tools is not None}
    note(points, before, kept, entries)
    points.delete(CATALOGUES, [meta_id(tenant, server) for server in now if server not in kept])
    # The same stamp, as what is in force did not change; unless, on a Qdrant server, another writer came in between.
    ours = points.get(CATALOGUES, [head])[head].payload["stamp"] == stamp
    points.put(CATALOGUES, {head: head_payload(tenant, stamp if ours else new_stamp(), {})})


def note(points: Points, before: Servers, tools: Mapping[str, Definitions], entries: Mapping[str, str]) -> None:
    """Writes the servers' records; an entry that is not given stays the one that was."""
    known = {**before.entries, **entries}
    metas = {
        meta_id(before.tenant, server): meta_payload(before.tenant, server, listed, known.get(server, ""))
        for server, listed in tools.items()
    }
    points.put(CATALOGUES, metas)


def has_draft(points: Points, tenant: str) -> bool:
    """Whether a writer has added points that nothing names yet, or died over it."""
    return points.has(CATALOGUES) and not points.missing(CATALOGUES, [draft_id(tenant)])


def mark_draft(points: Points, tenant: str) -> None:
    points.put(CATALOGUES, {draft_id(tenant): draft_payload(tenant)})


def clear_draft(points: Points, tenant: str) -> None:
    points.delete(CATALOGUES, [draft_id(tenant)])
