"""Finds the lines of a program's standard error that explain why it ended."""

import re
from collections.abc import Iterable

_MOST = 3
"""The lines of a cause. More would hide it in the message that quotes them."""
_GROUP = re.compile(r"^ *\| ?")
"""The characters that Python prints before the lines of an exception group."""
_NOISE = re.compile(
    r"\s*at .*"  # A frame of Node's stack.
    r"|[\s^~(){}\[\],;|+-]*|Node\.js v.*|\S+:\d+"
    r"|npm (?:error|ERR!)(?: {2,}\w+: .*|\s*(?:\d+|at .*|}|(?:syscall|errno|path|dest) .*|A complete log .*)?)"
    r"|npm notice.*",
    re.IGNORECASE,
)
_CAUSE = re.compile(r" *caused? ?(?:by)?:", re.IGNORECASE)
"""A line of a chain of causes, as uv and other programs in Rust print it."""
_TRACEBACK = "Traceback (most recent call last)"
_ERROR = re.compile(r"(?i:\b(?:npm )?err(?:or|!))\b|[a-z]Error\b")
_NEEDED_PYTHON = re.compile(
    r"(?:does not satisfy Python|requires a different Python: \S+ not in '?)>=(\d\.\d+)"
)
"""Of uv, and of pip in pipx."""

_UNREACHED = ("fetch failed", "all connection attempts failed")
"""Of Node's fetch, and of httpx."""


def is_error(line: str) -> bool:
    """Return True if a line tells of an error."""
    return _ERROR.search(line) is not None


def tells_of_unnamed_address(lines: Iterable[str]) -> bool:
    """Return True if a connection failed and no line has the address."""
    text = " ".join(lines).lower()
    return "://" not in text and any(phrase in text for phrase in _UNREACHED)


def python_remedy(output: str) -> str:
    """Return the remedy if a package could not be installed because Python is too old, or ""."""
    needed = _NEEDED_PYTHON.search(output)
    if needed is None:
        return ""
    version = needed[1]
    return f"; it needs Python {version} or newer: write `uvx --python {version} ...` in its entry"


def cause(lines: Iterable[str]) -> list[str]:
    """Return up to three lines with the cause of a failure.

    These are the end of the last Python traceback. Without a traceback, these are the first line with an error and the
    following lines. Without such a line, these are the last lines. Of a longer chain of causes, the last ones stay:

        error: Failed to fetch: https://pypi.org/simple/mcp-server-git/
          cause: error sending request for url (https://pypi.org/simple/mcp-server-git/)
          cause: client error (Connect)
          cause: invalid peer certificate: UnknownIssuer
    """
    plain = [_GROUP.sub("", line).rstrip() for line in lines]
    tracebacks = [number for number, line in enumerate(plain) if _TRACEBACK in line]
    if tracebacks:
        plain = plain[tracebacks[-1] + 1 :]
    telling = [line for line in plain if not _NOISE.fullmatch(line)]
    start = len(telling) - _MOST
    for number, line in enumerate(telling):
        # A traceback ends with the first line that is not indented.
        is_indented = line[0].isspace()
        if not is_indented and (tracebacks or is_error(line)):
            start = number
            break
    start = max(start, 0)
    end = start + _MOST
    while end < len(telling) and _CAUSE.match(telling[end]):
        end += 1
    shown = [*telling[start : start + 1], *telling[start + 1 : end][1 - _MOST :]]
    return [line.strip() for line in shown]
