"""Results that were cut: kept whole for a while, so that their client can read on."""

import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.common.json_input import read_json
from orchestrator.common.lines import one_line
from orchestrator.errors import FAULTS, InvalidArguments
from orchestrator.mcp.calls import MAX_RESULT_TOKENS

Who = tuple[str, str]
"""The tenant and the client of a call."""

_MOST, _MOST_CHARACTERS = 200, 64 * 2**20
_AROUND, _MOST_FOUND = 200, 20
_STEP = re.compile(
    r"\.?(?P<key>[^.\[\]]+)|\[(?P<index>-?\d+)\]|\[(?P<all>\*)\]|\[(?P<start>-?\d*):(?P<stop>-?\d*)\]"
    r"|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]"
)


class ReadArguments(BaseModel):
    """The arguments of `read_result`."""

    model_config = ConfigDict(extra="forbid")
    handle: str = Field(description="The handle that is named in the cut result.")
    offset: int = Field(default=0, description="The position of the first character to read.", ge=0)
    path: str = Field(default="", description="A JSON path to a part of the result, such as `rows[10:20].name`.")
    find: str = Field(
        default="", description="A text. Only the places with this text are returned, with their offsets."
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    text: str
    structured: Any


class KeptResults:
    """The cut results of all clients. The oldest are dropped first. A client reads only its own results."""

    def __init__(self, max_tokens: int = MAX_RESULT_TOKENS) -> None:
        self.max_tokens = max_tokens
        self._kept: OrderedDict[tuple[Who, str], _Kept] = OrderedDict()
        self._characters = 0

    def of(self, who: Who) -> bool:
        """Return True if a result of this client is kept."""
        return any(own == who for own, _ in self._kept)

    def keep(self, who: Who, text: str, structured: Any) -> str:
        """Keep a result and return its handle.

        Args:
            who: The tenant and the client.
            text: The whole text.
            structured: The structured content, or None.
        """
        handle = f"result-{secrets.token_hex(6)}"
        self._kept[who, handle] = _Kept(text, structured)
        self._characters += len(text)
        while len(self._kept) > _MOST or (self._characters > _MOST_CHARACTERS and len(self._kept) > 1):
            _, gone = self._kept.popitem(last=False)
            self._characters -= len(gone.text)
        return handle

    def read(self, who: Who, asked: ReadArguments) -> str:
        """Return a part of a kept result within the token limit. Raises InvalidArguments for an unknown handle or
        place.
        """
        kept = self._kept.get((who, asked.handle))
        if kept is None:
            raise InvalidArguments(
                f"unknown result {asked.handle!r}: it was dropped, or the handle is wrong; call its tool again"
            )
        text = kept.text if not asked.path else _at(kept, asked.path)
        if asked.find:
            return _places(text, asked.find, asked.offset, self.max_tokens)
        shown = _within(text[asked.offset :], self.max_tokens)
        end = asked.offset + len(shown)
        more = f"; to read the next part, give offset {end}" if end < len(text) else ""
        return f"{shown}\n[characters {asked.offset} to {end} of {len(text)}{more}]"


def _within(text: str, max_tokens: int) -> str:
    """Return the start of a text with at most this many tokens."""
    shown = text[: 8 * max_tokens]
    while (tokens := count_tokens(shown)) > max_tokens:
        shown = shown[: min(len(shown) - 1, len(shown) * max_tokens // tokens)]
    return shown


def _places(text: str, wanted: str, offset: int, max_tokens: int) -> str:
    """Return the first places with a text, as many as the limit of tokens has room for, and the offset of the next."""
    shown, found, following, left = list[str](), 0, -1, max_tokens
    for match in re.finditer(re.escape(wanted), text[offset:], re.IGNORECASE):
        found, at = found + 1, offset + match.start()
        if following < 0:
            around = text[max(0, at - _AROUND) : at + len(wanted) + _AROUND]
            place = f"offset {at}: {_within(around, max(max_tokens // 2, 1))}"
            left -= count_tokens(place)
            if len(shown) == _MOST_FOUND or (shown and left < 0):
                following = at
            else:
                shown.append(place)
    more = f"; to see more places, give offset {following}" if following >= 0 else ""
    return "\n".join([*shown, f"[places with {one_line(wanted, _AROUND)!r}: {found}{more}]"])


def _at(kept: _Kept, path: str) -> str:
    value, place, whole = kept.structured, 0, path.strip().removeprefix("$")
    if value is None:
        try:
            value = read_json(kept.text)
        except FAULTS:
            raise InvalidArguments(
                "path cannot be used: this result is not JSON; give an offset, or a text to find"
            ) from None
    while place < len(whole):
        step = _STEP.match(whole, place)
        if step is None:
            raise InvalidArguments(
                f"path {path!r} is not valid from {whole[place:]!r} on: write a path such as rows[0].name"
            )
        try:
            if isinstance(value, str):  # Many servers put their JSON as text into one field: {"result": "[...]"}.
                value = read_json(value)
            value = _stepped(value, step)
        except FAULTS:
            there = f"keys {', '.join(list(value)[:20])}" if isinstance(value, dict) else type(value).__name__
            raise InvalidArguments(f"path {path!r}: the result has nothing at {step[0]!r}; it has {there}") from None
        place = step.end()
    return value if isinstance(value, str) else compact(value)


def _stepped(value: Any, step: "re.Match[str]") -> Any:
    key = step["key"] or step["quoted"]
    if key is not None:
        if isinstance(value, list):
            return [one[key] for one in value if isinstance(one, dict) and key in one]
        return value[key]
    if not isinstance(value, list):
        raise TypeError
    if step["index"] is not None:
        return value[int(step["index"])]
    if step["all"]:
        return value
    return value[slice(*(int(end) if end else None for end in (step["start"], step["stop"])))]
