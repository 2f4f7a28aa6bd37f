"""`toolroute tools sync`: the servers' tools into the store."""

import asyncio
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.common import (
    echo_json,
    open_store,
    output_option,
    store_option,
    tell_flagged,
    tenant_from,
    tenant_options,
)
from orchestrator.cli.mcp_common import command_body, config_option, read_config
from orchestrator.cli.plain import counted, note
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.faults import without_name


@click.command("sync")
@config_option
@store_option
@tenant_options
@click.option("--server", "only", multiple=True, help="Only this server; may be given several times.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Seconds a server.")
@click.option("--parallel", type=click.IntRange(min=1), default=4, show_default=True, help="Servers at a time.")
@click.option("--prune", is_flag=True, help="Remove the stored MCP servers that the file does not name (any more).")
@output_option
@command_body
async def sync_command(
    config: Path | None,
    store: str | None,
    organization: str | None,
    user: str | None,
    only: tuple[str, ...],
    timeout: float,  # noqa: ASYNC109
    parallel: int,
    prune: bool,
    output: str,
) -> int:
    """List the servers of an mcpServers file once and store their tools.

    Stored MCP servers that the file does not name are told, and stay unless --prune is given.
    Exits 0 when all were stored, 1 when none was, 4 when some failed.
    """
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import left_over, sync

    servers = read_config(config)
    unknown = [name for name in only if name not in servers.servers]
    if unknown:
        raise InvalidConfig(servers.lacks(unknown[0]))
    if not servers.servers:
        raise InvalidConfig(f"no server in {servers.source}{' is switched on' if servers.off else ': name one'}")

    tenant, target = tenant_from(organization, user), open_store(store)
    note(f"listing {', '.join(only or servers.servers)} ...")
    async with Connections(servers, connect_timeout_s=timeout, max_connecting=parallel) as connections:
        report = await sync(connections, target, tenant, lambda report: note(report.line), only or None)
    gone = await asyncio.to_thread(left_over, servers, target, tenant)
    for name in gone if prune else ():
        await asyncio.to_thread(target.remove_server, tenant, name)
    if gone:
        _tell_left_over(gone, servers.source, pruned=prune)
    stored = await asyncio.to_thread(target.load, tenant)
    tell_flagged([tool for tool in stored.tools if tool.server in {server.server for server in report.servers}])
    if output == "json":
        echo_json({**report.to_json(), "removed" if prune else "left_over": list(gone)})
    else:
        _print_table([server.to_json() for server in report.servers])
    return report.exit_code


def _tell_left_over(servers: dict[str, int], source: str, *, pruned: bool) -> None:
    named = ", ".join(f"{server} ({counted(tools, 'tool')})" for server, tools in servers.items())
    note(f"removed, not in {source}: {named}" if pruned else f"stored, but not in {source}: {named}; --prune removes")


def _print_table(servers: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from orchestrator.cli.show import console

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("server", "tools", "new", "changed", "gone", "outcome"):
        table.add_column(title, justify="left" if title in {"server", "outcome"} else "right", overflow="fold")
    for row in servers:
        if row["error"]:
            why = without_name(row["server"], row["error"])
            table.add_row(row["server"], *[""] * 4, f"failed: {why}", style="red")
            continue
        counts = (len(row[key]) for key in ("new", "changed", "gone"))
        table.add_row(row["server"], str(row["tools"]), *map(str, counts), "stored")
    console().print(table)
