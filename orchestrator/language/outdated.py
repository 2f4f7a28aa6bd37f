"""Outdated: whether a tool says of itself that it is no longer to be used ("[DEPRECATED] Use get_page instead")."""

import re
from functools import lru_cache

_SAYS_SO = re.compile(
    r"(?i)\A\W{0,8}(?:deprecated|obsolete)\b(?!\s(?!by\b|since\b|in\b|as\b)[a-z])"
    r"|[\[(]deprecated\b[^\])]*[\])]\W*\Z|[-–—:]\s?deprecated\W*\Z|\bdeprecated\s?::|\bnote:\s?deprecated\b"
    r"|\bthis (?:tool|function|method|endpoint|action|api|operation|command|call) (?:is|has been)"
    r" (?:deprecated|obsolete)\b"
    r"|(?-i:(?:[.!\n]\s*\W{0,4})DEPRECATED\b)"
)


@lru_cache(maxsize=100_000)
def is_outdated(description: str) -> bool:
    """Whether a tool's description says so of the tool, and not of what it is about ("lists deprecated APIs")."""
    return _SAYS_SO.search(description) is not None
