"""Converts an MCP result to a ToolResult, or passes it on, without secrets and within a limit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.catalogue.tokens import compact, count_tokens, cut
from orchestrator.common.redact import Secrets
from orchestrator.mcp.calls import WHOLE
from orchestrator.mcp.meta import answer_meta, is_too_large
from orchestrator.records.call import ToolResult

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock


_MOST_META_BYTES = 16 * 2**10
"""The maximum size of the `_meta` of a result that a workflow history keeps."""
_TEXTS = frozenset({"text", "resource", "resource_link"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A server's answer to a call, or an error result, with the data needed to show it."""

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
    """Convert a result to text. Other blocks are described in brackets. Structured content is included only if it
    fits.
    """
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
        meta={} if isinstance(result, Exception) else answer_meta(result.meta, secrets, _MOST_META_BYTES),
    )


Keep = Callable[[str, Any], str]
"""Keeps the whole text and structured content of a cut result. Returns the handle for `read_result`."""


def as_mcp_result(answered: Answered, keep: Keep | None = None) -> "CallToolResult":
    """Pass on the server's own result, images included, with its texts redacted and cut to the limit.

    With `keep`, a cut result names the handle of the whole result, and structured content is shortened instead of
    dropped.
    """
    from mcp.types import CallToolResult, TextContent

    result, secrets, left = answered.answer, answered.secrets, answered.max_tokens
    warnings = [TextContent(text=f"Warning: {warning}") for warning in answered.warnings]
    if isinstance(result, Exception):
        return CallToolResult(content=[TextContent(text=answered.refusal), *warnings], is_error=True)
    if is_too_large(result.meta):
        warnings.append(TextContent(text="Warning: the result's _meta is too large and was left out"))
    blocks: list[ContentBlock] = []
    was_cut = False
    for given in result.content:
        if left > 0 or given.type not in _TEXTS:
            block, tokens, cut_short = _passed_on(given, secrets, left)
            was_cut = was_cut or cut_short
            left -= tokens
            blocks.append(block)
    if left_out := len(result.content) - len(blocks):
        note = f"[cut: {left_out:,} more blocks omitted to stay within {answered.max_tokens:,} tokens]"
        blocks.append(TextContent(text=note))
    structured = result.structured_content
    # Before the protocol of 2026 only an object may stand here.
    fits = isinstance(structured, dict) and _fits(structured, answered.max_tokens)
    clear = secrets.redact_json(structured) if fits or keep else None
    if keep and (was_cut or left_out or (isinstance(structured, dict) and not fits)):
        text = secrets.redact("\n".join(map(_block_text, result.content)) or _written(structured))
        handle = keep(text, clear)
        blocks.append(TextContent(text=f'[the whole result: call `read_result` with {{"handle": "{handle}"}}]'))
        clear = _shortened(clear, answered.max_tokens) if isinstance(clear, dict) and not fits else clear
    if not blocks and structured is not None:  # Many clients show their model only the blocks.
        blocks.append(TextContent(text=_cut(secrets.redact(_written(structured)), left)[0]))
    return CallToolResult(
        content=[*blocks, *warnings],
        structured_content=clear if isinstance(clear, dict) else None,
        is_error=result.is_error,
        _meta=answer_meta(result.meta, secrets) or None,
    )


def _passed_on(block: "ContentBlock", secrets: Secrets, limit: int) -> tuple["ContentBlock", int, bool]:
    """Return a block without secrets, its text within the limit, its tokens, and whether it was cut."""
    fields = block.model_dump(include={"text", "name", "title", "uri", "description", "meta"})
    update: dict[str, Any] = secrets.redact_json(fields)
    tokens, was_cut = 0, False
    if block.type == "text":
        update["text"], was_cut, tokens = _cut(update["text"], limit)
    elif block.type == "resource_link":
        tokens = count_tokens(compact(update))
    elif block.type == "resource":
        inner = secrets.redact_json(block.resource.model_dump(include={"uri", "text", "meta"}))
        if "text" in inner:
            inner["text"], was_cut, tokens = _cut(inner["text"], limit)
        update["resource"] = block.resource.model_copy(update=inner)
    return block.model_copy(update=update), tokens, was_cut


def _written(structured: Any) -> str:
    return "" if structured is None else compact(structured)


def _fits(value: Any, max_tokens: int) -> bool:
    if max_tokens == WHOLE:
        return True
    written = compact(value)
    # A character is an eighth of a token at least, on average. So a text that is far too long need not be counted.
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


def _shortened(value: dict[str, Any], max_tokens: int) -> dict[str, Any] | None:
    """Return structured content with shorter lists and texts that fits, or None if shortening is not enough."""
    for most in (256, 64, 16, 4, 1, 0):
        short: dict[str, Any] = _short(value, most)
        if _fits(short, max_tokens):
            return short
    return None


def _short(value: Any, most: int) -> Any:
    if isinstance(value, dict):
        return {name: _short(item, most) for name, item in value.items()}
    if isinstance(value, list):
        return [_short(item, most) for item in value[:most]]
    room = 100 * (most + 1)
    return f"{value[:room]}…" if isinstance(value, str) and len(value) > room else value
