"""A tool's record: the id of its point, and its payload."""

import json
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from typing import Any

from orchestrator.errors import InvalidInput
from orchestrator.records.relation import Relation
from orchestrator.records.tool import Annotations, Kind, Tool

_MOST_NAMED = 5
"""The tools that a message about damaged records names."""
_SPACE = uuid.UUID("6f0e9d5c-6f0b-4b55-9d0c-0b1f6a3c7a11")
"""The ids of stored points depend on it, so no release changes it."""


def point_id(*parts: str) -> str:
    """Return the id of the point that these texts name."""
    return str(uuid.uuid5(_SPACE, "\x00".join(parts)))


def tool_id(tenant: str, key: str, digest: str) -> str:
    """Return the id of a definition's point. Another definition has another point, so a new point changes nothing that
    is read.

    Args:
        tenant: The owner of the tool.
        key: The key of the tool.
        digest: The hash of the definition.
    """
    return point_id("tool", tenant, key, digest)


def tool_payload(tool: Tool) -> dict[str, Any]:
    # The tool is stored as text. Qdrant would index and rewrite a nested object, and the hash would no longer fit.
    # `asdict` of the whole tool would copy its schema, part by part.
    record = {field.name: getattr(tool, field.name) for field in fields(tool)}
    record["annotations"] = asdict(tool.annotations)
    record["relations"] = [asdict(relation) for relation in tool.relations]
    text = json.dumps(record, ensure_ascii=False)
    return {"key": tool.key, "written": int(time.time()), "tool": text}


def stored_tool(payload: Mapping[str, Any]) -> Tool | None:
    """Return the tool of a point, or None if the record is damaged or has another form."""
    try:
        record = dict(json.loads(payload["tool"]))
        record["kind"] = Kind(record["kind"])
        record["keywords"] = tuple(record["keywords"])
        record["annotations"] = Annotations(**record["annotations"])
        record["relations"] = tuple(Relation(**relation) for relation in record["relations"])
        return Tool(**record)
    except (InvalidInput, KeyError, TypeError, ValueError):
        return None


def damaged(keys: Collection[str]) -> str:
    """Return a message about tools with unreadable records, with the remedy. Otherwise empty."""
    if not keys:
        return ""
    named = ", ".join(map(repr, list(keys)[:_MOST_NAMED]))
    more = " and more" if len(keys) > _MOST_NAMED else ""
    remedy = "write them again with `toolroute tools import` or `toolroute tools sync`"
    return f"the store's records of the tools {named}{more} are damaged: {remedy}"
