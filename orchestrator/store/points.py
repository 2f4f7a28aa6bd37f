"""What the Store's points say: tools, and the records of which tools a tenant's servers have."""

import json
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from orchestrator.catalogue.definitions import tool_to_json
from orchestrator.errors import InvalidConfig
from orchestrator.records.digests import digest
from orchestrator.records.tool import Annotations, Kind, Tool

_SPACE = uuid.UUID("6f0e9d5c-6f0b-4b55-9d0c-0b1f6a3c7a11")

Definitions = Mapping[str, str]
"""A server's tools: name to definition hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A tool's point as it was read; the vector where it was asked for."""

    payload: Mapping[str, Any]
    vector: ArrayLike | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a write did to a server's tools, by name."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    same: int = 0


def changes_between(before: Definitions, now: Definitions) -> Changes:
    """What is new, changed, gone and the same."""
    return Changes(
        new=tuple(name for name in now if name not in before),
        changed=tuple(name for name, digest in now.items() if before.get(name, digest) != digest),
        gone=tuple(name for name in before if name not in now),
        same=sum(1 for name, digest in now.items() if before.get(name) == digest),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The servers that one tenant owns. `stamp` is another after every change; "" where nothing was ever written.

    `pending` are the servers of a write that is in force, but not yet in the records of the servers (None: removed).
    `entries` are the identities of the configuration's entries that the servers were listed by, where they were.
    """

    tenant: str
    stamp: str = ""
    tools: Mapping[str, Definitions]
    pending: Mapping[str, Definitions | None]
    entries: Mapping[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> dict[str, tuple[str, str]]:
        """The id of each tool's point, with its server and name."""
        return {
            tool_id(self.tenant, f"{server}:{name}", digest): (server, name)
            for server, tools in self.tools.items()
            for name, digest in tools.items()
        }


def read_servers(tenant: str, head: Mapping[str, Any] | None, metas: Collection[Mapping[str, Any]]) -> Servers:
    """From the payloads of the tenant's head and of its servers' meta records."""
    pending: dict[str, Definitions | None] = json.loads(head["pending"]) if head else {}
    own = [meta for meta in metas if meta["tenant"] == tenant]
    stored = {meta["server"]: json.loads(meta["tools"]) for meta in own}
    entries = {meta["server"]: meta["entry"] for meta in own if meta.get("entry")}
    tools = {server: found for server, found in {**stored, **pending}.items() if found is not None}
    return Servers(tenant=tenant, stamp=head["stamp"] if head else "", tools=tools, pending=pending, entries=entries)


def tool_id(tenant: str, key: str, digest: str) -> str:
    """A definition's point; another definition is another point, so that writing changes nothing that is read."""
    return str(uuid.uuid5(_SPACE, f"tool\x00{tenant}\x00{key}\x00{digest}"))


def meta_id(tenant: str, server: str) -> str:
    return str(uuid.uuid5(_SPACE, f"meta\x00{tenant}\x00{server}"))


def head_id(tenant: str) -> str:
    return str(uuid.uuid5(_SPACE, f"head\x00{tenant}"))


def draft_id(tenant: str) -> str:
    return str(uuid.uuid5(_SPACE, f"draft\x00{tenant}"))


def tool_payload(tenant: str, tool: Tool) -> dict[str, Any]:
    # The tool goes in as text: Qdrant would index and rewrite a nested object, and the hash must stay true.
    return {
        "tenant": tenant,
        "server": tool.server,
        "key": tool.key,
        "hash": tool.hash,
        "written": int(time.time()),
        "tool": json.dumps(tool_to_json(tool), ensure_ascii=False),
    }


def meta_payload(tenant: str, server: str, tools: Definitions, entry: str) -> dict[str, Any]:
    listed = json.dumps(tools, ensure_ascii=False)
    return {"type": "meta", "tenant": tenant, "server": server, "tools": listed, "entry": entry}


def head_payload(tenant: str, stamp: str, pending: Mapping[str, Definitions | None]) -> dict[str, Any]:
    return {"type": "head", "tenant": tenant, "stamp": stamp, "pending": json.dumps(pending, ensure_ascii=False)}


def draft_payload(tenant: str) -> dict[str, Any]:
    return {"type": "draft", "tenant": tenant}


def stored_tool(payload: Mapping[str, Any]) -> Tool:
    """The tool of a point. It was checked when it was written, so its fields are taken as they are."""
    if "tool" not in payload:
        raise InvalidConfig(
            f"the store holds a point that is no tool (its fields: {', '.join(sorted(payload)) or 'none'}): something "
            "else wrote there; name another place with --store, or move this one away and import the tools again"
        )
    record = json.loads(payload["tool"])
    hints = record.get("annotations") or {}
    return Tool(
        server=record["server"],
        name=record["name"],
        description=record["description"],
        input_schema=record["input_schema"],
        kind=Kind(record["kind"]),
        keywords=tuple(record.get("keywords", ())),
        labels=record.get("labels", {}),
        annotations=Annotations(
            read_only=hints.get("readOnlyHint"),
            destructive=hints.get("destructiveHint"),
            idempotent=hints.get("idempotentHint"),
            open_world=hints.get("openWorldHint"),
        ),
        hash=payload["hash"],
    )


def new_stamp() -> str:
    return uuid.uuid4().hex[:16]


def version_of(*owners: Servers) -> str:
    """One version for what several owners' servers hold."""
    return digest(" ".join(f"{owner.tenant}={owner.stamp}" for owner in owners), 16)
