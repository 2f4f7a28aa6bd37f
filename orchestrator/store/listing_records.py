"""Records of listings besides their tools: failures, accepted definitions, and offers.

Each is a record with JSON text as its `content`:

    failures of a tenant       {"mail:3f2a9c...": ["connection refused", 1764288000.0]}
    accepted of a listing      {"send_email": "{\\"server\\": \\"mail\\", ...}"}
    offer of a listing         {"resources": [...], "prompts": [...]}
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.common.digests import OF_SERVER
from orchestrator.common.tenant import check_tenant
from orchestrator.records.tool import Tool
from orchestrator.store.backend import Backend
from orchestrator.store.manifest import CATALOGUES, Entries, entry_of, listing_of, server_of
from orchestrator.store.points import Points
from orchestrator.store.tool_records import point_id, stored_tool, tool_payload

logger = logging.getLogger(__name__)
Failure = tuple[str, float]
"""The result of the last try to list a server by an entry: the reason of a failure (empty: none), and the time."""
ChangeAccepted = Callable[[Mapping[str, Tool]], Mapping[str, Tool]]
"""Gets the accepted definitions of a listing by name, and returns the new ones."""
_KEPT_S = 30 * 86_400
"""Seconds for which the result of a try is kept."""


class ListingRecords:
    """The records of all tenants' listings. All methods block, and may be called from any thread.

    A server is named with the identity of the entry that lists it, "" for an import.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def note_failures(
        self, tenant: str, errors: Mapping[str, str], entries: Entries | None = None
    ) -> None:
        """Store why servers could not be listed. Reasons for other servers are kept for a month.

        Args:
            tenant: The tenant.
            errors: The reason by server. Empty for a server that was listed.
            entries: The identity of the entry by which each server was tried.
        """
        check_tenant(tenant, shared=True)
        identities = entries or {}
        at = time.time()
        tried: dict[str, Failure] = {}
        for server, reason in errors.items():
            tried[listing_of(server, identities.get(server, ""))] = reason, at

        def with_tried(content: str) -> str:
            results = _failures_in(content)
            young = {name: result for name, result in results.items() if result[1] > at - _KEPT_S}
            return json.dumps(young | tried, ensure_ascii=False)

        self._update(tenant, point_id("failures", tenant), with_tried)

    def listed_at(self, tenant: str, entries: Entries) -> dict[str, float]:
        """Return the time of the last successful listing of each server, in seconds since 1970.

        Servers that were imported, and servers that were listed more than a month ago, are missing.
        """
        results = self._results(tenant, entries)
        return {server: at for server, (reason, at) in results.items() if not reason}

    def failed_lately(self, tenant: str, entries: Entries, within_s: float) -> dict[str, str]:
        """Return the reasons of listings that failed in the last seconds, by server, if the same entry was used.

        Args:
            tenant: The tenant.
            entries: The identity of the entry, by server.
            within_s: The number of seconds.
        """
        since = time.time() - within_s
        results = self._results(tenant, entries)
        return {server: reason for server, (reason, at) in results.items() if reason and at > since}

    def _results(self, tenant: str, entries: Entries) -> dict[str, Failure]:
        """Return the result of the last try by these entries, by server."""
        check_tenant(tenant, shared=True)
        results = self._backend.read(tenant, lambda points: failures(points, tenant))
        listings = {server: listing_of(server, entry) for server, entry in entries.items()}
        return {
            server: results[listing] for server, listing in listings.items() if listing in results
        }

    def keep_offer(self, tenant: str, server: str, entry: str, offer: str) -> None:
        """Store a server's resources and prompts as JSON text, by the entry that connects it."""
        check_tenant(tenant)
        name = listing_of(server, entry)
        self._update(tenant, point_id("offer", tenant, name), lambda _: offer)

    def offers(self, tenant: str, entries: Entries) -> dict[str, str]:
        """Return the stored resources and prompts of the servers with these entries, as JSON text by server."""
        check_tenant(tenant)
        return self._backend.read(tenant, lambda points: offers(points, tenant, entries))

    def accepted(self, tenant: str, server: str, entry: str) -> dict[str, Tool]:
        """Return the accepted definitions, by name, of tools that have another definition now or are gone."""
        check_tenant(tenant, shared=True)
        point = _accepted_id(tenant, server, entry)
        content = self._backend.read(tenant, lambda points: _content(points, point))
        return _accepted_in(content, tenant)

    def update_accepted(self, tenant: str, server: str, entry: str, change: ChangeAccepted) -> None:
        """Change the stored accepted definitions of a server's tools. No change of another process is lost.

        Args:
            tenant: The tenant.
            server: The name of the server.
            entry: The identity of the entry that lists the server.
            change: Gets the stored definitions by name, and returns the new ones. It may be called several times.
        """
        check_tenant(tenant, shared=True)

        def changed(content: str) -> str:
            tools = change(_accepted_in(content, tenant))
            texts = {name: tool_payload(tool)["tool"] for name, tool in tools.items()}
            return json.dumps(texts, ensure_ascii=False) if texts or content else ""

        self._update(tenant, _accepted_id(tenant, server, entry), changed)

    def _update(self, tenant: str, point: str, change: Callable[[str], str]) -> None:
        with self._backend.writing(tenant) as points:
            points.update(CATALOGUES, point, change)


