"""`toolroute audit`: list the audit log, and verify that no line is missing or changed."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, note, present, print_table, warn
from orchestrator.common.tenant import os_user
from orchestrator.errors import InvalidInput
from orchestrator.options import Options
from orchestrator.trust.audit import EVENTS, Audit, Entry

_MOST_PROBLEMS = 20
"""The problems that are listed. More would push the summary off the screen."""
_FILTERS = ("event", "tenant", "tool")
_COLUMNS = ("when", "event", "tenant", "actor", "tool", "approval", "result", "ms")


def audited(event: str, tenant: str, **fields: Any) -> None:
    """Write this user's command into the audit log, if an audit log is configured."""
    audited_all(event, tenant, [fields])


def audited_all(event: str, tenant: str, about: Iterable[Mapping[str, Any]]) -> None:
    """Write a line of the audit log for each of the things that this user's command did, if there is a log.

    Args:
        event: The kind of event, which all lines have.
        tenant: The tenant.
        about: The further fields of each line.
    """
    log = Audit.named(Options.from_env().audit)
    if log:
        actor = f"command of {os_user() or 'an unknown user'}"
        log.write_all(Entry(event=event, tenant=tenant, actor=actor, **fields) for fields in about)


@click.group()
def audit() -> None:
    """List and verify the audit log."""


@audit.command("list")
@taking("last")
@click.option("--event", type=click.Choice(EVENTS), help="Only this event.")
@click.option("--tenant", metavar="TENANT", help="Only entries of this tenant.")
@click.option("--tool", metavar="KEY", help="Only entries about this tool.")
@taking("output of lines")
def list_lines(last: int, output: str, **filters: str | None) -> None:
    """List the newest lines."""
    log = _required_log()
    newest = list(deque(_filtered(log.read(), filters), last))
    record = {"folder": str(log.folder), "lines": newest}
    present(output, record, lambda: _print_lines(log, newest), newest)


def _print_lines(log: Audit, lines: Sequence[dict[str, Any]]) -> None:
    print_table(_COLUMNS, map(_row, lines), numbers=("ms",))
    note(f"{counted(len(lines), 'line')} of the audit log in {log.folder}")


def _filtered(
    lines: Iterable[dict[str, Any]], filters: Mapping[str, str | None]
) -> Iterator[dict[str, Any]]:
    wanted = {name: filters[name] for name in _FILTERS if filters[name]}
    for line in lines:
        if all(line.get(name) == value for name, value in wanted.items()):
            yield line


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    columns = {**line, "when": line.get("at", "")[:19], "ms": f"{line.get('ms', 0):.0f}"}
    if not columns.get("tool"):
        columns["tool"] = line.get("server", "")
    return tuple(columns.get(column, "") for column in _COLUMNS)


@audit.command()
@taking("output")
def verify(output: str) -> int:
    """Look for lines that were changed or removed. Exit code 1: some were found."""
    log = _required_log()
    verified = log.verify()
    record = {
        "folder": str(log.folder),
        "lines": verified.lines,
        "first": verified.first,
        "problems": verified.problems,
    }
    summary = f"{counted(verified.lines, 'line')}, from number {verified.first} on"
    present(output, record, summary)
    warn(*verified.problems[:_MOST_PROBLEMS])
    more = len(verified.problems) - _MOST_PROBLEMS
    if more > 0:
        warn(f"{more:,} more")
    return 1 if verified.problems else 0


def _required_log() -> Audit:
    log = Audit.named(Options.from_env().audit)
    if log is None:
        raise InvalidInput("there is no audit log: TOOLROUTE_AUDIT is off")
    return log
