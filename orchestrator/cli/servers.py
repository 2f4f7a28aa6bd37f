"""`toolroute servers`: how the servers of an mcpServers file stand."""

import asyncio
from typing import Any

import click

from orchestrator.cli.options import Place, taking
from orchestrator.cli.output import console, counting, note, present, table
from orchestrator.mcp.config import McpConfig


@click.command()
@taking("config", "tenant")
@click.option("--check", is_flag=True, help="Connect each server now, and show how that went.")
@taking("output")
async def servers(place: Place, check: bool, output: str) -> int:
    """Show server status.

    State, tools, idle time and last error, the last sync's included. Nothing is connected: what the file and the store
    hold is shown. With --check it exits 1 when no server could be connected, 4 when some could not.
    """
    from orchestrator.mcp.sync import exit_code

    states = await _look(place, check)
    present(output, states, lambda: _show(states))
    return exit_code([state["state"] == "failed" for state in states]) if check else 0


async def _look(place: Place, check: bool) -> list[dict[str, Any]]:
    """Return the states by the file and the store, or by connecting each server now."""
    from orchestrator.mcp.connections import Connections

    async with Connections(McpConfig.read(place.config_file())) as connections:
        stored = place.open_store()
        counts = await asyncio.to_thread(stored.servers, place.tenant)
        connections.know(counts, await asyncio.to_thread(stored.failures, place.tenant))
        if check:
            note(f"connecting {', '.join(connections.config.servers)} ...")
            names = connections.config.servers
            with counting("connecting servers", len(names)) as done:

                async def connect(name: str) -> None:
                    await asyncio.gather(connections.tools(name), return_exceptions=True)
                    done()

                await asyncio.gather(*map(connect, names))
        return [state.to_json() for state in connections.states()]


def _show(states: list[dict[str, Any]]) -> None:
    from orchestrator.mcp.faults import without_name

    rows = table("server", "state", "transport", "tools", "idle", "last error", right=("tools", "idle"))
    for state in states:
        idle = "" if state["idle_s"] is None else f"{state['idle_s']:.0f} s"
        number = "" if state["tools"] is None else str(state["tools"])
        error = without_name(state["server"], state["last_error"])
        rows.add_row(state["server"], state["state"], state["transport"], number, idle, error)
    console().print(rows)
