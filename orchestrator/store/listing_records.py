"""Records of listings besides their tools: failures, accepted definitions, and offers."""

import json
import logging
from collections.abc import Collection, Mapping

from pydantic import TypeAdapter, ValidationError

from orchestrator.records.tool import Tool
from orchestrator.store.manifest import CATALOGUES, Entries
from orchestrator.store.points import Points
from orchestrator.store.tool_records import point_id, stored_tool, tool_payload

logger = logging.getLogger(__name__)
Failure = tuple[str, float]
"""The result of the last try to list a server by an entry: the reason of a failure (empty: none), and the time."""
_FAILURES = TypeAdapter(dict[str, Failure])
_ACCEPTED = TypeAdapter(dict[str, dict[str, str]])


def listing(server: str, entry: str) -> str:
    """Return the name of a server's listing by an entry. Without an entry, it is an import."""
    return f"{server}:{entry}" if entry else server


def failures(points: Points, tenant: str) -> dict[str, Failure]:
    """Return the results of the last tries to list the tenant's servers. Unreadable results are left out."""
    found = points.get(CATALOGUES, [point := point_id("failures", tenant)])
    try:
        return _FAILURES.validate_json(found[point].payload.get("content", "")) if found else {}
    except ValidationError:
        return {}


def failed(points: Points, tenant: str, entries: Entries | None) -> dict[str, str]:
    """Return the reasons of failed listings by server, as a configuration with these entries sees them.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        entries: The entries of the configuration. None: all servers are seen.
    """
    found = dict[str, str]()
    for listing_name, (why, _) in sorted(failures(points, tenant).items(), key=lambda one: one[1][1]):
        server, _, entry = listing_name.partition(":")
        if entries is None or not entry or entries.get(server) == entry:
            found[server] = why
    return {server: why for server, why in found.items() if why}


def note_failures(points: Points, tenant: str, failed: Mapping[str, Failure]) -> None:
    points.create(CATALOGUES)
    points.put(CATALOGUES, {point_id("failures", tenant): {"content": json.dumps(failed, ensure_ascii=False)}})


def accepted(points: Points, tenant: str) -> dict[str, dict[str, Tool]]:
    """Return the accepted definitions of tools that have another definition now or are gone, by listing and name."""
    found = points.get(CATALOGUES, [point := point_id("accepted", tenant)])
    try:
        kept = _ACCEPTED.validate_json(found[point].payload.get("content", "")) if found else {}
    except ValidationError:
        logger.warning("tenant %r: the store's accepted tool definitions are damaged; accept the tools again", tenant)
        kept = {}
    read = {one: {name: stored_tool({"tool": text}) for name, text in own.items()} for one, own in kept.items()}
    return {one: {name: tool for name, tool in own.items() if tool is not None} for one, own in read.items()}


def note_accepted(points: Points, tenant: str, kept: Mapping[str, Mapping[str, Tool]]) -> None:
    """Store the accepted definitions, by listing and name.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        kept: The definitions.
    """
    texts = {one: {name: tool_payload(tool)["tool"] for name, tool in own.items()} for one, own in kept.items() if own}
    points.create(CATALOGUES)
    points.put(CATALOGUES, {point_id("accepted", tenant): {"content": json.dumps(texts, ensure_ascii=False)}})


def keep_offer(points: Points, tenant: str, listing: str, offer: str) -> None:
    points.create(CATALOGUES)
    points.put(CATALOGUES, {point_id("offer", tenant, listing): {"content": offer}})


def offers(points: Points, tenant: str, listings: Collection[str]) -> dict[str, str]:
    """Return the stored resources and prompts of these listings, as JSON text.

    Args:
        points: The tenant's points.
        tenant: The tenant.
        listings: The listings.
    """
    ids = {point_id("offer", tenant, listing): listing for listing in listings}
    found = points.get(CATALOGUES, list(ids))
    return {ids[point]: record.payload.get("content", "") for point, record in found.items()}
