"""Drafts: notes of the points that a writer is about to add or remove, so that no unused point stays forever.

Another writer may need a point at the same moment, so a writer on a server removes only points that are old. Its draft
stays until then. The draft of a writer that died stays, too. The next write after that time removes the points.
"""

import json
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.store.points import Points

KEPT_S = 86_400
"""Seconds for which points stay that no manifest names. A write takes less than half of it, and clocks differ less."""
_LISTED = 1_000
"""The tools that a draft lists. One of more tools may be about any tool of its collection, so that it stays small."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Tools that a writer was about to add to a collection or to remove from it.

    Attributes:
        id: The id of the draft.
        at: The time, in seconds since 1970.
        collection: The name of the collection.
        tools: The tools, by key and definition hash. None: they are too many to list, and may be any in the collection.
    """

    id: str
    at: float
    collection: str
    tools: tuple[tuple[str, str], ...] | None

    @classmethod
    def read(cls, point: str, payload: Mapping[str, Any]) -> "Draft | None":
        """Return the draft in a record, or None if the record is not a draft."""
        try:
            listed = json.loads(payload["tools"])
            tools = (
                None if listed is None else tuple((str(key), str(hash_)) for key, hash_ in listed)
            )
            return cls(point, float(payload["draft"]), str(payload["collection"]), tools)
        except (KeyError, TypeError, ValueError):
            return None


def note(
    points: Points, name: str, changes: Sequence[tuple[str, Collection[tuple[str, str]]]]
) -> list[str]:
    """Store a draft for each collection with changing tools, and return the ids of the drafts.

    Args:
        points: The tenant's points.
        name: The collection for the drafts.
        changes: The changing tools of each collection, by key and definition hash.
    """
    at = time.time()
    records: dict[str, dict[str, Any]] = {}
    for collection, tools in changes:
        listed = sorted(tools) if len(tools) <= _LISTED else None
        draft_id = str(uuid.uuid4())
        records[draft_id] = {"draft": at, "collection": collection, "tools": json.dumps(listed)}
    points.create(name)
    points.put(name, records)
    return list(records)
