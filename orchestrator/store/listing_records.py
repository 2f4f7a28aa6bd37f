"""Records of listings besides their tools: failures, accepted definitions, and offers.

Each is a record with JSON text as its `content`:

    failures of a tenant       {"mail:3f2a9c...": ["connection refused", 1764288000.0]}
    accepted of a listing      {"send_email": "{\\"server\\": \\"mail\\", ...}", "lost_tool": ""}
    offer of a listing         {"resources": [...], "prompts": [...]}
    loss of a tenant           ["0a1b..."]    the records of accepted definitions that were forgotten since
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from orchestrator.common.digests import OF_SERVER
from orchestrator.common.tenant import check_tenant
from orchestrator.records.tool import Tool
from orchestrator.store.backend import Backend
from orchestrator.store.points import Points, content_of
from orchestrator.store.tools.manifest import Entries, entry_of, listing_of, server_of
from orchestrator.store.tools.manifest_records import CATALOGUES, loss_id
from orchestrator.store.tools.tool_records import point_id, stored_tool, tool_payload

logger = logging.getLogger(__name__)
ANY_TOOL = ""
"""In `Accepted.lost`: the definitions of tools with unknown names are lost."""
_KEPT_S = 30 * 86_400
"""Seconds for which the result of a try is kept."""


class ListingResult(NamedTuple):
    """The result of the last try to list a server by an entry.

    Attributes:
        reason: The reason of a failure. Empty: the server was listed.
        at: The time, in seconds since 1970.
    """

    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Accepted:
    """The accepted definitions of a listing's tools that had another definition or were gone since.

    They are not removed when a tool has an accepted definition again: that definition counts, and another process may
    need this one at the moment of a removal.

    Attributes:
        tools: The definitions by name.
        lost: The names of tools whose accepted definitions cannot be read any more. It may contain `ANY_TOOL`.
    """

    tools: dict[str, Tool] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()

    def with_tools(self, added: Mapping[str, Tool], most: int, most_bytes: int) -> "Accepted":
        """Return the record with further definitions. Beyond a number, or a number of bytes, the oldest are lost."""
        tools = {**self.tools, **added}
        kept: dict[str, Tool] = {}
        bytes_left = most_bytes
        for name in reversed(tools):
            bytes_left -= len(_text(tools[name]).encode())
            if bytes_left < 0 or len(kept) == most:
                break
            kept[name] = tools[name]
        lost = self.lost.difference(added)
        if len(kept) < len(tools):
            lost |= {ANY_TOOL}
        return Accepted({name: tool for name, tool in tools.items() if name in kept}, lost)


ChangeAccepted = Callable[[Accepted], Accepted]
"""Gets the accepted definitions of a listing, and returns the new ones."""


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
        tried: dict[str, ListingResult] = {}
        for server, reason in errors.items():
            listing = listing_of(server, identities.get(server, ""))
            tried[listing] = ListingResult(reason, at)

        def with_tried(content: str) -> str:
            results = _results_in(content)
            young = {name: result for name, result in results.items() if result.at > at - _KEPT_S}
            return json.dumps(young | tried, ensure_ascii=False)

        self._update(tenant, point_id("failures", tenant), with_tried)

    def listed_at(self, tenant: str, entries: Entries) -> dict[str, float]:
        """Return the time of the last successful listing of each server, in seconds since 1970.

        Servers that were imported, and servers that were listed more than a month ago, are missing.
        """
        results = self._results(tenant, entries)
        return {server: result.at for server, result in results.items() if not result.reason}

    def failed_lately(self, tenant: str, entries: Entries, within_s: float) -> dict[str, str]:
        """Return the reasons of listings that failed in the last seconds, by server, if the same entry was used.

        Args:
            tenant: The tenant.
            entries: The identity of the entry, by server.
            within_s: The number of seconds.
        """
        since = time.time() - within_s
        results = self._results(tenant, entries)
        return {
            server: result.reason
            for server, result in results.items()
            if result.reason and result.at > since
        }

    def _results(self, tenant: str, entries: Entries) -> dict[str, ListingResult]:
        """Return the result of the last try by these entries, by server."""
        check_tenant(tenant, shared=True)
        results = self._backend.read(tenant, lambda points: _results(points, tenant))
        by_server: dict[str, ListingResult] = {}
        for server, entry in entries.items():
            listing = listing_of(server, entry)
            if listing in results:
                by_server[server] = results[listing]
        return by_server

    def keep_offer(self, tenant: str, server: str, entry: str, offer: str) -> None:
        """Store a server's resources and prompts.

        Args:
            tenant: The tenant.
            server: The name of the server.
            entry: The identity of the entry that connects the server.
            offer: The resources and prompts, as JSON text.
        """
        check_tenant(tenant)
        name = listing_of(server, entry)
        self._update(tenant, point_id("offer", tenant, name), lambda _: offer)

    def offers(self, tenant: str, entries: Entries) -> dict[str, str]:
        """Return the stored resources and prompts of the servers with these entries, as JSON text by server."""
        check_tenant(tenant)
        return self._backend.read(tenant, lambda points: offers(points, tenant, entries))

    def accepted(self, tenant: str, server: str, entry: str) -> Accepted:
        """Return the accepted definitions of tools that had another definition or were gone since.

        Args:
            tenant: The tenant.
            server: The name of the server.
            entry: The identity of the entry that listed the server. The choice of tools in the entry does not matter.
        """
        check_tenant(tenant, shared=True)
        point = _accepted_id(tenant, server, entry)
        loss = loss_id(tenant)
        records = self._backend.read(tenant, lambda points: points.get(CATALOGUES, [point, loss]))
        accepted = _accepted_in(content_of(records, point), tenant)
        # After a loss of all records, a tool without a record may be one that was accepted before.
        is_lost = loss in records and point not in _began_anew(content_of(records, loss))
        return replace(accepted, lost=accepted.lost | {ANY_TOOL}) if is_lost else accepted

    def forget_accepted(self, tenant: str, server: str, entry: str) -> None:
        """Forget the accepted definitions of a server's tools. If it is added again, it has no earlier ones.

        Args:
            tenant: The tenant.
            server: The name of the server.
            entry: The identity of the entry that lists the server.
        """
        if self.accepted(tenant, server, entry) == Accepted():
            return
        self.update_accepted(tenant, server, entry, lambda _: Accepted())
        point = _accepted_id(tenant, server, entry)
        loss = loss_id(tenant)
        with self._backend.writing(tenant) as points:
            if loss in points.get(CATALOGUES, [loss]):
                points.update(
                    CATALOGUES, loss, lambda content: json.dumps([*_began_anew(content), point])
                )

    def update_accepted(self, tenant: str, server: str, entry: str, change: ChangeAccepted) -> None:
        """Change the stored accepted definitions of a server's tools. No change of another process is lost.

        Args:
            tenant: The tenant.
            server: The name of the server.
            entry: The identity of the entry that lists the server.
            change: Gets the stored definitions, and returns the new ones. It may be called several times.
        """
        check_tenant(tenant, shared=True)

        def changed(content: str) -> str:
            accepted = change(_accepted_in(content, tenant))
            texts = dict.fromkeys(sorted(accepted.lost), "")
            texts |= {name: _text(tool) for name, tool in accepted.tools.items()}
            return json.dumps(texts, ensure_ascii=False) if texts or content else ""

        self._update(tenant, _accepted_id(tenant, server, entry), changed)

    def _update(self, tenant: str, point: str, change: Callable[[str], str]) -> None:
        with self._backend.writing(tenant) as points:
            points.update(CATALOGUES, point, change)


def _accepted_id(tenant: str, server: str, entry: str) -> str:
    """Return the id of the record of a server's accepted definitions, which the choice of its tools does not change."""
    return point_id("accepted", tenant, listing_of(server, entry[:OF_SERVER]))


