"""`toolroute serve`: the servers of an mcpServers file as one."""

import asyncio
import os
from pathlib import Path

import click
from click.core import ParameterSource

from orchestrator.cli.options import FILE, Place, awaited, calibration_option, place_options, settings
from orchestrator.cli.output import note
from orchestrator.errors import InvalidInput
from orchestrator.records.run import Approve

_HTTP = ("host", "port", "tokens", "hosts", "origins")


@click.command()
@place_options("config")
@click.option("--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on (http).")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any free port.")
@click.option(
    "--tokens",
    type=FILE,
    help='A JSON file of bearer tokens: {"org:42": "${ACME_TOKEN}"}. [default: one new token, shown on stderr]',
)
@click.option("--allow-host", "hosts", multiple=True, help="A further host name that clients may use (http).")
@click.option("--allow-origin", "origins", multiple=True, help="An origin whose pages may call (http).")
@click.option(
    "--approve",
    type=click.Choice([str(word) for word in Approve]),
    default="changes",
    show_default=True,
    help="Which tools the client's user is asked about before they are called.",
)
@calibration_option
@click.option("--warm", is_flag=True, help="Connect the recommended servers while the model thinks.")
@awaited
async def serve(
    place: Place,
    transport: str,
    host: str,
    port: int,
    tokens: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    approve: str,
    calibration: Path | None,
    warm: bool,
) -> int:
    """Serve all servers as one MCP server.

    It has `search` and `call_tool`. A tool that needs approval asks the client's user; where the client cannot ask, it
    is refused with what to do.
    """
    from orchestrator.options import default_store
    from orchestrator.routing.router import Router
    from orchestrator.server.gateway import Followed, Gateway
    from orchestrator.server.http import Tokens, make_app, new_token, serve_http
    from orchestrator.server.protocol import make_server, serve_stdio

    if transport == "stdio":
        _refuse_http_options()
    options, policy = settings(calibration=calibration), Approve(approve)
    file, router = Followed(place.config_file()), Router(store=place.store or default_store(), options=options)
    async with Gateway(file.config, router, warm=warm, changed=file.changed, note=note) as gateway:
        if transport == "http":
            token = "" if tokens else new_token()
            known = Tokens.read(tokens) if tokens else Tokens({token: place.tenant})
            app = make_app(make_server(gateway, approve=policy), known, hosts, origins)

            def started(at: str) -> None:
                note(f"serving {at}")
                if token:
                    note(f"for {place.tenant}: Authorization: Bearer {token}")

            await serve_http(app, host, port, started, gateway.stop)
            return 0
        interrupted = await serve_stdio(gateway, make_server(gateway, place.tenant, approve=policy))
    if interrupted:
        # Python would wait for the thread that reads standard input, which only the client can end.
        await asyncio.get_running_loop().shutdown_default_executor()
        os._exit(0)
    return 0


def _refuse_http_options() -> None:
    """Raise InvalidInput for an option of HTTP: a token file that nobody reads would seem to guard what is open."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in _HTTP and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise InvalidInput(f"{option.opts[0]} is for HTTP: give --transport http, too, or leave it out")
