"""`toolroute serve`: the servers of an mcpServers file as one."""

import asyncio
import os
from pathlib import Path

import click
from click.core import ParameterSource

from orchestrator.cli.common import calibration_option, router_store, store_option, tenant_from, tenant_options
from orchestrator.cli.mcp_common import command_body, config_file, config_option
from orchestrator.cli.paths import FILE
from orchestrator.cli.plain import note
from orchestrator.errors import InvalidInput


@click.command("serve")
@config_option
@store_option
@tenant_options
@click.option("--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on (http).")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any free port.")
@click.option(
    "--tokens",
    type=FILE,
    help='A JSON file of bearer tokens: {"org:42": "${ACME_TOKEN}"}.  [default: one new token, told on stderr]',
)
@click.option("--allow-host", "hosts", multiple=True, help="A further host name that clients may use (http).")
@click.option("--allow-origin", "origins", multiple=True, help="An origin whose pages may call (http).")
@calibration_option
@click.option("--warm", is_flag=True, help="Connect the recommended servers while the model thinks.")
@command_body
async def serve(
    config: Path | None,
    store: str | None,
    organization: str | None,
    user: str | None,
    transport: str,
    host: str,
    port: int,
    tokens: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    calibration: Path | None,
    warm: bool,
) -> int:
    """Serve all servers as one MCP server.

    It has `search` and `call_tool`.
    """
    import secrets

    from orchestrator.options import Options, default_store
    from orchestrator.routing.router import Router
    from orchestrator.server.followed import Followed
    from orchestrator.server.gateway import Gateway
    from orchestrator.server.http_door import LOOPBACK, Tokens
    from orchestrator.server.transports import make_app, serve_http, serve_stdio

    if transport == "stdio":
        _refuse_http_options()
    tenant = tenant_from(organization, user)
    options = Options.from_env(calibration=calibration and str(calibration))
    router = Router(store=store or default_store(), options=options)
    file, stored = Followed(config_file(config)), router_store(router)
    async with Gateway(file.config, stored, router, warm=warm, changed=file.changed, note=note) as gateway:
        if transport == "http":
            token = secrets.token_urlsafe()
            known = Tokens.read(tokens) if tokens else Tokens({token: tenant})
            app = make_app(gateway, known, (*LOOPBACK, *hosts), origins)

            def started(at: int) -> None:
                _tell_where(host, at, "" if tokens else f"for {tenant}: Authorization: Bearer {token}")

            await serve_http(app, host, port, started, gateway.stop)
            return 0
        told_to_end = await serve_stdio(gateway, tenant)
    if told_to_end:
        # Python would wait for the thread that reads standard input, which only the client can end.
        await asyncio.get_running_loop().shutdown_default_executor()
        os._exit(0)
    return 0


def _tell_where(host: str, port: int, token: str) -> None:
    """The address, and the line that tells the token where none was given."""
    from orchestrator.server.transports import PATH

    note(f"serving http://{f'[{host}]' if ':' in host else host}:{port}{PATH}")
    if token:
        note(token)


def _refuse_http_options() -> None:
    """A token file that nobody reads would seem to guard what is open."""
    context = click.get_current_context()
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in ("host", "port", "tokens", "hosts", "origins")
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise InvalidInput(f"{given[0]} is for HTTP: give --transport http, too, or leave it out")
