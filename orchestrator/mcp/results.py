"""An MCP result for its reader: as a ToolResult of text, or passed on as it is; without secrets, cut to a limit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.catalogue.tokens import compact, count_tokens, cut
from orchestrator.common.redact import Secrets
from orchestrator.mcp.calls import WHOLE
from orchestrator.records.call import ToolResult

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock


_TEXTS = frozenset({"text", "resource", "resource_link"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a server said to a call: its result or an error that stands for one, and what has to be known to show it."""

    answer: "CallToolResult | Exception"
    key: str
    secrets: Secrets
    max_tokens: int
    warnings: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        return isinstance(self.answer, Exception) or self.answer.is_error

    @property
    def refusal(self) -> str:
        """The text of an error, without secrets."""
        said = self.secrets.redact(str(self.answer))
        if isinstance(self.answer, RuntimeError):
            return f"{self.key} ran, but its answer {said}"
        return f"{self.key} refused the call: {said}"


def as_tool_result(answered: Answered) -> ToolResult:
    """Give text blocks as they are, and others described in brackets; structured content only where it fits."""
    result, secrets, limit = answered.answer, answered.secrets, answered.max_tokens
    if isinstance(result, Exception):
        text, structured, is_error = answered.refusal, None, True
    else:
        text = "\n".join(map(_block_text, result.content))
        structured, is_error = result.structured_content, result.is_error
    dropped = structured is not None and not _fits(structured, limit)
    shown, was_cut, tokens = _cut(secrets.redact(text or _written(structured)), limit)
    return ToolResult(
        text=shown,
        structured=None if dropped else secrets.redact_json(structured),
        is_error=is_error,
        truncated=was_cut or dropped,
        tokens=tokens,
        warnings=answered.warnings,
    )


def as_mcp_result(answered: Answered) -> "CallToolResult":
    """Pass the server's own result on, images included; its texts without secrets and within the limit."""
    from mcp.types import CallToolResult, TextContent

    result, secrets, left = answered.answer, answered.secrets, answered.max_tokens
    warnings = [TextContent(text=f"Warning: {warning}") for warning in answered.warnings]
    if isinstance(result, Exception):
        return CallToolResult(content=[TextContent(text=answered.refusal), *warnings], is_error=True)
    blocks: list[ContentBlock] = []
    for given in result.content:
        if left > 0 or given.type not in _TEXTS:
            block, tokens = _passed_on(given, secrets, left)
            left -= tokens
            blocks.append(block)
    if left_out := len(result.content) - len(blocks):
        note = f"[cut: {left_out:,} more blocks left out to stay within {answered.max_tokens:,} tokens]"
        blocks.append(TextContent(text=note))
    structured = result.structured_content
    # Before the protocol of 2026 only an object may stand here.
    keep = isinstance(structured, dict) and _fits(structured, answered.max_tokens)
    if not blocks and structured is not None:  # Many clients show their model only the blocks.
        blocks.append(TextContent(text=_cut(secrets.redact(_written(structured)), left)[0]))
    return CallToolResult(
        content=[*blocks, *warnings],
        structured_content=secrets.redact_json(structured) if keep else None,
        is_error=result.is_error,
    )


def _passed_on(block: "ContentBlock", secrets: Secrets, limit: int) -> tuple["ContentBlock", int]:
    """Return a block without secrets, its text within the limit, and its tokens."""
    fields = block.model_dump(include={"text", "name", "title", "uri", "description", "meta"})
    update: dict[str, Any] = secrets.redact_json(fields)
    tokens = 0
    if block.type == "text":
        update["text"], _, tokens = _cut(update["text"], limit)
    elif block.type == "resource_link":
        tokens = count_tokens(compact(update))
    elif block.type == "resource":
        inner = secrets.redact_json(block.resource.model_dump(include={"uri", "text", "meta"}))
        if "text" in inner:
            inner["text"], _, tokens = _cut(inner["text"], limit)
        update["resource"] = block.resource.model_copy(update=inner)
    return block.model_copy(update=update), tokens


def _written(structured: Any) -> str:
    return "" if structured is None else compact(structured)


def _fits(value: Any, max_tokens: int) -> bool:
    if max_tokens == WHOLE:
        return True
    written = compact(value)
    # A character counts for an eighth of a token at least, in the mean: what is far too long needs no counting.
    return len(written) // 8 <= max_tokens and count_tokens(written) <= max_tokens


def _cut(text: str, limit: int) -> tuple[str, bool, int]:
    """Return the text within the limit, whether it was cut, and its tokens, counted once where it fits."""
    if limit == WHOLE:
        return text, False, 0
    if len(text) // 8 <= limit and (tokens := count_tokens(text)) <= limit:
        return text, False, tokens
    shown, truncated = cut(text, limit)
    return shown, truncated, count_tokens(shown)


def _block_text(block: "ContentBlock") -> str:
    if block.type == "text":
        return block.text
    if block.type == "image" or block.type == "audio":
        return f"[{block.type} {block.mime_type}, {len(block.data) * 3 // 4:,} bytes]"
    if block.type == "resource_link":
        return f"[resource {block.name} {block.uri}]"
    text = getattr(block.resource, "text", None)
    return text if isinstance(text, str) else f"[resource {block.resource.uri}]"
