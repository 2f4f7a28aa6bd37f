"""Digests: short names for content. Stores and histories contain them, so no release changes them."""

import hashlib
import json
from typing import Any

OF_SERVER = 16
"""The digits of an entry's identity that say which server it means; the rest say which of its tools it chooses."""


def digest(text: str, digits: int) -> str:
    """Return the first hexadecimal digits of the text's SHA-256. Lone surrogates are encoded like other characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def digest_of(*content: Any) -> str:
    """Return 12 digits of values as JSON, in which the order of an object's names does not count."""
    return digest(json.dumps(content, sort_keys=True, default=str), 12)


def same_server(one: str, other: str) -> bool:
    """Return True if two entries' identities belong to one server, whatever tools they choose."""
    return one[:OF_SERVER] == other[:OF_SERVER]
