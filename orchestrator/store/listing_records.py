"""Records of listings besides their tools: failures, accepted definitions, and offers.

Each is a record with JSON text as its `content`:

    failures of a tenant       {"mail:3f2a9c...": ["connection refused", 1764288000.0]}
    accepted of a listing      {"send_email": "{\\"server\\": \\"mail\\", ...}"}
    offer of a listing         {"resources": [...], "prompts": [...]}
"""

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from orchestrator.records.tool import Tool
from orchestrator.store.manifest import CATALOGUES, Entries, entry_of, server_of
from orchestrator.store.points import Points
from orchestrator.store.tool_records import point_id, stored_tool, tool_payload

logger = logging.getLogger(__name__)
Failure = tuple[str, float]
"""The result of the last try to list a server by an entry: the reason of a failure (empty: none), and the time."""
ChangeAccepted = Callable[[Mapping[str, Tool]], Mapping[str, Tool]]
"""Gets the accepted definitions of a listing by name, and returns the new ones."""
_KEPT_S = 30 * 86_400
"""Seconds for which the result of a try is kept."""


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


def note_failures(points: Points, tenant: str, tried: Mapping[str, str]) -> None:
    """Store the results of tries to list servers. Results of other listings are kept for a month.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        tried: The reason by listing. Empty for a listing that succeeded.
    """
    at = time.time()

    def with_tried(content: str) -> str:
        young = {
            name: failure
            for name, failure in _failures_in(content).items()
            if failure[1] > at - _KEPT_S
        }
        results = young | {name: (reason, at) for name, reason in tried.items()}
        return json.dumps(results, ensure_ascii=False)

    points.update(CATALOGUES, point_id("failures", tenant), with_tried)


def accepted(points: Points, tenant: str, name: str) -> dict[str, Tool]:
    """Return the accepted definitions, by name, of a listing's tools that have another definition now or are gone."""
    return _accepted_in(_content(points, point_id("accepted", tenant, name)), tenant)


def update_accepted(points: Points, tenant: str, name: str, change: ChangeAccepted) -> None:
    """Change the accepted definitions of a listing.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        name: The listing.
        change: Returns the new definitions.
    """

    def changed(content: str) -> str:
        tools = change(_accepted_in(content, tenant))
        texts = {tool_name: tool_payload(tool)["tool"] for tool_name, tool in tools.items()}
        return json.dumps(texts, ensure_ascii=False) if texts or content else ""

    points.update(CATALOGUES, point_id("accepted", tenant, name), changed)


def keep_offer(points: Points, tenant: str, name: str, offer: str) -> None:
    points.update(CATALOGUES, point_id("offer", tenant, name), lambda _: offer)


def offers(points: Points, tenant: str, names: Collection[str]) -> dict[str, str]:
    """Return the stored resources and prompts of these listings, as JSON text.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        names: The listings.
    """
    ids = {point_id("offer", tenant, name): name for name in names}
    records = points.get(CATALOGUES, list(ids))
    return {ids[point]: record.payload.get("content", "") for point, record in records.items()}


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
