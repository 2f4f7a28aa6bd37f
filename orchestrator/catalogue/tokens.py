"""Token counts: an estimate that is rarely too low, and texts cut to a number of tokens.

The estimate counts groups of letters, digits, spaces and punctuation. For 31,309 tool definitions of thirteen
catalogues, it is on average 33 % and at most 70 % above o200k_base. It is too low (by 2 %) for two definitions, which
list country or currency codes.
"""

import json
import re

_CUT_MARK = "\n[cut: {dropped:,} of {total:,} characters left out to stay within {limit:,} tokens]"
# Five letters per token, and two capitals. With six letters, the estimate was too low for 20 of 29,000 real
# definitions. A single capital belongs to the word that it begins.
_TOKEN = re.compile(
    r"[a-z]{1,5}|[0-9]{1,3}|[A-Z]{2}|(?<=[A-Z])[A-Z]|\n+|[^\S\n]{2,}|[^\S\n ]"
    r"|[^\sA-Za-z0-9\x00\x80-\U0010ffff]{1,3}|[^\x00-\x7f]",
    re.ASCII,
)
"""One match is one token. Characters outside ASCII that are not letters count twice."""
_ODD = re.compile(r"[^\w\x00-\x7f]")
"""Characters that are neither letters nor ASCII, such as emoji. They count twice."""

compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=str).encode
"""JSON as providers send it to a model, without spaces and with the keys in their given order."""


def count_tokens(text: str) -> int:
    """Return an estimate of the text's tokens. It is meant as an upper limit."""
    return len(_TOKEN.findall(text)) + (0 if text.isascii() else len(_ODD.findall(text)))


def plain_size(text: str) -> int:
    """Return the size of a text, in bytes, as JSON with all characters outside ASCII escaped, as in a
    workflow's history.
    """
    return len(text) if text.isascii() else len(text.encode("ascii", "backslashreplace"))


def cut(text: str, limit: int) -> tuple[str, bool]:
    """Return the text within a limit of estimated tokens, and whether it was cut. A cut text has a mark at its end.

    It is read only up to the limit, because a tool's answer may have many megabytes.
    """
    # The numbers in the mark may take eight tokens more than their placeholders.
    room = max(0, limit - count_tokens(_CUT_MARK) - 8)
    used = end = 0
    is_ascii = text.isascii()
    for token in _TOKEN.finditer(text):
        used += 1 if is_ascii or not _ODD.match(token[0]) else 2
        if used <= room:
            end = token.end()
        if used > limit:
            mark = _CUT_MARK.format(dropped=len(text) - end, total=len(text), limit=limit)
            return text[:end] + mark, True
    return text, False
