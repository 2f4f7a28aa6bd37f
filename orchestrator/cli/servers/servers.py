"""`toolroute servers`: the state of the servers in an mcpServers file."""

import asyncio
from dataclasses import asdict
from typing import Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import console, note, present, table, warn
from orchestrator.cli.shared.workspace import Place, connecting
from orchestrator.common.keys import split_key
from orchestrator.errors import ToolrouteError
from orchestrator.experience.calls import Calls, uses_by
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.records.outcome import Use
from orchestrator.store.store import Store


@click.command()
@taking("config", "tenant")
@click.option("--check", is_flag=True, help="Connect each server now and show the result.")
@taking("output")
async def servers(place: Place, check: bool, output: str) -> int:
    """Show the state of each server.

    For each server the table has the state, the number of tools, the calls by past tasks, the idle time and the last
    error. Without --check no server is connected, and the data comes from the file and the store.

    Exit codes of --check: 0 all servers were connected, 1 none was connected, 4 some failed.
    """
    from orchestrator.mcp.sync import exit_code

    states = await _look(place, check)
    present(output, states, lambda: _show(states))
    return exit_code([state["state"] == "failed" for state in states]) if check else 0


async def _look(place: Place, check: bool) -> list[dict[str, Any]]:
    """Return the states by the file and the store, or by connecting each server now."""
    from orchestrator.mcp.connections import Connections

    async with Connections(McpConfig.read(place.config_file()), tenant=place.tenant) as connections:
        stored = place.open_store()
        counts = await asyncio.to_thread(stored.servers, place.tenant)
        connections.restore(counts, await asyncio.to_thread(stored.failures, place.tenant))
        used = await _used(stored, place.tenant)
        if check:
            note(f"connecting {', '.join(connections.config.servers)} ...")
            names = connections.config.servers
            async with connecting(connections, "connecting servers", len(names)) as done:

                async def connect(name: str) -> None:
                    await asyncio.gather(connections.tools(name), return_exceptions=True)
                    done(None)

                await asyncio.gather(*map(connect, names))
        return [state.to_json() | asdict(Calls.of(used.get(state.server, ()))) for state in connections.states()]


async def _used(store: Store, tenant: str) -> dict[str, list[Use]]:
    """Return the number of calls by past tasks for each server. Warns if the past tasks cannot be read."""
    try:
        kept = await asyncio.to_thread(store.outcomes.read, tenant)
    except ToolrouteError as error:
        warn([f"past calls cannot be read: {error}"])
        return {}
    return uses_by(lambda use: split_key(use.tool)[0], kept.outcomes)


def _show(states: list[dict[str, Any]]) -> None:
    from orchestrator.mcp.faults import without_name

    rows = table("server", "state", "transport", "tools", "calls", "idle", "last error", right=("tools", "idle"))
    for state in states:
        idle = "" if state["idle_s"] is None else f"{state['idle_s']:.0f} s"
        number = "" if state["tools"] is None else str(state["tools"])
        error = without_name(state["server"], state["last_error"])
        failed = f", {state['failures']} failed" if state["failures"] else ""
        took = "" if state["ms"] is None else f", {state['ms']:.0f} ms"
        calls = f"{state['calls']}{failed}{took}" if state["calls"] else ""
        rows.add_row(state["server"], state["state"], state["transport"], number, calls, idle, error)
    console().print(rows)
