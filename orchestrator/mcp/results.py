"""Converts an MCP result to a ToolResult, or passes it on, without secrets and within a limit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.catalogue.tokens import compact, count_tokens, cut
from orchestrator.common.redact import Secrets
from orchestrator.mcp.calls import UNLIMITED
from orchestrator.mcp.passed_messages import answer_meta, is_too_large, masked_model
from orchestrator.records.call import ToolResult

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

_MOST_META_BYTES = 16 * 2**10
"""The maximum size of the `_meta` of a result that a workflow history keeps."""
_TEXTS = frozenset({"text", "resource", "resource_link"})
_MOST_ITEMS = (256, 64, 16, 4, 1, 0)
"""The lengths to which the lists of structured content are shortened, one after the other, until it fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A server's answer to a call with the data needed to show it. The result is an error if the call failed."""

    result: "CallToolResult | Exception"
    key: str
    secrets: Secrets
    max_tokens: int
    warnings: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        return isinstance(self.result, Exception) or self.result.is_error

    @property
    def refusal(self) -> str:
        """The text of an error, without secrets."""
        reason = self.secrets.redact(str(self.result))
        if isinstance(self.result, RuntimeError):
            return f"{self.key} ran, but its answer {reason}"
        return f"{self.key} refused the call: {reason}"


class _Cut(NamedTuple):
    """A text within a limit, and its tokens."""

    text: str
    is_cut: bool
    tokens: int


def as_tool_result(answer: Answered) -> ToolResult:
    """Convert a result to text, with other blocks described in brackets.

    Structured content is included only if it fits.
    """
    result = answer.result
    secrets = answer.secrets
    if isinstance(result, Exception):
        refusal = _cut(answer.refusal, answer.max_tokens)
        return ToolResult(
            text=refusal.text,
            is_error=True,
            truncated=refusal.is_cut,
            tokens=refusal.tokens,
            warnings=answer.warnings,
        )
    structured = result.structured_content
    fits = structured is None or _fits(structured, answer.max_tokens)
    text = _cut(secrets.redact(_full_text(result)), answer.max_tokens)
    return ToolResult(
        text=text.text,
        structured=secrets.redact_json(structured) if fits else None,
        is_error=result.is_error,
        truncated=text.is_cut or not fits,
        tokens=text.tokens,
        warnings=answer.warnings,
        meta=answer_meta(result.meta, secrets, _MOST_META_BYTES),
    )


Keep = Callable[[str, Any], str]
"""Keeps the whole text and structured content of a cut result. Returns the handle for `read_result`."""


def as_mcp_result(answer: Answered, keep: Keep | None = None) -> "CallToolResult":
    """Pass on the server's own result, images included, with its texts redacted and cut to the limit.

    With `keep`, a cut result names the handle of the whole result. Structured content is then shortened, not dropped.
    """
    from mcp.types import CallToolResult, TextContent

    result = answer.result
    secrets = answer.secrets
    warnings = [TextContent(text=f"Warning: {warning}") for warning in answer.warnings]
    if isinstance(result, Exception):
        return CallToolResult(content=[TextContent(text=answer.refusal), *warnings], is_error=True)
    if is_too_large(result.meta):
        warnings.append(
            TextContent(text="Warning: the result's _meta is too large and was left out")
        )
    blocks, is_cut, left = _blocks_within(answer, result)
    structured = result.structured_content
    # Before the protocol of 2026 only an object may stand here.
    is_object = isinstance(structured, dict)
    fits = is_object and _fits(structured, answer.max_tokens)
    masked = secrets.redact_json(structured) if fits or keep else None
    if keep and (is_cut or (is_object and not fits)):
        handle = keep(secrets.redact(_full_text(result)), masked)
        blocks.append(
            TextContent(
                text=f'[the whole result: call `read_result` with {{"handle": "{handle}"}}]'
            )
        )
        if is_object and not fits:
            masked = _shortened(secrets.redact_json(structured), answer.max_tokens)
    if not blocks and structured is not None:  # Many clients show their model only the blocks.
        blocks.append(TextContent(text=_cut(secrets.redact(compact(structured)), left).text))
    return CallToolResult(
        content=[*blocks, *warnings],
        structured_content=masked if isinstance(masked, dict) else None,
        is_error=result.is_error,
        _meta=answer_meta(result.meta, secrets) or None,
    )


