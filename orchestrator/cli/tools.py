"""`toolroute tools`: import a file, sync MCP servers, list what is known, remove a server's."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import click

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.cli.common import (
    echo_json,
    known_store,
    open_store,
    output_option,
    progress,
    store_option,
    tell_flagged,
    tenant_from,
    tenant_options,
)
from orchestrator.cli.paths import TEXT, TOOLS
from orchestrator.cli.plain import counted, note, one_line, plain
from orchestrator.cli.sync import sync_command
from orchestrator.errors import InvalidInput
from orchestrator.records.tool import Tool
from orchestrator.store.store import SHARED, Changes, Store


@click.group()
def tools() -> None:
    """The tools that are known: import, sync, list, remove."""


tools.add_command(sync_command)


@tools.command("import")
@click.argument("file", type=TOOLS)
@store_option
@tenant_options
@click.option("--shared", is_flag=True, help="For every tenant.")
@click.option("--server", type=TEXT, help="Whose tools those are that name no server. [default: called as their file]")
@output_option
def import_tools(
    file: Path,
    store: str | None,
    organization: str | None,
    user: str | None,
    shared: bool,
    server: str | None,
    output: str,
) -> None:
    """Store the tools of FILE (a tools.jsonl, .json or folder). Servers that FILE names are replaced, others stay.

    - reads them from standard input.
    """
    tenant = _owner(organization, user, shared=shared)
    found = Catalogue.read(file, server)
    if server is not None and found.tools and server not in found.places:
        raise InvalidInput(f"--server {server!r}: every tool of {file} names its server; leave --server out")
    changes = store_tools(open_store(store), tenant, found)
    totals = {
        "servers": len(changes),
        "new": sum(len(change.new) for change in changes.values()),
        "changed": sum(len(change.changed) for change in changes.values()),
        "gone": sum(len(change.gone) for change in changes.values()),
        "same": sum(change.same for change in changes.values()),
    }
    tell_flagged(found.tools)
    if not changes:
        note(f"toolroute: {file} holds no tool: nothing was stored, and nothing removed")
    if output == "json":
        echo_json({"tenant": tenant, **totals})
    else:
        counts = ", ".join(f"{number:,} {name}" for name, number in totals.items() if name != "servers")
        click.echo(plain(f"{tenant}: {counted(len(changes), 'server')}, {counts}"))


@tools.command("remove")
@click.argument("servers", nargs=-1, required=True, type=TEXT)
@store_option
@tenant_options
@click.option("--shared", is_flag=True, help="Those that are stored for every tenant.")
@output_option
def remove_tools(
    servers: tuple[str, ...], store: str | None, organization: str | None, user: str | None, shared: bool, output: str
) -> None:
    """Take all tools of SERVERS away, however they came. `tools sync` stores those of configured servers again."""
    tenant = _owner(organization, user, shared=shared)
    kept = known_store(store)
    known = kept.servers(tenant, own=True)
    if unknown := [server for server in servers if server not in known]:
        near = difflib.get_close_matches(unknown[0], known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`toolroute tools list` shows all tools"
        raise InvalidInput(f"{tenant} has stored no server {unknown[0]!r}; {hint}; nothing was removed")
    gone = {server: len(kept.remove_server(tenant, server).gone) for server in dict.fromkeys(servers)}
    if output == "json":
        echo_json({"tenant": tenant, "removed": gone})
    else:
        click.echo(plain(f"{tenant}: {counted(len(gone), 'server')}, {counted(sum(gone.values()), 'tool')} removed"))


@tools.command("list")
@click.option("--catalogue", metavar="FILE|FOLDER", type=TOOLS, help="List this file's instead.")
@store_option
@tenant_options
@click.option("--server", help="Only this server's.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "jsonl"]), default="table", show_default=True)
def list_tools(
    catalogue: Path | None,
    store: str | None,
    organization: str | None,
    user: str | None,
    server: str | None,
    output: str,
) -> None:
    """List the tools that a tenant may use. `-o jsonl` writes a tools.jsonl."""
    tenant = tenant_from(organization, user)
    known = Catalogue.read(catalogue) if catalogue else known_store(store).load(tenant).catalogue
    if server is not None and server not in known.places:
        near = difflib.get_close_matches(server, known.places, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "without --server all are listed"
        raise InvalidInput(f"{tenant} has no tools of a server {server!r}; {hint}")
    found = known.tools if server is None else known.of_server(server)
    if output == "json":
        echo_json({"tenant": tenant, "fingerprint": known.fingerprint, "tools": [tool_to_json(tool) for tool in found]})
    elif output == "jsonl":
        for tool in found:
            echo_json(tool_to_json(tool), indent=None)
    else:
        _show(found, tenant)
    tell_flagged(found)


def _owner(organization: str | None, user: str | None, *, shared: bool) -> str:
    """The tenant whose tools are stored."""
    if shared and (organization or user):
        raise InvalidInput("--shared is for every tenant: leave out --organization and --user")
    return SHARED if shared else tenant_from(organization, user)


def import_file(store: Store, tenant: str, file: Path) -> dict[str, Changes]:
    """Stores the file's tools as `tools import` does; what changed, by server."""
    return store_tools(store, tenant, Catalogue.read(file, None))


def store_tools(store: Store, tenant: str, tools: Catalogue) -> dict[str, Changes]:
    """Makes these the tools of the servers that they name; shows progress on standard error."""
    by_server = {server: tools.of_server(server) for server in tools.places}
    with progress("storing tools") as bar:
        task = bar.add_task("", total=None)
        return store.replace_servers(
            tenant, by_server, lambda done, total: bar.update(task, completed=done, total=total)
        )


def _show(found: Sequence[Tool], tenant: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from orchestrator.cli.show import console

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("tool", "kind", "description"):
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    for tool in found:
        table.add_row(one_line(tool.key), str(tool.kind), one_line(tool.description, 80))
    out = console()
    out.print(table)
    servers = counted(len({tool.server for tool in found}), "server")
    out.print(Text(f"{counted(len(found), 'tool')} of {servers}, {tenant}", style="dim"))
