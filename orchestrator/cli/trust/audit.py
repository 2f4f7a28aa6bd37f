"""`toolroute audit`: list the audit log, and verify that no line is missing or changed."""

import getpass
from collections import deque
from typing import Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import console, counted, echo_json, note, present, table, warn
from orchestrator.errors import InvalidInput
from orchestrator.options import Options
from orchestrator.trust.audit import EVENTS, Audit, Entry

_MOST_PROBLEMS = 20


def audited(event: str, tenant: str, **fields: Any) -> None:
    """Write this user's command into the audit log, if an audit log is configured."""
    if log := Audit.named(Options.from_env().audit):
        log.write(Entry(event=event, tenant=tenant, actor=f"command of {_user()}", **fields))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "an unknown user"


@click.group()
def audit() -> None:
    """List and verify the audit log."""


@audit.command("list")
@click.option("--last", type=click.IntRange(1), default=50, metavar="N", help="Show the newest N entries.")
@click.option("--event", type=click.Choice(EVENTS), help="Only this event.")
@click.option("--tenant", metavar="TENANT", help="Only entries of this tenant.")
@click.option("--tool", metavar="KEY", help="Only entries about this tool.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "jsonl"]), default="table")
def list_lines(last: int, event: str | None, tenant: str | None, tool: str | None, output: str) -> None:
    """List the newest lines."""
    wanted = {name: value for name, value in (("event", event), ("tenant", tenant), ("tool", tool)) if value}
    log = _log()
    fitting = (line for line in log.read() if all(line.get(name) == value for name, value in wanted.items()))
    found = [*deque(fitting, last)]
    if output == "json":
        echo_json({"folder": str(log.folder), "lines": found})
    elif output == "jsonl":
        for line in found:
            echo_json(line, indent=None)
    else:
        _show(found)
        note(f"{counted(len(found), 'line')} of the audit log in {log.folder}")


@audit.command()
@taking("output")
def verify(output: str) -> int:
    """Look for lines that were changed or removed. Exit code 1: some were found."""
    log = _log()
    found = log.verify()
    shown = {"folder": str(log.folder), "lines": found.lines, "first": found.first, "problems": found.problems}
    present(output, shown, lambda: click.echo(f"{counted(found.lines, 'line')}, from number {found.first} on"))
    warn(found.problems[:_MOST_PROBLEMS])
    if more := len(found.problems) - _MOST_PROBLEMS:
        warn([f"{more:,} more"] if more > 0 else [])
    return 1 if found.problems else 0


def _log() -> Audit:
    log = Audit.named(Options.from_env().audit)
    if log is None:
        raise InvalidInput("there is no audit log: TOOLROUTE_AUDIT is off")
    return log


def _show(lines: list[dict[str, Any]]) -> None:
    shown = table("when", "event", "tenant", "actor", "tool", "approval", "result", "ms", right=("ms",))
    for line in lines:
        about = line.get("tool") or line.get("server", "")
        cells = [line.get(name, "") for name in ("event", "tenant", "actor")]
        more = [line.get(name, "") for name in ("approval", "result")]
        shown.add_row(line.get("at", "")[:19], *cells, about, *more, f"{line.get('ms', 0):.0f}")
    console().print(shown)
