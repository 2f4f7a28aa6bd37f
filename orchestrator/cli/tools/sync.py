"""`toolroute tools sync`: the servers of an mcpServers file, listed, and their tools stored."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.connecting import connecting
from orchestrator.cli.shared.output import (
    counted,
    lines,
    note,
    present,
    print_table,
    warn_of_flagged,
)
from orchestrator.cli.shared.parameter_types import FILE
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited
from orchestrator.common.lines import inline, one_line
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.store.store import Store

_SECONDS = click.FloatRange(min=0.1)


@click.command("sync")
@click.argument("file", type=FILE, required=False)
@taking("config", "tenant")
@click.option(
    "--server", "only", metavar="NAME", multiple=True, help="Only this server. Repeatable."
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=_SECONDS,
    default=25.0,
    help="Time limit for each server, not counting its installation.",
)
@click.option("--prune", is_flag=True, help="Remove stored servers that are no longer in any file.")
@taking("output")
async def sync_tools(
    file: Path | None,
    workspace: Workspace,
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
    from orchestrator.mcp.sync import keep_offer, sync
    from orchestrator.runtime.index_cache import save_index

    if file and workspace.config:
        raise InvalidInput(
            f"{file} and --config {workspace.config}: give one file that names all servers"
        )
    workspace = replace(workspace, config=file or workspace.required_file)
    servers = workspace.required_servers
    _require_servers(servers, only)
    tenant = workspace.tenant
    store = workspace.open_store()
    names = only or tuple(servers.servers)
    # Some tools exist only for a client that can be asked.
    host = Host(on_offer=keep_offer(store, tenant, lambda server: servers.entries[server]))
    note(f"listing {', '.join(names)} ...")
    async with (
        Connections(servers, tenant=tenant, connect_timeout_s=timeout, host=host) as connections,
        connecting(connections, "listing servers", len(names)) as count,
    ):
        report = await sync(connections, store, tenant, count, only or None)
    for row in report.servers:
        audited(
            "configuration", tenant, server=row.server, result="failed" if row.error else "synced"
        )
    left_over_listings = await _remove_left_over(store, tenant, servers, prune=prune)
    stored = (await asyncio.to_thread(store.load, tenant)).tools
    # A later command opens the saved index, and does not build its own.
    await asyncio.to_thread(save_index, store, tenant)
    synced = {row.server for row in report.servers}
    warn_of_flagged([tool for tool in stored if tool.server in synced])
    summary = report.to_json()
    summary["removed" if prune else "left_over"] = [
        listing.partition(":")[0] for listing in left_over_listings
    ]
    present(output, summary, lambda: _print_report(summary["servers"]))
    return report.exit_code


def _require_servers(servers: McpConfig, only: Sequence[str]) -> None:
    """Raise InvalidConfig if a named server is not in the file, or if the file has none."""
    if unknown := [name for name in only if name not in servers.servers]:
        raise InvalidConfig(servers.lacks(unknown[0]))
    if not servers.servers:
        remedy = " is switched on: switch on an entry" if servers.off else ": add an entry"
        raise InvalidConfig(f"no server in {servers.source}{remedy}")


async def _remove_left_over(
    store: Store, tenant: str, servers: McpConfig, *, prune: bool
) -> Mapping[str, int]:
    """Report the stored servers that are in no file any more. With `prune`, remove them."""
    from orchestrator.mcp.sync import left_over

    listings = await asyncio.to_thread(left_over, store, tenant, servers)
    if listings and prune:
        for listing in listings:
            await asyncio.to_thread(store.remove_server, tenant, listing)
        note(f"removed, in no file any more: {listings_in_words(listings)}")
    elif listings:
        note(
            f"stored, but in no file any more: {listings_in_words(listings)}; remove them with --prune"
        )
    return listings


def listings_in_words(listings: Mapping[str, int]) -> str:
    """Name listings with their number of tools."""
    return ", ".join(
        f"{name.partition(':')[0]} ({counted(number, 'tool')})" for name, number in listings.items()
    )


def _print_report(servers: list[dict[str, Any]]) -> None:
    """Print a line for each server, and below them the reasons of failures: a column would be too narrow."""
    from orchestrator.mcp.faults import without_name
    from orchestrator.mcp.sync import NO_TOOLS

    rows = []
    reasons = []
    for row in servers:
        counts = [str(len(row[key])) for key in ("new", "changed", "gone")]
        if row["error"]:
            failed = lines("failed", style="red")
            rows.append((lines(row["server"], style="red"), "", "", "", "", failed))
            reasons.append(f"{row['server']}: {without_name(row['server'], row['error'])}")
            continue
        rows.append((row["server"], str(row["tools"]), *counts, "stored"))
        if not row["tools"]:
            reasons.append(f"{row['server']}: {NO_TOOLS}")
    columns = ("server", "tools", "new", "changed", "gone", "outcome")
    print_table(columns, rows, numbers=("tools", "new", "changed", "gone"))
    for reason in reasons:
        click.echo(inline(reason))
    for row in servers:
        for kind in ("changed", "gone"):
            if not row["error"] and row[kind]:
                note(f"{row['server']}: {kind}: {', '.join(map(one_line, row[kind]))}")
