"""Finds the lines of a program's standard error that explain why it ended."""

import re
from collections.abc import Iterable

_MOST = 3
_GROUP = re.compile(r"^ *\| ?")
"""The characters that Python prints before the lines of an exception group."""
_NOISE = re.compile(
    r"\s*at .*"  # A frame of Node's stack.
    r"|[\s^~(){}\[\],;|+-]*|Node\.js v.*|\S+:\d+"
    r"|npm (?:error|ERR!)(?: {2,}\w+: .*|\s*(?:\d+|at .*|}|(?:syscall|errno|path|dest) .*|A complete log .*)?)"
    r"|npm notice.*",
    re.IGNORECASE,
)
_TRACEBACK = "Traceback (most recent call last)"
_ERROR = re.compile(r"(?i:\b(?:npm )?err(?:or|!))\b|[a-z]Error\b")


def cause(lines: Iterable[str]) -> list[str]:
    """Return up to three lines with the cause of a failure.

    These are the end of the last Python traceback, or the first line with an error and the following ones, or the last
    lines.
    """
    plain = [_GROUP.sub("", line).rstrip() for line in lines]
    start = max((number for number, line in enumerate(plain) if _TRACEBACK in line), default=None)
    if start is not None:
        plain = plain[start + 1 :]
    said = [line for line in plain if not _NOISE.fullmatch(line)]
    flush = [number for number, line in enumerate(said) if not line[0].isspace()]
    wanted = (
        flush if start is not None else [number for number in flush if _ERROR.search(said[number])]
    )
    shown = said[wanted[0] :][:_MOST] if wanted else said[-_MOST:]
    return [line.strip() for line in shown]
