"""What servers, catalogues and tasks say, on a terminal: without the signs that move its cursor or turn its text."""

import sys

import click

_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Signs that turn the direction of the text behind them."""
_SIGNS = {*range(0x20), *range(0x7F, 0xA0), *_TURNING} - {ord("\n"), ord("\t")}
_LEFT_OUT = dict.fromkeys(_SIGNS)
_ESCAPED = {sign: f"\\u{sign:04x}" for sign in _SIGNS}


def plain(text: str) -> str:
    """The text without control signs; lines and tabs stay. `-o json` has it as it is."""
    return text.translate(_LEFT_OUT)


def one_line(text: str, limit: int | None = None) -> str:
    """The text as one line, cut at the limit."""
    line = " ".join(plain(text.replace("\r", " ")).split())
    return line if limit is None or len(line) <= limit else f"{line[: limit - 1]}…"


def counted(number: int, noun: str, nouns: str = "") -> str:
    """`1 tool`, `1,200 tools`; where the many are no noun with an s, they are given."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def figure(value: float | None, digits: int = 3) -> str:
    """`0.123`; `-` where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def escaped(json: str) -> str:
    """A JSON text whose strings say the same, with the control signs that JSON allows as they are escaped, too."""
    return json.translate(_ESCAPED)


def note(text: str) -> None:
    """Progress and warnings, on standard error."""
    click.echo(plain(text), err=True)


def echo_text(text: str) -> None:
    """A result that is a text: as it is for a file or a program, plain for a terminal."""
    click.echo(plain(text) if sys.stdout.isatty() else text)
