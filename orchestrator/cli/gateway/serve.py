"""`toolroute serve`: the servers of an mcpServers file as one."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.long_running import collect_in_small_steps
from orchestrator.cli.shared.output import log, note
from orchestrator.cli.shared.parameter_types import FILE
from orchestrator.cli.shared.typed_options import refuse
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.errors import InvalidInput
from orchestrator.mcp.calls import MAX_RESULT_TOKENS
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.options import Options
from orchestrator.records.call import Approve
from orchestrator.runtime.router import Router
from orchestrator.telemetry import flush
from orchestrator.trust.audit import Audit

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from orchestrator.server.gateway import Gateway
    from orchestrator.server.http.bearer_tokens import BearerTokens

_OF_HTTP = ("host", "port", "tokens", "allow_host", "allow_origin")
"""The options that a server on standard input and output would ignore."""
_TOKENS = 'A JSON file of bearer tokens: {"org:42": "${ACME_TOKEN}"}. [default: one new token, shown on stderr]'


@click.command()
@taking("config", "sources")
@click.option(
    "--profile",
    metavar="NAME",
    default="",
    show_default=False,
    help="Show only the tools of this profile of the mcpServers file.",
)
@click.option("--transport", type=click.Choice(["stdio", "http"]), default="stdio")
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on (http).",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="The port (http). 0: any free port.",
)
@click.option("--tokens", type=FILE, help=_TOKENS)
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="Another host name that clients may use (http). Repeatable.",
)
@click.option(
    "--allow-origin",
    metavar="ORIGIN",
    multiple=True,
    help="An origin whose web pages may call (http). Repeatable.",
)
@click.option(
    "--max-result-tokens",
    metavar="N",
    type=click.IntRange(100),
    default=MAX_RESULT_TOKENS,
    show_default=True,
    help="Cut tool results after N tokens. `read_result` reads the rest.",
)
@taking("approve", "calibration", "warm")
async def serve(
    workspace: Workspace,
    options: Options,
    profile: str,
    transport: str,
    host: str,
    port: int,
    tokens: Path | None,
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    max_result_tokens: int,
    approve: Approve,
    warm: int,
) -> int:
    """Serve all servers as one MCP server.

    It has two tools, `search` and `call_tool`. Before it calls a tool that needs approval, it asks the client's user.
    If the client cannot ask, the call is refused, and the user can allow the tool with `toolroute approvals allow`.
    """
    from orchestrator.mcp.extra import require_mcp

    require_mcp()
    from orchestrator.server.protocol import make_server
    from orchestrator.server.stdio import serve_stdio

    if transport == "stdio":
        # A token file that is not used would give a false sense of safety.
        refuse(_OF_HTTP, "works with HTTP only: add --transport http, or leave it out")
    log(logging.WARNING)
    gateway = _make_gateway(workspace, options, profile, warm, max_result_tokens)
    interrupted = False
    # The tenant is that of each client, and the client may run in another folder.
    file = workspace.required_file.absolute()
    repeated = replace(workspace, given_tenant="", config=file).repeated_options
    server = partial(make_server, gateway, approve=approve, options=repeated, profile=profile)
    collect_in_small_steps()
    async with gateway:
        if transport == "stdio":
            interrupted = await serve_stdio(gateway, server(workspace.tenant))
        else:
            clients, token = _tokens(tokens, workspace, gateway.config)
            app = _app(gateway, server, clients, allow_host, allow_origin, profile)
            started = partial(_note_started, tenant=workspace.tenant, token=token)
            await _serve_http(app, gateway, host, port, started)
    if interrupted:
        await _exit_at_once()
    return 0


def _make_gateway(
    workspace: Workspace, options: Options, profile: str, warm: int, max_result_tokens: int
) -> "Gateway":
    from orchestrator.mcp.config.watch import WatchedConfig
    from orchestrator.server.gateway import Gateway

    watched = WatchedConfig(workspace.required_file, profile)
    audit = Audit.named(options.audit)
    if audit:
        audit.check()
    return Gateway(
        watched.config,
        Router(stores=workspace.stores, options=options),
        warm=warm,
        changed=watched.changed,
        note=note,
        max_result_tokens=max_result_tokens,
        audit=audit,
    )


async def _exit_at_once() -> None:
    """End the process. Python would wait for the thread that reads standard input, which only the client can end."""
    await asyncio.get_running_loop().shutdown_default_executor()
    flush()
    os._exit(0)


def _tokens(
    file: Path | None, workspace: Workspace, config: McpConfig
) -> "tuple[BearerTokens, str]":
    """Return the tokens that clients may use, and the new token, or "" if a file names the tokens."""
    from orchestrator.server.http.bearer_tokens import BearerTokens, new_token

    if file is None:
        token = new_token()
        return BearerTokens({token: workspace.tenant}), token
    clients = BearerTokens.read(file)
    if unknown := sorted(clients.profiles - config.profiles.keys()):
        raise InvalidInput(
            f"{file}: no profile {unknown[0]!r} in {workspace.required_file}: add it there"
        )
    return clients, ""


def _app(
    gateway: "Gateway",
    server: "Callable[..., Server[Any]]",
    clients: "BearerTokens",
    hosts: Sequence[str],
    origins: Sequence[str],
    profile: str,
) -> Any:
    from orchestrator.server.http.app import make_app
    from orchestrator.server.http.connection_limits import most_pending

    # Of the sockets for requests under way a tenant's calls take half at most, its sessions' streams a quarter.
    most = most_pending()
    return make_app(
        server(most_calls=most),
        clients,
        hosts,
        origins,
        most_sessions=most // 2,
        profiles=lambda: gateway.config.profiles,
        only=profile,
        ready=gateway.ready,
    )


async def _serve_http(
    app: Any, gateway: "Gateway", host: str, port: int, started: Callable[[str], None]
) -> None:
    from orchestrator.server.http.app import serve_http

    async def stop(after_s: float) -> None:
        await app.state.end_sessions()
        await gateway.stop(after_s)

    await serve_http(app, host, port, started, stop)


def _note_started(at: str, tenant: str, token: str) -> None:
    note(f"serving {at}")
    if token:
        note(f"for {tenant}: Authorization: Bearer {token}")