def _results(points: Points, tenant: str) -> dict[str, ListingResult]:
    """Return the results of the last tries to list the tenant's servers. Unreadable results are left out."""
    return _results_in(_content(points, point_id("failures", tenant)))


def failed(points: Points, tenant: str, entries: Entries | None) -> dict[str, str]:
    """Return the reasons of failed listings by server, as a configuration with these entries sees them.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        entries: The entries of the configuration. None: all servers are seen.
    """
    results = _results(points, tenant)
    reasons: dict[str, str] = {}
    # Oldest first, so that the last result of a server counts.
    for listing in sorted(results, key=lambda listing: results[listing].at):
        if _is_seen(listing, entries):
            reasons[server_of(listing)] = results[listing].reason
    return {server: reason for server, reason in reasons.items() if reason}


def _is_seen(listing: str, entries: Entries | None) -> bool:
    """Return True for an import, and for a listing by an entry of the configuration."""
    return entries is None or entry_of(listing) in ("", entries.get(server_of(listing)))


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
    return content_of(points.get(CATALOGUES, [point]), point)


def _validated(kind: Any, content: str) -> Any:
    """Return the content of a record, or None if it is damaged. Most records are empty and need no validator."""
    if content in ("", "{}"):
        return {}
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError:
        return None


def _results_in(content: str) -> dict[str, ListingResult]:
    return _validated(dict[str, ListingResult], content) or {}


def _text(tool: Tool) -> str:
    text: str = tool_payload(tool)["tool"]
    return text


def _began_anew(content: str) -> list[str]:
    """Return the records of accepted definitions that were forgotten after a loss, from the record of the loss."""
    return _validated(list[str], content) or []


def _accepted_in(content: str, tenant: str) -> Accepted:
    texts: dict[str, str] | None = _validated(dict[str, str], content)
    if texts is None:
        logger.warning(
            "tenant %r: the store's accepted tool definitions are damaged; accept the tools again",
            tenant,
        )
        return Accepted(lost=frozenset([ANY_TOOL]))
    tools = {name: stored_tool({"tool": text}) for name, text in texts.items()}
    readable = {name: tool for name, tool in tools.items() if tool is not None}
    return Accepted(readable, frozenset(texts.keys() - readable.keys()))
