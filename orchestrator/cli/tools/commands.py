"""`toolroute tools`: import a file, sync MCP servers, and list, show, accept and remove tools."""

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.cli.shared.command_options import FILE, TEXT, TOOLS, taking
from orchestrator.cli.shared.output import (
    console,
    counted,
    echo_json,
    meant,
    note,
    present,
    table,
    warn_of_flagged,
)
from orchestrator.cli.shared.workspace import Place, connecting, store_tools
from orchestrator.cli.tools.graph import graph
from orchestrator.cli.trust.audit import audited
from orchestrator.cli.trust.consent import YES_OPTION, confirm
from orchestrator.common.lines import as_json, inline, one_line
from orchestrator.errors import InvalidCatalogue, InvalidConfig, InvalidInput
from orchestrator.index.flags import VOUCHED
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from orchestrator.store.store import Store
    from orchestrator.trust.pins import Waiting

_SECONDS = click.FloatRange(min=0.1)
_ALL_SHOWN = "`toolroute tools list` shows all tools"


@click.group()
def tools() -> None:
    """Import, sync, list, show, accept and remove tools."""


tools.add_command(graph)


@tools.command("import")
@click.argument("file", type=TOOLS)
@taking("config", "tenant")
@click.option(
    "--server", metavar="NAME", type=TEXT, help="The server of tools without a server. [default: the file's name]"
)
@taking("output")
def import_tools(file: Path, place: Place, server: str | None, output: str) -> None:
    """Store the tools of FILE (a tools.jsonl, .json or folder).

    The tools of the servers in FILE are replaced. Other servers are unchanged. `-` reads standard input. `--tenant
    shared` stores the tools for every tenant.
    """
    tenant = place.owner
    try:
        found = Catalogue.read(file, server)
    except InvalidCatalogue:
        with suppress(InvalidConfig):
            if file.is_file() and McpConfig.read(file).servers:
                sync = f"toolroute tools sync {file}"
                raise InvalidInput(
                    f"{file} names MCP servers, not tools: list and store their tools with `{sync}`"
                ) from None
        raise
    if server is not None and found.tools and server not in found.places:
        raise InvalidInput(f"--server {server!r}: every tool of {file} names its server; leave out --server")
    changes = store_tools(place.open_store(), tenant, found)
    for name in changes:
        audited("configuration", tenant, server=name, result="imported")
    totals = {
        name: sum(len(getattr(change, name)) for change in changes.values()) for name in ("new", "changed", "gone")
    }
    totals["same"] = sum(change.same for change in changes.values())
    warn_of_flagged(found.tools)
    if not changes:
        note(f"toolroute: {file} has no tools: nothing was stored, and nothing was removed")
    counts = ", ".join([counted(len(changes), "server"), *(f"{number:,} {name}" for name, number in totals.items())])
    shown = {"tenant": tenant, "servers": len(changes), **totals}
    present(output, shown, lambda: click.echo(inline(f"{tenant}: {counts}")))


@tools.command("remove")
@click.argument("servers", nargs=-1, required=True, type=TEXT)
@taking("config", "tenant", "output")
def remove_tools(servers: tuple[str, ...], place: Place, output: str) -> None:
    """Remove all tools of SERVERS.

    `tools sync` stores the tools of configured servers again. If there is an mcpServers file, servers with the same
    name from other files are kept.
    """
    tenant, store = place.owner, place.known_store()
    known = store.servers(tenant, own=True)
    if unknown := [server for server in servers if server not in known]:
        hint = meant(unknown[0], known, _ALL_SHOWN)
        raise InvalidInput(f"{tenant} has stored no server {unknown[0]!r}; {hint}; nothing was removed")
    gone = {server: len(store.remove_server(tenant, server).gone) for server in dict.fromkeys(servers)}
    for server in gone:
        audited("configuration", tenant, server=server, result="removed")
    counts = f"{counted(len(gone), 'server')}, {counted(sum(gone.values()), 'tool')} removed"
    present(output, {"tenant": tenant, "removed": gone}, lambda: click.echo(inline(f"{tenant}: {counts}")))


