"""The command line: each command is imported only when it is called."""

import errno
import gc
import logging
import os
import sys
import warnings
from io import TextIOWrapper
from pathlib import Path

import click

from orchestrator.cli.shared.lazy_group import LazyGroup
from orchestrator.errors import InvalidInput, ToolrouteError

COMMANDS = {
    "route": ("routing.route:route", "Find the few tools that fit QUERY."),
    "explain": ("routing.explain:explain", "Show the whole Decision for QUERY."),
    "tools": ("tools.group:tools", "Import, sync, list, show, accept and remove tools."),
    "run": ("runs.run:run", "Run TASK durably on Temporal."),
    "runs": ("runs.runs:runs", "List, show, approve, refuse and cancel runs."),
    "plan": ("routing.plan:plan", "Show the plan for TASK without calling a tool."),
    "worker": (
        "runs.worker:worker",
        "Serve a Temporal task queue: routing, planning and tool calls.",
    ),
    "call": ("servers.call:call", "Call one tool and print its result."),
    "servers": (
        "servers.servers:servers",
        "Show the state of each server, or find and add one.",
    ),
    "login": ("servers.login:login", "Sign in to a server, or list your sign-ins."),
    "logout": ("servers.login:logout", "Sign out of a server."),
    "serve": ("gateway.serve:serve", "Serve all servers as one MCP server."),
    "approvals": (
        "trust.approvals:approvals",
        "List, give and withdraw lasting approvals.",
    ),
    "audit": ("trust.audit:audit", "List and verify the audit log."),
    "eval": ("routing.eval:evaluate", "Measure the routing of FOLDER's queries."),
    "store": ("store.commands:store", "Create the collections of a Qdrant server."),
    "experience": (
        "experience.group:experience",
        "Import, list, measure, replay and forget finished tasks.",
    ),
    "setup": (
        "gateway.setup:setup",
        "Replace the servers of your MCP clients by toolroute.",
    ),
    "ui": (
        "gateway.ui:ui",
        "Show decisions, tools, servers, experience and runs in the browser.",
    ),
    "doctor": ("gateway.doctor:doctor", "Check this installation and suggest fixes."),
}
"""Each command's place in this package, and its line in the list of commands, which is shown without its module."""
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}
_COLLECTED_FROM = 50_000
"""The number of new objects after which Python looks for garbage. With its 700, the start of a command takes a tenth
more, because nearly all objects of the start stay."""
_UNWRITABLE = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EDQUOT, errno.EFBIG)
"""The errors of a result that cannot be written, such as a full disk or a closed pipe.

Others are bugs, which show a traceback.
"""


@click.group(cls=LazyGroup, package="orchestrator.cli", places=COMMANDS, context_settings=_SETTINGS)
@click.version_option(package_name="toolroute")
@click.option(
    "-v", "--verbose", count=True, help="Log each step. -vv also logs tasks and errors in full."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: one JSON object per line.",
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
        from orchestrator.extras import install_command

        remedy = f"{install_command('otel')}, or set OTEL_SDK_DISABLED=true"
        click.echo(f"toolroute: {variable} is set and nothing is sent there: {remedy}", err=True)


def main() -> None:
    """Run the `toolroute` command.

    Exit codes: 0 answered, 1 failure, 2 bad usage or input, 3 no tool matches, 4 some servers failed, 5 a step of a
    run is waiting for input or approval, 6 a replayed task lost a tool, 130 interrupted.
    """
    gc.set_threshold(_COLLECTED_FROM)
    warnings.showwarning = _show_warning
    _prepare_streams()
    code = _run()
    try:
        sys.stdout.flush()  # Left to Python's own end, a failure is 120.
    except OSError as error:
        code = _unwritten(error)
    sys.exit(code)


def _prepare_streams() -> None:
    """Open closed streams, and show a character that a terminal lacks as "?" in place of a traceback."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Closed (`>&-`): other files would take its number.
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Write a library's warning as one of ours, without the line of code that it is about."""
    from orchestrator.cli.shared.output import warn

    warn(str(message))


def _run() -> int:
    """Run the command and return its exit code. Errors are written to standard error."""
    try:
        return cli(standalone_mode=False) or 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except click.ClickException as error:
        error.show(file=sys.stderr)
        if hint := _usage_hint(error):
            click.echo(hint, err=True)
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


def _usage_hint(error: click.ClickException) -> str:
    """Return the remedy for a usual slip: a task without quotes, an option behind the command."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    parameters = context.command.params if context else []
    if "unexpected extra argument" in error.message and any(
        param.name in ("task", "query") for param in parameters
    ):
        return "Quote a task of several words."
    if isinstance(error, click.NoSuchOption) and any(
        error.option_name in param.opts for param in cli.params
    ):
        return f"Put the option before the command: toolroute {error.option_name} ..."
    if (
        isinstance(error, click.NoSuchOption)
        and context
        and isinstance(context.command, click.Group)
    ):
        return f"Put a command's option behind it: {context.command_path} COMMAND {error.option_name} ..."
    return ""


def _unwritten(error: OSError) -> int:
    # Python writes what is left over at its end, and must not fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if error.errno != errno.EPIPE:  # Who closed the pipe has read all that they wanted.
        click.echo(f"toolroute: {error.strerror}: the result is incomplete", err=True)
    return 1
