"""What a scripted model was asked, and what it may be told to say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from pydantic import BaseModel

from orchestrator.catalogue.tokens import compact


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request. `kind` is `chat/completions`, `responses` or `embeddings`; headers are in lower case."""

    kind: str
    body: dict[str, Any]
    headers: dict[str, str] = field(repr=False)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def text(self) -> str:
        """All that the model was told, in order: instructions and messages; for embeddings the texts."""
        given = self.body.get("messages") or self.body.get("input") or ""
        messages = given if isinstance(given, list) else [given]
        parts = [self.body.get("instructions"), *(_content(message) for message in messages)]
        return "\n\n".join(part for part in parts if part)

    @property
    def tools(self) -> list[str]:
        """The names of the tools that it was offered."""
        return [tool.get("function", tool).get("name", "") for tool in self.body.get("tools") or ()]

    @property
    def wants(self) -> str:
        """The name of the structure that it was asked for: a JSON schema's, `json_object`, or ""."""
        form = self.body.get("response_format") or (self.body.get("text") or {}).get("format") or {}
        return str(form.get("name") or (form.get("json_schema") or {}).get("name") or form.get("type") or "")


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else compact(message)


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Calls of tools by the names that were offered, with their arguments: `ToolCalls([("time__now", {})])`."""

    calls: Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model declines."""

    text: str = "I can't help with that."


@dataclass(frozen=True, slots=True)
class Truncated:
    """An answer that stops at the limit of output tokens."""

    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    """An HTTP error in OpenAI's form; `retry_after` in seconds becomes the header."""

    status: int
    message: str = "scripted fault"
    code: str | None = None
    kind: str = "scripted"
    retry_after: float | None = None


NO_CREDIT = Fault(
    429,
    "You exceeded your current quota, please check your plan and billing details.",
    code="insufficient_quota",
    kind="insufficient_quota",
)
"""HTTP 429 of an account without credit, which waiting does not mend."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Good vectors, but of this size."""

    dimension: int


@dataclass(frozen=True, slots=True)
class Raw:
    """A body as it is, with HTTP 200: for answers of a wrong shape."""

    body: str
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class CutOff:
    """A good answer of which only the first half arrives."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A reply that comes after so many seconds."""

    seconds: float
    reply: "Reply" = "late"


@dataclass(frozen=True, slots=True)
class Usage:
    """A reply that the provider bills so; without it the tokens are estimated from the texts."""

    reply: "Reply"
    input: int
    output: int
    cached: int = 0


Reply = Union[  # noqa: UP007  (some members are named before they exist)
    str, Mapping[str, Any], BaseModel, ToolCalls, Refusal, Truncated, Fault, Raw, CutOff, Slow, Usage, Vectors
]