@tools.command("list")
@taking("catalogue", "config", "sources")
@click.option("--server", metavar="NAME", help="Only tools of this server.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "jsonl"]), default="table")
def list_tools(place: Place, server: str | None, output: str) -> None:
    """List the tools that a tenant may use.

    `-o jsonl` writes a tools.jsonl. If there is an mcpServers file, the list has the tools of its servers and imported
    tools.
    """
    known = place.catalogue_or_store()
    if server is not None and server not in known.places:
        hint = meant(server, known.places, "leave out --server to list all tools")
        raise InvalidInput(f"{place.tenant} has no tools of the server {server!r}; {hint}")
    found = known.tools if server is None else known.of_server(server)
    listed = [tool_to_json(tool) for tool in found]
    if output == "json":
        echo_json({"tenant": place.tenant, "fingerprint": known.fingerprint, "tools": listed})
    elif output == "jsonl":
        for line in listed:
            echo_json(line, indent=None)
    else:
        _list(found)
        servers = counted(len({tool.server for tool in found}), "server")
        note(f"{counted(len(found), 'tool')} of {servers}, {place.tenant}{_of_others(place, known)}")
    warn_of_flagged(found)


def _of_others(place: Place, known: Catalogue) -> str:
    """Name the stored servers that come from other files."""
    file = place.file
    if place.catalogue or file is None:
        return ""
    others = {one.partition(":")[0] for one in place.open_store().listings(place.tenant)} - known.places.keys()
    return f"; not in {file}, and not shown: {', '.join(sorted(others))}" if others else ""


def _list(found: Iterable[Tool]) -> None:
    """Print a line for each tool: whole names, and on a terminal as much of the description as fits."""
    rows = [(one_line(tool.key), str(tool.kind), one_line(tool.description or tool.title)) for tool in found]
    if not sys.stdout.isatty():
        click.echo("".join("\t".join(row) + "\n" for row in rows), nl=False)
        return
    widest, width = max((len(key) for key, *_ in rows), default=0), console().width
    for key, kind, description in rows:
        line = f"{key:{widest}}  {kind:11}"
        click.echo(f"{line}  {one_line(description, width - len(line) - 2)}".rstrip())


@tools.command("show")
@click.argument("key", metavar="SERVER:NAME")
@taking("catalogue", "config", "sources", "output")
def show_tool(key: str, place: Place, output: str) -> None:
    """Show a tool's definition and its approval."""
    known = place.catalogue_or_store()
    if key not in known.positions:
        raise InvalidInput(f"{place.tenant} has no tool {key!r}; {meant(key, known.positions, _ALL_SHOWN)}")
    tool = known[key]
    present(output, tool_to_json(tool), lambda: _show(tool))
    warn_of_flagged([tool])


def _show(tool: Tool) -> None:
    from orchestrator.index.intent import reads_only

    shown = {
        "tool": tool.key,
        "title": tool.title,
        "kind": str(tool.kind),
        "description": tool.description,
        "keywords": ", ".join(tool.keywords),
        "labels": ", ".join(f"{name}={value}" for name, value in tool.labels.items()),
        "approval": "not needed, it only reads" if reads_only(tool) else "needed, unless --approve says otherwise",
        "definition": tool.hash,
    }
    for name, value in shown.items():
        if value:
            click.echo(f"{name:12} {one_line(value)}")
    schema = parameters(tool)
    for name, value in schema["properties"].items():
        parameter = value if isinstance(value, dict) else {}
        kind, required = parameter.get("type", "any"), ", required" if name in (schema.get("required") or ()) else ""
        kind = kind if isinstance(kind, str) else json.dumps(kind)
        click.echo("  " + one_line(f"{name} ({kind}{required}) {parameter.get('description', '')}"))


@tools.command("accept")
@click.argument("keys", metavar="[SERVER[:NAME]]...", nargs=-1, type=TEXT)
@click.option("--withdraw", is_flag=True, help="Withdraw the acceptance of these tools.")
@YES_OPTION
@taking("config", "tenant", "output")
def accept_tools(keys: tuple[str, ...], place: Place, withdraw: bool, digest: str | None, output: str) -> None:
    """Accept changed definitions and flagged tools.

    The definitions are shown, and you confirm them at a terminal, or with --yes and their digest. With a server's name,
    all of its changed definitions are accepted. The acceptance is valid for this tenant until the definition changes.
    Without a key, the accepted tools are listed.
    """
    from orchestrator.trust import pins

    tenant, store = place.owner, place.known_store()
    stored = _stored_tools(store, tenant)
    chosen = _chosen_tools(store, tenant, stored, keys)
    if withdraw:
        pins.withdraw(store, tenant, chosen)
    elif chosen:
        _show_to_accept(store, tenant, chosen)
        confirm(f"Accept for {tenant}?", pins.trust_digest(chosen.values()), digest)
        pins.accept(store, tenant, chosen)
    for key, tool in sorted(chosen.items()):
        audited("acceptance", tenant, server=tool.server, tool=key, result="withdrawn" if withdraw else "ok")
    accepted = sorted(key for key, tool in _stored_tools(store, tenant).items() if tool.labels.get(VOUCHED) == "yes")
    lines = "".join(f"{key}\n" for key in map(one_line, accepted))
    present(output, {"tenant": tenant, "accepted": accepted}, lambda: click.echo(lines, nl=False))
    note(f"{counted(len(accepted), 'tool')} accepted, {tenant}")


def _stored_tools(store: "Store", tenant: str) -> dict[str, Tool]:
    servers = store.servers(tenant, own=True)
    return {tool.key: tool for server in servers for tool in store.of_server(tenant, server)}


def _chosen_tools(store: "Store", tenant: str, stored: Mapping[str, Tool], keys: Sequence[str]) -> dict[str, Tool]:
    """Return the tools with these keys, and the waiting tools of the servers with these names."""
    from orchestrator.trust.pins import waiting

    servers = {tool.server for tool in stored.values()}.difference(stored)
    unknown = [key for key in keys if key not in stored and key not in servers]
    if unknown:
        raise InvalidInput(f"{tenant} has stored no tool {unknown[0]!r}; {meant(unknown[0], stored, _ALL_SHOWN)}")
    chosen = {key: stored[key] for key in keys if key in stored}
    if servers.intersection(keys):
        chosen |= {change.tool.key: change.tool for change in waiting(store, tenant) if change.tool.server in keys}
    return chosen


def _show_to_accept(store: "Store", tenant: str, chosen: Mapping[str, Tool]) -> None:
    """Show, on standard error, what the user is about to accept."""
    from orchestrator.index.flags import suspicions
    from orchestrator.trust.pins import waiting

    changes = {change.tool.key: change for change in waiting(store, tenant)}
    for key, tool in chosen.items():
        change = changes.get(key)
        if change is not None:
            _show_change(change, err=True)
            continue
        click.echo(one_line(f"{key}: {'; '.join(suspicions(tool)) or 'not flagged'}"), err=True)
        click.echo(f"    {one_line(as_json(tool.description)[1:-1])}", err=True)


@tools.command("changes")
@taking("config", "tenant", "output")
def show_changes(place: Place, output: str) -> None:
    """Show the changed definitions that wait for you.

    A tool with a waiting definition is not recommended, and each call needs approval until you accept the definition.
    """
    from orchestrator.trust.pins import waiting

    changes = waiting(place.known_store(), place.owner)
    rows = [
        {
            "tool": change.tool.key,
            "why": change.why,
            "differences": [difference._asdict() for difference in change.differences],
        }
        for change in changes
    ]

    def show() -> None:
        for change in changes:
            _show_change(change)

    present(output, {"tenant": place.owner, "changes": rows}, show)
    hint = ": accept with `toolroute tools accept`" if changes else ""
    note(f"{counted(len(changes), 'changed tool')} waiting{hint}")


def _show_change(change: "Waiting", *, err: bool = False) -> None:
    click.echo(one_line(f"{change.tool.key}: {change.why}"), err=err)
    for part, before, now, risk in change.differences:
        click.echo(f"  {one_line(part)}{' (the reason for the wait)' if risk else ''}", err=err)
        for sign, text in (("-", before), ("+", now)):
            if text:
                click.echo(f"    {sign} {one_line(as_json(text)[1:-1])}", err=err)


@tools.command("sync")
@click.argument("file", type=FILE, required=False)
@taking("config", "tenant")
@click.option("--server", "only", metavar="NAME", multiple=True, help="Only this server. Repeatable.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=_SECONDS,
    default=30.0,
    help="Time limit for each server, not counting its installation.",
)
@click.option("--prune", is_flag=True, help="Remove stored servers that are no longer in any file.")
@taking("output")
async def sync_tools(
    file: Path | None,
    place: Place,
    only: tuple[str, ...],
    timeout: float,  # noqa: ASYNC109
    prune: bool,
    output: str,
) -> int:
    """List the servers of an mcpServers FILE and store their tools.

    Stored servers that are no longer in any file are reported. --prune removes them.

    Exit codes: 0 all servers were stored, 1 none was stored, 4 some failed.
    """
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.server_requests import Host
    from orchestrator.mcp.sync import keep_offer, left_over, sync

    if file and place.config:
        raise InvalidInput(f"{file} and --config {place.config}: give one file that names all servers")
    place = replace(place, config=file or place.config_file())
    servers = McpConfig.read(place.config_file())
    if unknown := [name for name in only if name not in servers.servers]:
        raise InvalidConfig(servers.lacks(unknown[0]))
    if not servers.servers:
        raise InvalidConfig(
            f"no server in {servers.source}{' is switched on: switch on an entry' if servers.off else ': add an entry'}"
        )
    tenant, store = place.tenant, place.open_store()
    host = Host(
        on_offer=keep_offer(store, tenant, lambda server: servers.entries[server])
    )  # Some tools exist only for a client to be asked.
    note(f"listing {', '.join(only or servers.servers)} ...")
    async with (
        Connections(servers, tenant=tenant, connect_timeout_s=timeout, host=host) as connections,
        connecting(connections, "listing servers", len(only or servers.servers)) as noted,
    ):
        report = await sync(connections, store, tenant, noted, only or None)
    for row in report.servers:
        audited("configuration", tenant, server=row.server, result="failed" if row.error else "synced")
    gone = await asyncio.to_thread(left_over, store, tenant, servers)
    for listing in gone if prune else ():
        await asyncio.to_thread(store.remove_server, tenant, listing)
    if gone:
        what = f"removed, in no file any more: {named(gone)}"
        note(what if prune else f"stored, but in no file any more: {named(gone)}; remove them with --prune")
    stored, synced = (await asyncio.to_thread(store.load, tenant)).tools, {row.server for row in report.servers}
    warn_of_flagged([tool for tool in stored if tool.server in synced])
    shown = report.to_json()
    shown["removed" if prune else "left_over"] = [one.partition(":")[0] for one in gone]
    present(output, shown, lambda: _show_sync(shown["servers"]))
    return report.exit_code


def named(listings: Mapping[str, int]) -> str:
    """Name listings with their number of tools."""
    return ", ".join(f"{one.partition(':')[0]} ({counted(number, 'tool')})" for one, number in listings.items())


def _show_sync(servers: list[dict[str, Any]]) -> None:
    from orchestrator.mcp.faults import without_name

    rows = table("server", "tools", "new", "changed", "gone", "outcome", right=("tools", "new", "changed", "gone"))
    for row in servers:
        if row["error"]:
            rows.add_row(
                row["server"], "", "", "", "", f"failed: {without_name(row['server'], row['error'])}", style="red"
            )
        else:
            counts = (str(len(row[key])) for key in ("new", "changed", "gone"))
            rows.add_row(row["server"], str(row["tools"]), *counts, "stored")
    console().print(rows)
    for row in servers:
        for kind in ("changed", "gone"):
            if not row["error"] and row[kind]:
                note(f"{row['server']}: {kind}: {', '.join(map(one_line, row[kind]))}")
