"""The manifest: which tools the servers of each tenant have. One record a tenant, so that a write is in force at once.

A tool's point is named by its definition. Points that no manifest names are drafts of a writer, or left by a dead one.
"""

import json
import logging
import re
import time
import uuid
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.common.digests import digest
from orchestrator.common.keys import key_of
from orchestrator.common.tenant import SHARED
from orchestrator.errors import FAULTS, InvalidConfig, InvalidInput
from orchestrator.records.relation import Relation
from orchestrator.records.tool import Annotations, Kind, Tool
from orchestrator.store.points import Points
from orchestrator.store.qdrant import Qdrant

logger = logging.getLogger(__name__)
CATALOGUES = "tool_catalogues"
"""The collection. It holds no vectors, so a change of the embedder does not touch it."""
_SPACE = uuid.UUID("6f0e9d5c-6f0b-4b55-9d0c-0b1f6a3c7a11")

Definitions = Mapping[str, str]
"""A server's tools: name to definition hash."""
Failure = tuple[str, str, float]
"""A failed listing of a server: why, the identity of the configuration's entry, and when."""
_CONTENT = TypeAdapter(tuple[dict[str, dict[str, str]], dict[str, str], str])
_SEARCHED = re.compile(r"[0-9a-f]{16}\+(\d{1,9})\b")
"""The version of tools that a server can search, with their number."""
_FAILURES = TypeAdapter(dict[str, Failure])


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The effect of a write on a server's tools, by name."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    same: int = 0

    @classmethod
    def between(cls, before: Definitions, now: Definitions) -> "Changes":
        return cls(
            new=tuple(name for name in now if name not in before),
            changed=tuple(name for name, digest in now.items() if before.get(name, digest) != digest),
            gone=tuple(name for name in before if name not in now),
            same=sum(1 for name, digest in now.items() if before.get(name) == digest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The servers that one tenant owns, the identities of the configuration's entries that listed them, and the
    collection, of one embedder, that holds the tools.

    `problem` says why it cannot be read; `state` names the record as it was read. `statistics`: of all tools, where a
    server can search them, else "".
    """

    tenant: str
    tools: Mapping[str, Definitions] = field(default_factory=dict)
    entries: Mapping[str, str] = field(default_factory=dict)
    collection: str = ""
    problem: str = ""
    statistics: str = ""
    state: str = field(default="", compare=False)

    def changed(self, now: Mapping[str, Definitions | None], entries: Mapping[str, str], collection: str) -> "Manifest":
        """Return the same with these as the servers' tools (None: the server goes); other entries stay."""
        tools = {server: tools for server, tools in {**self.tools, **now}.items() if tools is not None}
        listed = {server: entry for server, entry in {**self.entries, **entries}.items() if server in tools}
        return Manifest(tenant=self.tenant, tools=tools, entries=listed, collection=collection)

    @property
    def count(self) -> int:
        return sum(map(len, self.tools.values()))

    @property
    def fingerprint(self) -> str:
        """That of a Catalogue of these tools."""
        hashes = (hash_ for _, own in sorted(self.tools.items()) for _, hash_ in sorted(own.items()))
        return digest("".join(hashes), 16)

    def points(self) -> Iterator[tuple[str, str, str]]:
        """Yield id, definition hash and key of each tool's point."""
        for server, tools in self.tools.items():
            for name, hash_ in tools.items():
                key = key_of(server, name)
                yield tool_id(self.tenant, key, hash_), hash_, key

    def payload(self) -> dict[str, str]:
        content = json.dumps([self.tools, self.entries, self.collection], ensure_ascii=False)
        version = digest(json.dumps([self.tools, self.collection], sort_keys=True), 16) if self.tools else ""
        version += f"+{self.count}" if self.statistics else ""
        return {"content": content, "state": digest(content, 16), "version": version, "statistics": self.statistics}


def owned(points: Points, tenant: str) -> Manifest:
    """Return the tenant's own servers. Raises InvalidConfig where the record is damaged."""
    record = points.get(CATALOGUES, [point := _id("manifest", tenant)])
    if not record:
        return Manifest(tenant=tenant)
    try:
        content, state = record[point].payload["content"], record[point].payload["state"]
        tools, entries, collection = _CONTENT.validate_json(content)
        if digest(content, 16) != state:
            raise ValueError("the content is not what was written")
    except FAULTS:
        raise InvalidConfig(
            f"the store's list of the tools of {tenant!r} is damaged or of another form: import the tools again with "
            "`toolroute tools import`, or name another place with --store"
        ) from None
    own = {"state": state, "statistics": record[point].payload.get("statistics", "")}
    return Manifest(tenant=tenant, tools=tools, entries=entries, collection=collection, **own)


def to_replace(points: Points, tenant: str) -> Manifest:
    """Return the same to a writer, who replaces what is damaged."""
    try:
        return owned(points, tenant)
    except InvalidConfig as error:
        logger.warning("%s; only what is written now counts", error)
        points.delete(CATALOGUES, [_id("manifest", tenant)])
        return Manifest(tenant=tenant)


def visible(qdrant: Qdrant, tenant: str) -> tuple[Manifest, ...]:
    """Return the tenant's own servers, and the shared ones that none of its own hides by its name.

    What is shared and cannot be read takes nothing from the tenant's own.
    """
    own = qdrant.read(tenant, lambda points: owned(points, tenant))
    return (own,) if tenant == SHARED else (own, shared(qdrant, own.tools))


def shared(qdrant: Qdrant, hidden: Container[str]) -> Manifest:
    """Return the servers that are shared by all, but for these."""
    try:
        found = qdrant.read(SHARED, lambda points: owned(points, SHARED))
    except InvalidConfig as error:
        return Manifest(tenant=SHARED, problem=str(error))
    return replace(found, tools={server: own for server, own in found.tools.items() if server not in hidden})


def version(qdrant: Qdrant, tenant: str) -> str:
    """Return a version of what the tenant sees: its tools, the shared ones, and whose vectors they have.

    Where a server can search the tools of one of both, it ends with the greater number of these, as in "0f3c+60000".
    """
    own = qdrant.peek(CATALOGUES, {name: _id("manifest", name) for name in (tenant, SHARED)}, "version")
    whole = digest(f"{own.get(tenant, '')} {own.get(SHARED, '')}", 16)
    most = max(map(searched_tools, map(str, own.values())), default=0)
    return f"{whole}+{most}" if most else whole


def searched_tools(version: str) -> int:
    """Return how many tools of one owner a server can search, by a version."""
    found = _SEARCHED.match(version)
    return int(found[1]) if found else 0


def swap(points: Points, before: Manifest, after: Manifest) -> bool:
    """Put one manifest in another's place; False where another writer has changed it."""
    points.create(CATALOGUES)
    return points.swap(CATALOGUES, _id("manifest", before.tenant), after.payload(), "state", before.state)


def has_draft(points: Points, tenant: str) -> bool:
    """Tell whether a writer has added points that no manifest names yet, or died in between."""
    return bool(points.get(CATALOGUES, [_id("draft", tenant)], payload=False))


def mark_draft(points: Points, tenant: str) -> None:
    points.create(CATALOGUES)
    points.put(CATALOGUES, {_id("draft", tenant): {}})


def clear_draft(points: Points, tenant: str) -> None:
    points.delete(CATALOGUES, [_id("draft", tenant)])


def failures(points: Points, tenant: str) -> dict[str, Failure]:
    """Return the last failed listing of each of the tenant's servers, as far as the record of these can be read."""
    found = points.get(CATALOGUES, [point := _id("failures", tenant)])
    try:
        return _FAILURES.validate_json(found[point].payload.get("content", "")) if found else {}
    except ValidationError:
        return {}


def note_failures(points: Points, tenant: str, failed: Mapping[str, Failure]) -> None:
    points.create(CATALOGUES)
    points.put(CATALOGUES, {_id("failures", tenant): {"content": json.dumps(failed, ensure_ascii=False)}})


def tool_id(tenant: str, key: str, digest: str) -> str:
    """Name a definition's point; another definition is another point, so that adding one changes nothing read."""
    return _id("tool", tenant, key, digest)


def tool_payload(tool: Tool) -> dict[str, Any]:
    # The tool goes in as text: Qdrant would index and rewrite a nested object, and the hash must stay true.
    text = json.dumps(asdict(tool), ensure_ascii=False)
    return {"key": tool.key, "written": int(time.time()), "tool": text}


def stored_tool(payload: Mapping[str, Any]) -> Tool | None:
    """Return the tool of a point, or None where the record is damaged or of another form."""
    try:
        record = json.loads(payload["tool"])
        hints, words = Annotations(**record.pop("annotations")), tuple(record.pop("keywords"))
        relations = tuple(Relation(**relation) for relation in record.pop("relations"))
        own = {"kind": Kind(record["kind"]), "keywords": words, "annotations": hints, "relations": relations}
        return Tool(**{**record, **own})
    except (InvalidInput, *FAULTS):
        return None


def damaged(keys: Collection[str]) -> str:
    """Name the tools whose records cannot be read, with the remedy; "" for none."""
    shown = f"{', '.join(map(repr, list(keys)[:5]))}{' and more' if len(keys) > 5 else ''}"
    remedy = "write them again with `toolroute tools import` or `toolroute tools sync`"
    return f"the store's records of {shown} are damaged or of another form: {remedy}" if keys else ""


def _id(*parts: str) -> str:
    return str(uuid.uuid5(_SPACE, "\x00".join(parts)))
