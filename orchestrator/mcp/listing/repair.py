"""Repairs of a server's results, before the MCP library reads them.

The library rejects a whole listing or answer because of one malformed part:

    {"tools": [{"name": "a"}], "nextCursor": 7}     a schema is missing, and the cursor is no text
    {"content": "fine", "isError": null}            the content is no list of blocks

Each function repairs one part, or gives the reason why the part cannot be read.
"""

from typing import Any

from orchestrator.catalogue.formats import RELATIONS
from orchestrator.catalogue.tokens import compact
from orchestrator.common.json_input import first_problem

_TOOL_FIELDS = frozenset({"name", "title", "description", "inputSchema", "annotations", "_meta"})
_HINTS = frozenset({"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
_BLOCKS = frozenset({"text", "image", "audio", "resource", "resource_link"})


def problem(method: str, result: dict[str, Any]) -> str:
    """Return the reason why the library would reject a result, or ""."""
    from mcp.types.methods import validate_server_result
    from pydantic import ValidationError

    try:
        validate_server_result(method, "2025-11-25", result)
    except ValidationError as error:
        return first_problem(error).removeprefix("tools.0.")
    return ""


def used_parts(tool: Any) -> Any:
    """Return the parts of a tool that are used. If the type of its parameters is missing, they are an object."""
    if not isinstance(tool, dict):
        return tool
    parts = {
        name: value for name, value in tool.items() if name in _TOOL_FIELDS and value is not None
    }
    schema = parts.setdefault("inputSchema", tool.get("input_schema") or {})
    if isinstance(schema, dict):
        parts["inputSchema"] = _repaired_schema(schema)
    if "_meta" in parts:
        parts["_meta"] = _routing_meta(parts["_meta"])
    hints = parts.pop("annotations", None)
    if isinstance(hints, dict):
        parts["annotations"] = {
            name: hint for name, hint in hints.items() if name in _HINTS and hint is not None
        }
    return parts


def _repaired_schema(schema: dict[str, Any]) -> dict[str, Any]:
    repaired = dict(schema)
    if not isinstance(schema.get("properties", {}), dict):
        del repaired["properties"]
    if not isinstance(schema.get("required", []), list):
        del repaired["required"]
    type_names = schema.get("type") or "object"
    types = type_names if isinstance(type_names, list) else [type_names]
    if "object" in [str(name).lower() for name in types]:
        repaired["type"] = "object"
    return repaired


def _routing_meta(meta: Any) -> dict[str, Any]:
    """Return the metadata that routing uses. The rest is kept aside, for clients."""
    if isinstance(meta, dict) and RELATIONS in meta:
        return {RELATIONS: meta[RELATIONS]}
    return {}


def repair_answer(result: dict[str, Any]) -> None:
    """Repair the answer to a call in place."""
    if not isinstance(result.get("_meta", {}), dict):
        del result["_meta"]
    content = result.get("content") or []
    blocks = content if isinstance(content, list) else [content]
    result["content"] = [_readable_block(block) for block in blocks if block is not None]
    # Only from the protocol of 2026 on may structured content be no object.
    if "resultType" not in result and not isinstance(result.get("structuredContent", {}), dict):
        structured = result.pop("structuredContent")
        if structured is not None and not result["content"]:
            result["content"] = [_readable_block(structured)]
    if result.get("isError", False) is None:
        del result["isError"]


def _readable_block(block: Any) -> Any:
    """Return the block, or a text block instead of one that the library would reject."""
    if not isinstance(block, dict):
        return _text_block(block)
    kind = block.get("type", "text")
    if isinstance(kind, str) and kind not in _BLOCKS:
        return {"type": "text", "text": f"[{kind}]"}
    plain = {name: value for name, value in block.items() if name not in ("annotations", "_meta")}
    for candidate in (block, plain):
        if not problem("tools/call", {"content": [candidate]}):
            return candidate
    without_data = {name: value for name, value in block.items() if name not in ("data", "blob")}
    return _text_block(block.get("text", without_data))


def _text_block(value: Any) -> dict[str, Any]:
    return {"type": "text", "text": value if isinstance(value, str) else compact(value)}
