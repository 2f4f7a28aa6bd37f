"""The command line: each command is imported only when it is called."""

import errno
import logging
import os
import sys
import warnings
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

import click

from orchestrator.errors import InvalidInput, ToolrouteError

COMMANDS = {
    "route": ("routing.route:route", "Find the few tools that fit QUERY."),
    "explain": ("routing.route:explain", "Show the whole Decision for QUERY."),
    "tools": ("tools.commands:tools", "Import, sync, list, show, accept and remove tools."),
    "run": ("runs.run:run", "Run TASK durably on Temporal."),
    "runs": ("runs.runs:runs", "List, show, approve, refuse and cancel runs."),
    "plan": ("routing.route:plan", "Show the plan for TASK without calling a tool."),
    "worker": ("runs.worker:worker", "Serve a Temporal task queue: routing, planning and tool calls."),
    "call": ("servers.call:call", "Call one tool and print its result."),
    "servers": ("servers.servers:servers", "Show the state of each server."),
    "login": ("servers.login:login", "Sign in to a server, or list your sign-ins."),
    "logout": ("servers.login:logout", "Sign out of a server."),
    "serve": ("gateway.serve:serve", "Serve all servers as one MCP server."),
    "approvals": ("trust.approvals:approvals", "List, give and withdraw lasting approvals."),
    "audit": ("trust.audit:audit", "List and verify the audit log."),
    "eval": ("routing.eval:evaluate", "Measure the routing of FOLDER's queries."),
    "experience": ("experience.commands:experience", "Import, list, measure, replay and forget finished tasks."),
    "setup": ("gateway.setup:setup", "Replace the servers of your MCP clients by toolroute."),
    "ui": ("gateway.ui:ui", "Show decisions, tools, servers, experience and runs in the browser."),
    "doctor": ("gateway.doctor:doctor", "Check this installation and suggest fixes."),
}
"""Each command's module and name, and its line in the list of commands, which is shown without its module."""
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}
_UNWRITABLE = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EDQUOT, errno.EFBIG)


class _Lazy(click.Group):
    """A group that knows every command's name and imports its module on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = get_close_matches(args[0], COMMANDS, 1)
        if args[0] not in COMMANDS and near and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings=_SETTINGS)
@click.version_option(package_name="toolroute")
@click.option("-v", "--verbose", count=True, help="Log each step. -vv also logs tasks and errors in full.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="json: one JSON object per line."
)
def cli(verbose: int, log_format: str) -> None:
    """Find the few tools that fit a task, see why, and connect only their servers."""
    from orchestrator.options import collector

    if verbose or log_format == "json":
        from orchestrator.cli.shared.output import log

        log(logging.WARNING)
    if variable := collector():
        _export(variable)


def _export(variable: str) -> None:
    from orchestrator.options import collector_timeout
    from orchestrator.telemetry import export

    try:
        export(collector_timeout())
    except ImportError:
        remedy = "pip install 'toolroute[otel]', or set OTEL_SDK_DISABLED=true"
        click.echo(f"toolroute: {variable} is set and nothing is sent there: {remedy}", err=True)


def main() -> None:
    """Run the `toolroute` command.

    Exit codes: 0 answered, 1 failure, 2 bad usage or input, 3 no tool matches, 4 some servers failed, 5 a step of a
    run is waiting for input or approval, 6 a replayed task lost a tool, 130 interrupted.
    """
    warnings.showwarning = _show_warning
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Closed (`>&-`): other files would take its number.
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # What a terminal cannot show is shown as "?", not as a traceback.
    code = _run()
    try:
        sys.stdout.flush()  # Left to Python's own end, a failure is 120.
    except OSError as error:
        code = _unwritten(error)
    sys.exit(code)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Write a library's warning as one of ours, without the line of code that it is about."""
    from orchestrator.cli.shared.output import warn

    warn([str(message)])


def _run() -> int:
    """Run the command and return its exit code. Errors are written to standard error."""
    try:
        return cli(standalone_mode=False) or 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except click.ClickException as error:
        error.show(file=sys.stderr)
        takes = [] if getattr(error, "ctx", None) is None else error.ctx.command.params  # type: ignore[attr-defined]
        if "unexpected extra argument" in error.message and any(param.name in ("task", "query") for param in takes):
            click.echo("Quote a task of several words.", err=True)
        if isinstance(error, click.NoSuchOption) and any(error.option_name in one.opts for one in cli.params):
            click.echo(f"Put the option before the command: toolroute {error.option_name} ...", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except ToolrouteError as error:
        from orchestrator.cli.shared.output import note

        note(f"toolroute: {error}")
        return 2 if isinstance(error, InvalidInput) else 1
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        return _unwritten(error)


def _unwritten(error: OSError) -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left over at its end, and must not fail again.
    if error.errno != errno.EPIPE:  # Who closed the pipe has read all that they wanted.
        click.echo(f"toolroute: {error.strerror}: the result is incomplete", err=True)
    return 1
