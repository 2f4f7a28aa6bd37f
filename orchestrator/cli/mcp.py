"""`toolroute call` and `servers`: the servers of an mcpServers file from the command line."""

import asyncio
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.catalogue.reading import read_json
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
from orchestrator.cli.plain import echo_text, note
from orchestrator.errors import InvalidArguments, InvalidInput, Unauthorised
from orchestrator.mcp.faults import without_name

if TYPE_CHECKING:
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.results import Answered
    from orchestrator.records.tool import Tool


@click.command("call")
@click.argument("tool", metavar="SERVER:NAME")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="The arguments, a JSON object; - reads stdin.")
@config_option
@store_option
@tenant_options
@click.option("--timeout", type=click.FloatRange(min=0.1), help="Seconds for connecting and calling together.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=8_000, show_default=True, help="Cut the result here.")
@output_option
@command_body
async def call(
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
    """Call one tool. Only its server is connected; the result goes to standard output.

    -o json has every block of the answer, too, images and files in base64.

    Where the store knows the tool, the arguments are checked before its server is connected.
    """
    from orchestrator.mcp.calls import Call
    from orchestrator.mcp.connections import Connections

    given, servers = _read_arguments(arguments), read_config(config)
    entry = servers.servers.get(tool.partition(":")[0])
    tenant = tenant_from(organization, user)
    chosen = await asyncio.to_thread(open_store(store).tool, tenant, tool, entry.identity) if entry else None
    if chosen is not None:
        _check(chosen, given)
        tell_flagged([chosen])
    async with Connections(servers) as connections:
        asked = Call.of(chosen or tool, given)
        asked.max_tokens = max_tokens
        if timeout is not None:
            asked.deadline = asyncio.get_running_loop().time() + timeout
        answered = await connections.exchange(asked)
    return _print_answer(answered, output)


def _read_arguments(text: str) -> dict[str, Any]:
    try:
        value = read_json(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        such = '{"path": "a.txt"}'
        raise InvalidArguments(f"--args is not JSON ({error}); give an object such as '{such}'") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"--args is {type(value).__name__}, not an object")
    return value


def _check(tool: "Tool", given: dict[str, Any]) -> None:
    from orchestrator.catalogue.export import check_arguments

    try:
        check_arguments(tool, given)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}. If the server has changed since: toolroute tools sync") from None


def _print_answer(answered: "Answered", output: str) -> int:
    """Prints it; the exit code."""
    from orchestrator.mcp.results import as_mcp_result, as_tool_result

    result, key = as_tool_result(answered), answered.key
    for warning in result.warnings:
        note(f"toolroute: {warning}")
    if output == "json":
        blocks = as_mcp_result(replace(answered, warnings=())).content  # They stand in the result.
        content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks]
        echo_json({**asdict(result), "content": content})
    elif result.is_error:
        note(f"toolroute: {result.text if result.text.startswith(key) else f'{key} failed: {result.text}'}")
    else:
        echo_text(result.text)
    return 1 if result.is_error else 0


@click.command("servers")
@config_option
@store_option
@tenant_options
@click.option("--check", is_flag=True, help="Connect each server now, and show how that went.")
@click.option("--of", "url", metavar="URL", help="Ask a running `serve` instead, with the token in TOOLROUTE_TOKEN.")
@output_option
@command_body
async def servers(
    config: Path | None,
    store: str | None,
    organization: str | None,
    user: str | None,
    check: bool,
    url: str | None,
    output: str,
) -> int:
    """Show how the configured servers stand.

    State, tools, idle time and last error.

    Without --check and --of nothing is connected: what the file and the store say is shown.
    With --check it exits 1 when no server could be connected, 4 when some could not.
    """
    from orchestrator.mcp.sync import exit_code

    if url and (config or store or organization or user or check):
        raise InvalidInput("--of asks a running serve, whose token names the tenant: leave out the other options")
    states = await (_ask(url) if url else _look(config, store, tenant_from(organization, user), check))
    if output == "json":
        echo_json(states)
    else:
        _print_states(states)
    return exit_code([state["state"] == "failed" for state in states]) if check else 0


async def _ask(url: str) -> list[dict[str, Any]]:
    """The states that a running `serve` tells the token's tenant."""
    from mcp import MCPError

    from orchestrator.mcp.connections import Connections
    from orchestrator.server.protocol import SERVERS

    serve = {"url": url, "headers": {"Authorization": "Bearer ${TOOLROUTE_TOKEN:-none}"}}
    try:
        async with (
            Connections({"mcpServers": {"serve": serve}}) as connections,
            connections.using("serve") as connection,
        ):
            told = (await connection.client.read_resource(SERVERS)).contents[0]
    except Unauthorised:
        raise Unauthorised("serve refuses the token: set TOOLROUTE_TOKEN to one that it knows") from None
    except MCPError:
        raise InvalidInput(
            f"--of: the server there has no {SERVERS}: give the URL of a running toolroute serve"
        ) from None
    states: list[dict[str, Any]] = json.loads(getattr(told, "text", "[]"))
    return states


async def _look(config: Path | None, store: str | None, tenant: str, check: bool) -> list[dict[str, Any]]:
    """The states that the file and the store tell, or connecting each server now."""
    from orchestrator.mcp.connections import Connections

    async with Connections(read_config(config)) as connections:
        connections.know(await asyncio.to_thread(open_store(store).servers, tenant))
        if check:
            await _connect_all(connections)
        return [state.to_json() for state in connections.states()]


async def _connect_all(connections: "Connections") -> None:
    async def connect(name: str) -> None:
        note(f"connecting {name} ...")
        await connections.tools(name)

    await asyncio.gather(*map(connect, connections.config.servers), return_exceptions=True)


def _print_states(states: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from orchestrator.cli.show import console

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("server", "state", "transport", "tools", "idle", "last error"):
        table.add_column(title, justify="right" if title in {"tools", "idle"} else "left", overflow="fold")
    for state in states:
        idle = "" if state["idle_s"] is None else f"{state['idle_s']:.0f} s"
        tools = "" if state["tools"] is None else str(state["tools"])
        error = without_name(state["server"], state["last_error"])
        table.add_row(state["server"], state["state"], state["transport"], tools, idle, error)
    console().print(table)
