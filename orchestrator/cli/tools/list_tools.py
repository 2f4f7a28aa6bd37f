"""`toolroute tools list`: the tools that a tenant may use."""

import sys
from collections.abc import Sequence

import click

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import (
    console,
    counted,
    echo_json,
    echo_json_lines,
    note,
    suggestion,
    warn_of_flagged,
)
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidInput
from orchestrator.records.tool import Tool

ALL_SHOWN = "`toolroute tools list` shows all tools"
"""The hint for a name that resembles no known one."""


@click.command("list")
@taking("catalogue", "config", "sources")
@click.option("--server", metavar="NAME", help="Only tools of this server.")
@taking("output of lines")
def list_tools(workspace: Workspace, server: str | None, output: str) -> None:
    """List the tools that a tenant may use.

    `-o jsonl` writes a tools.jsonl. If there is an mcpServers file, the list has the tools of its servers and
    imported tools.
    """
    catalogue = workspace.catalogue_or_store()
    if server is not None and server not in catalogue.places:
        hint = suggestion(server, catalogue.places, "leave out --server to list all tools")
        raise InvalidInput(f"{workspace.tenant} has no tools of the server {server!r}; {hint}")
    tools = catalogue.tools if server is None else catalogue.of_server(server)
    records = [tool_to_json(tool) for tool in tools]
    if output == "json":
        echo_json(
            {"tenant": workspace.tenant, "fingerprint": catalogue.fingerprint, "tools": records}
        )
    elif output == "jsonl":
        echo_json_lines(records)
    else:
        _print_lines(tools)
        servers = counted(len({tool.server for tool in tools}), "server")
        others = _servers_of_other_files(workspace, catalogue)
        note(f"{counted(len(tools), 'tool')} of {servers}, {workspace.tenant}{others}")
    warn_of_flagged(tools)


def _servers_of_other_files(workspace: Workspace, catalogue: Catalogue) -> str:
    """Name the stored servers that come from other files."""
    file = workspace.servers_file
    if workspace.catalogue or file is None:
        return ""
    stored = {
        listing.partition(":")[0] for listing in workspace.open_store().listings(workspace.tenant)
    }
    others = sorted(stored - catalogue.places.keys())
    return f"; not in {file}, and not shown: {', '.join(others)}" if others else ""


def _print_lines(tools: Sequence[Tool]) -> None:
    """Print a line for each tool: whole names, and on a terminal as much of the description as fits."""
    rows = [
        (one_line(tool.key), str(tool.kind), one_line(tool.description or tool.title))
        for tool in tools
    ]
    if not sys.stdout.isatty():
        click.echo("".join("\t".join(row) + "\n" for row in rows), nl=False)
        return
    key_width = max((len(key) for key, _, _ in rows), default=0)
    width = console().width
    for key, kind, description in rows:
        line = f"{key:{key_width}}  {kind:11}"
        click.echo(f"{line}  {one_line(description, width - len(line) - 2)}".rstrip())
