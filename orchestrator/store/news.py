"""News: the last writes to a folder, told in a file beside it. Who knows what was before need not open the folder.

Opening one reads all of its points. The file says which stamp the store bore after the last write that is told, and
before each: a reader goes by it only while the store still bears that stamp. Whatever else happens to a folder (a
writer that dies, or one that tells nothing) changes the stamp, and the folder is opened.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orchestrator.records.durable_names import COLLECTION
from orchestrator.store import manifest as ledger
from orchestrator.store.client import Points
from orchestrator.store.points import Definitions, Point, Servers, tool_id

MOST_TOOLS, MOST_NAMED, MOST_WRITES = 256, 20_000, 64
"""What the file tells at most: new tools, tools that the changed servers have, writes. It is read whole, in a few
milliseconds."""
_FILE = ".toolroute.news.json"


@dataclass(frozen=True, kw_only=True)
class Write:
    """A write: the tenant's version before and after it, and what its servers now have (None: the server went).

    `points` are those of definitions that are new, by hash, with vectors of that collection.
    """

    tenant: str
    before: str
    after: str
    collection: str
    servers: Mapping[str, Definitions | None]
    points: Mapping[str, Point]


def write_after(points: Points, before: Servers, version: str, now: Mapping[str, Definitions | None]) -> Write | None:
    """What a write that has just been made changed; None where that is too much to be told."""
    now = {server: tools for server, tools in now.items() if tools != before.tools.get(server)}
    wanted = {
        digest: tool_id(before.tenant, f"{server}:{name}", digest)
        for server, tools in now.items()
        for name, digest in (tools or {}).items()
        if before.tools.get(server, {}).get(name) != digest
    }
    collection = points.target(COLLECTION)
    if len(wanted) > MOST_TOOLS or collection is None:
        return None
    found = points.get(collection, list(wanted.values()), vectors=True)
    return Write(
        tenant=before.tenant,
        before=version,
        after=ledger.versions(points, [before.tenant])[before.tenant],
        collection=collection,
        servers=now,
        points={
            digest: Point(payload=found[point].payload, vector=found[point].vector) for digest, point in wanted.items()
        },
    )


_Told = tuple[str, list[Write]]
"""The stamp that the store bore before it was opened, and what was then written that a reader can see."""


class News:
    """The file of one folder. Written by whoever holds the folder's lock, read without it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE

    def since(self, stamp: str) -> tuple[str, list[Write]] | None:
        """What was written since the store bore this stamp, and its stamp after; None where that is not told."""
        now, told = self._read()
        starts = [before for before, _ in told]
        if stamp not in starts:
            return None
        return now, [write for _, writes in told[starts.index(stamp) :] for write in writes]

    def add(self, before: str, after: str, writes: Sequence[Write | None]) -> None:
        """Tells what was written between two stamps; None: something that is not told."""
        if before == after:
            return
        now, told = self._read()
        known = [write for write in writes if write is not None]
        told = [*(told if now == before else []), (before, known)] if len(known) == len(writes) else []
        while told and _is_too_much(told):
            del told[0]
        new = self._file.with_suffix(".new")
        with suppress(OSError):  # The write itself is done; without news the folder is opened.
            new.write_text(
                json.dumps([after, [(start, [*map(_to_json, known)]) for start, known in told]]), encoding="utf-8"
            )
            new.replace(self._file)

    def _read(self) -> tuple[str, list[_Told]]:
        try:
            now, told = json.loads(self._file.read_text(encoding="utf-8"))
            return now, [(start, [*map(_from_json, known)]) for start, known in told]
        except (OSError, ValueError, TypeError, AttributeError, LookupError):
            return "", []  # None yet, or not as this version writes it.


def _to_json(write: Write) -> dict[str, Any]:
    return {**vars(write), "points": {digest: [p.payload, _packed(p.vector)] for digest, p in write.points.items()}}


def _from_json(record: Any) -> Write:
    points = record.pop("points").items()
    return Write(
        **record, points={digest: Point(payload=said, vector=_unpacked(row)) for digest, (said, row) in points}
    )


def _packed(vector: ArrayLike | None) -> str:
    return base64.b64encode(np.asarray(vector, np.float32).tobytes()).decode()


def _unpacked(vector: str) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(vector), np.float32)


def _is_too_much(told: Sequence[_Told]) -> bool:
    writes = [write for _, known in told for write in known]
    new = sum(len(write.points) for write in writes)
    named = sum(len(tools or ()) for write in writes for tools in write.servers.values())
    return len(told) > MOST_WRITES or new > MOST_TOOLS or named > MOST_NAMED
