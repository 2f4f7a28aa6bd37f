"""The comments of a client's file. TOML and YAML write them alike, from `#` to the end of the line."""

import re

_COMMENT = re.compile(r"(?:^|[ \t])(#.*)$", re.MULTILINE)


def comments(text: str) -> list[str]:
    """Return the comments of a TOML or YAML text."""
    return _COMMENT.findall(text)
