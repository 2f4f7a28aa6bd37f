"""Lines: what others wrote (names, descriptions, errors) never begins a line of its own, nor moves a cursor."""

# From 0x2028 on: ends of lines, and what turns the direction of the text behind it.
SIGNS = {*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)} - {ord("\n"), ord("\t")}
_LEFT_OUT = dict.fromkeys(SIGNS)


def plain(text: str) -> str:
    """Return the text without control signs; line ends and tabs stay."""
    return text.translate(_LEFT_OUT)


def inline(text: str) -> str:
    """Return the text as one line without control signs."""
    return plain(" ".join(text.splitlines()))


def one_line(text: str, limit: int | None = None) -> str:
    """Return the text as one line with single blanks, cut at the limit."""
    line = " ".join(inline(text).split())
    return line if limit is None or len(line) <= limit else f"{line[: max(0, limit - 1)]}…"
