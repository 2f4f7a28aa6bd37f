"""An MCP result as a ToolResult: its text, cut to what the caller can take."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.plans import ToolResult
from orchestrator.scrub import Secrets
from orchestrator.tokens import compact, count_tokens, cut

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock


def read_result(
    result: "CallToolResult", secrets: Secrets, max_tokens: int, warnings: tuple[str, ...] = ()
) -> ToolResult:
    """Text blocks as they are, other blocks described in brackets; structured content dropped where it is too long."""
    text = "\n".join(_block_text(block) for block in result.content)
    structured, dropped = result.structured_content, False
    if structured is not None:
        written = compact(structured)
        text = text or written
        dropped = len(written) // 8 > max_tokens or count_tokens(written) > max_tokens
        structured = None if dropped else _clean(structured, secrets)
    plain = plain_result(text, secrets, max_tokens, is_error=result.is_error, warnings=warnings)
    return replace(plain, structured=structured, truncated=plain.truncated or dropped)


def plain_result(
    text: str,
    secrets: Secrets,
    max_tokens: int,
    *,
    is_error: bool = False,
    warnings: tuple[str, ...] = (),
) -> ToolResult:
    """A ToolResult of this text, without secrets, within the limit (cut and marked)."""
    shown, truncated = cut(secrets.scrub_result(text), max_tokens)
    return ToolResult(
        text=shown,
        is_error=is_error,
        truncated=truncated,
        tokens=count_tokens(shown),
        warnings=warnings,
    )


def _clean(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.scrub_result(value)
    if isinstance(value, list):
        return [_clean(item, secrets) for item in value]
    if isinstance(value, dict):
        return {key: _clean(item, secrets) for key, item in value.items()}
    return value


def _block_text(block: "ContentBlock") -> str:
    if block.type == "text":
        return block.text
    if block.type == "image" or block.type == "audio":
        return f"[{block.type} {block.mime_type}, {len(block.data) * 3 // 4:,} bytes]"
    if block.type == "resource_link":
        return f"[resource {block.name} {block.uri}]"
    text = getattr(block.resource, "text", None)
    return text if isinstance(text, str) else f"[resource {block.resource.uri}]"
