"""`toolroute call`, `servers` and `serve`: the servers of an mcpServers file from the command line."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.mcp_common import (
    command_body,
    config_option,
    note,
    output_option,
    read_config,
    store_option,
    tenant_named,
    tenant_options,
)
from orchestrator.errors import InvalidArguments

if TYPE_CHECKING:
    from orchestrator.connections import Connections
    from orchestrator.models import Tool
    from orchestrator.plans import ToolResult
    from orchestrator.states import ServerState


@click.command("call")
@click.argument("tool", metavar="SERVER:NAME")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="The arguments, a JSON object; - reads stdin.")
@config_option
@click.option("--store", help="Where to look the tool's known definition up, to be told if it has changed.")
@tenant_options
@click.option("--timeout", type=click.FloatRange(min=0.1), help="Seconds for connecting and calling together.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=8_000, show_default=True, help="Cut the result here.")
@output_option
@command_body
async def call_command(
    tool: str,
    arguments: str,
    config: Path | None,
    store: str | None,
    organization: str | None,
    user: str | None,
    timeout: float | None,  # noqa: ASYNC109
    max_tokens: int,
    output: str,
) -> int:
    """Call one tool. Only its server is connected; the result goes to standard output."""
    from orchestrator.connections import Connections

    given = _read_arguments(arguments)
    chosen = await _stored_tool(store, tenant_named(organization, user), tool) if store else None
    async with Connections(read_config(config)) as servers:
        result = await servers.call(chosen or tool, given, deadline_s=timeout, max_result_tokens=max_tokens)
    _print_result(result, output)
    return 1 if result.is_error else 0


def _read_arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(sys.stdin.read() if text == "-" else text)
    except json.JSONDecodeError as error:
        raise InvalidArguments(
            f'--args is not JSON ({error}); give an object such as \'{{"path": "a.txt"}}\''
        ) from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"--args is {type(value).__name__}, not an object")
    return value


async def _stored_tool(store: str, tenant: str, key: str) -> "Tool | None":
    """The definition that this tenant's store knows, or None."""
    import asyncio

    from orchestrator.embed import embedder_for
    from orchestrator.options import Options
    from orchestrator.store import Store

    options = Options.from_env()
    known = Store(store, embedder=lambda: embedder_for(options), timeout_s=options.store_timeout_s)
    stored = await asyncio.to_thread(known.load, tenant)
    return next((tool for tool in stored.tools if tool.key == key), None)


def _print_result(result: "ToolResult", output: str) -> None:
    for warning in result.warnings:
        note(f"toolroute: {warning}")
    if output == "json":
        click.echo(json.dumps(asdict(result), ensure_ascii=False))
    elif result.is_error:
        note(f"the tool failed: {result.text}")
    else:
        click.echo(result.text)


@click.command("servers")
@config_option
@store_option
@tenant_options
@click.option("--check", is_flag=True, help="Connect each server now, and show how that went.")
@output_option
@command_body
async def servers_command(
    config: Path | None, store: str | None, organization: str | None, user: str | None, check: bool, output: str
) -> int:
    """Show the configured servers: state, tools, idle time and last error."""
    from orchestrator.connections import Connections

    async with Connections(read_config(config)) as servers:
        servers.know(await _stored_counts(store, tenant_named(organization, user)))
        if check:
            await _connect_all(servers)
        states = servers.states()
    if output == "json":
        click.echo(json.dumps([state.to_json() for state in states], ensure_ascii=False))
    else:
        _print_states(states)
    return 0


async def _connect_all(servers: "Connections") -> None:
    import asyncio

    async def connect(name: str) -> None:
        note(f"connecting {name} ...")
        await servers.tools(name)

    await asyncio.gather(*map(connect, servers.config.servers), return_exceptions=True)


async def _stored_counts(store: str | None, tenant: str) -> dict[str, int]:
    """How many tools each server has in the store; none where there is no store yet."""
    import asyncio

    from orchestrator.embed import embedder_for
    from orchestrator.options import Options, default_store
    from orchestrator.store import Store

    location = store or default_store()
    options = Options.from_env()
    known = Store(location, embedder=lambda: embedder_for(options), timeout_s=options.store_timeout_s)

    def count() -> dict[str, int]:
        # A store that does not exist yet is not made by looking.
        return known.servers(tenant) if known.remote or Path(location).is_dir() else {}

    return await asyncio.to_thread(count)


def _print_states(states: "tuple[ServerState, ...]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("server", "state", "transport", "tools", "idle", "last error"):
        table.add_column(title, justify="right" if title in {"tools", "idle"} else "left", overflow="fold")
    for state in states:
        idle = "" if state.idle_s is None else f"{state.idle_s:.0f} s"
        tools = "" if state.tools is None else str(state.tools)
        table.add_row(state.server, str(state.state), state.transport, tools, idle, state.last_error)
    Console().print(table)
