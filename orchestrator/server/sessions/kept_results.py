"""Results that were cut: kept whole for a while, so that their client can read on.

A cut result names a handle, and `read_result` reads from an offset or finds a text:

    {"handle": "result-5f0c6f0ab3d2", "offset": 8000}
    {"handle": "result-5f0c6f0ab3d2", "find": "invoice 17"}
"""

import re
import secrets
import threading
import zlib
from collections import Counter
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.common.json_input import read_json
from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidArguments
from orchestrator.mcp.calls import MAX_RESULT_TOKENS

Owner = tuple[str, str]
"""The tenant and the client of a call."""

_MAX_RESULTS_PER_TENANT = 200
"""A tenant's results above this number drop its own oldest, and never those of another tenant."""
_MAX_BYTES = 16 * 2**20
"""The maximum size of all kept results in memory, compressed. That is a fourth of the size of most texts."""
_CONTEXT_CHARACTERS = 200
"""The characters that are shown before and after a text that was found."""
_MAX_HITS = 20


class ReadArguments(BaseModel):
    """The arguments of `read_result`."""

    model_config = ConfigDict(extra="forbid")
    handle: str = Field(description="The handle that is named in the cut result.")
    offset: int = Field(default=0, description="The position of the first character to read.", ge=0)
    find: str = Field(
        default="",
        description="A text. Only the places with this text are returned, with their offsets.",
    )


class _Kept(NamedTuple):
    """A cut result: its client, and all of its text, compressed. Most results are never read on."""

    owner: Owner
    packed: bytes

    @classmethod
    def of(cls, owner: Owner, document: str) -> "_Kept":
        # Level 1 takes a third of the time of the default.
        return cls(owner, zlib.compress(document.encode("utf-8", "surrogatepass"), 1))

    @property
    def document(self) -> str:
        return zlib.decompress(self.packed).decode("utf-8", "surrogatepass")

    @property
    def tenant(self) -> str:
        tenant, _ = self.owner
        return tenant

    @property
    def size(self) -> int:
        return len(self.packed)


class KeptResults:
    """The cut results of all clients by handle, oldest first. A client reads only its own results.

    A tenant's results never push out another tenant's. Over the limit, the tenant that keeps the most loses its oldest.
    """

    def __init__(self, max_tokens: int = MAX_RESULT_TOKENS) -> None:
        self.max_tokens = max_tokens
        self._results: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def has_any(self, owner: Owner) -> bool:
        """Return True if a result of this client is kept."""
        with self._lock:
            return any(result.owner == owner for result in self._results.values())

    def keep(self, owner: Owner, text: str, structured: Any) -> str:
        """Keep a result and return its handle.

        Args:
            owner: The tenant and the client.
            text: The whole text.
            structured: The structured content, or None.
        """
        handle = f"result-{secrets.token_hex(6)}"
        result = _Kept.of(owner, _document(text, structured))
        with self._lock:  # Tenants' results are cut in different threads.
            self._results[handle] = result
            self._make_room(result.tenant)
        return handle

    def read(self, owner: Owner, request: ReadArguments) -> str:
        """Return a part of a kept result within the token limit. Raises InvalidArguments for an unknown handle."""
        result = self._results.get(request.handle)
        if result is None or result.owner != owner:
            raise InvalidArguments(
                f"unknown result {request.handle!r}: it was dropped, or the handle is wrong; call its tool again"
            )
        document = result.document
        if request.find:
            return _hits(document, request.find, request.offset, self.max_tokens)
        part = _start_within(document[request.offset :], self.max_tokens)
        end = request.offset + len(part)
        more = f"; to read the next part, give offset {end}" if end < len(document) else ""
        return f"{part}\n[characters {request.offset} to {end} of {len(document)}{more}]"

    def _make_room(self, tenant: str) -> None:
        """Drop the oldest results over the limits, but not the only one of this tenant.

        A result that has just been kept can be read, even if it is larger than the limit.
        """
        if len(self._handles(tenant)) > _MAX_RESULTS_PER_TENANT:
            del self._results[self._handles(tenant)[0]]
        sizes = Counter[str]()
        for result in self._results.values():
            sizes[result.tenant] += result.size
        while sizes.total() > _MAX_BYTES:
            [(largest, _)] = sizes.most_common(1)
            handles = self._handles(largest)
            if largest == tenant and len(handles) == 1:
                break
            sizes[largest] -= self._results.pop(handles[0]).size

    def _handles(self, tenant: str) -> list[str]:
        return [handle for handle, result in self._results.items() if result.tenant == tenant]


def _document(text: str, structured: Any) -> str:
    """Return a result as one text. Structured content is added, unless the text is its JSON."""
    if structured is None:
        return text
    try:
        is_same = read_json(text) == structured
    except ValueError:
        is_same = False
    return text if is_same else f"{text}\n[structured content]\n{compact(structured)}"


def _start_within(text: str, max_tokens: int) -> str:
    """Return the start of a text with at most this many tokens."""
    start = text[: 8 * max_tokens]
    while (tokens := count_tokens(start)) > max_tokens:
        start = start[: min(len(start) - 1, len(start) * max_tokens // tokens)]
    return start


def _hits(document: str, phrase: str, offset: int, max_tokens: int) -> str:
    """Return the first places with a text, as many as the token limit has room for, and the offset of the next."""
    pattern = re.compile(re.escape(phrase), re.IGNORECASE)
    offsets = [match.start() for match in pattern.finditer(document, offset)]
    lines = list[str]()
    room = max_tokens
    for start in offsets[:_MAX_HITS]:
        line = f"offset {start}: {_excerpt(document, start, len(phrase), max_tokens)}"
        room -= count_tokens(line)
        if lines and room < 0:
            break
        lines.append(line)
    unread = offsets[len(lines) :]
    more = f"; to see more places, give offset {unread[0]}" if unread else ""
    lines.append(f"[places with {one_line(phrase, _CONTEXT_CHARACTERS)!r}: {len(offsets)}{more}]")
    return "\n".join(lines)


def _excerpt(document: str, start: int, length: int, max_tokens: int) -> str:
    """Return a place in a document with the text around it, in at most half of the tokens."""
    first = max(0, start - _CONTEXT_CHARACTERS)
    end = start + length + _CONTEXT_CHARACTERS
    return _start_within(document[first:end], max(max_tokens // 2, 1))