def _accepted_id(tenant: str, server: str, entry: str) -> str:
    """Return the id of the record of a server's accepted definitions, which the choice of its tools does not change."""
    return point_id("accepted", tenant, listing_of(server, entry[:OF_SERVER]))


def failures(points: Points, tenant: str) -> dict[str, Failure]:
    """Return the results of the last tries to list the tenant's servers. Unreadable results are left out."""
    return _failures_in(_content(points, point_id("failures", tenant)))


def failed(points: Points, tenant: str, entries: Entries | None) -> dict[str, str]:
    """Return the reasons of failed listings by server, as a configuration with these entries sees them.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        entries: The entries of the configuration. None: all servers are seen.
    """
    results = failures(points, tenant)
    oldest_first = sorted(results, key=lambda name: results[name][1])
    reasons: dict[str, str] = {}
    for name in oldest_first:
        server = server_of(name)
        entry = entry_of(name)
        is_seen = entries is None or entries.get(server) == entry
        if is_seen or not entry:
            # The last result of a server counts.
            reasons[server], _ = results[name]
    return {server: reason for server, reason in reasons.items() if reason}


def offers(points: Points, tenant: str, entries: Entries) -> dict[str, str]:
    """Return the stored resources and prompts of the servers with these entries, as JSON text by server.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        entries: The identity of the entry, by server.
    """
    servers: dict[str, str] = {}
    for server, entry in entries.items():
        servers[point_id("offer", tenant, listing_of(server, entry))] = server
    records = points.get(CATALOGUES, list(servers))
    return {servers[point]: record.payload.get("content", "") for point, record in records.items()}


def _content(points: Points, point: str) -> str:
    records = points.get(CATALOGUES, [point])
    return str(records[point].payload.get("content", "")) if records else ""


def _validated(kind: Any, content: str) -> Any:
    """Return the content of a record, or None if it is damaged. Most records are empty and need no validator."""
    if content in ("", "{}"):
        return {}
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError:
        return None


def _failures_in(content: str) -> dict[str, Failure]:
    return _validated(dict[str, Failure], content) or {}


def _accepted_in(content: str, tenant: str) -> dict[str, Tool]:
    texts: dict[str, str] | None = _validated(dict[str, str], content)
    if texts is None:
        logger.warning(
            "tenant %r: the store's accepted tool definitions are damaged; accept the tools again",
            tenant,
        )
        return {}
    tools = {name: stored_tool({"tool": text}) for name, text in texts.items()}
    return {name: tool for name, tool in tools.items() if tool is not None}
