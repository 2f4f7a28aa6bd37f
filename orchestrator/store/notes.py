"""Notes: texts of the user's language model about a tenant's tools. They are stored separately and change no hash.

One record has the notes of one kind about one server's tools. A note belongs to the definition for which it was
written. After a change of the definition it is no longer read, and the next note replaces it.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from orchestrator.records.tool import Tool
from orchestrator.store.manifest import CATALOGUES
from orchestrator.store.points import Points
from orchestrator.store.store import Store
from orchestrator.store.tool_records import tool_id
from orchestrator.trust.definition_changes import plain

Kind = Literal["opinion", "enriched"]
Note = Mapping[str, Any]
_FORM = TypeAdapter(dict[str, dict[str, Any]])
logger = logging.getLogger(__name__)


def notes(store: Store, tenant: str, kind: Kind, tools: Iterable[Tool]) -> dict[str, Note]:
    """Return the tenant's notes of this kind for these definitions, by the tool's key.

    Args:
        store: The store.
        tenant: The tenant.
        kind: The kind of notes.
        tools: The tools.
    """
    own = {tool.key: tool for tool in tools}
    if not own or not store.exists:
        return {}
    servers = sorted({tool.server for tool in own.values()})
    kept = store.qdrant.read(tenant, lambda points: _read(points, tenant, kind, servers))
    found = {key: kept.get(tool.server, {}).get(tool.name) for key, tool in own.items()}
    return {key: note for key, note in found.items() if note and note.get("hash") == plain(own[key]).hash}


def keep(store: Store, tenant: str, kind: Kind, tool: Tool, note: Note | None) -> None:
    """Store a note about a tool's definition. It replaces the earlier note. None removes it.

    Args:
        store: The store.
        tenant: The tenant.
        kind: The kind of note.
        tool: The tool.
        note: The note.
    """
    with store.qdrant.writing(tenant) as points:
        points.create(CATALOGUES)
        kept = _read(points, tenant, kind, [tool.server]).get(tool.server, {})
        kept.pop(tool.name, None)
        now = kept if note is None else {**kept, tool.name: {**note, "hash": plain(tool).hash}}
        content = json.dumps(now, ensure_ascii=False)
        points.put(CATALOGUES, {tool_id(tenant, tool.server, kind): {"content": content}})


def _read(points: Points, tenant: str, kind: Kind, servers: Iterable[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the notes by server and tool name. A damaged record has no notes."""
    ids = {tool_id(tenant, server, kind): server for server in servers}
    kept = dict[str, dict[str, dict[str, Any]]]()
    for point, record in points.get(CATALOGUES, list(ids)).items():
        try:
            kept[ids[point]] = _FORM.validate_json(record.payload.get("content", ""))
        except ValidationError:
            logger.warning("the store's notes about the tools of server %r are damaged and are ignored", ids[point])
    return kept
