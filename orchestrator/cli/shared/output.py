"""The output of commands: results on standard output, notes on standard error, control characters escaped in both."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from orchestrator.common.lines import as_json, inline, plain
from orchestrator.errors import InvalidInput
from orchestrator.telemetry import trace_ids

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from orchestrator.records.tool import Tool

Row = Sequence["RenderableType"]
"""The cells of a table's row: texts, or what rich renders."""
_MOST_FLAGGED = 20
"""Warnings that are shown at once. More would push the result of the command off the screen."""
_WIDTH = 120
"""Columns of a table that no terminal shows."""


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, such as `1 tool` or `1,200 tools`.

    Args:
        number: The number.
        noun: The noun in the singular.
        nouns: The plural, if it is not the noun with an "s".
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
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
    line = inline(text)
    context = click.get_current_context(silent=True)
    if context and context.find_root().params.get("log_format") == "json":
        record = logging.makeLogRecord({"name": "toolroute", "levelname": level, "msg": line})
        line = _JsonFormatter().format(record)
    click.echo(line, file=sys.stderr)  # Which stands above a bar while one is shown.


def warn(*warnings: str) -> None:
    """Write warnings on standard error, a line each."""
    for warning in warnings:
        note(f"toolroute: {warning}", "WARNING")


def echo_text(text: str) -> None:
    """Write a result that is a text: exact for a file or a program, without control signs for a terminal."""
    click.echo(plain(text) if sys.stdout.isatty() else text)


@contextmanager
def clean_stdout() -> Iterator[None]:
    """Send the standard output of native code and child processes to standard error."""
    sys.stdout.flush()
    real_stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(real_stdout, 1)
        os.close(real_stdout)


def echo_json(value: Any, *, indent: int | None = 1) -> None:
    """Write one JSON document to standard output. Characters that the terminal's encoding lacks are escaped."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    click.echo(as_json(value, indent=indent, ascii_only=encoding != "utf8"))


def echo_json_lines(values: Iterable[Any]) -> None:
    """Write each value as one line of JSON."""
    for value in values:
        echo_json(value, indent=None)


def present(
    output: str, value: Any, show: Callable[[], object] | str, items: Iterable[Any] = ()
) -> None:
    """Print the value as JSON, or show it to a person.

    Args:
        output: The value of `--output`.
        value: The value to print.
        show: A line for a person, or a function that shows the value.
        items: What `jsonl` prints, one item a line.
    """
    if output == "json":
        echo_json(value)
    elif output == "jsonl":
        echo_json_lines(items)
    elif isinstance(show, str):
        click.echo(inline(show))
    else:
        show()


def write_file(option: str, path: Path, text: str) -> None:
    """Write a result into the file of an option.

    Args:
        option: The name of the option, for the error.
        path: The file. An existing file is replaced.
        text: The content.

    Raises:
        InvalidInput: The file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{option} {str(path)!r} cannot be written: {error.strerror}") from None


def log(level: int, form: str = "%(name)s: %(message)s") -> None:
    """Send log records of this level and above to standard error, one line for each message.

    Logging that is already configured stays. --verbose shows toolroute's own records from INFO or DEBUG on.
    --log-format json writes them as JSON objects.
    """
    params = click.get_current_context().find_root().params
    handler = logging.StreamHandler()
    handler.addFilter(_on_one_line)
    handler.setFormatter(
        _JsonFormatter() if params["log_format"] == "json" else logging.Formatter(form)
    )
    logging.basicConfig(handlers=[handler], level=level)
    if params["verbose"]:
        logging.getLogger("orchestrator").setLevel(
            logging.INFO if params["verbose"] == 1 else logging.DEBUG
        )


def _on_one_line(record: logging.LogRecord) -> bool:
    record.msg = inline(record.getMessage())
    record.args = None
    return True


class _JsonFormatter(logging.Formatter):
    """A record as one JSON object, with the ids of the trace that it belongs to."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return as_json({**fields, **trace_ids()})


def warn_of_flagged(tools: "Sequence[Tool]") -> None:
    """Name the tools that are never matched first, and those to read before use, on standard error."""
    from orchestrator.index.flags import mentions, suspects

    suspicious = suspects(tools)
    flags = [f"{key} is flagged: {'; '.join(reasons)}" for key, reasons in suspicious.items()]
    for tool in tools:
        phrases = () if tool.key in suspicious else mentions(tool)
        if phrases:
            flags.append(f"{tool.key} mentions {', '.join(phrases)}. Read it before you use it")
    warn(*flags[:_MOST_FLAGGED])
    if len(flags) > _MOST_FLAGGED:
        warn(
            f"{len(flags) - _MOST_FLAGGED:,} more such warnings: `toolroute doctor` lists all flagged tools"
        )


def console() -> "Console":
    """Return standard output as a Console, 120 columns wide where it is not a terminal.

    It escapes control characters in texts, and does not interpret markup in them.
    """
    from rich.console import Console

    class PlainConsole(Console):
        def render(self, *args: Any, **settings: Any) -> Iterator[Any]:
            for segment in super().render(*args, **settings):
                yield segment if segment.control else segment._replace(text=plain(segment.text))

    settings: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    screen = PlainConsole(**settings)
    return screen if screen.is_terminal else PlainConsole(**settings, width=_WIDTH)


def lines(*texts: str, style: str = "") -> "Text":
    """Return each text as a single line."""
    from rich.text import Text

    return Text("\n".join(map(inline, texts)), style=style)


def dim(*texts: str) -> "Text":
    """Return lines in the background."""
    return lines(*texts, style="dim")


def table(
    columns: Sequence[str], rows: Iterable[Row], *, numbers: Sequence[str] = (), **settings: Any
) -> "Table":
    """Return a table without rules. The text of a cell is one line, folded where its column is narrow.

    Args:
        columns: The name of each column.
        rows: A text, or something that rich renders, for each column.
        numbers: The columns that are aligned to the right and never folded.
        settings: Settings of rich's Table.
    """
    from rich.table import Table

    rendered = Table(box=None, pad_edge=False, header_style="dim", **settings)
    for column in columns:
        is_number = column in numbers
        rendered.add_column(
            column, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in rows:
        rendered.add_row(*(lines(cell) if isinstance(cell, str) else cell for cell in row))
    return rendered


def print_table(
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    footer: Sequence[str] = (),
    **settings: Any,
) -> None:
    """Print a table, as `table` makes it, and lines below it.

    Args:
        columns: The name of each column.
        rows: A text, or something that rich renders, for each column.
        footer: The lines below the table, in a dim colour.
        settings: Further arguments of `table`.
    """
    screen = console()
    screen.print(table(columns, rows, **settings))
    if footer:
        screen.print(dim(*footer))


def print_warnings(screen: "Console", warnings: Iterable[str]) -> None:
    """Write warnings below a table, one line each."""
    for warning in warnings:
        screen.print(lines(f"! {warning}", style="yellow"))


class Bar(Protocol):
    """A progress bar: the number of finished items, the total, and the current item's name."""

    def __call__(self, done: int, total: int, doing: str | None = None) -> None: ...


@contextmanager
def progress(label: str) -> Iterator[Bar]:
    """Show a bar on a terminal's standard error."""
    if not sys.stderr.isatty():
        yield lambda done, total, doing=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    description = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)
    )
    columns = (
        TextColumn(label),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        description,
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, doing=None: bar.update(
            task, completed=done, total=total, description=doing
        )
