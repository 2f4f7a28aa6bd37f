"""`toolroute tools list`: the tools that a tenant may use."""

import sys
from collections.abc import Sequence
from functools import partial

import click

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import (
    console,
    counted,
    note,
    present,
    suggestion,
    warn_of_flagged,
)
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidInput
from orchestrator.records.tool import Tool

ALL_SHOWN = "`toolroute tools list` shows all tools"
"""The hint for a name that resembles no known one."""


_SERVER = click.option("--server", metavar="NAME", help="Only tools of this server.")


@click.command("list")
@taking("catalogue", "config", "sources")
@_SERVER
@taking("output of lines")
def list_tools(workspace: Workspace, server: str | None, output: str) -> None:
    """List the tools that a tenant may use.

    `-o jsonl` writes a tools.jsonl. If there is an mcpServers file, the list has the tools of its servers and
    imported tools.
    """
    catalogue = workspace.catalogue_or_store()
    tools: Sequence[Tool] = catalogue.tools
    if server is not None:
        _require_server(workspace, catalogue, server)
        tools = catalogue.of_server(server)
    records = list(map(tool_to_json, tools))
    value = {"tenant": workspace.tenant, "fingerprint": catalogue.fingerprint, "tools": records}
    others = partial(_servers_of_other_files, workspace, catalogue)
    present(output, value, lambda: _print_tools(tools, workspace.tenant, others()), records)
    warn_of_flagged(tools)


def _require_server(workspace: Workspace, catalogue: Catalogue, server: str) -> None:
    if server not in catalogue.places:
        hint = suggestion(server, catalogue.places, "leave out --server to list all tools")
        raise InvalidInput(f"{workspace.tenant} has no tools of the server {server!r}; {hint}")


def _print_tools(tools: Sequence[Tool], tenant: str, others: str) -> None:
    _print_lines(tools)
    servers = counted(len({tool.server for tool in tools}), "server")
    note(f"{counted(len(tools), 'tool')} of {servers}, {tenant}{others}")


def _servers_of_other_files(workspace: Workspace, catalogue: Catalogue) -> str:
    """Name the stored servers that come from other files."""
    file = workspace.servers_file
    if workspace.catalogue or file is None:
        return ""
    stored = {
        listing.partition(":")[0] for listing in workspace.open_store().listings(workspace.tenant)
    }
    unlisted_servers = sorted(stored - catalogue.places.keys())
    return (
        f"; not in {file}, and not shown: {', '.join(unlisted_servers)}" if unlisted_servers else ""
    )


def _print_lines(tools: Sequence[Tool]) -> None:
    """Print a line for each tool: whole names, and on a terminal as much of the description as fits."""
    rows = [
        (one_line(tool.key), str(tool.kind), one_line(tool.description or tool.title))
        for tool in tools
    ]
    if not sys.stdout.isatty():
        # A program splits at tabs, and wants whole texts.
        click.echo("".join("\t".join(row) + "\n" for row in rows), nl=False)
        return
    key_width = max((len(key) for key, _, _ in rows), default=0)
    width = console().width
    for key, kind, description in rows:
        line = f"{key:{key_width}}  {kind:11}"
        click.echo(f"{line}  {one_line(description, width - len(line) - 2)}".rstrip())
