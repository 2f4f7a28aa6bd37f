"""Lines: texts from others (names, descriptions, errors) cannot start a new line or move the cursor."""

import json
from typing import Any

# From 0x2028 on: ends of lines, what turns the direction of the text behind it, and halves of signs, which UTF-8 lacks.
_SIGNS = {*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)}
_LEFT_OUT = dict.fromkeys(_SIGNS - {ord("\n"), ord("\t")})


def plain(text: str) -> str:
    """Return the text without control characters, except line ends and tabs."""
    return text.translate(_LEFT_OUT)


def whole_pairs(text: str) -> str:
    """Return the text with half surrogate pairs, which JSON may hold and UTF-8 may not, replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def inline(text: str) -> str:
    """Return the text as one line without control signs."""
    return plain(" ".join(text.splitlines()))


def one_line(text: str, limit: int | None = None) -> str:
    """Return the text as one line with single blanks, cut at the limit."""
    line = " ".join(inline(text).split())
    return line if limit is None or len(line) <= limit else f"{line[: max(0, limit - 1)]}…"


def as_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Return JSON with every invisible character escaped, such as zero-width blanks and direction marks.

    Args:
        value: The value.
        indent: The indentation, or None for one line.
        ascii_only: Escape all characters outside ASCII.
    """
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, default=str)
    unseen = {sign for sign in set(text) if not sign.isprintable()} - {"\n"}
    return text.translate({ord(sign): json.dumps(sign)[1:-1] for sign in unseen})


def bounded(value: Any, most: int = 200, items: int = 20) -> Any:
    """Return a shortened value for a person: the beginning and end of long texts, and the first of many members.

    Args:
        value: The value.
        most: The maximum number of characters of a text.
        items: The maximum number of members.
    """
    if isinstance(value, str) and len(value) > most:
        return f"{value[: most // 2]}… {len(value) - most:,} characters …{value[-most // 2 :]}"
    if isinstance(value, dict):
        kept = {bounded(str(name), most): bounded(own, most, items) for name, own in [*value.items()][:items]}
        return kept | ({"…": f"{len(value) - items:,} more"} if len(value) > items else {})
    if isinstance(value, list):
        more = [f"… {len(value) - items:,} more"] if len(value) > items else []
        return [bounded(own, most, items) for own in value[:items]] + more
    return value
