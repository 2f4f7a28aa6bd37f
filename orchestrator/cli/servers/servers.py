"""`toolroute servers`: the state of the servers in an mcpServers file; servers of a registry, found and added."""

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.servers.registry import add, search
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.connecting import connecting
from orchestrator.cli.shared.output import note, present, print_table, warn
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.common.keys import split_key
from orchestrator.errors import ToolrouteError
from orchestrator.experience.calls import Calls, uses_by
from orchestrator.records.outcome import Use
from orchestrator.store.store import Store

if TYPE_CHECKING:
    from orchestrator.mcp.connections import Connections


@click.group(invoke_without_command=True)
@taking("config", "tenant")
@click.option("--check", is_flag=True, help="Connect each server now and show the result.")
@taking("output")
def servers(workspace: Workspace, check: bool, output: str) -> int | Coroutine[Any, Any, int]:
    """Show the state of each server, or find and add one.

    For each server the table has the state, the number of tools, the calls by past tasks, the idle time and the last
    error. Without --check no server is connected, and the data comes from the file and the store.

    Exit codes of --check: 0 all servers were connected, 1 none was connected, 4 some failed.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return 0
    return _show_states(workspace, output, check=check)


servers.add_command(search)
servers.add_command(add)


async def _show_states(workspace: Workspace, output: str, *, check: bool) -> int:
    from orchestrator.mcp.sync import exit_code

    states = await _states(workspace, check=check)
    present(output, states, lambda: _print_states(states))
    return exit_code([state["state"] == "failed" for state in states]) if check else 0


async def _states(workspace: Workspace, *, check: bool) -> list[dict[str, Any]]:
    """Return the states by the file and the store, or by connecting each server now."""
    from orchestrator.mcp.connections import Connections

    async with Connections(workspace.required_servers, tenant=workspace.tenant) as connections:
        store = workspace.open_store()
        counts = await asyncio.to_thread(store.servers, workspace.tenant)
        connections.restore(counts, await asyncio.to_thread(store.failures, workspace.tenant))
        uses = await _uses(store, workspace.tenant)
        if check:
            await _connect_all(connections)
        return [
            state.to_json() | asdict(Calls.of(uses.get(state.server, ())))
            for state in connections.states()
        ]


async def _connect_all(connections: "Connections") -> None:
    names = list(connections.config.servers)
    note(f"connecting {', '.join(names)} ...")
    async with connecting(connections, "connecting servers", len(names)) as count:

        async def connect(name: str) -> None:
            # The state has the error, and the other servers are still shown.
            await asyncio.gather(connections.tools(name), return_exceptions=True)
            count(None)

        await asyncio.gather(*map(connect, names))


async def _uses(store: Store, tenant: str) -> dict[str, list[Use]]:
    """Return the calls by past tasks for each server. Warns if the past tasks cannot be read."""
    try:
        stored = await asyncio.to_thread(store.outcomes.read, tenant)
    except ToolrouteError as error:
        warn(f"past calls cannot be read: {error}")
        return {}
    return uses_by(lambda use: split_key(use.tool)[0], stored.outcomes)


def _print_states(states: list[dict[str, Any]]) -> None:
    columns = ("server", "state", "transport", "tools", "calls", "idle", "last error")
    print_table(columns, map(_row, states), numbers=("tools", "idle"))


def _row(state: dict[str, Any]) -> tuple[str, ...]:
    from orchestrator.mcp.faults import without_name

    failures = f", {state['failures']} failed" if state["failures"] else ""
    duration = "" if state["ms"] is None else f", {state['ms']:.0f} ms"
    return (
        state["server"],
        state["state"],
        state["transport"],
        "" if state["tools"] is None else str(state["tools"]),
        f"{state['calls']}{failures}{duration}" if state["calls"] else "",
        "" if state["idle_s"] is None else f"{state['idle_s']:.0f} s",
        without_name(state["server"], state["last_error"]),
    )
