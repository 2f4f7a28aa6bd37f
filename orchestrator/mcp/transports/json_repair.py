r"""Repairs of messages that a strict JSON reader refuses, although their meaning is clear.

    {"text": "half \ud83d"}         half of a surrogate pair becomes U+FFFD
    {"text": "bell \x07"}           a raw control character is kept
    {"value": NaN}                  a value that is no JSON becomes null, and so does a number of 4,300 digits

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


_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")'
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_VERSION = b'"jsonrpc"'
_END = 300
"""The bytes at the end of a message, or at its beginning, that are searched for the id of its request."""
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
        value = json.loads(text, strict=False, parse_constant=_no_number, parse_int=_integer)
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


def _integer(digits: str) -> int | None:
    """Return the integer, or None for one of more digits than Python reads (4,300)."""
    try:
        return int(digits)
    except ValueError:
        return None


def request_of(message: bytes) -> int | str | None:
    """Return the id of the request that an unreadable message answers. None: it shows no id, or it is no answer.

    A record of a server's log may have an id, too, but not the version of the protocol.
    """
    beginning = message[:_END]
    end = message[-_END:]
    is_message = message.lstrip().startswith(b"{") and (_VERSION in beginning or _VERSION in end)
    if not is_message or b'"method"' in beginning:
        return None
    found = _ID_FIRST.match(message) or _ID_LAST.search(end)
    if found is None:
        return None
    request: int | str = json.loads(found[1])
    return request
