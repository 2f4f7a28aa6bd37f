"""Safe lines of text: names, descriptions and errors of others never begin a new line or move the cursor."""

import json
import re
from functools import partial
from typing import Any

# From 0x2028 on: line ends, characters that change the text's direction, and halves of surrogate pairs.
_SIGNS = {
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
}
_UNSEEN = frozenset(
    (
        *("\u034f", "\u115f", "\u1160", "\u17b4", "\u17b5", "\u2800", "\u3164", "\uffa0"),
        *map(chr, range(0x180B, 0x1810)),
        *map(chr, range(0xFE00, 0xFE10)),
        *map(chr, range(0xE0100, 0xE01F0)),
    )
)
"""Characters without a shape that Python calls printable: joiners, fillers, and selectors, which can hold a text."""
_WIDE_GAP = re.compile(r"(?<=\S)(?<!\\n) {9,}|(?<=\\n) {41,}")
"""Blanks that push what follows out of sight. Up to 40 of them behind a line end (`\\n` in JSON) indent a line of code.
"""
_TERMINAL_CODE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\^_]"
)
"""Codes of terminals, such as a colour (`ESC [31m`) or a link. Without its ESC alone, a code would be left as text."""
_LEFT_OUT = dict.fromkeys(_SIGNS - {ord("\n"), ord("\t")})


def plain(text: str) -> str:
    """Return the text without control characters and codes of terminals. Line ends and tabs stay."""
    return _TERMINAL_CODE.sub("", text).translate(_LEFT_OUT)


def whole_pairs(text: str) -> str:
    """Return the text with half surrogate pairs replaced. JSON may contain them, but UTF-8 may not."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def inline(text: str) -> str:
    """Return the text as one line without control characters."""
    return plain(" ".join(text.splitlines()))


def one_line(text: str, limit: int | None = None) -> str:
    """Return the text as one line with single blanks, cut at the limit."""
    line = " ".join(inline(text).split())
    return line if limit is None or len(line) <= limit else f"{line[: max(0, limit - 1)]}…"


def as_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Return JSON with every invisible character escaped, and null for a number that JSON does not have (NaN).

    Args:
        value: The value.
        indent: The number of blanks for each level. None: one line.
        ascii_only: Whether all characters outside ASCII are escaped.
    """
    dump = partial(json.dumps, ensure_ascii=ascii_only, indent=indent, default=str)
    try:
        text = dump(value, allow_nan=False)
    except ValueError:
        text = dump(json.loads(dump(value), parse_constant=lambda _: None))
    escapes: dict[int, str] = {}
    for sign in set(text):
        if sign in _UNSEEN or (not sign.isprintable() and sign != "\n"):
            escapes[ord(sign)] = json.dumps(sign)[1:-1]
    return text.translate(escapes)


def shown_json(value: Any, *, indent: int | None = None) -> str:
    """Return JSON for a person who approves a call: as `as_json`, with the blanks of a wide gap escaped, too.

    Args:
        value: The value.
        indent: The number of blanks for each level. None: one line.
    """
    text = as_json(value, indent=indent)
    return _WIDE_GAP.sub(lambda gap: "\\u0020" * len(gap.group()), text)
