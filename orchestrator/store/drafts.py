"""Drafts: notes of what a writer is about to add and to remove, so that nothing stays that no manifest names.

Another writer may need a point at the same moment, so a writer on a server removes only what was written long ago. Its
draft stays until then, as does that of a writer that died, and the next write after that time follows it.
"""

import json
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import FAULTS
from orchestrator.store.points import Points

KEPT_S = 86_400
"""How long points that no manifest names stay. A write takes less than half of it, and clocks differ by less."""
_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class Draft:
    """Tools, by key and definition hash, that were about to be added to a collection or removed from it.

    None: they are too many to be named, and may be any in the collection.
    """

    id: str
    at: float
    collection: str
    tools: tuple[tuple[str, str], ...] | None

    @classmethod
    def read(cls, point: str, payload: Mapping[str, Any]) -> "Draft | None":
        """Return the draft that a record is; None where it is none."""
        try:
            tools = json.loads(payload["tools"])
            named = None if tools is None else tuple((str(key), str(hash_)) for key, hash_ in tools)
            return cls(point, float(payload["draft"]), str(payload["collection"]), named)
        except FAULTS:
            return None


def note(points: Points, name: str, changes: Sequence[tuple[str, Collection[tuple[str, str]]]]) -> list[str]:
    """Keep a draft in this collection for each collection with the tools that change there; return the drafts' ids."""
    now, written = time.time(), dict[str, dict[str, Any]]()
    for collection, tools in changes:
        named = json.dumps(sorted(tools) if len(tools) <= _LISTED else None)
        written[str(uuid.uuid4())] = {"draft": now, "collection": collection, "tools": named}
    points.create(name)
    points.put(name, written)
    return list(written)
