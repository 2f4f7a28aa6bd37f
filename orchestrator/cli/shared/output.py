"""The output of commands: results on standard output, notes on standard error, control characters escaped in both."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Protocol

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from orchestrator.common.lines import as_json, inline, plain
from orchestrator.index.flags import mentions, suspects
from orchestrator.records.tool import Tool
from orchestrator.telemetry import trace_ids

_MOST_FLAGGED = 20


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, such as `1 tool` or `1,200 tools`.

    Args:
        number: The number.
        noun: The noun in the singular.
        nouns: The plural, if it is not the noun with an "s".
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def meant(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint with the known names that resemble a misspelt name.

    Args:
        name: The misspelt name.
        known: All valid names.
        otherwise: The hint if no name is similar.
    """
    near = get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def note(text: str, level: str = "INFO") -> None:
    """Write a line of progress or a warning to standard error. With --log-format json it is a JSON object."""
    context, line = click.get_current_context(silent=True), inline(text)
    if context and context.find_root().params.get("log_format") == "json":
        line = _Json().format(logging.makeLogRecord({"name": "toolroute", "levelname": level, "msg": line}))
    click.echo(line, file=sys.stderr)  # Which stands above a bar while one is shown.


def warn(warnings: Iterable[str]) -> None:
    """Write warnings on standard error, a line each."""
    for warning in warnings:
        note(f"toolroute: {warning}", "WARNING")


def echo_text(text: str) -> None:
    """Write a result that is a text: exact for a file or a program, without control signs for a terminal."""
    click.echo(plain(text) if sys.stdout.isatty() else text)


def echo_json(value: Any, *, indent: int | None = 1) -> None:
    """Write one JSON document to standard output. Characters that the terminal's encoding lacks are escaped."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(as_json(value, indent=indent, ascii_only=not utf8))


def log(level: int, form: str = "%(name)s: %(message)s") -> None:
    """Send log records of this level and above to standard error, one line for each message.

    Logging that is already configured stays. --verbose shows toolroute's own records from INFO or DEBUG on.
    --log-format json writes them as JSON objects.
    """
    given = click.get_current_context().find_root().params
    handler = logging.StreamHandler()
    handler.addFilter(_whole)
    handler.setFormatter(_Json() if given["log_format"] == "json" else logging.Formatter(form))
    logging.basicConfig(handlers=[handler], level=level)
    if given["verbose"]:
        logging.getLogger("orchestrator").setLevel(logging.INFO if given["verbose"] == 1 else logging.DEBUG)


def _whole(record: logging.LogRecord) -> bool:
    record.msg, record.args = inline(record.getMessage()), None
    return True


class _Json(logging.Formatter):
    """A record as one JSON object, with the ids of the trace that it belongs to."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        shown = {"time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            shown["error"] = self.formatException(record.exc_info)
        return as_json({**shown, **trace_ids()})


def present(output: str, value: Any, show: Callable[[], object]) -> None:
    """Print the value as JSON, or show it to a person.

    Args:
        output: The value of `--output`.
        value: The value to print.
        show: A function that shows the value in a terminal.
    """
    if output == "json":
        echo_json(value)
    else:
        show()


def warn_of_flagged(tools: Sequence[Tool]) -> None:
    """Name the tools that are never matched first, and those to read before use, on standard error."""
    acts = suspects(tools)
    flags = [f"{key} is flagged: {'; '.join(reasons)}" for key, reasons in acts.items()]
    flags += [
        f"{tool.key} mentions {', '.join(phrases)}. Read it before you use it"
        for tool in tools
        if tool.key not in acts and (phrases := mentions(tool))
    ]
    warn(flags[:_MOST_FLAGGED])
    if len(flags) > _MOST_FLAGGED:
        warn([f"{len(flags) - _MOST_FLAGGED:,} more such warnings: `toolroute doctor` lists all flagged tools"])


class _Plain(Console):
    """A rich Console that escapes control characters in texts and does not interpret markup in them."""

    def __init__(self, *, width: int | None = None) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, width=width)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))


def console() -> Console:
    """Return standard output as a Console, 120 columns wide where it is not a terminal."""
    found = _Plain()
    return found if found.is_terminal else _Plain(width=120)


def lines(*texts: str, style: str = "") -> Text:
    """Return each text as a single line."""
    return Text("\n".join(map(inline, texts)), style=style)


def dim(*texts: str) -> Text:
    """Return lines in the background."""
    return lines(*texts, style="dim")


class _Rows(Table):
    """A table in which a cell's text is one line, folded where its column is narrow."""

    def add_row(self, *cells: RenderableType | None, **settings: Any) -> None:
        super().add_row(*(lines(cell) if isinstance(cell, str) else cell for cell in cells), **settings)


def table(*columns: str, right: Sequence[str] = (), **settings: Any) -> Table:
    """Return a table without rules. The columns in `right` hold numbers and are never wrapped."""
    made = _Rows(box=None, pad_edge=False, header_style="dim", **settings)
    for column in columns:
        figures = column in right
        made.add_column(column, justify="right" if figures else "left", no_wrap=figures, overflow="fold")
    return made


def print_warnings(out: Console, warnings: Iterable[str]) -> None:
    """Write warnings below a table, one line each."""
    for warning in warnings:
        out.print(lines(f"! {warning}", style="yellow"))


class Bar(Protocol):
    """A progress bar: the number of finished items, the total, and the current item's name."""

    def __call__(self, done: int, total: int, now: str | None = None) -> None: ...


@contextmanager
def progress(label: str) -> Iterator[Bar]:
    """Show a bar on a terminal's standard error."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    errors = Console(stderr=True)
    now_doing = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))
    columns = (TextColumn(label), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(), now_doing)
    with Progress(*columns, console=errors, transient=True, expand=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, now=None: bar.update(task, completed=done, total=total, description=now)
