r"""Repairs of messages that a strict JSON reader refuses, although their meaning is clear.

    {"text": "half \ud83d"}         half of a surrogate pair becomes U+FFFD
    {"text": "bell \x07"}           a raw control character is kept
    {"value": NaN}                  a value that is no JSON becomes null

Without the repair a whole listing, or the answer to a call that has taken effect, would be lost.
"""

import json
import re
from typing import Any

from orchestrator.common.lines import whole_pairs

_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_REFUSED = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\bNaN\b|\bInfinity\b|"
    + _HIGH
    + rb"(?!"
    + _LOW
    + rb")|(?<!"
    + _HIGH
    + rb")"
    + _LOW
)


_CONTROLS = bytes({*range(0x20)} - set(b"\t\n\r"))
_SIGNS = (b"NaN", b"Infinity", rb"\ud", rb"\uD")


def repaired(message: bytes, *, always: bool = False) -> bytes:
    """Return the message as strict JSON. A message that is fine, or no JSON at all, is returned unchanged.

    Args:
        message: The message.
        always: Repair it also without a known reason, because a reader has refused it.
    """
    if not always and not (_may_be_refused(message) and _REFUSED.search(message)):
        return message
    try:
        text = message.decode("utf-8", "replace")
        value = json.loads(text, strict=False, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return message
    return whole_pairs(json.dumps(value, ensure_ascii=False)).encode("utf-8", "replace")


def _may_be_refused(message: bytes) -> bool:
    """Return False for a message that the pattern need not search, which takes ten times as long as reading it."""
    if any(sign in message for sign in _SIGNS):
        return True
    return len(message.translate(None, _CONTROLS)) < len(message)


def _no_number(_: str) -> Any:
    return None
