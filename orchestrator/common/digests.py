"""Digests: short names of contents. Stores and histories contain them, so no release changes them."""

import hashlib
import json
from typing import Any

SHOWN_DIGITS = 12
"""The digits of a name that a person reads or types."""
COMPARED_DIGITS = 32
"""The digits of a digest by which a program decides that somebody approved a call or a definition. Two contents with
the same 12 digits were found in 13 minutes on one core."""
OF_SERVER = 16
"""The number of digits of an entry's identity that identify the server. The other digits identify the chosen tools."""


def digest(text: str, digits: int) -> str:
    """Return the first hexadecimal digits of the text's SHA-256. Half of a surrogate pair is allowed."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def digest_of(*content: Any, digits: int = SHOWN_DIGITS) -> str:
    """Return a digest of values as JSON. The order of names in an object does not count.

    Args:
        content: The values.
        digits: The number of digits: 12 name a thing, COMPARED_DIGITS prove that two things are the same.
    """
    return digest(json.dumps(content, sort_keys=True, default=str), digits)


def same_server(entry: str, other: str) -> bool:
    """Return True if two entries' identities belong to the same server, whichever tools they choose."""
    return entry[:OF_SERVER] == other[:OF_SERVER]