def _blocks_within(
    answer: Answered, result: "CallToolResult"
) -> tuple[list["ContentBlock"], bool, int]:
    """Return the blocks within the limit, whether something was cut, and the tokens that are left."""
    from mcp.types import TextContent

    blocks: list[ContentBlock] = []
    is_cut = False
    tokens_left = answer.max_tokens
    for block in result.content:
        if tokens_left <= 0 and block.type in _TEXTS:
            continue
        passed, text = _passed_on(block, answer.secrets, tokens_left)
        blocks.append(passed)
        is_cut = is_cut or text.is_cut
        tokens_left -= text.tokens
    # Said in the result, so that a model does not take the part for all of it.
    omitted = len(result.content) - len(blocks)
    if omitted:
        note = f"[cut: {omitted:,} more blocks omitted to stay within {answer.max_tokens:,} tokens]"
        blocks.append(TextContent(text=note))
    return blocks, is_cut or omitted > 0, tokens_left


def _passed_on(block: "ContentBlock", secrets: Secrets, limit: int) -> tuple["ContentBlock", _Cut]:
    """Return a block without secrets, with its text cut to the limit."""
    block = masked_model(block, secrets)
    text = _Cut("", is_cut=False, tokens=0)
    if block.type == "text":
        text = _cut(block.text, limit)
        return block.model_copy(update={"text": text.text}), text
    if block.type == "resource_link":
        link = block.model_dump(include={"name", "title", "uri", "description", "meta"})
        return block, _Cut("", is_cut=False, tokens=count_tokens(compact(link)))
    if block.type == "resource" and hasattr(block.resource, "text"):
        text = _cut(block.resource.text, limit)
        resource = block.resource.model_copy(update={"text": text.text})
        return block.model_copy(update={"resource": resource}), text
    return block, text


def _full_text(result: "CallToolResult") -> str:
    """Return the text of all blocks, or the structured content if the blocks have no text."""
    text = "\n".join(map(_block_text, result.content))
    if text or result.structured_content is None:
        return text
    return compact(result.structured_content)


def _fits(value: Any, max_tokens: int) -> bool:
    if max_tokens == UNLIMITED:
        return True
    json_text = compact(value)
    # A character is an eighth of a token at least, on average. So a text that is far too long need not be counted.
    return len(json_text) // 8 <= max_tokens and count_tokens(json_text) <= max_tokens


def _cut(text: str, limit: int) -> _Cut:
    """Return the text within the limit. It is counted once if it fits."""
    if limit == UNLIMITED:
        return _Cut(text, is_cut=False, tokens=0)
    if len(text) // 8 <= limit:
        tokens = count_tokens(text)
        if tokens <= limit:
            return _Cut(text, is_cut=False, tokens=tokens)
    start, is_cut = cut(text, limit)
    return _Cut(start, is_cut, count_tokens(start))


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
    # Shorter lists first: a model reads the shape of the data from a few items.
    for most_items in _MOST_ITEMS:
        short: dict[str, Any] = _short(value, most_items)
        if _fits(short, max_tokens):
            return short
    return None


def _short(value: Any, most_items: int) -> Any:
    if isinstance(value, dict):
        return {name: _short(item, most_items) for name, item in value.items()}
    if isinstance(value, list):
        return [_short(item, most_items) for item in value[:most_items]]
    most_characters = 100 * (most_items + 1)
    if isinstance(value, str) and len(value) > most_characters:
        return f"{value[:most_characters]}…"
    return value
